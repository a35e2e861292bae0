// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's equations 1 to 6 against what the tensors of the schedules of its layer add up to, for the tensors that
// they speak of: not attention, routing, host copies and what is brought back for the backward pass.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/reproduce/mpipemoe_layers.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array activations{TensorKind::Encoded, TensorKind::Dispatched, TensorKind::Hidden,
                                 TensorKind::ExpertPartial, TensorKind::Combined};
// The gradients in the order in which they are made.
constexpr std::array gradients{TensorKind::Combined, TensorKind::ExpertOutput, TensorKind::Hidden,
                               TensorKind::ExpertInput, TensorKind::Encoded};

bool among(std::span<const TensorKind> kinds, TensorKind kind) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

// Elements of the memory that the chosen tensors take: buffers that several share count once.
template <class Chosen>
double elements(const Schedule& s, Chosen chosen) {
  const Blocks blocks = memory_blocks(s);
  std::set<BlockId> used;
  for (const TensorId i : s.tensors.ids())
    if (chosen(s.tensors[i], i)) used.insert(blocks.of_tensor[i]);
  double sum = 0;
  for (BlockId b : used) sum += static_cast<double>(blocks.all[b].elements);
  return sum;
}

double of_kind(const Schedule& s, TensorKind kind, bool gradient) {
  return elements(s, [&](const Tensor& t, TensorId) { return t.kind == kind && t.gradient == gradient; });
}

double activation_elements(const Schedule& s) {
  std::set<TensorId> forward;
  for (const Op& op : s.ops)
    if (op.phase == Phase::Forward) forward.insert(s.writes_of(op).begin(), s.writes_of(op).end());
  return elements(s, [&](const Tensor& t, TensorId id) {
    return t.place == Place::Device && among(activations, t.kind) && forward.contains(id);
  });
}

double gradient_elements(const Schedule& s) {
  return elements(s, [](const Tensor& t, TensorId) { return t.gradient && among(gradients, t.kind); });
}

// The largest pair of neighbours.
double sequential_buffer(const Schedule& s) {
  double most = 0, before = 0;
  for (TensorKind kind : gradients) {
    const double now = of_kind(s, kind, true);
    most = std::max(most, before + now);
    before = now;
  }
  return most;
}

// Model states of the router and the expert alone; the optimizer's state covers attention too.
double model_states(const Schedule& s) {
  const auto of = [&](TensorKind kind) { return of_kind(s, kind, false); };
  return of(TensorKind::RouterWeights) + of(TensorKind::ExpertWeights) + of(TensorKind::RouterGradient) +
         of(TensorKind::ExpertGradient) + of(TensorKind::OptimizerState) - 2 * of(TensorKind::DenseWeights);
}

struct Sizes {
  double b, m, h, e;
};

class Differences {
 public:
  explicit Differences(Recomputed& result) : values_(result.values) {}
  void add(const std::string& equation, double schedule, double formula) {
    const std::string name = equation + ": largest difference";
    const double before = values_.contains(name) ? std::get<double>(values_[name]) : 0;
    values_[name] = std::max(before, std::abs(schedule - formula));
  }

 private:
  std::map<std::string, TableValue>& values_;
};

void compare(const Experiment& e, Plan plan, std::span<const int> degrees, Differences& differences) {
  const Sizes s{static_cast<double>(e.workload.sequence), static_cast<double>(e.model.hidden),
                static_cast<double>(e.model.expert_hidden), static_cast<double>(e.model.experts)};
  const Schedule sequential = build_schedule(e, Plan{});
  const double states = 4 * (s.e * s.m + 2 * s.h * s.m), pipelined = 4 * s.b * s.m + s.b * s.h;
  differences.add("equation 1", model_states(sequential), states);
  differences.add("equation 2", activation_elements(sequential), pipelined);
  differences.add("equation 3", sequential_buffer(sequential), s.b * s.m + s.b * s.h);
  for (int n : degrees) {
    plan.forward_degree = plan.backward_degree = n;
    plan.restore = Restore::S4;
    plan.buffers = Buffers::PerChunk;
    const Schedule without = build_schedule(e, plan);
    plan.buffers = Buffers::Double;
    const Schedule with = build_schedule(e, plan);
    const double act = activation_elements(without), buf = gradient_elements(without);
    const double act_saved = act - activation_elements(with), buf_saved = buf - gradient_elements(with);
    const double saved = s.b * (2 * s.m * (n - 2) + s.h * (n - 1)) / n;
    differences.add("equation 4", act, pipelined);
    differences.add("equation 4", buf, pipelined);
    differences.add("equation 5", act_saved, saved);
    differences.add("equation 5", buf_saved, saved);
    differences.add("equation 6", (act_saved + buf_saved) / (model_states(with) + act + buf),
                    2 * saved / (states + 2 * pipelined));
  }
}

}  // namespace

Recomputed mpipemoe_fig2(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  for (const MpipemoeLayer& layer : mpipemoe_layers(settings, files)) {
    const Schedule s = build_schedule(layer.experiment, Plan{});
    const double rows = activation_elements(s) + sequential_buffer(s);
    result.values[layer.name] = 100 * rows / (rows + model_states(s));
  }
  return result;
}

Recomputed mpipemoe_fig3(const JsonReader& settings, FilesRead& files) {
  const Experiment e = read_experiment(settings.at("experiment"), files);
  Recomputed result;
  for (const Interference& pair : e.calibration->interference) {
    if (pair.b == InterferenceClass::Inter && pair.a == InterferenceClass::Compute) {
      result.values["communication beside computation"] = pair.b_speed;
      result.values["computation beside communication"] = pair.a_speed;
    }
    if (pair.a == InterferenceClass::Inter && pair.b == InterferenceClass::Copy) {
      result.values["communication beside copies"] = pair.a_speed;
      result.values["copies beside communication"] = pair.b_speed;
    }
  }
  return result;
}

Recomputed mpipemoe_memory(const JsonReader& settings, FilesRead& files) {
  const System mpipemoe = load_system("mpipemoe", files), fastmoe = load_system("fastmoe", files);
  const std::vector<int> degrees = read_integer_axis(settings.at("degrees"));
  Recomputed result;
  Differences differences(result);
  std::vector<double> saved, saved_of_arena;
  for (const MpipemoeLayer& layer : mpipemoe_layers(settings, files)) {
    const Experiment& e = layer.experiment;
    compare(e, mpipemoe.plan, degrees, differences);
    const Plan plan = plan_moe(e, mpipemoe);
    saved.push_back(100 * (1 - allocated_of(e, plan) / allocated_of(e, fastmoe.plan)));
    saved_of_arena.push_back(100 * (1 - arena_of(e, plan) / arena_of(e, fastmoe.plan)));
  }
  result.values["memory saved against FastMoE, mean"] = mean(saved);
  result.values["memory saved against FastMoE, largest"] = std::ranges::max(saved);
  result.values["planned arena: saved against FastMoE, mean"] = mean(saved_of_arena);
  result.values["planned arena: saved against FastMoE, largest"] = std::ranges::max(saved_of_arena);
  return result;
}

}  // namespace dovetail::bench
