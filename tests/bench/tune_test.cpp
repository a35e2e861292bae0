// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/pipeline/evaluate.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "models/results/ranking.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/layouts/layout.hpp"
#include "reports/answer/csv.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/page/html.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

TuneOptions two_nodes() {
  TuneOptions options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 2;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=8"};
  options.global_batch = 64;
  options.sequence = 2048;
  options.draws = 5;
  return options;
}

Report answer_of(const TuneOptions& options) {
  return tune(load_tune_question(options), options, {});
}

// Each part of the search as it was announced, and the share of the whole that was done.
struct Announced {
  std::string part;
  double share;
};

struct Answered {
  Experiment asked;
  std::vector<Announced> announced;
  Report report;
};

// The answer to one question, which the sections of one test look at.
const Answered& answered() {
  static const Answered once = [] {
    TuneOptions options = two_nodes();
    options.explain = true;
    const TuneQuestion question = load_tune_question(options);
    Answered answer{question.question.experiment, {}, {}};
    answer.report = tune(question, options, [&](std::string_view part, double share) {
      answer.announced.push_back({std::string(part), share});
    });
    return answer;
  }();
  return once;
}

std::string refusal_of(const TuneOptions& options) {
  try {
    load_tune_question(options);
  } catch (const InputError& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("tune: what holds of an answer") {
  const Report& report = answered().report;
  const SystemResult& best = report.results.front();
  SECTION("no system is faster than the best, on its own layout or on the best one") {
    REQUIRE(report.results.size() > 1);
    REQUIRE(report.tuning->systems.size() > 10);
    for (const TunedSystem& system : report.tuning->systems) {
      INFO(system.own.system);
      CHECK(system.own.metrics.makespan >= best.metrics.makespan);
      if (system.on_winners) CHECK(*system.on_winners >= system.own.metrics.makespan);
    }
    CHECK(std::ranges::is_sorted(report.results, {}, [](const SystemResult& plan) { return plan.metrics.makespan; }));
    for (const SystemResult& plan : report.results) {
      CHECK(plan.memory.peak <= report.tuning->limit);
      CHECK(plan.range->draws.size() == 5);
    }
    CHECK(tied_fastest(report).front() == &best);
    CHECK(report.tuning->proof.bound <= best.metrics.makespan);
  }
  SECTION("the best step is the one that is simulated with its layout and plan") {
    const Experiment e =
        planners::with_layout(answered().asked, {best.groups, best.micro_batch, best.plan.micro_batches});
    AnalyticBackend backend;
    const SystemResult result = evaluate(e, "best", {best.plan, {}}, backend);
    CHECK(best.metrics.makespan.value() == Approx(result.metrics.makespan.value()).epsilon(1e-5));
    CHECK(best.memory.peak.value() == Approx(result.memory.peak.value()).epsilon(1e-5));
    CHECK(best.throughput.tokens == 64 * 2048);
  }
  SECTION("the front holds the fastest, and each further plan is smaller") {
    REQUIRE(!report.tuning->front.empty());
    CHECK(report.tuning->front.front().metrics.makespan == best.metrics.makespan);
    for (std::size_t i = 1; i < report.tuning->front.size(); ++i) {
      CHECK(report.tuning->front[i].metrics.makespan >= report.tuning->front[i - 1].metrics.makespan);
      CHECK(report.tuning->front[i].memory.peak < report.tuning->front[i - 1].memory.peak);
    }
  }
  SECTION("progress names each part in turn, and its share of the whole only grows") {
    std::vector<std::string> parts;
    double last = 0;
    for (const Announced& announced : answered().announced) {
      if (parts.empty() || parts.back() != announced.part) parts.push_back(announced.part);
      CHECK(announced.share >= last);
      CHECK(announced.share <= 1);
      last = announced.share;
    }
    CHECK(parts ==
          std::vector<std::string>{"layouts", "arrangements", "knobs", "finalists", "systems", "ranges", "reasons"});
    CHECK(last > .9);
  }
  SECTION("the result file keeps its schema, and the table fits a terminal") {
    std::ostringstream json, table, csv;
    reports::write_json(json, report);
    CHECK_NOTHROW(validate(JsonFile::parse(json.str(), "result"), load_schema("tuning")));
    nlohmann::ordered_json broken = reports::to_json(report);
    broken["best"][0].erase("makespan_s");
    CHECK_THROWS(validate(JsonFile::parse(broken.dump(), "result"), load_schema("tuning")));
    reports::write_table(table, report, false, true);
    std::istringstream lines(table.str());
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= 120);
    }
    reports::write_csv(csv, report);
    const std::string text = csv.str();
    CHECK(std::ranges::count(text, '\n') ==
          static_cast<std::ptrdiff_t>(1 + report.results.size() + report.tuning->systems.size()));
  }
}

TEST_CASE("tune: its page has what pages of a step have, and its file the sections of the best plan") {
  Report report = answered().report;
  add_whole_step(report);
  const nlohmann::ordered_json json = reports::to_json(report);
  CHECK_NOTHROW(validate(JsonFile::parse(json.dump(), "result"), load_schema("tuning")));
  CHECK(!json["best"][0]["critical_path"].empty());
  CHECK(json["best"][0]["memory_by_stage"].size() == static_cast<std::size_t>(report.results.front().groups.pp));
  CHECK(json["best"][1]["critical_path"].empty());  // only the best step is built whole
  std::ostringstream page;
  reports::write_html(page, report);
  const std::string text = page.str(), open = "id=\"data\">";
  const std::size_t from = text.find(open) + open.size();
  const auto data = nlohmann::json::parse(text.substr(from, text.find("</script>", from) - from));
  CHECK(data["timelines"].size() == 1);
  CHECK(data["names"].size() == report.results.size());
  CHECK_THAT(data["headline"].get<std::string>(), Catch::StartsWith("best: predicted "));
  std::vector<std::string> titles;
  for (const auto& section : data["sections"]) titles.push_back(section["title"]);
  for (const char* title : {"the best plans, one for each layout", "explanation", "what limits the step",
                            "costs that matter most", "how it was found"})
    CHECK(std::ranges::count(titles, title) == 1);
  CHECK_THAT(titles, Catch::VectorContains(fmt::format("memory by kind, of {}", report.results.front().system)));
}

TEST_CASE("tune: settings restrict the layouts and plans") {
  TuneOptions options = two_nodes();
  options.request.set.insert(options.request.set.end(), {"parallelism.pp=2", "parallelism.ep=4", "plan.zero=0"});
  options.micro_batch = 2;
  options.systems = {"tutel"};
  for (const SystemResult& plan : answer_of(options).results) {
    CHECK(plan.groups.pp == 2);
    CHECK(plan.groups.ep == 4);
    CHECK(plan.micro_batch == 2);
    CHECK(plan.plan.zero == 0);
  }
}

TEST_CASE("tune: ties need no draws") {
  TuneOptions options = two_nodes();
  options.draws = 0;
  options.systems = {"tutel"};
  const Report report = answer_of(options);
  const Seconds best = report.results.front().metrics.makespan;
  const auto ties =
      std::ranges::count_if(report.results, [&](const SystemResult& r) { return r.metrics.makespan < 1.01 * best; });
  CHECK(static_cast<std::ptrdiff_t>(tied_fastest(report).size()) == ties);
}

TEST_CASE("tune: what contradicts the search is refused in one line") {
  TuneOptions options = two_nodes();
  options.request.set.emplace_back("workload.batch=4");
  CHECK(refusal_of(options) == "--set workload.batch=4: tune chooses it; give the samples of a step by --global-batch");
  options.request.set.back() = "parallelism.pp=two";
  CHECK(refusal_of(options) == "--set parallelism.pp=two: expected a whole number of at least 1");
  options.request.set.back() = "parallelism.pipeline_layout=Et|tL";
  CHECK_THAT(refusal_of(options), Catch::StartsWith("--set parallelism.pipeline_layout=Et|tL: tune lays groups and "));
  options.request.set.back() = "parallelism.count_per_node=1";
  CHECK_THAT(refusal_of(options), Catch::StartsWith("--set parallelism.count_per_node=1: tune lays groups and "));
}

TEST_CASE("tune: a file of a run gives its global batch, and tune chooses the layout") {
  TuneOptions options;
  options.request.file = "deepseek-v3-1024-h100";
  const TuneQuestion asked = load_tune_question(options);
  CHECK(asked.global_batch == 256 * 64);
  CHECK(asked.fixed.empty());
  CHECK(asked.question.experiment.cluster.gpus() == 1024);
  CHECK_THAT(asked.question.notes.front(), Catch::Contains("takes its global batch, 16384 samples"));
  Plan plan;
  fixed_knobs(asked.question)(plan);
  CHECK(plan.micro_batches == 1);
  CHECK(plan.zero == 1);
  options.global_batch = 4096;
  options.request.set = {"parallelism.pp=16"};
  CHECK(load_tune_question(options).global_batch == 4096);
  CHECK(load_tune_question(options).fixed == std::map<std::string, int>{{"pp", 16}});
}

TEST_CASE("tune: a trace in a file of a run is found beside that file") {
  const test::TemporaryFolder folder;
  folder.write("runs/loads.csv", "step,layer,expert,tokens\n0,0,0,1\n");
  folder.write("runs/run.json", R"({"cluster": "dgx-h100", "nodes": 2, "model": "qwen3-30b-a3b",
    "workload": {"layers": 1, "global_batch": 64, "routing": {"kind": "trace", "trace": "./loads.csv"}}})");
  TuneOptions options;
  options.request.file = "./runs/run.json";
  const std::string refusal = refusal_of(options);
  INFO(refusal);
  CHECK_THAT(refusal, !Catch::Contains("cannot be read"));
}

TEST_CASE("tune: sizes that no layout has are named, with the nearest that one has") {
  TuneOptions options = two_nodes();
  options.request.set = {"workload.layers=8", "parallelism.pp=5", "parallelism.ep=7"};
  options.micro_batch = 3;
  CHECK_THROWS_WITH(
      answer_of(options),
      Catch::EndsWith("expected other sizes than pp 5 (4 would), ep 7 (8 would), micro-batch 3 (2 would)"));
  options = two_nodes();
  options.request.set = {"workload.layers=8", "parallelism.pp=8", "parallelism.mp=4"};
  CHECK_THROWS_WITH(answer_of(options), Catch::EndsWith("other sizes than pp 8 (4 would) or mp 4 (2 would)"));
}

TEST_CASE("tune: options and settings that say the same must agree") {
  TuneOptions options = two_nodes();
  options.request.set = {"workload.global_batch=64", "workload.sequence=2048", "nodes=2"};
  CHECK(refusal_of(options).empty());
  options.request.set = {"workload.global_batch=32"};
  CHECK(refusal_of(options) == "--global-batch 64 contradicts the 32 of --set");
  options.request.set = {"workload.sequence=1024"};
  CHECK(refusal_of(options) == "--sequence 2048 contradicts --set workload.sequence=1024");
  options.request.set = {"nodes=4"};
  CHECK(refusal_of(options) == "--nodes 2 contradicts --set nodes=4");
}

TEST_CASE("tune: where nothing fits, it says how many GPUs would have room") {
  TuneOptions options = two_nodes();
  options.request.model = "deepseek-v3";
  options.request.set.clear();
  options.request.nodes = 1;
  const Report report = answer_of(options);
  REQUIRE(report.results.empty());
  REQUIRE(report.tuning->proof.enough_gpus);
  options.request.nodes = *report.tuning->proof.enough_gpus / 16;  // half of them
  CHECK(answer_of(options).results.empty());
}

TEST_CASE("tune: a described network counts in the steps that are predicted, and a note says what does not") {
  TuneOptions options = two_nodes();
  options.request.cluster = "dgx-h100-2to1";
  options.request.set.emplace_back("parallelism.pp=1");
  options.systems = {"tutel"};
  const TuneQuestion question = load_tune_question(options);
  CHECK(std::ranges::any_of(question.question.notes,
                            [](const std::string& note) { return note.starts_with("all ranks of a stage"); }));
  CHECK(!tune(question, options, {}).results.empty());
}

TEST_CASE("tune: nothing fits where the memory is too small") {
  TuneOptions options = two_nodes();
  options.request.set.emplace_back(R"(cluster.device.memory="1 GiB")");
  const Report report = answer_of(options);
  CHECK(report.results.empty());
  CHECK(report.tuning->proof.too_large > 0);
}
