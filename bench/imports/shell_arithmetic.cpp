// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/shell_arithmetic.hpp"

#include <charconv>

namespace dovetail::bench {
namespace {

constexpr int deepest_expression = 100, most_atoms = 10'000;

using Value = std::optional<std::int64_t>;

// Recursive descent: sum, product, unary, atom.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const VariableText& variable, int depth, int& atoms)
      : text_(text), variable_(variable), depth_(depth), atoms_(atoms) {}

  Value whole() {
    const Value value = sum();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Value sum() {
    Value left = product();
    for (char c = peek(); left && (c == '+' || c == '-'); c = peek()) {
      ++at_;
      left = combined(c, left, product());
    }
    return left;
  }
  Value product() {
    Value left = unary();
    for (char c = peek(); left && (c == '*' || c == '/' || c == '%'); c = peek()) {
      ++at_;
      left = combined(c, left, unary());
    }
    return left;
  }

  static Value combined(char sign, Value left, Value right) {
    if (!left || !right) return {};
    std::int64_t result = 0;
    if (sign == '+') return __builtin_add_overflow(*left, *right, &result) ? Value() : result;
    if (sign == '-') return __builtin_sub_overflow(*left, *right, &result) ? Value() : result;
    if (sign == '*') return __builtin_mul_overflow(*left, *right, &result) ? Value() : result;
    if (*right == 0 || *right == -1) return {};
    return sign == '/' ? *left / *right : *left % *right;
  }

  Value unary() {
    if (++depth_ > deepest_expression) return {};
    const char c = peek();
    Value value;
    if (c == '-' || c == '+') {
      ++at_;
      value = c == '-' ? combined('-', 0, unary()) : unary();
    } else {
      value = atom(c);
    }
    --depth_;
    return value;
  }

  Value atom(char c) {
    if (--atoms_ < 0) return {};
    if (c == '(') {
      ++at_;
      const Value value = sum();
      if (peek() != ')') return {};
      ++at_;
      return value;
    }
    if (c >= '0' && c <= '9') return number();
    if (c == '$') ++at_;
    const bool braces = c == '$' && peek() == '{';
    if (braces) ++at_;
    const Value value = name();
    if (!braces) return value;
    if (peek() != '}') return {};
    ++at_;
    return value;
  }

  Value number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    at_ = static_cast<std::size_t>(end - text_.data());
    return error == std::errc() ? Value(value) : std::nullopt;
  }

  Value name() {
    const std::size_t begin = at_;
    const auto in_name = [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    if (begin == at_ || depth_ > deepest_expression) return {};
    const auto text = variable_(text_.substr(begin, at_ - begin));
    return text ? Arithmetic(*text, variable_, depth_ + 1, atoms_).whole() : std::nullopt;
  }

  std::string_view text_;
  const VariableText& variable_;
  std::size_t at_ = 0;
  int depth_;
  int& atoms_;  // that are left, of the expression and of all variables in it
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view expression, const VariableText& variable) {
  int atoms = most_atoms;
  return Arithmetic(expression, variable, 0, atoms).whole();
}

}  // namespace dovetail::bench
