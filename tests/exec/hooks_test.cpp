// SPDX-License-Identifier: Apache-2.0
#include "exec/run/hooks.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>

#include "exec/host/host_executor.hpp"
#include "exec/step/wire_format.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

SmallExperiment two_layers() {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  s.layers = 2;
  return s;
}

Plan chunked(Scope scope, int forward_degree, int backward_degree) {
  Plan plan;
  plan.scope = scope;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  return plan;
}

struct Setup {
  Experiment experiment;
  ModelData data;
  std::shared_ptr<const Schedule> schedule;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<HostExecutor> executor;

  explicit Setup(const Plan& plan, const Experiment& e = small_experiment(two_layers()))
      : experiment(e), data(random_model_data(e, 1)) {
    schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
    transport = make_inproc_transport(schedule->groups, 4, static_cast<int>(schedule->streams.size()));
    make();
  }
  Setup(int forward_degree, int backward_degree, EnumSet<Recompute> recompute = {})
      : Setup(with(chunked(Scope::Moe, forward_degree, backward_degree), recompute)) {}
  static Plan with(Plan plan, EnumSet<Recompute> recompute) {
    plan.recompute = recompute;
    return plan;
  }

  // With the data as they are now.
  void make() { executor = make_host_executor(experiment, schedule, Element::Double, data, {}, *transport); }
  void step(const Hooks& hooks) {
    executor->set_hooks(hooks);
    executor->run_step(Poison::Yes);
  }

  Values values(TensorKind kind, int layer, bool gradient = false, std::size_t rank = 0) const {
    for (const TensorId i : schedule->tensors.ids())
      if (const Tensor& t = schedule->tensors[i]; t.kind == kind && t.layer == layer && t.gradient == gradient)
        return executor->values(rank, i);
    return {};
  }
  // The outputs of all ranks, one after another.
  Values output() const {
    Values all;
    for (std::size_t rank = 0; rank < 4; ++rank)
      std::ranges::copy(values(TensorKind::LayerInput, experiment.workload.layers, false, rank),
                        std::back_inserter(all));
    return all;
  }
};

std::span<double> doubles(const HookCall& call) {
  return std::get<std::span<double>>(call.values);
}
// Multiplies what is shown in one pass.
HookFunction scaling(Phase phase, double factor) {
  return [=](const HookCall& call) {
    if (call.phase != phase) return;
    for (double& value : doubles(call)) value *= factor;
  };
}

// How often each point is called in a step, by the pass that the call names. Every call has values.
std::map<std::pair<HookPoint, Phase>, int> calls_in_step(Setup& setup) {
  std::mutex mutex;
  std::map<std::pair<HookPoint, Phase>, int> calls;
  Hooks hooks;
  for (const auto& [name, point] : hook_point_names)
    hooks.at(point) = [&](const HookCall& call) {
      const std::lock_guard lock(mutex);
      ++calls[{call.point, call.phase}];
      CHECK_FALSE(doubles(call).empty());
    };
  setup.step(hooks);
  return calls;
}

bool of_exchange(HookPoint point) {
  return point == HookPoint::BeforeDispatch || point == HookPoint::AfterDispatch || point == HookPoint::BeforeCombine ||
         point == HookPoint::AfterCombine;
}

// The points that one rank reaches in one layer, in order.
std::vector<HookPoint> points_in_order(Setup& setup, Phase phase) {
  std::mutex mutex;
  std::vector<HookPoint> order;
  Hooks hooks;
  for (const auto& [name, point] : hook_point_names)
    hooks.at(point) = [&](const HookCall& call) {
      if (call.phase != phase || call.rank != 1 || call.layer != 1) return;
      const std::lock_guard lock(mutex);
      order.push_back(call.point);
    };
  setup.step(hooks);
  return order;
}

}  // namespace

TEST_CASE("A counting hook sees every point of every layer, on every rank") {
  Setup setup(2, 3);
  auto calls = calls_in_step(setup);
  constexpr int layers = 2, ranks = 4;
  for (const auto& [name, point] : hook_point_names) {
    CHECK(calls[{point, Phase::Forward}] == layers * ranks * (of_exchange(point) ? 2 : 1));
    CHECK(calls[{point, Phase::Backward}] == layers * ranks * (of_exchange(point) ? 3 : 1));
  }
}

TEST_CASE("Forward ops that the backward pass repeats are shown again, and layers are not") {
  Setup setup(2, 3, {Recompute::Full});
  auto calls = calls_in_step(setup);
  constexpr int layers = 2, ranks = 4;
  for (const auto& [name, point] : hook_point_names) {
    const bool of_layer = point == HookPoint::BeforeLayer || point == HookPoint::AfterLayer;
    CHECK(calls[{point, Phase::Forward}] == layers * ranks * (of_layer ? 1 : of_exchange(point) ? 2 * 2 : 2));
    CHECK(calls[{point, Phase::Backward}] == layers * ranks * (of_exchange(point) ? 3 : 1));
  }
}

TEST_CASE("The points of a layer come in the order of FSMoE's, in both passes") {
  using enum HookPoint;
  const std::vector<HookPoint> forward{BeforeLayer,   BeforeMoe,    BeforeDispatch, AfterDispatch,
                                       BeforeCombine, AfterCombine, AfterMoe,       AfterLayer};
  // The gradients are sent with the mirrored combine, and come back with the mirrored dispatch.
  const std::vector<HookPoint> backward{BeforeLayer,    BeforeMoe,     BeforeCombine, AfterCombine,
                                        BeforeDispatch, AfterDispatch, AfterMoe,      AfterLayer};
  Setup setup(1, 1);
  CHECK(points_in_order(setup, Phase::Forward) == forward);
  CHECK(points_in_order(setup, Phase::Backward) == backward);
  Experiment e = small_experiment(two_layers());
  e.workload.extent = Extent::WholeLayers;
  Setup with_norms(chunked(Scope::Moe, 1, 1), e);
  CHECK(points_in_order(with_norms, Phase::Forward) == forward);
  CHECK(points_in_order(with_norms, Phase::Backward) == backward);
}

TEST_CASE("With chunks the MoE part begins before the first exchange and ends after the last") {
  for (const Scope scope : {Scope::Moe, Scope::Block}) {
    Setup setup(chunked(scope, 2, 2));
    const std::vector<HookPoint> order = points_in_order(setup, Phase::Forward);
    const auto count = [&](HookPoint point) { return std::ranges::count(order, point); };
    CHECK(count(HookPoint::BeforeMoe) == (scope == Scope::Block ? 2 : 1));
    CHECK(count(HookPoint::AfterMoe) == count(HookPoint::BeforeMoe));
    CHECK(count(HookPoint::AfterDispatch) == 2);
    const auto first = [&](HookPoint point) { return std::ranges::find(order, point) - order.begin(); };
    CHECK(first(HookPoint::BeforeMoe) < first(HookPoint::BeforeDispatch));
    CHECK(first(HookPoint::AfterMoe) > first(HookPoint::AfterCombine));
  }
}

TEST_CASE("An exchange in several steps is one pair of points") {
  SmallExperiment s;
  s.dp = s.mp = 2;
  s.ep = 4;
  Experiment e = small_experiment(s);
  Plan plan = chunked(Scope::Moe, 1, 1);
  plan.all_to_all = AllToAll::TwoDimensional;
  Setup setup(plan, e);
  auto calls = calls_in_step(setup);
  for (const auto& [name, point] : hook_point_names) CHECK(calls[{point, Phase::Forward}] == 4);
}

TEST_CASE("A hook may change what it is shown") {
  Setup setup(2, 1);
  Hooks hooks;
  hooks.at(HookPoint::AfterDispatch) = [](const HookCall& call) {
    if (call.phase == Phase::Forward) std::ranges::fill(std::get<std::span<double>>(call.values), 0);
  };
  setup.executor->set_hooks(hooks);
  setup.executor->run_step(Poison::No);  // whose tensors are kept
  // Experts that are given zeros return zeros: the layer's output is its MoE input.
  CHECK(setup.values(TensorKind::LayerInput, 2) == setup.values(TensorKind::MoeInput, 1));
}

TEST_CASE("An exception in a hook ends the step like one of the op") {
  Setup setup(1, 1);
  Hooks hooks;
  hooks.at(HookPoint::BeforeCombine) = [](const HookCall&) { throw std::runtime_error("hook"); };
  setup.executor->set_hooks(hooks);
  CHECK_THROWS_WITH(setup.executor->run_step(Poison::No), Catch::Contains("combine"));
}

TEST_CASE("Rows compressed before a dispatch and restored after it train as without, with chunks") {
  for (const Scope scope : {Scope::Moe, Scope::Block}) {
    Setup setup(chunked(scope, 2, 2));
    setup.step({});
    const Values output = setup.output(), gradient = setup.values(TensorKind::ExpertGradient, 0);
    Hooks hooks;
    for (const auto& [before, after] : {std::pair(HookPoint::BeforeDispatch, HookPoint::AfterDispatch),
                                        std::pair(HookPoint::BeforeCombine, HookPoint::AfterCombine)}) {
      hooks.at(before) = [](const HookCall& call) {
        for (double& value : doubles(call)) value *= .25;
      };
      hooks.at(after) = [](const HookCall& call) {
        for (double& value : doubles(call)) value *= 4;  // exact in binary
      };
    }
    setup.step(hooks);
    CHECK(setup.output() == output);
    CHECK(setup.values(TensorKind::ExpertGradient, 0) == gradient);
  }
}

TEST_CASE("A hook that rounds rows to bf16 before dispatch gives what dispatch_wire bf16 gives") {
  Plan plan = chunked(Scope::Moe, 2, 2);
  Setup setup(plan);
  Hooks hooks;
  hooks.at(HookPoint::BeforeDispatch) = [](const HookCall& call) {
    const std::span<double> rows = doubles(call);
    if (call.phase == Phase::Forward)
      compress_rows<double>(Wire::Bf16, std::ssize(rows) / 8, 8, rows.data(), rows.data());
  };
  setup.step(hooks);
  const Values hooked = setup.output();
  setup.step({});
  CHECK(hooked != setup.output());
  plan.dispatch_wire = Wire::Bf16;
  Setup compressed(plan);
  compressed.step({});
  CHECK(hooked == compressed.output());
}

TEST_CASE("Hooks around the MoE part that scale its input and output have the gradients of finite differences") {
  constexpr double in = .5, out = 3;
  for (const Extent extent : {Extent::Layers, Extent::WholeLayers})
    for (const EnumSet<Recompute> recompute : {EnumSet<Recompute>{}, {Recompute::Full}, {Recompute::Moe}})
      for (const Scope scope : {Scope::Moe, Scope::Block}) {
        Experiment e = small_experiment(two_layers());
        e.workload.extent = extent;
        Plan plan = chunked(scope, 2, 2);
        plan.recompute = recompute;
        Setup setup(plan, e);
        Hooks hooks;
        hooks.at(HookPoint::BeforeMoe) = [&](const HookCall& call) {
          scaling(Phase::Forward, in)(call);
          scaling(Phase::Backward, out)(call);
        };
        hooks.at(HookPoint::AfterMoe) = [&](const HookCall& call) {
          scaling(Phase::Forward, out)(call);
          scaling(Phase::Backward, in)(call);
        };
        setup.step(hooks);
        const Values gradient = setup.values(TensorKind::ExpertGradient, 0);
        CHECK_FALSE(gradient.empty());
        const auto loss = [&] {
          setup.make();
          setup.step(hooks);
          return dot(setup.output(), setup.data.output_gradient);
        };
        // The first weight of the first rank, in the layer that is the farthest from the loss.
        double& weight = setup.data.layers[0].w1[0];
        const double before = weight, step = 1e-5;
        weight = before + step;
        const double above = loss();
        weight = before - step;
        const double below = loss();
        weight = before;
        CHECK((above - below) / (2 * step) == Approx(gradient[0]).epsilon(1e-6));
        CHECK(std::fabs(gradient[0]) > 1e-6);
      }
}
