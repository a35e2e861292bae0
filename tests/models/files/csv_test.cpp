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

TEST_CASE("a file without rows or with a short line is refused, and a line that was cut off is left out") {
  const test::TemporaryFolder folder;
  FilesRead files;
  const auto read = [&](const std::string& text) {
    folder.write("a.csv", text);
    return CsvTable("a.csv", files).rows().size();
  };
  CHECK_THROWS_WITH(read(""), Contains("a.csv:1:1: no rows"));
  CHECK_THROWS_WITH(read("a,b\n"), Contains("a.csv:1:1: no rows"));
  CHECK_THROWS_WITH(read("a,b\n1,2\n3\n"), Contains("a.csv:3:1: 1 values, but the first line names 2"));
  CHECK_THROWS_WITH(read("a,b\n1,2,3\n"), Contains("a.csv:2:5: 3 values"));
  CHECK(read("a,b\n1,2\n3,") == 1);
}
