// SPDX-License-Identifier: Apache-2.0
// A set of enumerators, whose numbers are below 32.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace dovetail {

template <class Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> members) {
    for (const Enum member : members) bits_ |= bit(member);
  }
  static constexpr EnumSet of_bits(std::uint32_t bits) {
    EnumSet set;
    set.bits_ = bits;
    return set;
  }

  constexpr bool has(Enum member) const { return (bits_ & bit(member)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }  // bit n: the enumerator with the number n
  friend constexpr EnumSet operator|(EnumSet a, EnumSet b) { return of_bits(a.bits_ | b.bits_); }
  friend constexpr EnumSet operator&(EnumSet a, EnumSet b) { return of_bits(a.bits_ & b.bits_); }
  friend constexpr bool operator==(const EnumSet&, const EnumSet&) = default;

 private:
  static constexpr std::uint32_t bit(Enum member) { return std::uint32_t{1} << static_cast<unsigned>(member); }

  std::uint32_t bits_ = 0;
};

}  // namespace dovetail
