// SPDX-License-Identifier: Apache-2.0
// Numbers that name things, kept apart by what they name.
#pragma once
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <utility>
#include <vector>

namespace dovetail {

// The number of one thing among all of its kind, counted from 0. It reads as a number. A literal becomes an id by
// itself, a computed number does not, and ids of two kinds neither compare nor replace one another. By default it names
// nothing.
template <class Kind>
class Id {
  std::int32_t number_ = -1;

 public:
  constexpr Id() = default;
  template <class Number>
  requires std::integral<Number>
  consteval Id(Number literal) : number_(static_cast<std::int32_t>(literal)) {}
  template <class Number>
  requires std::integral<Number> && std::totally_ordered<Number>  // tighter, so that `Id(number)` takes this one
  constexpr explicit Id(Number number) : number_(static_cast<std::int32_t>(number)) {}
  template <class Other>
  Id(Id<Other>) = delete;

  constexpr bool exists() const { return number_ >= 0; }
  constexpr operator std::int32_t() const { return number_; }
  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  friend constexpr bool operator==(Id a, Id b) { return a.number_ == b.number_; }
  friend constexpr std::strong_ordering operator<=>(Id a, Id b) { return a.number_ <=> b.number_; }
  friend constexpr bool operator==(Id a, std::integral auto b) { return std::cmp_equal(a.number_, b); }
  friend constexpr std::strong_ordering operator<=>(Id a, std::integral auto b) {
    return std::cmp_less(a.number_, b)   ? std::strong_ordering::less
           : std::cmp_less(b, a.number_) ? std::strong_ordering::greater
                                         : std::strong_ordering::equal;
  }
  template <class Other>
  friend bool operator==(Id, Id<Other>) = delete;
  template <class Other>
  friend std::strong_ordering operator<=>(Id, Id<Other>) = delete;
};

// For JSON libraries: an id is written as its number.
template <class Json, class Kind>
void to_json(Json& json, Id<Kind> id) {
  json = std::int32_t{id};
}

// A vector in which each element belongs to the thing that an id names.
template <class Key, class Value>
class IdVector {
  using Values = std::vector<Value>;

 public:
  using value_type = Value;
  using reference = typename Values::reference;
  using const_reference = typename Values::const_reference;

  IdVector() = default;
  explicit IdVector(std::size_t size, const Value& value = Value()) : values_(size, value) {}
  IdVector(std::initializer_list<Value> values) : values_(values) {}
  explicit IdVector(Values values) : values_(std::move(values)) {}

  reference operator[](Key id) { return values_[static_cast<std::size_t>(id)]; }
  const_reference operator[](Key id) const { return values_[static_cast<std::size_t>(id)]; }

  // The ids of all elements, in order.
  auto ids() const {
    return std::views::iota(std::int32_t{0}, static_cast<std::int32_t>(values_.size())) |
           std::views::transform([](std::int32_t number) { return Key(number); });
  }
  // Appends, and returns the new element's id.
  Key add(Value value) {
    values_.push_back(std::move(value));
    return Key(values_.size() - 1);
  }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  void reserve(std::size_t size) { values_.reserve(size); }
  void resize(std::size_t size, const Value& value = Value()) { values_.resize(size, value); }
  void assign(std::size_t size, const Value& value) { values_.assign(size, value); }
  void push_back(Value value) { values_.push_back(std::move(value)); }
  reference front() { return values_.front(); }
  const_reference front() const { return values_.front(); }
  reference back() { return values_.back(); }
  const_reference back() const { return values_.back(); }
  auto begin() { return values_.begin(); }
  auto begin() const { return values_.begin(); }
  auto end() { return values_.end(); }
  auto end() const { return values_.end(); }
  Value* data() { return values_.data(); }
  const Value* data() const { return values_.data(); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  Values values_;
};

}  // namespace dovetail
