// SPDX-License-Identifier: Apache-2.0
#include "exec/host/host_run.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

SmallExperiment four_gated_ranks() {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  s.kind = ExpertKind::Gated;
  return s;
}

std::shared_ptr<const PricedSchedule> priced(const Experiment& e, const Plan& plan) {
  return std::make_shared<const PricedSchedule>(price_plan(e, plan));
}

Plan overlapping_plan() {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  plan.comm_streams = CommStreams::InterIntra;
  return plan;
}

Seconds makespan(const PricedSchedule& p) {
  std::vector<double> scratch;
  return analytic_makespan(p, scratch);
}

}  // namespace

TEST_CASE("An emulated run takes the time that the analytic backend predicts, with pipeline stages too") {
  SmallExperiment s = four_gated_ranks();
  Plan plan = overlapping_plan();
  if (GENERATE(false, true)) {
    s.dp = s.ep = 1;
    s.pp = s.layers = s.batch = plan.micro_batches = 2;
    plan.pipeline_schedule = pipeline_schedule("1f1b");
  }
  const Experiment e = small_experiment(s);
  RunOptions options;
  options.hold_compute = HoldCompute::Always;
  options.measure.limit = Seconds(3);
  double error = 1;
  RunResult r;
  for (int attempt = 0; attempt < 3 && error > .05; ++attempt) {  // the machine may be busy
    r = run_on_host(e, priced(e, plan), options);
    error = std::abs(median(r.report.samples) / makespan(*r.predicted) - 1);
  }
  CHECK(error < .05);
  CHECK(r.report.ranks == 4);
  CHECK(r.report.dilation >= 1);
  CHECK(r.report.emulated_share == 1);
  CHECK(r.report.numerics_ok);
  CHECK(r.report.ci95_low <= median(r.report.samples));
  CHECK(r.report.ci95_high >= median(r.report.samples));
  CHECK(r.timeline.kind == ResultKind::Measured);
  CHECK(std::ranges::find(r.timeline.emulated, false) == r.timeline.emulated.end());
  for (const Interval& op : r.timeline.ops) CHECK(op.start <= op.finish);
}

TEST_CASE("One rank stands for all: its kernels are real, links are held, and numerics are those of all ranks") {
  SmallExperiment s = four_gated_ranks();
  RunOptions options;
  options.one_rank = true;
  options.hold_compute = HoldCompute::Never;
  options.measure.limit = Seconds(.3);
  const Experiment e = small_experiment(s);
  const RunResult r = run_on_host(e, priced(e, overlapping_plan()), options);
  CHECK(r.report.numerics_checked);
  CHECK(r.report.numerics_ok);
  CHECK(r.report.ranks == 1);
  CHECK(r.report.transport == "echo");
  for (const OpId i : r.timeline.emulated.ids())
    CHECK(r.timeline.emulated[i] == (r.predicted->schedule->ops[i].exchange() != nullptr));

  s.dp = s.ep = 1;
  s.pp = s.layers = s.batch = 2;
  Plan stages = overlapping_plan();
  stages.micro_batches = 2;
  const Experiment deep = small_experiment(s);
  CHECK_THROWS_WITH(run_on_host(deep, priced(deep, stages), options), Catch::Contains("pipeline stages wait"));
}

TEST_CASE("A run without emulation is predicted from its warm-up") {
  const Experiment e = small_experiment(four_gated_ranks());
  RunOptions options;
  options.emulate_links = false;
  options.measure.limit = Seconds(.1);
  const RunResult r = run_on_host(e, priced(e, overlapping_plan()), options);
  CHECK(r.report.dilation == 1);
  CHECK(r.report.emulated_share == 0);
  CHECK(r.report.overruns == 0);
  CHECK(r.report.numerics_ok);
  CHECK(makespan(*r.predicted) > Seconds(0));
  CHECK(r.notes.size() == 2);
}

TEST_CASE("More than this machine's memory is refused") {
  SmallExperiment s = four_gated_ranks();
  s.hidden = 1 << 16;
  s.expert_hidden = 1 << 20;
  const Experiment e = small_experiment(s);
  CHECK_THROWS_AS(run_on_host(e, priced(e, Plan{})), InputError);
}

TEST_CASE("A module known only by its times is not executed") {
  Experiment e = small_experiment(four_gated_ranks());
  const TimeCurve curve = TimeCurve::fit(Seconds(1e-6), Seconds(1e-9));
  e.model.expert_profile = {curve, curve, {}};
  CHECK_THROWS_WITH(run_on_host(e, priced(e, Plan{})), Catch::Contains("model.expert_profile: a module known only"));
}

TEST_CASE("A run says what compressed messages cost in digits") {
  const Experiment e = small_experiment(four_gated_ranks());
  Plan plan = overlapping_plan();
  plan.dispatch_wire = plan.combine_wire = Wire::Fp8;
  RunOptions options;
  options.emulate_links = false;
  options.measure.limit = Seconds(.1);
  const RunResult r = run_on_host(e, priced(e, plan), options);
  CHECK(r.report.numerics_ok);
  CHECK(r.numerics.rounding_error > 1e-4);
  CHECK(std::ranges::any_of(r.notes, [](const std::string& n) { return n.starts_with("compressed messages change"); }));
}

TEST_CASE("A run says what it sent with messages as large as what was chosen") {
  Experiment e = small_experiment(four_gated_ranks());
  e.workload.capacity_factor = 0;
  e.workload.message_sizes = MessageSizes::Routed;
  resolve_routed_capacity(e, RunOptions().seed);
  Plan plan = overlapping_plan();
  plan.expert_kernel = ExpertKernel::Grouped;
  RunOptions options;
  options.emulate_links = false;
  options.measure.limit = Seconds(.1);
  const RunResult r = run_on_host(e, priced(e, plan), options);
  CHECK(r.report.numerics_ok);
  CHECK(r.report.dropped == 0);
  CHECK(
      std::ranges::any_of(r.notes, [](const std::string& n) { return n.starts_with("routed messages: ranks sent"); }));
}

TEST_CASE("Where the router decides, an open capacity is what it needs with this seed") {
  SmallExperiment sizes;
  sizes.dp = sizes.ep = 2;
  sizes.capacity_factor = 0;
  sizes.batch = 4;
  Experiment e = small_experiment(sizes);
  resolve_routed_capacity(e, 3);
  const Reference reference = compute_reference(e, random_model_data(e, 3));
  CHECK(e.workload.capacity_rows == reference.largest_load);
  CHECK(reference.dropped == 0);
  ComputeRules in_parts;
  in_parts.micro_batches = 4;
  const Reference of_parts = compute_reference(e, random_model_data(e, 3, 4), in_parts);
  CHECK(one_micro_batch(e, 4).workload.capacity_rows == of_parts.largest_load);
  CHECK(of_parts.dropped == 0);
  CHECK(of_parts.largest_load < reference.largest_load);
  e.workload.capacity_factor = 1.5;
  e.workload.capacity_rows = 0;
  resolve_routed_capacity(e, 3);
  CHECK(e.workload.capacity_rows == 0);
}

TEST_CASE("Ranks that nobody gets past an op with end with its name, once the one that hangs looks up") {
  const Experiment e = small_experiment(four_gated_ranks());
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  RunOptions options;
  options.check_numerics = false;
  options.measure.limit = Seconds(0);
  options.patience = Seconds(1);
  options.hooks.at(HookPoint::AfterDispatch) = [&](const HookCall& call) {
    if (call.rank == 2) freed.wait();
  };
  std::string told;
  options.stuck = [&](const std::string& why) {
    told = why;
    free.set_value();
  };
  CHECK_THROWS_WITH(run_on_host(e, priced(e, Plan{}), options),
                    Catch::Contains("run: no op has finished for 1 s: rank 2 does not get past dispatch"));
  CHECK_THAT(told, Catch::Contains("rank 2 does not get past dispatch"));
}

TEST_CASE("Ranks that compute are not taken for ones that hang") {
  const Experiment e = small_experiment(four_gated_ranks());
  RunOptions options;
  options.check_numerics = false;
  options.measure.limit = Seconds(0);
  options.patience = Seconds(.4);
  int calls = 0;
  options.hooks.at(HookPoint::AfterDispatch) = [&](const HookCall& call) {
    if (call.rank != 2 || ++calls > 1) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  CHECK_NOTHROW(run_on_host(e, priced(e, Plan{}), options));
  CHECK(calls > 1);
}
