// SPDX-License-Identifier: Apache-2.0
// A value that many copies share until one of them changes it. T may be incomplete where it is only copied and passed
// on, so a header that holds a Shared<T> need not include the one that defines T.
#pragma once
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace dovetail {

template <class T>
class Shared {
 public:
  Shared() = default;                                                 // holds a default T
  Shared(T value) : value_(std::make_shared<T>(std::move(value))) {}  // NOLINT(google-explicit-constructor)
  template <class Value>
  requires(!std::same_as<std::remove_cvref_t<Value>, Shared> && std::convertible_to<Value, T>)
      Shared(Value&& value)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : value_(std::make_shared<T>(std::forward<Value>(value))) {}

  const T& operator*() const {
    static const T none{};
    return value_ ? *value_ : none;
  }
  const T* operator->() const { return &**this; }

  // The value to change, which from now on is this copy's own. The reference holds until the next copy is made.
  T& edit() {
    if (!value_ || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace dovetail
