// SPDX-License-Identifier: Apache-2.0
#include "models/plan/program_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "models/base/json/json_text.hpp"

namespace dovetail {
namespace {

constexpr std::string_view separators = " \t\r,";

bool is_backward(const Unit& unit) {
  return unit.kind == UnitKind::Backward || unit.kind == UnitKind::InputGradient;
}

// The slots of a line, from left to right.
class SlotReader {
 public:
  explicit SlotReader(std::string_view line) : line_(line) {}

  std::optional<Slot> next() {
    at_ = std::min(line_.find_first_not_of(separators, at_), line_.size());
    if (at_ == line_.size()) return std::nullopt;
    const std::size_t first = at_;
    Slot slot;
    if (takes('(')) {
      slot.unit = unit(first);
      if (!takes(';')) fail(first, "(1F4;2B0)");
      slot.beside = unit(first);
      if (!takes(')')) fail(first, "(1F4;2B0)");
      if (line_.substr(at_).starts_with(overlap)) at_ += overlap.size();
      const bool forward_first = slot.unit.kind == UnitKind::Forward;
      const Unit& other = forward_first ? *slot.beside : slot.unit;
      if ((forward_first ? slot.unit : *slot.beside).kind != UnitKind::Forward || !is_backward(other))
        fail(first, "a forward unit and a backward one (B or I) beside each other");
    } else {
      slot.unit = unit(first);
    }
    if (at_ < line_.size() && separators.find(line_[at_]) == std::string_view::npos) fail(first, usual);
    return slot;
  }

 private:
  static constexpr int most = 1'000'000;  // stages and micro-batches
  static constexpr std::string_view overlap = "OVERLAP_F_B";
  static constexpr std::string_view usual = "a stage, a letter of F, B, I or W, and a micro-batch, such as 0F3";

  [[noreturn]] void fail(std::size_t first, std::string_view expected) const {
    const std::size_t end = std::min(line_.find_first_of(separators, first), line_.size());
    throw SlotError{first, fmt::format("{}, expected {}", in_quotes(line_.substr(first, end - first)), expected)};
  }

  bool takes(char wanted) {
    if (at_ == line_.size() || line_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  int number(std::size_t first) {
    int value = 0;
    const char* const begin = line_.data() + at_;
    const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
    if (error != std::errc() || value < 0 || value > most) fail(first, usual);
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  Unit unit(std::size_t first) {
    Unit unit;
    unit.stage = number(first);
    const std::size_t letter = at_ < line_.size() ? unit_letters.find(line_[at_]) : std::string_view::npos;
    if (letter == std::string_view::npos) fail(first, usual);
    ++at_;
    unit.kind = static_cast<UnitKind>(letter);
    unit.micro_batch = number(first);
    return unit;
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Slot> read_slots(std::string_view line) {
  std::vector<Slot> slots;
  SlotReader reader(line);
  while (const std::optional<Slot> slot = reader.next()) slots.push_back(*slot);
  return slots;
}

std::string to_text(const std::vector<Slot>& slots) {
  std::vector<std::string> words;
  for (const Slot& slot : slots)
    words.push_back(slot.beside ? fmt::format("({};{})", to_text(slot.unit), to_text(*slot.beside))
                                : to_text(slot.unit));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace dovetail
