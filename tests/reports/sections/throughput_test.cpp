// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("throughput and memory by kind stand in the data and agree with the step") {
  const Report report = test::pipeline_report();
  const auto results = reports::to_json(report)["results"];
  for (const auto& result : results) {
    const auto& rates = result["throughput"];
    CHECK(rates["tokens_per_s"].get<double>() ==
          Approx(rates["tokens"].get<double>() / result["makespan_s"].get<double>()));
    double fullest = 0;
    for (const auto& stage : result["memory_by_stage"]) {
      double sum = 0;
      for (const auto& [key, bytes] : stage.items())
        if (key != "peak_bytes") sum += bytes.get<double>();
      CHECK(sum == stage["peak_bytes"].get<double>());
      fullest = std::max(fullest, sum);
    }
    CHECK(fullest == result["peak_bytes"].get<double>());
  }
}

TEST_CASE("the text shows tokens a second, MFU and memory by kind") {
  std::ostringstream text;
  reports::write_table(text, test::pipeline_report(), false, true);
  CHECK_THAT(text.str(), Contains("tokens/s") && Contains("MFU") && Contains("memory by kind"));
}
