// SPDX-License-Identifier: Apache-2.0
// CSV files (RFC 4180) whose first line names the columns: cells may be in quotes, lines may end as on Windows, and a
// byte order mark may stand first.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/load.hpp"

namespace dovetail {

// Growing: a program writes the file line by line and may have been ended. Then there may be no rows, and a last line
// without its end is left out.
enum class CsvSource { Finished, Growing };

class CsvTable {
  struct Cell {
    std::string_view text;
    int line = 0, column = 0;  // where it begins
  };

 public:
  class Row {
   public:
    std::string_view text(std::size_t column) const { return cell(column).text; }
    std::int64_t whole(std::size_t column, std::int64_t least) const;
    double number(std::size_t column) const;  // from 0 on
    template <class Table>
    auto name(std::size_t column, const Table& table) const {
      for (const auto& [name, value] : table)
        if (name == text(column)) return value;
      fail(column, fmt_unknown(text(column)));
    }
    Location place(std::size_t column) const;
    [[noreturn]] void fail(std::size_t column, const std::string& message) const;

   private:
    friend class CsvTable;
    Row(const CsvTable& table, std::size_t first) : table_(&table), first_(first) {}
    static std::string fmt_unknown(std::string_view cell) { return in_quotes(cell) + ": unknown"; }
    const Cell& cell(std::size_t column) const { return table_->cells_[first_ + column]; }

    const CsvTable* table_;
    std::size_t first_;  // of its cells
  };

  // Throws InputError with file, line and column for a line with another number of cells than the first one, for a
  // second column of one name, and for quotes that do not enclose a cell. Blank lines are skipped.
  CsvTable(const std::string& path, FilesRead& files, CsvSource source = CsvSource::Finished);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  std::vector<std::string_view> names() const;
  std::size_t column(std::string_view name) const;  // throws InputError where there is none
  std::optional<std::size_t> find_column(std::string_view name) const;
  const std::vector<Row>& rows() const { return rows_; }

 private:
  class Reader;
  void require_distinct_names() const;

  std::string path_, text_;
  std::size_t columns_ = 0;
  std::vector<Cell> cells_;  // those of the first line, then of the rows
  std::vector<Row> rows_;
};

}  // namespace dovetail
