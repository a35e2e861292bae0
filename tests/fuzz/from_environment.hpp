// SPDX-License-Identifier: Apache-2.0
// How many cases a fuzzer takes, and the seed of the first.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace dovetail::test {

inline std::uint64_t from_environment(const char* name, std::uint64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace dovetail::test
