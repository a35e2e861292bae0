#include "exec/host/host_run.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "exec/host/stall_watch.hpp"
#include "exec/run/dilation.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/question/capacity.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::exec {
namespace {

constexpr int work_samples = 5;  // steps that measure what each op really takes
constexpr int most_repetitions = 3;
constexpr int numerics_attempts = 3;

int ranks_of(const Schedule& s, int rank_class) {
  return s.classes[static_cast<std::size_t>(rank_class)].ranks;
}

// Ops that a step runs, over all ranks.
double op_count(const Schedule& s) {
  double count = 0;
  for (const Op& op : s.ops) count += ranks_of(s, s.class_of(op));
  return count;
}

// Bytes that random_model_data() makes, and compute_reference() once more: all weights and all inputs and outputs.
double data_bytes(const Experiment& e, bool check_numerics) {
  double elements = 0;
  for (int layer = 0; layer < e.workload.layers; ++layer) {
    const LayerVolumes v = layer_volumes(e, layer);
    elements += static_cast<double>(v.dense_parameters) * e.parallelism.mp + static_cast<double>(v.router_parameters) +
                static_cast<double>(v.expert_parameters) * e.parallelism.ep * e.parallelism.esp;
  }
  const LayerVolumes v = layer_volumes(e);
  elements += 2 * static_cast<double>(v.tokens * v.hidden) * e.parallelism.stage_ranks();
  return elements * sizeof(double) * (check_numerics ? 2 : 1);
}

// The tensors of the ranks on this machine; each process has the data of all.
void require_memory(const Experiment& e, const Schedule& s, const Transport& transport, Element element,
                    bool check_numerics) {
  const int here = transport.machine_ranks();
  const double processes = here / static_cast<double>(transport.local_ranks().size());
  double elements = 0;
  for (const Block& block : memory_blocks(s).all) {
    const Tensor& t = s.tensors[static_cast<std::size_t>(block.first)];
    elements += static_cast<double>(block.elements) * (t.persistent ? 2 : 1) * ranks_of(s, t.rank_class);
  }
  const double tensors =
      elements * (element == Element::Float ? sizeof(float) : sizeof(double)) * here / e.cluster.gpus();
  const double bytes = tensors + data_bytes(e, check_numerics) * processes;
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > .8 * memory)
    throw InputError(
        fmt::format("{} ranks need {:.1f} GB in all, but this machine has {:.1f} GB: run fewer ranks or "
                    "a smaller model",
                    here, bytes / 1e9, memory / 1e9));
}

void require_executable(const Schedule& s) {
  for (const Op& op : s.ops)
    if (const ProfiledWork* work = op.profiled())
      throw InputError(fmt::format("model.{}_profile: a module known only by its times can be simulated, not executed",
                                   name_in(profiled_names, work->module)));
}

bool communicates(const Op& op) {
  return op.collective() != Collective::None || std::holds_alternative<CopyWork>(op.work) ||
         op.kind == OpKind::StageReceive;
}

class HostRun {
 public:
  HostRun(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced, const HostRunOptions& options,
          Transport& transport)
      : e_(experiment),
        priced_(std::move(priced)),
        options_(options),
        element_(e_.workload.dtype == DType::Fp64 ? Element::Double : Element::Float),
        transport_(transport),
        own_progress_(priced_->schedule->streams.size(), transport.local_ranks().size()),
        progress_(options.progress == nullptr ? &own_progress_ : options.progress) {
    result_.report.device = "host";
    result_.report.transport = transport_.name();
    result_.report.ranks = e_.cluster.gpus();
  }

  HostRunResult run() {
    require_executable(*priced_->schedule);
    require_memory(e_, *priced_->schedule, transport_, element_, options_.check_numerics);
    prepare();
    emulated_.held = held_ops();
    emulated_.work = measure_work();
    const bool holds = std::ranges::find(emulated_.held, true) != emulated_.held.end();
    const bool given = options_.dilation > 0;
    double dilation = given ? options_.dilation : holds ? choose_dilation(*priced_, emulated_) : 1;
    for (int repetition = 0;; ++repetition, dilation *= 2) {
      emulate(dilation, holds);
      const bool last = given || repetition == most_repetitions;
      if (sample(dilation, last) || last) break;
    }
    return std::move(result_);
  }

 private:
  // A poisoned first step, compared with the reference. With ReLU, an input within rounding of 0 gives a float a
  // gradient that the reference lacks, about once in ten large runs: then other data decide.
  void prepare() {
    const bool relu_in_float = e_.model.expert_kind == ExpertKind::Ffn && element_ == Element::Float;
    const ComputeRules rules = rules_of(*priced_->schedule);
    for (int attempt = 1;; ++attempt) {
      const ModelData data =
          random_model_data(e_, options_.seed + static_cast<std::uint64_t>(attempt - 1), rules.micro_batches);
      if (!options_.check_numerics) {
        make_executor(data, {});
        result_.notes.push_back("numerics were not checked");
        return;
      }
      const Reference reference = compute_reference(e_, data, rules);
      make_executor(data, reference.routing);
      executor_->run_step(Poison::Yes);
      std::optional<Reference> exact;
      if (rules.rounds()) exact = compute_reference(e_, data, rules.exact());
      result_.numerics = compare(e_, *priced_->schedule, *executor_, reference, exact ? &*exact : nullptr);
      result_.report.dropped = result_.numerics.dropped;
      if (exact && attempt == 1)
        result_.notes.push_back(fmt::format("compressed messages change the outputs by {:.1e} of their norm",
                                            result_.numerics.rounding_error));
      result_.report.output_error = result_.numerics.output_error;
      result_.report.gradient_error = result_.numerics.gradient_error();
      result_.report.numerics_ok = result_.numerics.ok(tolerance_of(element_, rules));
      if (result_.report.numerics_ok || !relu_in_float || attempt == numerics_attempts) return;
      result_.notes.push_back(fmt::format("numerics checked again with seed {}: gradients differed by {:.1e}",
                                          options_.seed + static_cast<std::uint64_t>(attempt),
                                          result_.report.gradient_error));
    }
  }

  void make_executor(const ModelData& data, std::vector<std::vector<Routing>> routing) {
    watch_.reset();
    executor_ = make_host_executor(e_, priced_->schedule, element_, data, std::move(routing), transport_);
    if (!options_.hooks.empty()) executor_->set_hooks(options_.hooks);
    executor_->report_to(*progress_);
    if (options_.progress == nullptr && static_cast<int>(executor_->ranks().size()) == e_.cluster.gpus())
      watch_.emplace(
          *priced_->schedule, e_.cluster.gpus(), *progress_, options_.patience,
          [this](const std::string& why) { executor_->give_up(why); }, options_.stuck);
  }

  // The machine that has the fewest cores for its ranks decides for all.
  std::vector<bool> held_ops() {
    const Schedule& s = *priced_->schedule;
    const int cores = free_cores(), ranks = transport_.machine_ranks();
    double too_few = ranks > cores;
    transport_.maximum({&too_few, 1});
    const bool compute = options_.hold_compute == HoldCompute::Always ||
                         (options_.hold_compute == HoldCompute::Auto && options_.emulate_links && too_few > 0);
    std::vector<bool> held;
    held.reserve(s.ops.size());
    for (const Op& op : s.ops) held.push_back(communicates(op) ? options_.emulate_links : compute);
    if (compute)
      result_.notes.push_back(
          fmt::format("compute is held to its modelled time: {} ranks on {} free cores", ranks, cores));
    else
      result_.notes.push_back("compute is not held: its prediction is its median in the warm-up");
    if (!options_.emulate_links)
      result_.notes.push_back("communication is not held: its prediction is its median in the warm-up");
    return held;
  }

  // Of held ops the fastest, since what else the machine does must not stretch the run; overruns tell if it does
  // not suffice. Of the others the median, which is their prediction.
  std::vector<Seconds> measure_work() {
    std::vector<std::vector<Seconds>> samples(priced_->schedule->ops.size());
    for (int i = 0; i < work_samples; ++i) {
      executor_->run_step(Poison::No);
      const std::vector<Seconds> of_step = executor_->work();
      for (std::size_t op = 0; op < of_step.size(); ++op) samples[op].push_back(of_step[op]);
    }
    std::vector<Seconds> work;
    for (std::size_t op = 0; op < samples.size(); ++op)
      work.push_back(emulated_.held[op] ? std::ranges::min(samples[op]) : median(samples[op]));
    return work;
  }

  void emulate(double dilation, bool holds) {
    PricedSchedule predicted = stretch(*priced_, emulated_, dilation);
    if (holds) {
      std::vector<std::optional<Seconds>> durations(emulated_.held.size());
      for (std::size_t i = 0; i < durations.size(); ++i)
        if (emulated_.held[i]) durations[i] = predicted.duration[i];
      const int threads = e_.parallelism.stage_ranks() * static_cast<int>(priced_->schedule->streams.size()) *
                          transport_.machine_ranks() / e_.cluster.gpus();
      executor_->emulate(std::move(durations), overrun_tolerance(predicted), threads <= free_cores());
    }
    if (!predicted.duration.empty()) progress_->expect(std::ranges::max(predicted.duration).value());
    result_.predicted = std::make_shared<const PricedSchedule>(std::move(predicted));
    steps_ = 0;
  }

  Seconds run_step() {
    ++steps_;
    return executor_->run_step(Poison::No);
  }
  // Judged as if all samples that are due had been taken, so that it may end the sampling early.
  bool overran_too_often() {
    const double steps = std::max<double>(options_.measure.min_samples, static_cast<double>(steps_));
    return exec::overran_too_often(executor_->overruns(), steps * op_count(*priced_->schedule));
  }

  // The clock that started first: all processes see the same one.
  Seconds common_time() {
    double time = steady_time().value();
    transport_.maximum({&time, 1});
    return Seconds(time);
  }

  // Returns false if too many ops overran: then only the `last` repetition goes on to the end.
  bool sample(double dilation, bool last) {
    std::vector<std::pair<Seconds, Timeline>> timelines;
    const Measurement m = measure(
        [&] {
          const Seconds time = run_step();
          timelines.emplace_back(time, executor_->timeline());
          return time;
        },
        options_.measure, [&] { return !last && overran_too_often(); }, [&] { return common_time(); });
    if (overran_too_often()) {
      if (!last) return false;
      result_.report.valid = false;
      result_.notes.push_back(
          fmt::format("invalid: {} of {:.0f} ops outlasted their modelled time even at dilation {:.4g}",
                      executor_->overruns(), static_cast<double>(steps_) * op_count(*priced_->schedule), dilation));
    }
    const auto distance = [&](const auto& timed) { return std::fabs((timed.first - m.median).value()); };
    result_.timeline = std::ranges::min_element(timelines, {}, distance)->second;
    report(m, dilation);
    return true;
  }

  void report(const Measurement& m, double dilation) {
    RunReport& r = result_.report;
    r.dilation = dilation;
    r.overruns = executor_->overruns();
    r.samples = m.samples;
    r.ci95_low = m.ci95_low;
    r.ci95_high = m.ci95_high;
    r.stopped_by = m.stopped_by;
    r.emulated_share = emulated_share(result_.timeline);
  }

  const Experiment& e_;
  std::shared_ptr<const PricedSchedule> priced_;
  const HostRunOptions& options_;
  Element element_;
  Transport& transport_;
  Progress own_progress_;
  Progress* progress_;
  std::unique_ptr<HostExecutor> executor_;
  std::optional<StallWatch> watch_;  // of runs that no process watches
  Emulated emulated_;
  long steps_ = 0;  // since the last emulate()
  HostRunResult result_;
};

}  // namespace

HostRunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                          const HostRunOptions& options, Transport& transport) {
  return HostRun(experiment, std::move(priced), options, transport).run();
}

HostRunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                          const HostRunOptions& options) {
  const Schedule& s = *priced->schedule;
  const auto transport = make_inproc_transport(s.groups, experiment.cluster.gpus(), static_cast<int>(s.streams.size()));
  return run_on_host(experiment, std::move(priced), options, *transport);
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
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace dovetail::exec
