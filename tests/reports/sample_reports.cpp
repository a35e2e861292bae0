// SPDX-License-Identifier: Apache-2.0
#include "tests/reports/sample_reports.hpp"

#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/results/add_figures.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

namespace dovetail::test {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

Seconds ms(double value) {
  return Seconds(value * 1e-3);
}

// An op and when it runs, in milliseconds.
struct Step {
  OpKind kind;
  Phase phase;
  StreamId stream;
  int chunk;
  double start, finish;
  std::vector<OpId> after;
};

Work work_of(OpKind kind) {
  if (kind == OpKind::Dispatch || kind == OpKind::Combine)
    return ExchangeWork{Collective::AllToAll, GroupKind::Ep, Protocol::Simple, Bytes(1 << 20), {}, {}};
  if (kind == OpKind::EspAllGather)
    return ExchangeWork{Collective::AllGather, GroupKind::Esp, Protocol::Simple, Bytes(2 << 20), {}, {}};
  return KernelWork{.flops = Flops(2e9), .gemms = 2};
}

void fill(SystemResult& result, const std::vector<Step>& steps, double scale) {
  auto schedule = std::make_shared<Schedule>();
  schedule->classes = {{4}};
  schedule->groups = round_numbers().parallelism;
  schedule->streams = {{StreamKind::Compute, 0}, {StreamKind::Communication, 0}};
  for (const Step& step : steps) {
    Op op;
    op.kind = step.kind;
    op.phase = step.phase;
    op.stream = step.stream;
    op.chunk = static_cast<std::int16_t>(step.chunk);
    if (step.chunk >= 0) op.rows = {2 * step.chunk, 2 * step.chunk + 2};
    op.work = work_of(step.kind);
    op.dependencies.first = static_cast<std::int32_t>(schedule->dependencies.size());
    schedule->dependencies.insert(schedule->dependencies.end(), step.after.begin(), step.after.end());
    op.dependencies.last = static_cast<std::int32_t>(schedule->dependencies.size());
    schedule->ops.push_back(op);
    result.timeline.ops.push_back({ms(step.start * scale), ms(step.finish * scale)});
  }
  result.schedule = schedule;
  result.metrics = metrics(*schedule, result.timeline);
}

const std::vector<Step> sequential = {
    {OpKind::Attention, Phase::Forward, 0, -1, 0, 1, {}},  {OpKind::Dispatch, Phase::Forward, 1, -1, 1, 2.5, {0}},
    {OpKind::Expert, Phase::Forward, 0, -1, 2.5, 4, {1}},  {OpKind::Combine, Phase::Forward, 1, -1, 4, 5.5, {2}},
    {OpKind::Expert, Phase::Backward, 0, -1, 5.5, 9, {3}}, {OpKind::Update, Phase::Update, 0, -1, 9, 10, {4}}};

const std::vector<Step> pipelined = {{OpKind::Attention, Phase::Forward, 0, -1, 0, 1, {}},
                                     {OpKind::Dispatch, Phase::Forward, 1, 0, 1, 1.8, {0}},
                                     {OpKind::Dispatch, Phase::Forward, 1, 1, 1.8, 2.6, {0}},
                                     {OpKind::EspAllGather, Phase::Forward, 1, 1, 2.6, 2.8, {}},
                                     {OpKind::Expert, Phase::Forward, 0, 0, 1.8, 2.6, {1}},
                                     {OpKind::Expert, Phase::Forward, 0, 1, 2.8, 3.6, {3}},
                                     {OpKind::Combine, Phase::Forward, 1, 0, 2.8, 3.6, {4}},
                                     {OpKind::Combine, Phase::Forward, 1, 1, 3.6, 4.4, {5}},
                                     {OpKind::Expert, Phase::Backward, 0, -1, 4.4, 7.25, {7}},
                                     {OpKind::Update, Phase::Update, 0, -1, 7.25, 8, {8}}};

SystemResult system(std::string name, const std::vector<Step>& steps, double scale = 1) {
  SystemResult result;
  result.micro_batch = 1;
  result.system = std::move(name);
  result.backend = "analytic";
  result.planner = {"fixed", "as published", 1, Seconds(0), {}, {}, {}, {}};
  result.lower_bound = ms(6);
  result.plan_bound = ms(7.5);
  result.memory = {Bytes(0.75 * gib), Bytes(0.5 * gib), ms(4), Bytes(0.75 * gib), Bytes(0)};
  fill(result, steps, scale);
  return result;
}

SystemResult pipelined_system() {
  SystemResult result = system("pipelined", pipelined);
  result.plan.scope = Scope::Moe;
  result.plan.forward_degree = 2;
  result.plan.backward_degrees = {1, 2};
  result.plan.grad_sync = GradSync::Partitioned;
  result.plan.gradient_slices = {{Window::Moe, 0, 64}, {Window::Tail, 0, 192}};
  result.planner = {"exhaustive", "communication is longer than the experts in both phases",
                    64,           Seconds(0.0021),
                    0.004,        "degree 4 / 2, 1.3 % slower",
                    {},           {}};
  return result;
}

RunProvenance provenance() {
  RunProvenance p;
  p.version = "0.1.0";
  p.git_revision = "0123456789ab";
  p.host = "host";
  p.compiler = "GNU 12.2.0";
  p.created = "2026-01-02T03:04:05Z";
  p.command_line = {"dovetail", "compare", "--cluster", "round"};
  p.libraries = {{"fmt", "9.1.0"}};
  p.input_sha256 = {{"data/clusters/round.json", std::string(64, 'a')}};
  p.seed = 7;
  return p;
}

Report empty_report(std::string kind, Experiment experiment) {
  Report report;
  report.kind = std::move(kind);
  report.experiment = std::move(experiment);
  report.provenance = provenance();
  return report;
}

SystemResult predicted(const Experiment& experiment, const std::string& name, const Plan& plan) {
  SystemResult result;
  result.system = name;
  result.plan = plan;
  result.backend = "analytic";
  result.schedule = std::make_shared<Schedule>(build_schedule(experiment, plan));
  const PricedSchedule priced = price(result.schedule, experiment);
  result.timeline = AnalyticBackend().run(priced);
  result.metrics = metrics(*result.schedule, result.timeline);
  result.lower_bound = lower_bound(priced);
  result.plan_bound = plan_bound(priced);
  result.memory = memory_use(*result.schedule, result.timeline);
  const Bytes capacity = experiment.cluster.device.memory;
  result.feasible = result.memory.peak <= capacity;
  if (!result.feasible) result.missing = result.memory.peak - capacity;
  return result;
}

Plan plan_of(int forward, int backward, GradSync sync, CommStreams streams) {
  Plan plan;
  plan.scope = forward > 1 || backward > 1 ? Scope::Moe : Scope::Layer;
  plan.forward_degree = forward;
  plan.backward_degree = backward;
  plan.grad_sync = sync;
  plan.comm_streams = streams;
  return plan;
}

SwitchReport sample_switching() {
  const auto time = [](double median) { return MedianTime{ms(median), ms(.9 * median), ms(1.1 * median)}; };
  SwitchReport r;
  r.settings = {"plan.expert_sharding=ep_mp"};
  r.repeats = 50;
  for (std::size_t turn = 0; turn < r.turns.size(); ++turn)
    r.turns[turn] = {time(.02 + .001 * static_cast<double>(turn)), time(4 + static_cast<double>(turn))};
  r.cost = {ms(.0015), ms(-.001), ms(.004)};
  r.first_step = {time(.05), time(.0625)};
  r.kept_bytes = 3 << 20;
  r.alone_bytes = {8 << 20, 7 << 20};
  r.both_bytes = 9 << 20;
  r.checked_steps = 9;
  r.checked_switches = 5;
  r.output_error = 2.5e-15;
  r.gradient_error = 3.5e-15;
  r.weight_error = 4.5e-15;
  r.tolerance = 1e-12;
  return r;
}

}  // namespace

Report small_report() {
  Report report = empty_report("compare", round_numbers());
  report.results = {system("sequential", sequential), pipelined_system(), system("greedy", pipelined, 0.9)};
  report.results[2].feasible = false;
  report.results[2].memory.peak = Bytes(4.13 * gib);
  report.results[2].missing = Bytes(3.2 * gib);
  report.notes = {
      "cost of memory-bound kernels is assumed: no measurement of this device is known to us, and the time of "
      "gate, encode and decode is therefore left out"};
  add_figures(report);
  return report;
}

Report small_run_report() {
  Report report = empty_report("run", round_numbers());
  report.results = {pipelined_system(), pipelined_system()};
  SystemResult& measured = report.results[1];
  measured.backend = "host";
  measured.timeline = {ResultKind::Measured, {}, IdVector<OpId, bool>(pipelined.size(), false)};
  measured.timeline.emulated[1] = true;
  fill(measured, pipelined, 1.0125);
  RunReport run;
  run.device = "host";
  run.transport = "inproc";
  run.ranks = 4;
  run.dilation = 2;
  run.emulated_share = 0.83;
  run.overruns = 1;
  run.samples = {ms(8.09), ms(8.1), ms(8.12)};
  run.ci95_low = ms(8.09);
  run.ci95_high = ms(8.12);
  run.stopped_by = "relative deviation below 0.5 %";
  run.output_error = 3.1e-7;
  run.gradient_error = 2.5e-7;
  run.numerics_ok = true;
  run.training = TrainingReport{{4.5, 4.25, 3.5}, {4.5, 4.25, 3.5}, 1.5e-15, 2e-15, 1e-12, true};
  run.switching = sample_switching();
  measured.run = run;
  add_figures(report);
  return report;
}

Report mixtral_report() {
  Report report = empty_report("compare", testbed_b(7));
  const Experiment& e = report.experiment;
  const std::int64_t dense = 7 * layer_volumes(e).dense_parameters;
  Plan slices = plan_of(2, 4, GradSync::Partitioned, CommStreams::InterIntra);
  for (int layer = 5; layer >= 0; --layer)
    for (Window window : {Window::Moe, Window::Dense})
      slices.gradient_slices.push_back({window, layer, dense / (window == Window::Moe ? 14 : 28)});
  slices.gradient_slices.push_back({Window::Tail, 0, dense - 6 * (dense / 14 + dense / 28)});
  Plan one_stream = slices;
  one_stream.comm_streams = CommStreams::One;
  report.results = {predicted(e, "deepspeed_moe", Plan{}),
                    predicted(e, "tutel", plan_of(2, 2, GradSync::After, CommStreams::One)),
                    predicted(e, "tutel_improved", plan_of(2, 2, GradSync::WithDense, CommStreams::One)),
                    predicted(e, "fsmoe_no_iio", one_stream), predicted(e, "fsmoe", slices)};
  report.results.back().planner = {
      "four_case", "case 2 in the forward and case 4 in the backward pass: all-to-all is the longest of the three",
      24,          Seconds(0.0017),
      0.0,         "degree 2 / 2, 0.8 % slower",
      {},          {}};
  report.notes = {"7 of 32 layers: what fits the testbed's 11 GB, as the paper does",
                  "costs of attention scores, gate, encode and decode are left out: the calibration has none"};
  add_figures(report);
  return report;
}

namespace {

Report report_in_stages(int micro_batches) {
  Report report = empty_report("simulate", testbed_b(2));
  Experiment& e = report.experiment;
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  e.workload.batch = micro_batches;
  Plan plan = plan_of(2, 2, GradSync::WithDense, CommStreams::One);
  plan.micro_batches = micro_batches;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  report.results = {predicted(e, "tutel", plan)};
  add_figures(report);
  return report;
}

}  // namespace

Report pipeline_report() {
  return report_in_stages(4);
}

Report long_report() {
  Report report = report_in_stages(4000);
  report.results.push_back(report.results.front());
  return report;
}

}  // namespace dovetail::test
