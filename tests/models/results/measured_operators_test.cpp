// SPDX-License-Identifier: Apache-2.0
// Statistics of measured operators, each with its arithmetic.
#include "models/results/measured_operators.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace dovetail;

namespace {

MeasuredOperator one(const char* kernel, double measured, double predicted) {
  MeasuredOperator o;
  o.kernel = kernel;
  o.measured = Seconds(measured);
  o.predicted = Seconds(predicted);
  o.range = StepRange{.8, 1.2, {}, {}};
  return o;
}

std::vector<OperatorsTable> two_tables() {
  std::vector<OperatorsTable> tables(2);
  tables[0].id = "a";
  tables[0].operators = {one("gemm", 10, 11), one("attention", 10, 7), one("gemm", 10, 12)};
  tables[1].id = "b";
  tables[1].independent = false;
  tables[1].operators = {one("gemm", 10, 10)};
  return tables;
}

}  // namespace

TEST_CASE("operators are summed up by source, all together, and those that are independent") {
  const std::vector<OperatorsSummary> summaries = summarise_operators(two_tables());
  REQUIRE(summaries.size() == 4);
  // Errors +.1, -.3 and +.2; of the ranges 8.8 - 13.2, 5.6 - 8.4 and 9.6 - 14.4 the middle one does not hold 10.
  CHECK(summaries[0].source == "a");
  CHECK(summaries[0].times == 3);
  CHECK(summaries[0].mean_error.value() == Approx(.2));
  CHECK(summaries[0].median_error.value() == Approx(.2));
  CHECK(summaries[0].signed_error.value() == Approx(0).margin(1e-12));
  CHECK(summaries[0].ranges == 3);
  CHECK(summaries[0].held == 2);
  CHECK_FALSE(summaries[1].independent);
  CHECK(summaries[2].source == "all");
  CHECK(summaries[2].times == 4);
  CHECK(summaries[2].held == 3);
  CHECK_FALSE(summaries[2].independent);
  CHECK(summaries[3].source == "independent");
  CHECK(summaries[3].times == 3);
  CHECK(summaries[3].independent);
}

TEST_CASE("one source stands alone, and several independent ones have no row of their own") {
  std::vector<OperatorsTable> tables = two_tables();
  CHECK(summarise_operators({tables.data(), 1}).size() == 1);
  tables[1].independent = true;
  CHECK(summarise_operators(tables).size() == 3);
  CHECK(summarise_operators(std::span<const OperatorsTable>()).empty());
}

TEST_CASE("the kernels of a source, in the order of their first operators") {
  const std::vector<OperatorsSummary> kernels = summarise_kernels(two_tables()[0]);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "gemm");
  CHECK(kernels[0].times == 2);
  CHECK(kernels[0].mean_error.value() == Approx(.15));
  CHECK(kernels[1].kernel == "attention");
  CHECK(kernels[1].held == 0);
}
