// SPDX-License-Identifier: Apache-2.0
// A program outside the project that brings an MoE layer's gate, order, experts and all-to-all with it (FSMoE's
// listings 1 and 2), and hooks around its exchanges. It simulates a training step with them, really executes it, and
// does the same with the project's own. Usage: custom_moe [GATE [EXPERT]]
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <variant>

#include "exec/host/host_run.hpp"
#include "exec/host/module_profile.hpp"
#include "exec/run/scale_down.hpp"
#include "hash_gate.hpp"
#include "models/extend/derivatives.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/extension_sizes.hpp"
#include "models/time/analytic_backend.hpp"
#include "nodes_first.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "reversed_order.hpp"
#include "tanh_expert.hpp"

namespace {

using namespace dovetail;

ExtensionRegistry registered() {
  ExtensionRegistry registry;
  registry.add(std::make_shared<HashGate>());
  registry.add(std::make_shared<TanhExpert>());
  registry.add(std::make_shared<ReversedOrder>());
  registry.add(std::make_shared<NodesFirst>());
  return registry;
}

// Mixtral's layers on eight ranks that stand for two nodes, small enough for any machine.
Experiment question() {
  FilesRead files;
  std::vector<std::string> notes;
  ExperimentRequest request;
  request.cluster = "fsmoe-testbed-b";
  request.model = "mixtral-8x7b";
  request.set = {"parallelism.esp=1"};  // experts are not cut, so that all eight ranks exchange rows
  Experiment e = load_experiment(request, files, notes);
  e.workload.gate = {};
  return exec::scaled_for_host(
      e, {.ranks = 8, .layers = 2, .experts = 8, .hidden = 32, .expert_hidden = 64, .tokens_per_rank = 64});
}

// Rows are halved before they are sent and doubled where they arrive, as a compression would do it.
void compress_dispatches(exec::Hooks& hooks) {
  for (const auto& [point, factor] :
       {std::pair(exec::HookPoint::BeforeDispatch, .5F), std::pair(exec::HookPoint::AfterDispatch, 2.F)})
    hooks.at(point) = [factor = factor](const exec::HookCall& call) {
      std::visit([&](auto rows) { std::ranges::for_each(rows, [&](auto& number) { number *= factor; }); }, call.values);
    };
}

// The chunks of tokens go through the experts one by one, while those before and after them are on their way.
Plan two_chunks() {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  return plan;
}

// Times the gate and the experts on this machine, and plans with what they take. The work that they state, for which
// prices of the cluster's GPUs would count, is not needed then.
void plan_by_measured_times(const Experiment& e) {
  constexpr std::array tokens{32, 64, 128};
  exec::MeasureSettings settings;
  settings.limit = Seconds(.1);
  const exec::ModuleProfiles profiles = exec::profile_modules(e, tokens, settings);
  const Experiment measured = exec::with_profiles(e, profiles);
  PlannerChoice degrees{.name = "exhaustive", .degrees = {1, 2, 4}};
  const planners::PlanChoice choice =
      planners::find_planner(degrees.name)
          .choose({measured, two_chunks(), degrees}, planners::analytic_evaluator(measured));
  std::printf("experts took %.3g us + %.3g us a row (r2 %.3f); by these times degree %d is the fastest\n",
              1e6 * profiles.expert->forward.alpha.value(), 1e6 * profiles.expert->forward.beta.value(),
              profiles.expert->forward.quality.r2, choice.plan.forward_degree);
}

// Shows the time that the simulator gives a step. Returns whether outputs and gradients of a real step are right.
bool try_out(const char* name, const Experiment& e) {
  const auto priced = std::make_shared<const PricedSchedule>(price_plan(e, two_chunks()));
  const Timeline simulated = AnalyticBackend().run(*priced);
  exec::RunOptions options;
  options.emulate_links = false;  // as fast as this machine can: it is about the numbers
  options.hold_compute = exec::HoldCompute::Never;
  options.measure.limit = Seconds(0);
  compress_dispatches(options.hooks);
  std::atomic<int> layers = 0;  // that the MoE hook has seen, on all ranks and in both passes
  options.hooks.at(exec::HookPoint::BeforeMoe) = [&](const exec::HookCall&) { ++layers; };
  const exec::RunResult run = exec::run_on_host(e, priced, options);
  std::printf("%-6s simulated %.3f ms; executed: outputs off by %.1e, gradients by %.1e, %lld choices dropped\n", name,
              1e3 * metrics(*priced->schedule, simulated).makespan.value(), run.report.output_error,
              run.report.gradient_error, static_cast<long long>(run.report.dropped));
  for (const std::string& note : run.notes) std::printf("       note: %s\n", note.c_str());
  return run.report.numerics_ok && layers > 0;
}

int run(const char* gate, const char* expert) {
  const ExtensionRegistry registry = registered();
  const Experiment own = question();
  Experiment e = own;
  e.extensions = registry.choose({.gate = gate, .order = "reversed", .expert = expert, .all_to_all = "nodes-first"});
  const double gate_error = derivative_error(*e.extensions.gate, gate_sizes(e), 5, 1),
               expert_error = derivative_error(*e.extensions.expert, expert_sizes(e), 5, 1);
  std::printf("derivatives differ from finite differences by %.1e (gate) and %.1e (expert)\n", gate_error,
              expert_error);
  plan_by_measured_times(e);
  const bool right = try_out("own", own), custom_right = try_out("custom", e);
  return right && custom_right && gate_error < 1e-6 && expert_error < 1e-6 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "hash", argc > 2 ? argv[2] : "tanh");
  } catch (const std::exception& error) {  // a name that nobody has registered, a plan that does not fit
    std::fprintf(stderr, "custom_moe: %s\n", error.what());
    return 2;
  }
}
