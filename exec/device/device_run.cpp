// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "exec/device/channels.hpp"
#include "exec/device/device_memory.hpp"
#include "exec/device/device_op.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/dilation.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

bool is_exchange(const Op& op) {
  return op.collective() != Collective::None || op.kind == OpKind::StageReceive;
}

class DeviceTarget final : public RunTarget {
 public:
  using Make = std::function<std::unique_ptr<DeviceExecutor>(const ModelData&, const DeviceSettings&)>;

  // `transport`: what moves data between ranks, as reports name it; none: one rank stands for all, and links are
  // emulated on a device of so many multiprocessors. `between_processes`: null where there is one process.
  DeviceTarget(Make make, const Experiment& experiment, const PricedSchedule& priced, const RunOptions& options,
               std::optional<std::string> transport, int multiprocessors, Transport* between_processes)
      : make_(std::move(make)),
        e_(experiment),
        priced_(priced),
        options_(options),
        transport_(std::move(transport)),
        multiprocessors_(multiprocessors),
        between_processes_(between_processes) {
    settings_.scalar = stored_as(e_.workload.dtype);
    settings_.progress = options.progress;
    settings_.product_multiprocessors = options.gemm_multiprocessors;
  }

  RunReport report() const override {
    RunReport report;
    report.device = "cuda";
    report.transport = transport_.value_or("emulated");
    report.ranks = emulates() ? 1 : e_.cluster.gpus();
    return report;
  }
  double maximum(double value) const override {
    if (between_processes_ != nullptr) between_processes_->maximum({&value, 1});
    return value;
  }
  void require_possible() const override {
    require_device_ops(e_, *priced_.schedule);
    require_messages_in_turn(*priced_.schedule);
    if (!options_.hooks.empty()) throw InputError("hooks are called on hosts, but not on devices");
    if (emulates() && e_.parallelism.pp > 1)
      throw InputError(
          "--emulate-links on one GPU: it stands for one rank, which in a pipeline waits for the other stages");
  }

  bool in_float() const override { return settings_.scalar == Stored::Float; }
  double tolerance(const ComputeRules& rules) const override { return device_tolerance(settings_.scalar, rules); }
  // Only the reference needs the numbers of all ranks.
  ModelData data(std::uint64_t seed) const override {
    const int micro_batches = priced_.schedule->micro_batches;
    if (!options_.check_numerics) return random_rank_data(seed, micro_batches);
    return rounded(random_model_data(e_, seed, micro_batches), settings_.scalar);
  }

  std::unique_ptr<Executor> make_exact(const ModelData& data, std::vector<std::vector<Routing>> routing) override {
    settings_.routing = std::move(routing);
    return make_(data, settings_);
  }

  std::unique_ptr<Executor> make_trained(const ModelData& data) override { return make_exact(data, {}); }
  // Gates choose by themselves. Experts that choose among tokens see ties of equal words at one place, in double too.
  std::optional<double> training_tolerance(const ComputeRules& rules) const override {
    if (settings_.scalar != Stored::Double || e_.workload.gate.kind == GateKind::ExpertChoice) return {};
    return tolerance(rules);
  }

  IdVector<OpId, bool> held_ops(std::vector<std::string>&) override {
    IdVector<OpId, bool> held;
    for (const Op& op : priced_.schedule->ops) held.push_back(emulates() && is_exchange(op));
    return held;
  }

  // One rank that stands for all takes the memory of the exact executor, which goes first.
  std::unique_ptr<Executor> make_timed(std::unique_ptr<Executor> exact, const ModelData& data,
                                       const IdVector<OpId, bool>& held, std::vector<std::string>& notes) override {
    if (e_.workload.dtype == DType::Fp16) notes.emplace_back("fp16 was computed in bf16");
    if (emulates()) {
      exact.reset();
      hold_exchanges(held, notes);
    }
    if (const int made_for = settings_.product_multiprocessors; made_for > 0)
      notes.push_back(fmt::format("matrix products are made for {} multiprocessors{}", made_for,
                                  multiprocessors_ > 0 ? fmt::format(" of {}", multiprocessors_) : ""));
    note_attention(notes);
    return exact == nullptr ? make_(data, settings_) : std::move(exact);
  }

  Seconds warm_up() const override { return emulates() ? warm_up_under_load : Seconds(0); }
  bool stretches() const override { return false; }
  void hold(const PricedSchedule&, const IdVector<OpId, bool>&) override {}  // make_timed has done so
  void expect(Seconds longest) override {
    if (options_.progress != nullptr) options_.progress->expect(longest.value());
  }

 private:
  bool emulates() const { return !transport_.has_value(); }

  void hold_exchanges(const IdVector<OpId, bool>& held, std::vector<std::string>& notes) {
    settings_.ranks = DeviceRanks::One;
    settings_.exchange_durations.resize(held.size());
    for (const OpId i : held.ids())
      if (held[i]) settings_.exchange_durations[i] = priced_.duration[i];
    settings_.overrun_tolerance = overrun_tolerance(priced_);
    settings_.exchange_blocks = options_.exchange_blocks;
    settings_.shortest_sample = sample_under_load;
    leave_multiprocessors(held);
    notes.push_back(
        fmt::format("one GPU stands for one of {} ranks: its exchanges copy what would arrive, on {} multiprocessor{} "
                    "each, and last as long as the model says; the network is emulated",
                    e_.cluster.gpus(), options_.exchange_blocks, options_.exchange_blocks == 1 ? "" : "s"));
  }

  // A product that fills the device, beside an exchange that holds some of it, runs its last blocks as a second wave
  // and takes twice as long. Made for what exchanges leave it has one.
  void leave_multiprocessors(const IdVector<OpId, bool>& held) {
    if (settings_.product_multiprocessors > 0 || multiprocessors_ == 0) return;
    if (std::ranges::find(held, true) != held.end())
      settings_.product_multiprocessors = std::max(1, multiprocessors_ - options_.exchange_blocks);
  }

  // Scores are read and written, forward and backward: 34 bytes for each in bf16.
  void note_attention(std::vector<std::string>& notes) const {
    const auto is_attention = [](const Op& op) { return op.kind == OpKind::Attention; };
    if (std::ranges::any_of(priced_.schedule->ops, is_attention))
      notes.emplace_back(
          "attention is not fused: its scores pass through memory, which prices leave out; larger heads have fewer");
  }

  Make make_;
  const Experiment& e_;
  const PricedSchedule& priced_;
  const RunOptions& options_;
  std::optional<std::string> transport_;
  int multiprocessors_;
  Transport* between_processes_;
  DeviceSettings settings_;
};

}  // namespace

Stored stored_as(DType dtype) {
  return dtype == DType::Fp64 ? Stored::Double : dtype == DType::Fp32 ? Stored::Float : Stored::Bf16;
}

double device_tolerance(Stored scalar, const ComputeRules& rules) {
  if (scalar == Stored::Bf16) return 2e-2;
  return tolerance_of(scalar == Stored::Double ? Element::Double : Element::Float, rules);
}

RunResult run_on_device(ComputeDevice& device, const Experiment& experiment,
                        std::shared_ptr<const PricedSchedule> priced, const RunOptions& options) {
  DeviceTarget target(
      [&](const ModelData& data, const DeviceSettings& settings) {
        return make_device_executor(device, experiment, priced->schedule, data, settings);
      },
      experiment, *priced, options, options.emulate_links ? std::nullopt : std::optional<std::string>("inproc"),
      device.multiprocessors(), nullptr);
  return measured_run(target, experiment, priced, options);
}

RunResult run_on_devices(const DeviceGroup& group, const Experiment& experiment,
                         std::shared_ptr<const PricedSchedule> priced, const RunOptions& options,
                         Cancellation& cancellation) {
  DeviceTarget target(
      [&](const ModelData& data, const DeviceSettings& settings) {
        return make_group_executor(group, experiment, priced->schedule, data, settings, cancellation);
      },
      experiment, *priced, options, group.network, 0, group.between_processes);
  return measured_run(target, experiment, priced, options);
}

}  // namespace dovetail::exec
