// CSV files whose first line names the columns. Cells hold no quotes, commas or line ends.
#pragma once
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/load.hpp"

namespace dovetail {

class CsvTable {
 public:
  class Row {
   public:
    std::string_view text(std::size_t column) const { return cells_[column]; }
    std::int64_t whole(std::size_t column, std::int64_t least) const;
    double number(std::size_t column) const;  // from 0 on
    template <class Table>
    auto name(std::size_t column, const Table& table) const {
      for (const auto& [name, value] : table)
        if (name == text(column)) return value;
      fail(column, fmt_unknown(text(column)));
    }
    [[noreturn]] void fail(std::size_t column, const std::string& message) const;

   private:
    friend class CsvTable;
    Row(const CsvTable& table, int line, std::string_view line_text);
    static std::string fmt_unknown(std::string_view cell) { return in_quotes(cell) + ": unknown"; }

    const CsvTable* table_;
    int line_;
    std::string_view line_text_;
    std::vector<std::string_view> cells_;
  };

  // Throws InputError with file, line and column for a line with another number of cells than the first one. A last
  // line without its end is left out: it may have been cut off.
  CsvTable(const std::string& path, FilesRead& files);
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  std::size_t column(std::string_view name) const;  // throws InputError where there is none
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::string path_, text_;
  std::vector<std::string_view> names_;
  std::vector<Row> rows_;
};

}  // namespace dovetail
