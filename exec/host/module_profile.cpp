// SPDX-License-Identifier: Apache-2.0
#include "exec/host/module_profile.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"

namespace dovetail::exec {
namespace {

// One layer with so many tokens of a rank.
Experiment of_tokens(Experiment e, int tokens) {
  e.model.gate_profile = e.model.expert_profile = {};
  e.workload.layers = e.model.layers = 1;
  e.workload.batch = 1;
  e.workload.sequence = tokens * e.parallelism.mp;
  resolve_capacity(e);
  return e;
}

Plan in_one_chunk() {
  Plan plan;
  plan.scope = Scope::Moe;
  return plan;
}

// Times of one kind of op, by size.
struct Samples {
  OpKind kind;
  std::vector<TimedSize> forward = {}, backward = {};

  void add(const Schedule& schedule, const RunResult& run, double size) {
    Seconds times[2];
    for (const OpId i : schedule.ops.ids())
      if (const Op& op = schedule.ops[i]; op.kind == kind) times[op.phase == Phase::Forward ? 0 : 1] += run.work[i];
    forward.push_back({size, times[0]});
    if (times[1] > Seconds(0)) backward.push_back({size, times[1]});
  }
  ModuleProfile fit() const { return {fit_line(forward), backward.empty() ? LineFit() : fit_line(backward)}; }
};

TimeProfile times_of(const ModuleProfile& profile, const std::string& name) {
  TimeProfile times;
  times.forward = TimeCurve::fit(profile.forward.alpha, profile.forward.beta);
  if (!profile.backward.quality.points.empty())
    times.backward = TimeCurve::fit(profile.backward.alpha, profile.backward.beta);
  times.provenance.origin = Origin::Fitted;
  times.provenance.source = fmt::format("{}, executed on this machine", name);
  return times;
}

}  // namespace

ModuleProfiles profile_modules(const Experiment& experiment, std::span<const int> tokens,
                               const MeasureSettings& settings) {
  const Extensions& own = experiment.extensions;
  if (own.gate == nullptr && own.expert == nullptr) throw InputError("no gate and no experts of its own to profile");
  RunOptions options;
  options.one_rank = true;
  options.hold_compute = HoldCompute::Never;
  options.dilation = 1;
  options.check_numerics = false;
  options.measure = settings;
  Samples gate{OpKind::Gate}, expert{OpKind::Expert};
  for (const int count : tokens) {
    const Experiment e = of_tokens(experiment, count);
    const auto priced = std::make_shared<const PricedSchedule>(price_plan(e, in_one_chunk()));
    const RunResult run = run_on_host(e, priced, options);
    const LayerVolumes v = layer_volumes(e);
    gate.add(*priced->schedule, run, static_cast<double>(v.tokens));
    expert.add(*priced->schedule, run, static_cast<double>(v.expert_rows({{0, v.capacity}})));
  }
  ModuleProfiles profiles;
  if (own.gate != nullptr) profiles.gate = gate.fit();
  if (own.expert != nullptr) profiles.expert = expert.fit();
  return profiles;
}

Experiment with_profiles(Experiment e, const ModuleProfiles& profiles) {
  if (profiles.gate) e.model.gate_profile = times_of(*profiles.gate, e.extensions.gate->name());
  if (profiles.expert) e.model.expert_profile = times_of(*profiles.expert, e.extensions.expert->name());
  return e;
}

}  // namespace dovetail::exec
