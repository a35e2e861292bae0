// SPDX-License-Identifier: Apache-2.0
// Draws of numbers and values, for questions and plans at random.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <random>

namespace dovetail::test {

using Random = std::mt19937;

class Draw {
 public:
  explicit Draw(Random& random) : random_(random) {}

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(between(0, static_cast<int>(count) - 1)); }
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }
  template <class Table, class Enum>
  void knob(const Table& names, Enum& knob) {
    if (chance(30)) knob = names[below(names.size())].second;
  }

 private:
  Random& random_;
};

}  // namespace dovetail::test
