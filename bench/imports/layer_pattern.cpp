// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/layer_pattern.hpp"

#include <charconv>
#include <string>

namespace dovetail::bench {
namespace {

constexpr std::size_t most_elements = 10'000;
constexpr int deepest_list = 50;

using Layers = std::optional<std::vector<bool>>;

class ListExpression {
 public:
  explicit ListExpression(std::string_view text) {
    for (const char c : text)
      if (c != ' ' && c != '\t' && c != '\n' && c != '"' && c != '\'') text_ += c;
  }

  Layers whole() {
    Layers layers = sum();
    return at_ == text_.size() ? layers : std::nullopt;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Layers sum() {
    Layers left = repeated();
    while (left && peek() == '+') {
      ++at_;
      const Layers right = repeated();
      if (!right || left->size() + right->size() > most_elements) return {};
      left->insert(left->end(), right->begin(), right->end());
    }
    return left;
  }

  Layers repeated() {
    Layers layers = atom();
    while (layers && peek() == '*') {
      ++at_;
      std::size_t times = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), times);
      if (error != std::errc() || times > most_elements || layers->size() * times > most_elements) return {};
      at_ = static_cast<std::size_t>(end - text_.data());
      const std::vector<bool> once = *layers;
      layers->clear();
      for (std::size_t i = 0; i < times; ++i) layers->insert(layers->end(), once.begin(), once.end());
    }
    return layers;
  }

  Layers atom() {
    if (++depth_ > deepest_list) return {};
    Layers layers;
    if (peek() == '(') {
      ++at_;
      layers = sum();
      if (peek() != ')') return {};
      ++at_;
    } else if (peek() == '[') {
      layers = list();
    }
    --depth_;
    return layers;
  }

  Layers list() {
    std::vector<bool> layers;
    ++at_;
    while (peek() == '0' || peek() == '1') {
      layers.push_back(peek() == '1');
      ++at_;
      if (peek() == ',') ++at_;
    }
    if (peek() != ']' || layers.size() > most_elements) return {};
    ++at_;
    return layers;
  }

  std::string text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> layer_list(std::string_view expression) {
  return ListExpression(expression).whole();
}

}  // namespace dovetail::bench
