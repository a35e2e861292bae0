// SPDX-License-Identifier: Apache-2.0
#include "exec/host/host_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "exec/host/host_executor.hpp"
#include "exec/host/machine_memory.hpp"
#include "exec/host/placement.hpp"
#include "exec/reference/reference.hpp"
#include "exec/run/dilation.hpp"
#include "exec/transport/echo_transport.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/question/capacity.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::exec {
namespace {

int ranks_of(const Schedule& s, int rank_class) {
  return s.classes[static_cast<std::size_t>(rank_class)].ranks;
}

// The tensors of the ranks on this machine; each process has the data of all.
void require_room(const Experiment& e, const Schedule& s, const Transport& transport, Element element,
                  bool check_numerics) {
  const int here = transport.machine_ranks();
  const double processes = here / static_cast<double>(transport.local_ranks().size());
  double elements = 0;
  for (const Block& block : memory_blocks(s).all) {
    const Tensor& t = s.tensors[block.first];
    elements += static_cast<double>(block.elements) * (t.persistent ? 2 : 1) * ranks_of(s, t.rank_class);
  }
  const double tensors =
      elements * (element == Element::Float ? sizeof(float) : sizeof(double)) * here / e.cluster.gpus();
  require_memory(e, here, Bytes(tensors), processes, check_numerics);
}

void require_executable(const Schedule& s) {
  for (const Op& op : s.ops)
    if (const ProfiledWork* work = op.profiled())
      throw InputError(fmt::format("model.{}_profile: a module known only by its times can be simulated, not executed",
                                   name_in(profiled_names, work->module)));
}

bool communicates(const Op& op) {
  return op.collective() != Collective::None || std::holds_alternative<CopyWork>(*op.work) ||
         op.kind == OpKind::StageReceive;
}

class HostTarget final : public RunTarget {
 public:
  HostTarget(const Experiment& experiment, std::shared_ptr<const Schedule> schedule, const RunOptions& options,
             Transport& transport, Transport* of_all)
      : e_(experiment),
        schedule_(std::move(schedule)),
        options_(options),
        element_(e_.workload.dtype == DType::Fp64 ? Element::Double : Element::Float),
        transport_(transport),
        of_all_(of_all != nullptr ? *of_all : transport),
        own_progress_(schedule_->streams.size(), of_all_.local_ranks().size()),
        progress_(options.progress == nullptr ? &own_progress_ : options.progress) {}

  RunReport report() const override {
    RunReport report;
    report.device = "host";
    report.transport = transport_.name();
    report.ranks = one_rank() ? 1 : e_.cluster.gpus();
    return report;
  }
  double maximum(double value) const override {
    transport_.maximum({&value, 1});
    return value;
  }
  void require_possible() const override {
    require_executable(*schedule_);
    if (one_rank() && schedule_->classes.size() > 1)
      throw InputError(
          fmt::format("one rank stands for all, but the plan has {} kinds of ranks: pipeline stages wait "
                      "for each other",
                      schedule_->classes.size()));
    require_room(e_, *schedule_, options_.check_numerics ? of_all_ : transport_,
                 options_.train > 0 ? Element::Double : element_, options_.check_numerics);
  }

  bool in_float() const override { return element_ == Element::Float; }
  double tolerance(const ComputeRules& rules) const override { return tolerance_of(element_, rules); }
  ModelData data(std::uint64_t seed) const override { return random_model_data(e_, seed, schedule_->micro_batches); }

  std::unique_ptr<Executor> make_exact(const ModelData& data, std::vector<std::vector<Routing>> routing) override {
    return make(element_, data, std::move(routing), of_all_);
  }
  std::unique_ptr<Executor> make_trained(const ModelData& data) override {
    return make(Element::Double, data, {}, of_all_);
  }
  std::optional<double> training_tolerance(const ComputeRules& rules) const override {
    return tolerance_of(Element::Double, rules);
  }

  std::unique_ptr<Executor> make_timed(std::unique_ptr<Executor> exact, const ModelData& data,
                                       const IdVector<OpId, bool>&, std::vector<std::string>& notes) override {
    if (one_rank()) {
      exact.reset();
      notes.push_back(
          fmt::format("one rank stands for each of {}: what it sends comes back to it, and links are "
                      "emulated",
                      e_.cluster.gpus()));
      return make(element_, data, {}, transport_);
    }
    return exact == nullptr ? make_exact(data, {}) : std::move(exact);
  }

  // The machine that has the fewest cores for its ranks decides for all.
  IdVector<OpId, bool> held_ops(std::vector<std::string>& notes) override {
    const int cores = free_cores(), ranks = transport_.machine_ranks();
    const bool too_few = maximum(ranks > cores) > 0;
    const bool compute = options_.hold_compute == HoldCompute::Always ||
                         (options_.hold_compute == HoldCompute::Auto && options_.emulate_links && too_few);
    IdVector<OpId, bool> held;
    held.reserve(schedule_->ops.size());
    for (const Op& op : schedule_->ops) held.push_back(communicates(op) ? options_.emulate_links : compute);
    notes.push_back(compute
                        ? fmt::format("compute is held to its modelled time: {} ranks on {} free cores", ranks, cores)
                        : "compute is not held: its prediction is its median in the warm-up");
    if (!options_.emulate_links)
      notes.emplace_back("communication is not held: its prediction is its median in the warm-up");
    return held;
  }

  bool stretches() const override { return true; }
  void hold(const PricedSchedule& predicted, const IdVector<OpId, bool>& held) override {
    IdVector<OpId, std::optional<Seconds>> durations(held.size());
    for (const OpId i : held.ids())
      if (held[i]) durations[i] = predicted.duration[i];
    executor_->emulate(std::move(durations), overrun_tolerance(predicted), transport_.machine_ranks() <= free_cores());
  }
  void expect(Seconds longest) override { progress_->expect(longest.value()); }

 private:
  bool one_rank() const { return &of_all_ != &transport_; }

  std::unique_ptr<Executor> make(Element element, const ModelData& data, std::vector<std::vector<Routing>> routing,
                                 Transport& transport) {
    auto executor = make_host_executor(e_, schedule_, element, data, std::move(routing), transport);
    if (!options_.hooks.empty()) executor->set_hooks(options_.hooks);
    executor->report_to(*progress_);
    if (options_.progress == nullptr && static_cast<int>(executor->ranks().size()) == e_.cluster.gpus())
      executor->watch_stalls(options_.patience, options_.stuck);
    executor_ = executor.get();
    return executor;
  }

  const Experiment& e_;
  std::shared_ptr<const Schedule> schedule_;
  const RunOptions& options_;
  Element element_;
  Transport& transport_;  // of the measured ranks
  Transport& of_all_;     // of those whose numerics are checked
  Progress own_progress_;
  Progress* progress_;
  HostExecutor* executor_ = nullptr;  // the last one made
};

}  // namespace

RunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options, Transport& transport) {
  HostTarget target(experiment, priced->schedule, options, transport, nullptr);
  return measured_run(target, experiment, std::move(priced), options);
}

RunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options) {
  const Schedule& s = *priced->schedule;
  const auto streams = static_cast<int>(s.streams.size());
  const auto of_all = make_inproc_transport(s.groups, experiment.cluster.gpus(), streams);
  if (!options.one_rank) return run_on_host(experiment, std::move(priced), options, *of_all);
  // Owners of shadowed experts have less work than others, and those that are shadowed mostly come first.
  const auto echo = make_echo_transport(s.groups, experiment.cluster.gpus() - 1, streams);
  HostTarget target(experiment, priced->schedule, options, *echo, of_all.get());
  return measured_run(target, experiment, std::move(priced), options);
}

void resolve_routed_capacity(Experiment& experiment, std::uint64_t seed) {
  if (experiment.workload.capacity_factor > 0 || experiment.workload.routing.kind != RoutingKind::Router) return;
  Experiment forward = experiment;
  forward.workload.phases = Phases::ForwardOnly;
  std::vector<RouterLoad>& loads = experiment.workload.router_loads;
  loads.clear();
  for (int parts = 1; parts <= experiment.workload.batch; ++parts) {
    if (experiment.workload.batch % parts != 0) continue;
    forward.workload.router_loads = {{parts, capacity_limit(forward)}};  // as much as f allows
    resolve_capacity(forward);
    ComputeRules rules;
    rules.micro_batches = parts;
    const Reference routed = compute_reference(forward, random_model_data(forward, seed, parts), rules);
    loads.push_back({parts, routed.largest_load});
  }
  resolve_capacity(experiment);
}

int free_cores() {
  return static_cast<int>(free_cpus().size());
}

}  // namespace dovetail::exec
