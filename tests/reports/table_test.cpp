// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/table.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "reports/answer/csv.hpp"
#include "reports/text/format.hpp"
#include "tests/reports/sample_reports.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;
using namespace dovetail::reports;
using Catch::Matchers::Contains;

namespace {

std::string table(const Report& report, bool colour = false) {
  std::ostringstream out;
  write_table(out, report, colour, true);
  return out.str();
}

std::string brief(const Report& report) {
  std::ostringstream out;
  write_table(out, report, false, false);
  return out.str();
}

std::string csv(const Report& report) {
  std::ostringstream out;
  write_csv(out, report);
  return out.str();
}

}  // namespace

TEST_CASE("tables of a comparison and a run, as approved") {
  CHECK(test::golden_difference("reports/compare.txt", table(test::small_report())) == "");
  CHECK(test::golden_difference("reports/run.txt", table(test::small_run_report())) == "");
}

TEST_CASE("no line of a table is wider than 120 columns, whatever the names") {
  Report report = test::mixtral_report();
  report.results[0].system = std::string(300, 'x');
  report.results[1].feasible = false;
  report.results[1].missing = Bytes(123 * gib);
  report.results[2].metrics.makespan = Seconds(12345.678);
  report.experiment.cluster.device.name = "A rather long name of a device, 80 GB, SXM";
  for (const Report& r : {report, test::small_run_report()}) {
    std::istringstream lines(table(r));
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 120);
  }
}

TEST_CASE("a brief table has 100 columns at most, the fastest first, and systems that do the same in one line") {
  Report report = test::mixtral_report();
  report.notes.assign(
      30, "a note that fills a line and some more, so that it has to be wrapped at the end of the line, as here");
  SystemResult same = report.results[0];
  same.system = "another";
  report.results.push_back(same);
  const std::string text = brief(report);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 100);
  CHECK_THAT(text, Contains("alike: another\n"));
  CHECK_THAT(text, Contains("  - 29 more with -v\n"));  // a second one of two lines would make four
  CHECK_THAT(text, Contains("fastest: ") && Contains(" ms a step"));
  CHECK(text.find("fastest: ") < text.find("speed-up"));
  const std::string all = table(report);
  CHECK_THAT(all, !Contains("alike: ") && !Contains("more with -v"));
}

TEST_CASE("colour only when asked for, and never from a name") {
  Report report = test::small_report();
  report.results[0].system = "\x1b[31mred";
  CHECK_THAT(table(report, false), !Contains("\x1b"));
  CHECK_THAT(table(report, true), Contains("\x1b[1;32mpipelined") && !Contains("\x1b[31mred"));
}

TEST_CASE("numerics that fail are said plainly") {
  Report report = test::small_run_report();
  report.results[1].run->numerics_ok = false;
  report.results[1].run->gradient_error = 0.5;
  CHECK_THAT(table(report), Contains("outputs and gradients equal the reference: NO (error 5.0e-01)"));
}

TEST_CASE("a report without results still says what was asked") {
  Report report = test::small_report();
  report.results.clear();
  CHECK_THAT(table(report), Contains("compare: round on round"));
}

TEST_CASE("CSV as approved, with awkward names quoted") {
  CHECK(test::golden_difference("reports/compare.csv", csv(test::small_report())) == "");
  CHECK(test::golden_difference("reports/run.csv", csv(test::small_run_report())) == "");
  Report report = test::small_report();
  report.results[0].system = "a,\"b\"\nc";
  CHECK_THAT(csv(report), Contains("\"a,\"\"b\"\" c\",predicted,"));
  // A spreadsheet would compute text that begins like a formula, and a terminal would obey text that begins with
  // escape.
  for (const auto& [name, cell] : {std::pair{"=1+1", "'=1+1"},
                                   {"+x", "'+x"},
                                   {"-x", "'-x"},
                                   {"@x", "'@x"},
                                   {"\x1b[31mx", " [31mx"},
                                   {"\xC2\x9B"
                                    "31mx",
                                    "  31mx"}}) {
    report.results[0].system = name;
    CHECK_THAT(csv(report), Contains("\n" + std::string(cell) + ",predicted,"));
  }
}
