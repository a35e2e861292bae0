#include "exec/device/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "exec/device/device_memory.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/dilation.hpp"
#include "exec/run/emulation.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr int work_samples = 5;  // steps with time stamps, which tell how long each op takes

bool is_exchange(const Op& op) {
  return op.collective() != Collective::None || op.kind == OpKind::StageReceive;
}

class DeviceRun {
 public:
  using Make = std::function<std::unique_ptr<DeviceExecutor>(const ModelData&, const DeviceSettings&)>;

  // `between_processes`: null where there is one process.
  DeviceRun(Make make, const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
            const HostRunOptions& options, Transport* between_processes)
      : make_(std::move(make)),
        e_(experiment),
        priced_(std::move(priced)),
        options_(options),
        between_processes_(between_processes),
        rules_(rules_of(*priced_->schedule)),
        data_(model_data()) {
    settings_.scalar = stored_as(e_.workload.dtype);
    settings_.progress = options.progress;
    result_.report.device = "cuda";
    result_.report.ranks = e_.cluster.gpus();
    if (e_.workload.dtype == DType::Fp16) result_.notes.push_back("fp16 was computed in bf16");
  }

  HostRunResult run(const std::string& transport, bool emulate_links) {
    if (emulate_links && e_.parallelism.pp > 1)
      throw InputError(
          "--emulate-links on one GPU: it stands for one rank, which in a pipeline waits for the other stages");
    result_.report.transport = transport;
    std::optional<Reference> reference;
    if (options_.check_numerics) {
      reference = compute_reference(e_, data_, rules_);
      settings_.routing = reference->routing;
    } else {
      result_.notes.push_back("numerics were not checked");
    }
    if (reference || !emulate_links) executor_ = make_(data_, settings_);
    if (reference) check_numerics(*reference, Poison::Yes);
    Emulated emulated;
    for (const Op& op : priced_->schedule->ops) emulated.held.push_back(emulate_links && is_exchange(op));
    if (emulate_links) {
      executor_.reset();
      hold_exchanges(emulated.held);
      executor_ = make_(data_, settings_);
    }
    result_.notes.insert(result_.notes.begin(), executor_->description());
    if (options_.gemm_multiprocessors > 0)
      result_.notes.push_back(
          fmt::format("matrix products are made for {} multiprocessors", options_.gemm_multiprocessors));
    note_attention();
    const bool captured = capture();
    if (captured && reference && !emulate_links) check_numerics(*reference, Poison::Before);
    emulated.work = measure_work();
    result_.predicted = std::make_shared<const PricedSchedule>(stretch(*priced_, emulated, 1));
    sample();
    return std::move(result_);
  }

 private:
  // Only the reference needs the numbers of all ranks.
  ModelData model_data() const {
    if (!options_.check_numerics) return random_rank_data(options_.seed, rules_.micro_batches);
    return rounded(random_model_data(e_, options_.seed, rules_.micro_batches), stored_as(e_.workload.dtype));
  }

  // Once more after the capture: the worse of both counts.
  void check_numerics(const Reference& reference, Poison poison) {
    executor_->run_step(poison);
    const NumericsReport numerics = compare(e_, *priced_->schedule, *executor_, reference);
    const auto error = [](const NumericsReport& n) { return std::max(n.output_error, n.gradient_error()); };
    RunReport& r = result_.report;
    if (poison == Poison::Before && (!r.numerics_ok || error(numerics) <= error(result_.numerics))) return;
    result_.numerics = numerics;
    r.dropped = numerics.dropped;
    r.output_error = numerics.output_error;
    r.gradient_error = numerics.gradient_error();
    r.numerics_ok = numerics.ok(device_tolerance(settings_.scalar, rules_));
  }

  void hold_exchanges(const std::vector<bool>& held) {
    settings_.ranks = DeviceRanks::One;
    result_.report.ranks = 1;
    settings_.exchange_durations.resize(held.size());
    for (std::size_t i = 0; i < held.size(); ++i)
      if (held[i]) settings_.exchange_durations[i] = priced_->duration[i];
    settings_.overrun_tolerance = overrun_tolerance(*priced_);
    settings_.exchange_blocks = options_.exchange_blocks;
    result_.notes.push_back(
        fmt::format("one GPU stands for one of {} ranks: its exchanges copy what would arrive, on {} multiprocessor{} "
                    "each, and last as long as the model says; the network is emulated",
                    e_.cluster.gpus(), options_.exchange_blocks, options_.exchange_blocks == 1 ? "" : "s"));
  }

  // Reads and writes of scores, forward and backward: 34 bytes for each in bf16.
  void note_attention() {
    const auto is_attention = [](const Op& op) { return op.kind == OpKind::Attention; };
    if (std::ranges::any_of(priced_->schedule->ops, is_attention))
      result_.notes.emplace_back(
          "attention is not fused: its scores pass through memory, which prices leave out; larger heads have fewer");
  }

  // In the first step libraries and kernels are loaded.
  bool capture() {
    executor_->run_stamped();
    const Seconds step = executor_->run_step(Poison::No);
    if (options_.progress != nullptr) options_.progress->expect(step.value());
    const std::string reason = executor_->capture();
    result_.notes.push_back(reason.empty()
                                ? "each step is captured as one graph; op times are of steps with time stamps"
                                : "the step could not be captured: " + reason);
    return reason.empty();
  }

  std::vector<Seconds> measure_work() {
    std::vector<std::vector<Seconds>> samples(priced_->schedule->ops.size());
    for (int i = 0; i < work_samples; ++i) {
      result_.timeline = executor_->run_stamped();
      for (std::size_t op = 0; op < samples.size(); ++op)
        samples[op].push_back(result_.timeline.ops[op].finish - result_.timeline.ops[op].start);
    }
    std::vector<Seconds> work;
    for (std::vector<Seconds>& of_op : samples) work.push_back(median(std::move(of_op)));
    return work;
  }

  void sample() {
    const long overruns = executor_->overruns();
    const Measurement m =
        measure([&] { return executor_->run_step(Poison::No); }, options_.measure, {}, [&] { return common_time(); });
    RunReport& r = result_.report;
    r.samples = m.samples;
    r.ci95_low = m.ci95_low;
    r.ci95_high = m.ci95_high;
    r.stopped_by = m.stopped_by;
    r.overruns = executor_->overruns() - overruns;
    r.emulated_share = emulated_share(result_.timeline);
    const auto ops = static_cast<double>(priced_->schedule->ops.size() * r.samples.size());
    r.valid = !overran_too_often(r.overruns, ops);
    if (!r.valid)
      result_.notes.push_back(fmt::format("invalid: {} of {:.0f} ops outlasted their modelled time", r.overruns, ops));
    r.allocated_bytes = executor_->memory_bytes() + executor_->scratch_bytes();
    result_.notes.push_back(fmt::format("tensors {:.3f} GB for each rank, scratch {:.3f} GB",
                                        1e-9 * static_cast<double>(executor_->memory_bytes()),
                                        1e-9 * static_cast<double>(executor_->scratch_bytes())));
  }

  // The clock that started first: all processes see the same one.
  Seconds common_time() const {
    double time = steady_time().value();
    if (between_processes_ != nullptr) between_processes_->maximum({&time, 1});
    return Seconds(time);
  }

  Make make_;
  const Experiment& e_;
  std::shared_ptr<const PricedSchedule> priced_;
  const HostRunOptions& options_;
  Transport* between_processes_;
  ComputeRules rules_;
  ModelData data_;
  DeviceSettings settings_;
  std::unique_ptr<DeviceExecutor> executor_;
  HostRunResult result_;
};

}  // namespace

Stored stored_as(DType dtype) {
  return dtype == DType::Fp64 ? Stored::Double : dtype == DType::Fp32 ? Stored::Float : Stored::Bf16;
}

double device_tolerance(Stored scalar, const ComputeRules& rules) {
  if (scalar == Stored::Bf16) return 2e-2;
  return tolerance_of(scalar == Stored::Double ? Element::Double : Element::Float, rules);
}

HostRunResult run_on_device(ComputeDevice& device, const Experiment& experiment,
                            std::shared_ptr<const PricedSchedule> priced, const HostRunOptions& options) {
  const auto schedule = priced->schedule;
  return DeviceRun(
             [&](const ModelData& data, const DeviceSettings& settings) {
               return make_device_executor(device, experiment, schedule, data, settings);
             },
             experiment, std::move(priced), options, nullptr)
      .run(options.emulate_links ? "emulated" : "inproc", options.emulate_links);
}

HostRunResult run_on_devices(const DeviceGroup& group, const Experiment& experiment,
                             std::shared_ptr<const PricedSchedule> priced, const HostRunOptions& options,
                             Cancellation& cancellation) {
  const auto schedule = priced->schedule;
  return DeviceRun(
             [&](const ModelData& data, const DeviceSettings& settings) {
               return make_group_executor(group, experiment, schedule, data, settings, cancellation);
             },
             experiment, std::move(priced), options, group.between_processes)
      .run(group.network, false);
}

}  // namespace dovetail::exec
