// SPDX-License-Identifier: Apache-2.0
// CSV files are read by the names of their columns; what is wrong is refused with file, line and column.
#include "models/files/csv.hpp"

#include <catch2/catch.hpp>

#include "models/base/names.hpp"
#include "models/plan/communication.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("rows are read by the names of columns, in any order of columns") {
  const test::TemporaryFolder folder;
  FilesRead files;
  folder.write("a.csv", "size,link,us\r\n12,intra,1.5\n7,inter,2e3\n");
  const CsvTable table("a.csv", files);
  REQUIRE(table.rows().size() == 2);
  CHECK(table.rows()[0].whole(table.column("size"), 1) == 12);
  CHECK(table.rows()[1].number(table.column("us")) == 2000);
  CHECK(table.rows()[1].name(table.column("link"), link_kind_names) == LinkKind::Inter);
  CHECK(table.rows()[0].text(table.column("link")) == "intra");
  CHECK(files.size() == 1);
}

TEST_CASE("a wrong cell is refused at its line and column") {
  const test::TemporaryFolder folder;
  FilesRead files;
  folder.write("a.csv", "size,link,us\n12,intr,x\n0,inter,-1\n");
  const CsvTable table("a.csv", files);
  const CsvTable::Row first = table.rows()[0], second = table.rows()[1];
  CHECK_THROWS_WITH(first.number(2), Contains("a.csv:2:9: ") && Contains("\"x\", expected a number from 0 on"));
  CHECK_THROWS_WITH(second.number(2), Contains("a.csv:3:9: "));
  CHECK_THROWS_WITH(second.whole(0, 1), Contains("a.csv:3:1: ") && Contains("expected a whole number from 1 on"));
  CHECK_THROWS_WITH(first.name(1, link_kind_names), Contains("a.csv:2:4: ") && Contains("\"intr\": unknown"));
  CHECK_THROWS_WITH(table.column("time"), Contains("a.csv:1:1: ") && Contains("there are size, link, us"));
}

TEST_CASE("what spreadsheets write is read: a byte order mark, quotes, line ends of Windows, blank lines") {
  const test::TemporaryFolder folder;
  FilesRead files;
  folder.write("a.csv",
               "\xEF\xBB\xBF\"link\",\"us, best\",note\r\ninter,\"7\",\"a \"\"b\"\",\r\nc\"\r\n\r\nintra,8,\"\"\r\n");
  const CsvTable table("a.csv", files);
  CHECK(table.names() == std::vector<std::string_view>{"link", "us, best", "note"});
  REQUIRE(table.rows().size() == 2);
  CHECK(table.rows()[0].number(table.column("us, best")) == 7);
  CHECK(table.rows()[0].text(2) == "a \"b\",\r\nc");
  CHECK(table.rows()[1].text(2).empty());
  CHECK_THROWS_WITH(table.rows()[1].whole(0, 1), Contains("a.csv:5:1: "));  // a cell has two lines, and one is blank
}

TEST_CASE("a file without rows, with a short line or with quotes in a wrong place is refused") {
  const test::TemporaryFolder folder;
  FilesRead files;
  const auto read = [&](const std::string& text, CsvSource source = CsvSource::Finished) {
    folder.write("a.csv", text);
    return CsvTable("a.csv", files, source).rows().size();
  };
  CHECK_THROWS_WITH(read(""), Contains("a.csv:1:1: no rows"));
  CHECK_THROWS_WITH(read("a,b\n"), Contains("a.csv:1:1: no rows"));
  CHECK_THROWS_WITH(read("a,b\n1,2\n3\n"), Contains("a.csv:3:1: 1 values, but the first line names 2"));
  CHECK_THROWS_WITH(read("a,b\n1,2,3\n"), Contains("a.csv:2:5: 3 values"));
  CHECK_THROWS_WITH(read("us,b,us\n1,2,3\n"), Contains("a.csv:1:6: column 3 is a second \"us\""));
  CHECK_THROWS_WITH(read("a,b\n1,2\"\n"), Contains("a.csv:2:4: a quote inside a cell"));
  CHECK_THROWS_WITH(read("a,b\n\"1\"x,2\n"), Contains("a.csv:2:4: after the quotes of a cell"));
  CHECK_THROWS_WITH(read("a,b\n1,\"2\n3,4\n"), Contains("a.csv:2:3: a quote that does not end"));
  CHECK(read("a,b,\n1,2,\n3,4,") == 2);  // columns without a name, a line without an end
}

TEST_CASE("a file that a program was writing may be cut off") {
  const test::TemporaryFolder folder;
  FilesRead files;
  for (const auto& [text, rows] : {std::pair("a,b\n1,2\n3,", 1), std::pair("a,b\n", 0)}) {
    folder.write("a.csv", text);
    CHECK(CsvTable("a.csv", files, CsvSource::Growing).rows().size() == static_cast<std::size_t>(rows));
  }
}
