// SPDX-License-Identifier: Apache-2.0
#include "models/question/pipeline_layout.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// An item and the place in the text that it comes from.
struct LayoutItem {
  char item;
  std::size_t at;
};
using LayoutItems = std::vector<LayoutItem>;

constexpr std::size_t most_items = 100'000;  // of the layout written out

[[noreturn]] void fail_at(std::size_t at, const std::string& message) {
  throw InputError(Location{"", 0, 0, "/parallelism/pipeline_layout"}, fmt::format("position {}: {}", at + 1, message));
}

// Writes all repetitions out.
class LayoutParser {
 public:
  explicit LayoutParser(std::string_view text) : text_(text) {}

  LayoutItems items() {
    LayoutItems all = sequence();
    if (at_ < text_.size()) fail_at(at_, "a ) without its (");
    return all;
  }

 private:
  // Up to the end of the text, or the ) of a group.
  LayoutItems sequence() {
    LayoutItems all;
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) {
      const LayoutItems once = text_[at_] == '(' ? group() : LayoutItems{item()};
      const int times = repetitions();
      if (all.size() + once.size() * static_cast<std::size_t>(times) > most_items)
        fail_at(at_ - 1, fmt::format("more than {} items", most_items));
      for (int i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
    }
    return all;
  }

  LayoutItems group() {
    const std::size_t opened = at_++;
    if (++depth_ > 100) fail_at(opened, "groups nested more than 100 deep");
    LayoutItems all = sequence();
    if (at_ == text_.size()) fail_at(opened, "a ( without its )");
    --depth_;
    ++at_;
    return all;
  }

  LayoutItem item() {
    const std::size_t at = at_++;
    if (std::string_view("EtmL|").find(text_[at]) == std::string_view::npos)
      fail_at(at, fmt::format("'{}', expected E, t, m, L, | or a group of them in parentheses", text_[at]));
    return {text_[at], at};
  }

  // The n of *n, if it comes next.
  int repetitions() {
    skip();
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    ++at_;
    skip();
    const std::size_t first = at_;
    std::size_t times = 0;
    for (; at_ < text_.size() && '0' <= text_[at_] && text_[at_] <= '9' && times <= most_items; ++at_)
      times = 10 * times + static_cast<std::size_t>(text_[at_] - '0');
    if (at_ == first || times < 1 || times > most_items)
      fail_at(first, fmt::format("expected how often to repeat, 1 to {}", most_items));
    return static_cast<int>(times);
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == ',')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;  // of the groups begun
};

}  // namespace

std::vector<LayoutStage> parse_pipeline_layout(std::string_view layout) {
  const LayoutItems items = LayoutParser(layout).items();
  std::vector<LayoutStage> stages(1);
  bool predicts = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto [item, at] = items[i];
    if ((item == 'E') != (i == 0)) fail_at(at, "the embedding (E) is the first item of a layout, and no other");
    if ((item == 'L') != (i + 1 == items.size()))
      fail_at(at, "the head (L) is the last item of a layout, and no other");
    if (item == 't' && predicts) fail_at(at, "a layer (t) after a layer of multi-token prediction (m)");
    predicts = predicts || item == 'm';
    LayoutStage& stage = stages.back();
    stage.embedding = stage.embedding || item == 'E';
    stage.head = stage.head || item == 'L';
    stage.layers += item == 't';
    stage.predictions += item == 'm';
    if (item == '|') stages.emplace_back();
  }
  if (items.size() < 2) fail_at(0, "expected at least the embedding (E) and the head (L)");
  return stages;
}

}  // namespace dovetail
