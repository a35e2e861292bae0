#include "models/files/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "models/base/json/json_file.hpp"
#include "models/files/input_file.hpp"

namespace dovetail {
namespace {

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t first = 0; first <= line.size();) {
    const std::size_t comma = std::min(line.find(',', first), line.size());
    cells.push_back(line.substr(first, comma - first));
    first = comma + 1;
  }
  return cells;
}

template <class Number>
bool parse(std::string_view cell, Number& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

}  // namespace

CsvTable::Row::Row(const CsvTable& table, int line, std::string_view line_text)
    : table_(&table), line_(line), line_text_(line_text), cells_(cells_of(line_text)) {
  if (cells_.size() != table.names_.size())
    fail(cells_.size() - 1, fmt::format("{} values, but the first line names {}", cells_.size(), table.names_.size()));
}

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

void CsvTable::Row::fail(std::size_t column, const std::string& message) const {
  const auto at = static_cast<int>(cells_[column].data() - line_text_.data()) + 1;
  throw InputError({table_->path_, line_, at, ""}, message);
}

CsvTable::CsvTable(const std::string& path, FilesRead& files) : path_(path), text_(JsonFile::read_text(path)) {
  files[path] = text_;
  text_.resize(text_.find_last_of('\n') + 1);  // an end of nowhere is -1
  int line = 0;
  for (std::string_view each : lines_of(text_)) {
    if (each.ends_with('\r')) each.remove_suffix(1);
    if (++line == 1)
      names_ = cells_of(each);
    else
      rows_.push_back(Row(*this, line, each));
  }
  if (rows_.empty()) throw InputError({path_, std::max(line, 1), 1, ""}, "no rows, expected a line of names and rows");
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end())
    throw InputError({path_, 1, 1, ""},
                     fmt::format("no column {}; there are {}", in_quotes(name), fmt::join(names_, ", ")));
  return static_cast<std::size_t>(found - names_.begin());
}

}  // namespace dovetail
