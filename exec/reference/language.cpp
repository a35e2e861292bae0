// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/language.hpp"

#include <bit>

#include "exec/reference/random_numbers.hpp"

namespace dovetail::exec {
namespace {

// Draws of one language are apart from those of others and of weights.
std::uint64_t key_of_language(std::uint64_t seed) {
  return mixed(mixed(seed) ^ 0x6c616e6775616765U);
}

std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mixed(key + (index + 1) * 0x9e3779b97f4a7c15U);
}

// 0 with probability 1/2, 1 with 1/4, 2 and 3 with 1/8.
std::uint64_t drawn_follower(std::uint64_t bits) {
  return static_cast<std::uint64_t>(std::countr_zero(bits | 8U));
}

}  // namespace

Values language_words(const Experiment& e, std::uint64_t seed, int step) {
  constexpr std::uint64_t followers = 4;
  const auto vocabulary = static_cast<std::uint64_t>(e.model.vocabulary);
  const auto sequence = static_cast<std::size_t>(e.workload.sequence);
  const std::uint64_t language = key_of_language(seed), text = mixed(language + static_cast<std::uint64_t>(step));
  Values words(static_cast<std::size_t>(e.workload.batch) * sequence * static_cast<std::size_t>(e.parallelism.dp));
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t bits = random_bits(text, i);
    word = (i % sequence == 0 ? bits : random_bits(language, word * followers + drawn_follower(bits))) % vocabulary;
    words[i] = static_cast<double>(word);
  }
  return words;
}

}  // namespace dovetail::exec
