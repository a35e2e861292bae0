// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/tune_curve.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/answer/csv.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/page/html.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

TuneOptions several() {
  TuneOptions options;
  options.request.cluster = "dgx-h100,hgx-h200";
  options.gpus = "8..16";
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=12", "parallelism.pp=1"};
  options.systems = {"tutel"};
  options.global_batch = 64;
  options.sequence = 2048;
  options.draws = 5;
  options.gpu_watts = 1000;
  return options;
}

Report curve_of(const TuneOptions& options) {
  FilesRead files;
  return tune_curve(hardware_choices(options), files, {}, [] {});
}

}  // namespace

TEST_CASE("tune: counts of GPUs are doubled, listed or one") {
  CHECK(gpu_counts("64..1024") == std::vector{64, 128, 256, 512, 1024});
  CHECK(gpu_counts("64..100") == std::vector{64, 100});
  CHECK(gpu_counts("16,24") == std::vector{16, 24});
  CHECK(gpu_counts("8") == std::vector{8});
  for (const char* wrong : {"", "x", "8..", "..8", "16..8", "8,,16", "0", "-8", "8..16..32", "99999999999"}) {
    INFO(wrong);
    CHECK_THROWS_AS(gpu_counts(wrong), InputError);
  }
}

TEST_CASE("tune: choices of hardware are whole nodes") {
  const std::vector<TuneOptions> choices = hardware_choices(several());
  REQUIRE(choices.size() == 4);
  CHECK(choices[0].request.cluster == "dgx-h100");
  CHECK(choices[0].request.nodes == 1);
  CHECK(choices[3].request.cluster == "hgx-h200");
  CHECK(choices[3].request.nodes == 2);
  TuneOptions wrong = several();
  wrong.gpus = "12";
  CHECK_THROWS_WITH(hardware_choices(wrong), Contains("not whole nodes of dgx-h100, which have 8 GPUs"));
  wrong.gpus = "8";
  wrong.request.nodes = 2;
  CHECK_THROWS_WITH(hardware_choices(wrong), Contains("--gpus contradicts --nodes"));
}

TEST_CASE("tune: a point of a curve is what tune says of it alone") {
  TuneOptions two = several();
  two.gpus = "8";
  const Report curve = curve_of(two);
  REQUIRE(curve.curve->points.size() == 2);
  TuneOptions alone = several();
  alone.request.cluster = "hgx-h200";
  alone.request.nodes = 1;
  const Report report = tune(load_tune_question(alone), alone, {});
  REQUIRE(curve.curve->points[1].best);
  CHECK(curve.curve->points[1].best->metrics.makespan == report.results.front().metrics.makespan);
  CHECK(curve.curve->points[1].best->plan == report.results.front().plan);
}

TEST_CASE("tune: hours and energy follow from tokens a second") {
  SystemResult plan;
  plan.throughput.of_gpu = 10'000;  // 1e12 / 1e4 = 1e8 seconds of a GPU, which are 27,778 hours; at 1 kW 27.8 MWh
  CHECK(gpu_hours(plan, trillion) == Approx(27'777.8));
  CHECK(megawatt_hours(plan, trillion, 1000) == Approx(27.7778));
}

TEST_CASE("tune: a curve keeps its schema, and what does not fit has its reason") {
  TuneOptions options = several();
  options.request.set = {"workload.layers=48", "cluster.device.memory=24 GiB"};
  options.request.cluster = "dgx-h100";
  options.draws = 0;
  options.gpus = "8,64";
  const Report curve = curve_of(options);
  CHECK(!curve.curve->points[0].best);
  CHECK_THAT(curve.curve->points[0].refusal, Contains("no plan fits"));
  CHECK(curve.curve->points[1].best);
  std::ostringstream json, csv, text, page;
  reports::write_json(json, curve);
  CHECK_NOTHROW(validate(JsonFile::parse(json.str(), "result"), load_schema("tuning_curve")));
  reports::write_csv(csv, curve);
  CHECK(csv.str().starts_with("cluster,gpus,"));
  reports::write_table(text, curve, false, false);
  CHECK_THAT(text.str(), Contains("dgx-h100, 8 GPUs: no plan fits"));
  reports::write_html(page, curve);
  CHECK_THAT(page.str(), Contains("<svg") && Contains("</html>"));
}
