// SPDX-License-Identifier: Apache-2.0
#include "models/files/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "models/base/json/json_file.hpp"

namespace dovetail {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

template <class Number>
bool parse(std::string_view cell, Number& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

}  // namespace

// Takes cells from a text, line by line. Doubled quotes become single ones within the text itself.
class CsvTable::Reader {
 public:
  Reader(const std::string& path, std::string& text) : path_(path), text_(text) {
    if (text.starts_with(byte_order_mark)) line_start_ = at_ = byte_order_mark.size();
  }

  // Adds the cells of the next line that is not blank; how many these are, 0 at the end.
  std::size_t add_line(std::vector<Cell>& cells) {
    while (takes_line_end()) {
    }
    if (at_ == text_.size()) return 0;
    const std::size_t before = cells.size();
    do {
      cells.push_back(cell());
    } while (takes(','));
    if (!takes_line_end() && at_ < text_.size())
      fail(line_, column(), "after the quotes of a cell, expected a comma or the end of the line");
    return cells.size() - before;
  }

 private:
  [[noreturn]] void fail(int line, int column, std::string_view message) const {
    throw InputError({path_, line, column, ""}, message);
  }

  int column() const { return static_cast<int>(at_ - line_start_) + 1; }

  bool takes(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool takes_line_end() {
    if (text_.compare(at_, 2, "\r\n") == 0) ++at_;
    if (!takes('\n')) return false;
    next_line();
    return true;
  }

  void next_line() {
    ++line_;
    line_start_ = at_;
  }

  Cell cell() {
    Cell cell{{}, line_, column()};
    cell.text = takes('"') ? quoted(cell) : plain();
    return cell;
  }

  std::string_view plain() {
    const std::size_t first = at_;
    at_ = std::min(text_.find_first_of(",\n\"", at_), text_.size());
    if (at_ < text_.size() && text_[at_] == '"')
      fail(line_, column(), "a quote inside a cell, expected quotes around the whole cell and two for one inside");
    if (at_ > first && at_ < text_.size() && text_[at_] == '\n' && text_[at_ - 1] == '\r') --at_;
    return std::string_view(text_).substr(first, at_ - first);
  }

  std::string_view quoted(const Cell& cell) {
    const std::size_t first = at_;
    std::size_t end = first;
    while (at_ < text_.size()) {
      const char next = text_[at_++];
      if (next == '"' && !takes('"')) return std::string_view(text_).substr(first, end - first);
      if (next == '\n') next_line();
      text_[end++] = next;
    }
    fail(cell.line, cell.column, "a quote that does not end");
  }

  const std::string& path_;
  std::string& text_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
};

std::int64_t CsvTable::Row::whole(std::size_t column, std::int64_t least) const {
  std::int64_t value = 0;
  if (!parse(text(column), value) || value < least)
    fail(column, fmt::format("{}, expected a whole number from {} on", in_quotes(text(column)), least));
  return value;
}

double CsvTable::Row::number(std::size_t column) const {
  double value = 0;
  if (!parse(text(column), value) || !(value >= 0) || !std::isfinite(value))
    fail(column, fmt::format("{}, expected a number from 0 on", in_quotes(text(column))));
  return value;
}

Location CsvTable::Row::place(std::size_t column) const {
  return {table_->path_, cell(column).line, cell(column).column, ""};
}

void CsvTable::Row::fail(std::size_t column, const std::string& message) const {
  throw InputError(place(column), message);
}

CsvTable::CsvTable(const std::string& path, FilesRead& files, CsvSource source)
    : path_(path), text_(JsonFile::read_text(path)) {
  files[path] = text_;
  if (source == CsvSource::Growing) text_.resize(text_.find_last_of('\n') + 1);  // an end of nowhere is -1
  Reader reader(path_, text_);
  columns_ = reader.add_line(cells_);
  require_distinct_names();
  std::size_t first = columns_;
  while (const std::size_t count = reader.add_line(cells_)) {
    rows_.push_back(Row(*this, first));
    first += count;
    if (count != columns_)
      rows_.back().fail(std::min(count, columns_ + 1) - 1,
                        fmt::format("{} values, but the first line names {}", count, columns_));
  }
  if (rows_.empty() && source == CsvSource::Finished)
    throw InputError({path_, 1, 1, ""}, "no rows, expected a line of names and rows");
}

// Columns without a name are no concern of anyone.
void CsvTable::require_distinct_names() const {
  for (std::size_t i = 0; i < columns_; ++i)
    if (!cells_[i].text.empty() && column(cells_[i].text) != i)
      throw InputError(
          {path_, cells_[i].line, cells_[i].column, ""},
          fmt::format("column {} is a second {}, expected one of a name", i + 1, in_quotes(cells_[i].text)));
}

std::vector<std::string_view> CsvTable::names() const {
  std::vector<std::string_view> names;
  for (const Cell& cell : std::span(cells_).first(columns_)) names.push_back(cell.text);
  return names;
}

std::optional<std::size_t> CsvTable::find_column(std::string_view name) const {
  const auto names = std::span(cells_).first(columns_);
  const auto found = std::ranges::find(names, name, &Cell::text);
  return found == names.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - names.begin()));
}

std::size_t CsvTable::column(std::string_view name) const {
  if (const auto found = find_column(name)) return *found;
  throw InputError({path_, 1, 1, ""},
                   fmt::format("no column {}; there are {}", in_quotes(name), fmt::join(names(), ", ")));
}

}  // namespace dovetail
