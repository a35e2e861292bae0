#include "exec/run/hooks.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>

#include "exec/host/host_executor.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

struct Setup {
  Experiment experiment;
  std::shared_ptr<const Schedule> schedule;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<HostExecutor> executor;

  explicit Setup(int forward_degree, int backward_degree, EnumSet<Recompute> recompute = {}) {
    SmallExperiment s;
    s.dp = s.mp = s.ep = s.esp = 2;
    s.layers = 2;
    experiment = small_experiment(s);
    Plan plan;
    plan.scope = Scope::Moe;
    plan.forward_degree = forward_degree;
    plan.backward_degree = backward_degree;
    plan.recompute = recompute;
    schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
    transport = make_inproc_transport(experiment.parallelism, 4, static_cast<int>(schedule->streams.size()));
    executor =
        make_host_executor(experiment, schedule, Element::Double, random_model_data(experiment, 1), {}, *transport);
  }
  Values values(TensorKind kind, int layer) const {
    for (const TensorId i : schedule->tensors.ids())
      if (const Tensor& t = schedule->tensors[i]; t.kind == kind && t.layer == layer && !t.gradient)
        return executor->values(0, i);
    return {};
  }
};

// How often each point is called in a step, by the pass that the call names. Every call has values.
std::map<std::pair<HookPoint, Phase>, int> calls_in_step(Setup& setup) {
  std::mutex mutex;
  std::map<std::pair<HookPoint, Phase>, int> calls;
  Hooks hooks;
  for (const auto& [name, point] : hook_point_names)
    hooks.at(point) = [&](const HookCall& call) {
      const std::lock_guard lock(mutex);
      ++calls[{call.point, call.phase}];
      CHECK_FALSE(std::get<std::span<double>>(call.values).empty());
    };
  setup.executor->set_hooks(hooks);
  setup.executor->run_step(Poison::No);
  return calls;
}

}  // namespace

TEST_CASE("A counting hook sees every point of every layer, on every rank") {
  Setup setup(2, 3);
  auto calls = calls_in_step(setup);
  constexpr int layers = 2, ranks = 4;
  for (const auto& [name, point] : hook_point_names) {
    const bool of_layer = point == HookPoint::BeforeLayer || point == HookPoint::AfterLayer;
    CHECK(calls[{point, Phase::Forward}] == layers * ranks * (of_layer ? 1 : 2));
    CHECK(calls[{point, Phase::Backward}] == layers * ranks * (of_layer ? 1 : 3));
  }
}

TEST_CASE("Exchanges that the backward pass repeats are shown again, and layers are not") {
  Setup setup(2, 3, {Recompute::Full});
  auto calls = calls_in_step(setup);
  constexpr int layers = 2, ranks = 4;
  for (const auto& [name, point] : hook_point_names) {
    const bool of_layer = point == HookPoint::BeforeLayer || point == HookPoint::AfterLayer;
    CHECK(calls[{point, Phase::Forward}] == layers * ranks * (of_layer ? 1 : 2 * 2));
    CHECK(calls[{point, Phase::Backward}] == layers * ranks * (of_layer ? 1 : 3));
  }
}

TEST_CASE("A hook may change what it is shown") {
  Setup setup(2, 1);
  Hooks hooks;
  hooks.at(HookPoint::AfterDispatch) = [](const HookCall& call) {
    if (call.phase == Phase::Forward) std::ranges::fill(std::get<std::span<double>>(call.values), 0);
  };
  setup.executor->set_hooks(hooks);
  setup.executor->run_step(Poison::No);
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
