// SPDX-License-Identifier: Apache-2.0
// Changes texts a little, as mistakes, broken disks and ill will do. The same random numbers give the same text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dovetail::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// One to three changes: of values, keys and places where the text is JSON, of numbers and words where it is not, now
// and then of bytes.
std::string mutated(const std::string& text, Dice& dice);

// A value that a number or a text might be changed to, as JSON.
std::string odd_value(Dice& dice);

}  // namespace dovetail::test
