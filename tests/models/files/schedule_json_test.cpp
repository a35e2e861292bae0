// SPDX-License-Identifier: Apache-2.0
#include "models/files/schedule_json.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/files/read_schedule.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

ScheduleFile example() {
  const Experiment e = test::round_numbers(2);
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.backward_degree = 3;
  plan.comm_streams = CommStreams::InterIntra;
  return {e, plan, price_plan(e, plan)};
}

ScheduleFile pipelined_example() {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 1, .mp = 2, .ep = 1, .esp = 2, .pp = 2, .edp = 1};
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  return {e, plan, price_plan(e, plan)};
}

// Every field that experts' knobs use: shadowed experts, peer groups; other groups, cut GEMMs.
ScheduleFile sharded_example(bool shadowed) {
  Experiment e = test::round_numbers(1);
  Plan plan;
  plan.scope = Scope::Moe;
  if (shadowed) {
    e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
    plan.shadowed_experts = {2};
    plan.split = Split::Peers;
    plan.peer_group = 2;
  } else {
    plan.expert_sharding = ExpertSharding::EpMp;
    plan.layout = Layout::RankMajor;
  }
  return {e, plan, price_plan(e, plan)};
}

ScheduleFile dropless_example() {
  Experiment e = test::round_numbers(1);
  e.workload.message_sizes = MessageSizes::Routed;
  e.workload.routing.kind = RoutingKind::Zipf;
  Plan plan;
  plan.expert_kernel = ExpertKernel::Grouped;
  plan.row_tile = 8;
  return {e, plan, price_plan(e, plan)};
}

ScheduleFile dense_example() {
  Experiment e = test::without_experts(test::round_numbers(2));
  return {e, {}, price_plan(e, {})};
}

ScheduleFile predicting_example() {
  Experiment e = test::with_predictions(test::round_numbers(1), 1);
  e.model.vocabulary = 10;
  return {e, {}, price_plan(e, {})};
}

// A whole model whose embedding two stages have, with the shards of its gradients.
ScheduleFile tied_example() {
  ScheduleFile file = pipelined_example();
  Experiment& e = file.experiment;
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
  e.model.vocabulary = 10;
  e.model.tied_embeddings = true;
  e.workload.extent = Extent::Model;
  file.plan.zero = 1;
  return {e, file.plan, price_plan(e, file.plan)};
}

// Model-parallel ranks that repeat tokens.
ScheduleFile repeating_example() {
  Experiment e = test::round_numbers(1);
  e.parallelism.sequence_parallel = false;
  return {e, {}, price_plan(e, {})};
}

// Tokens that go to each node once, by kernels on a part of the multiprocessors.
ScheduleFile deduplicated_example() {
  Experiment e = test::round_numbers(1);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1};
  e.workload.message_sizes = MessageSizes::Routed;
  e.workload.routing.kind = RoutingKind::Zipf;
  Plan plan;
  plan.scores_at = ScoresAt::Experts;
  plan.all_to_all = AllToAll::NodeDeduplicated;
  return {e, plan, price_plan(e, plan)};
}

ScheduleFile read_text(const std::string& text) {
  return read_schedule(JsonFile::parse(text, "s.json"));
}

}  // namespace

TEST_CASE("a schedule file read and written again is the same file, and predicts the same") {
  const ScheduleFile file =
      GENERATE(example(), pipelined_example(), sharded_example(true), sharded_example(false), dropless_example(),
               dense_example(), predicting_example(), tied_example(), repeating_example(), deduplicated_example());
  const std::string text = to_json(file).dump(1);
  const ScheduleFile again = read_text(text);
  CHECK(to_json(again).dump(1) == text);
  std::vector<double> scratch;
  CHECK(analytic_makespan(again.priced, scratch) == analytic_makespan(file.priced, scratch));
  CHECK(again.priced.schedule->expert_kernel == file.plan.expert_kernel);
  CHECK(again.priced.schedule->row_tile == file.plan.row_tile);
  CHECK(again.priced.schedule->node_ranks == file.priced.schedule->node_ranks);
  CHECK(again.priced.schedule->groups.repeats_tokens() == file.experiment.parallelism.repeats_tokens());
  for (const TensorId i : again.priced.schedule->tensors.ids())
    CHECK(again.priced.schedule->tensors[i].held == file.priced.schedule->tensors[i].held);
  for (const OpId i : again.priced.schedule->ops.ids()) {  // one word of the file for both
    CHECK(again.priced.schedule->ops[i].rows == file.priced.schedule->ops[i].rows);
    CHECK(again.priced.schedule->ops[i].gradients == file.priced.schedule->ops[i].gradients);
  }
}

TEST_CASE("a schedule file of any plan is read again as the same") {
  for (int seed = 1; seed <= test::cases(80); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const Experiment e = test::random_experiment(random);
    const Plan plan = test::random_legal_plan(random, e);
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const std::string text = to_json(ScheduleFile{e, plan, price_plan(e, plan)}).dump();
    CHECK(to_json(read_text(text)).dump() == text);
  }
}

TEST_CASE("a schedule file keeps activities that ops share, and changes of speed") {
  ScheduleFile file = example();
  PricedSchedule& p = file.priced;
  // Every op has its activity and that of the op before it.
  p.first_activity = {0};
  for (const OpId i : p.fixed.ids()) {
    if (i > 0) p.activities.push_back(ActivityId(i - 1));
    p.activities.push_back(PricedSchedule::only_activity(i));
    p.first_activity.push_back(static_cast<std::int32_t>(p.activities.size()));
  }
  std::vector<double> longest;  // what the two take one beside the other
  for (const OpId i : p.fixed.ids()) {
    longest.push_back(0);
    p.for_each_demand(i, [&](const Demand& d) { longest[i] = std::max(longest[i], d.seconds.value()); });
    p.duration[i] = p.fixed[i] + Seconds(longest[i]);
  }
  p.speed_changes = {{0, Seconds(.25), .5}, {1, Seconds(.5), 1}};
  auto json = to_json(file);
  const ScheduleFile again = read_text(json.dump(1));
  CHECK(to_json(again).dump(1) == json.dump(1));
  CHECK(again.priced.activities == p.activities);
  CHECK(again.priced.contended);
  json["speed_changes"][1]["at_s"] = .125;
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("/speed_changes/1/at_s: "));
  json = to_json(file);
  json["ops"][1]["activities"][0] = 100000;
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("/ops/1/activities/0: "));
}

TEST_CASE("a schedule file keeps what the host takes for launches, of all ops or none") {
  Experiment e = test::round_numbers();
  e.calibration.edit().host = HostCost{Seconds(1e-3), {}};
  Plan plan;
  plan.graphs = Graphs::Attention;
  const ScheduleFile file{e, plan, price_plan(e, plan)};
  auto json = to_json(file);
  const ScheduleFile again = read_text(json.dump(1));
  CHECK(again.priced.launch == file.priced.launch);
  CHECK(again.priced.schedule->graphs == Graphs::Attention);
  json["ops"][1].erase("launch_s");
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("launch_s in some ops alone"));
}

TEST_CASE("a schedule file keeps the steps of an all-to-all") {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  Plan plan;
  plan.all_to_all = AllToAll::Hierarchical1d;
  plan.all_to_all_implementation = GENERATE(AllToAllImplementation::PointToPoint, AllToAllImplementation::Fused);
  const ScheduleFile file{e, plan, price_plan(e, plan)};
  auto json = to_json(file);
  const ScheduleFile again = read_text(json.dump(1));
  CHECK(to_json(again).dump(1) == json.dump(1));
  CHECK(again.priced.schedule->steps == file.priced.schedule->steps);
  json["collective_steps"].erase(4);
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("work/steps/1: "));
}

TEST_CASE("a timeline file keeps times and what was emulated") {
  Timeline t;
  t.kind = ResultKind::Measured;
  t.ops = {{Seconds(0), Seconds(1.25e-3)}, {Seconds(1e-9), Seconds(.1)}};
  t.emulated = {true, false};
  const TimelineFile again = read_timeline(JsonFile::parse(to_json(TimelineFile{t, {}, {}, {}, {}}).dump(), "t.json"));
  CHECK(again.timeline.kind == ResultKind::Measured);
  CHECK(again.timeline.ops[1].finish == Seconds(.1));
  CHECK(again.timeline.emulated == t.emulated);
  CHECK(again.predicted.empty());
  CHECK_FALSE(again.run);
}

TEST_CASE("a timeline file keeps what was predicted and how the run went, errors that are not numbers too") {
  TimelineFile file;
  file.timeline.ops = {{Seconds(0), Seconds(1)}, {Seconds(1), Seconds(3)}};
  file.predicted = {Seconds(1.5), Seconds(2.5)};
  file.work = {Seconds(.5), Seconds(2)};
  file.notes = {"one", "two"};
  RunReport& run = file.run.emplace();
  run.device = "host";
  run.transport = "mpi";
  run.ranks = 4;
  run.dilation = 12.5;
  run.emulated_share = .75;
  run.overruns = 3;
  run.samples = {Seconds(2), Seconds(4)};
  run.ci95_low = Seconds(2);
  run.ci95_high = Seconds(4);
  run.stopped_by = "deviation";
  run.dropped = 7;
  run.output_error = 1e-7;
  run.gradient_error = std::numeric_limits<double>::quiet_NaN();
  run.numerics_checked = false;
  run.clock = {1755, 640.5};
  run.training = TrainingReport{{4.5, std::numeric_limits<double>::quiet_NaN()}, {4.5, 4}, 2e-7, 3e-7, 1e-5, false};
  const std::string text = to_json(file).dump();
  const TimelineFile again = read_timeline(JsonFile::parse(text, "t.json"));
  CHECK(to_json(again).dump() == text);
  REQUIRE(again.run);
  CHECK(again.run->samples == run.samples);
  CHECK(std::isnan(again.run->gradient_error));
  CHECK_FALSE(again.run->numerics_checked);
  CHECK(again.run->clock == run.clock);
  REQUIRE(again.run->training);
  CHECK(again.run->training->reference_losses == std::vector<double>{4.5, 4});
  CHECK(again.run->training->tolerance == 1e-5);
  auto other = to_json(file);
  other["run"]["training"]["reference_losses"].erase(0);
  CHECK_THROWS_WITH(read_timeline(JsonFile::parse(other.dump(), "t.json")), Contains("as many as losses, or none"));
  other["run"]["training"]["losses"].clear();
  CHECK_THROWS_WITH(read_timeline(JsonFile::parse(other.dump(), "t.json")), Contains("the loss of each step"));
  CHECK(again.work == file.work);
  for (const char* const times : {"predicted_s", "work_s"}) {
    auto partly = to_json(file);
    partly["ops"][0].erase(times);
    CHECK_THROWS_WITH(read_timeline(JsonFile::parse(partly.dump(), "t.json")),
                      Contains(times) && Contains("of all or of none"));
  }
}

TEST_CASE("another version or kind, or an op on no stream is refused with its place") {
  auto json = to_json(example());
  json["version"] = 99;
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("s.json:3:") && Contains("this program reads version 4"));
  json["version"] = 4;
  json["kind"] = "timeline";
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("/kind: ") && Contains("expected \"dovetail_schedule\""));
  json["kind"] = "dovetail_schedule";
  json["ops"][0]["stream"] = 7;
  CHECK_THROWS_WITH(read_text(json.dump(1)), Contains("/ops/0/stream: "));
}
