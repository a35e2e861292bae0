// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_executor.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "exec/device/channels.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/device_step.hpp"
#include "exec/device/device_tasks.hpp"
#include "exec/device/self_exchange.hpp"
#include "exec/device/stamps.hpp"
#include "exec/device/task_recording.hpp"
#include "exec/run/measure.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// A step waits this long before it begins, so that the host is ahead of the device, with a graph too.
constexpr Seconds lead_of_host{.002};

std::vector<int> ranks_on_device(const Experiment& experiment, const DeviceSettings& settings) {
  if (settings.ranks == DeviceRanks::Own) return {settings.network->rank()};
  std::vector<int> ranks(settings.ranks == DeviceRanks::One ? 1 : static_cast<std::size_t>(experiment.cluster.gpus()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class ScheduleOnDevice final : public DeviceExecutor {
 public:
  ScheduleOnDevice(ComputeDevice& device, const Experiment& experiment, std::shared_ptr<const Schedule> schedule,
                   const ModelData& data, DeviceSettings settings)
      : device_(device),
        experiment_(experiment),
        schedule_(std::move(schedule)),
        settings_(std::move(settings)),
        ranks_(ranks_on_device(experiment, settings_)),
        setup_(experiment, schedule_, ranks_, settings_.routing),
        origin_(device.make_queue()),
        moment_(device.allocate(sizeof(std::int64_t), Place::Device)),
        begin_(device.make_event()),
        end_(device.make_event()) {
    require_device_ops(experiment, *schedule_);
    require_messages_in_turn(*schedule_);
    if (own()) channels_ = std::make_unique<Channels>(*schedule_, *settings_.network);
    for (int rank : ranks_)
      memory_.push_back(std::make_unique<DeviceMemory>(device, experiment, *schedule_, data, rank, settings_.scalar));
    if (settings_.ranks == DeviceRanks::One)
      self_exchanges_.emplace(device, *schedule_, schedule_->class_of_rank(0), settings_);
    const RanksHere here{setup_, ranks_, memory_, channels_.get(), self_exchanges_ ? &*self_exchanges_ : nullptr};
    tasks_ = make_device_tasks(device, *schedule_, ranks_, settings_.ranks);
    stamps_.emplace(device, tasks_.all.size());
    step_.emplace(device, *schedule_, tasks_, here, *stamps_, settings_);
    work_ = record_tasks(device, *schedule_, here, settings_.scalar, tasks_);
  }

  Seconds run_step(Poison poison) override { return step(poison, Stamped::No); }

  Seconds train_step(const TrainingStep& training) override {
    for (const auto& memory : memory_) memory->prepare_training(*origin_, experiment_, training.number, training.batch);
    return prepared_step(Poison::No, Stamped::No);
  }

  Timeline stamped_step() override {
    step(Poison::No, Stamped::Yes);
    Timeline timeline;
    timeline.kind = ResultKind::Measured;
    timeline.ops.resize(schedule_->ops.size());
    timeline.emulated.resize(schedule_->ops.size());
    for (std::size_t i = 0; i < tasks_.all.size(); ++i) {
      const OpId op = tasks_.all[i].op;
      const Interval here = stamps_->of(i);
      timeline.ops[op] = {std::max(timeline.ops[op].start, here.start), std::max(timeline.ops[op].finish, here.finish)};
      timeline.emulated[op] = self_exchanges_ && self_exchanges_->holds(op);
    }
    return timeline;
  }

  std::string capture() override {
    if (std::ranges::any_of(schedule_->ops, [](const Op& op) { return op.kind == OpKind::HostSync; }))
      return "the host waits in it";
    check(stepped_, "a step before its capture: libraries allocate in the first");
    try {
      plain_graph_ = device_.capture(*origin_, [this] { step_->issue(*origin_, Poison::No, Stamped::No); });
      if (plain_graph_)
        stamped_graph_ = device_.capture(*origin_, [this] { step_->issue(*origin_, Poison::No, Stamped::Yes); });
    } catch (const DeviceError& error) {
      plain_graph_.reset();
      return error.what();
    }
    return plain_graph_ ? "" : "the device gives out each op";
  }

  int steps_per_sample() const override { return steps_in_sample_; }
  ClockReading clock() override { return median(std::exchange(readings_, {})); }
  long overruns() override { return self_exchanges_ ? self_exchanges_->overruns() : 0; }
  std::string description() const override { return device_.description(); }
  std::int64_t memory_bytes() const override {
    std::int64_t most = 0;
    for (const auto& memory : memory_) most = std::max(most, memory->device_bytes());
    return most;
  }
  std::int64_t scratch_bytes() const override {
    std::int64_t sum = 0;
    for (const auto& memory : work_.scratch) sum += memory->bytes();
    return sum;
  }

  std::vector<int> ranks() const override { return ranks_; }
  Values values(std::size_t local, TensorId id) const override { return memory_[local]->values(id); }

 private:
  bool own() const { return settings_.ranks == DeviceRanks::Own; }

  Seconds step(Poison poison, Stamped stamped) {
    for (const auto& memory : memory_) memory->prepare(*origin_, poison != Poison::No);
    return prepared_step(poison, stamped);
  }

  Seconds prepared_step(Poison poison, Stamped stamped) {
    device_.synchronize();
    stamps_->clear();
    if (settings_.align) settings_.align();
    Graph* const graph = poison == Poison::Yes     ? nullptr
                         : stamped == Stamped::Yes ? stamped_graph_.get()
                                                   : plain_graph_.get();
    steps_in_sample_ = graph == nullptr ? 1 : steps_for(settings_.shortest_sample);
    try {
      launch(graph, poison, stamped);
      if (own()) step_->wait_with_others(*end_, graph != nullptr);
      look_at_clock();
      device_.synchronize();
    } catch (const DeviceError& error) {
      throw step_->with_ops_under_way(error);
    }
    stepped_ = true;
    last_step_ = device_.elapsed(*begin_, *end_) / steps_in_sample_;
    return last_step_;
  }

  // So that a sample is about as long.
  int steps_for(Seconds sample) const {
    constexpr double most = 10000;
    if (last_step_ <= Seconds(0)) return 1;
    return static_cast<int>(std::clamp(std::ceil(sample / last_step_), 1.0, most));
  }

  // In the middle of a sample that is long enough to have one. The times of shorter ones are not compared.
  void look_at_clock() {
    if (steps_in_sample_ == 1 || steady_time() - clock_read_ < between_clock_readings) return;
    clock_read_ = steady_time();
    std::this_thread::sleep_for(std::chrono::duration<double>(.5 * steps_in_sample_ * last_step_.value()));
    if (!device_.reached(*end_)) readings_.push_back(device_.clock());
  }

  void launch(Graph* graph, Poison poison, Stamped stamped) {
    auto* const moment = reinterpret_cast<std::int64_t*>(moment_->data());
    device_.mark(*origin_, moment);
    device_.hold(*origin_, moment, lead_of_host);
    origin_->record(*begin_);
    for (int i = 0; graph != nullptr && i < steps_in_sample_; ++i) graph->launch(*origin_);
    if (graph == nullptr) step_->issue(*origin_, poison, stamped);
    origin_->record(*end_);
  }

  ComputeDevice& device_;
  const Experiment experiment_;
  std::shared_ptr<const Schedule> schedule_;
  DeviceSettings settings_;
  std::vector<int> ranks_;
  OpSetup setup_;
  std::unique_ptr<Queue> origin_;
  std::unique_ptr<Memory> moment_;  // when a step was given out
  std::unique_ptr<Event> begin_, end_;
  std::unique_ptr<Channels> channels_;                 // Own
  std::optional<SelfExchanges> self_exchanges_;        // One
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  // by rank here
  DeviceTasks tasks_;
  std::optional<Stamps> stamps_;  // by task
  RecordedWork work_;
  std::optional<DeviceStep> step_;  // its queues end before the memory that they use
  std::unique_ptr<Graph> plain_graph_, stamped_graph_;
  bool stepped_ = false;
  int steps_in_sample_ = 1;  // of the last step
  Seconds last_step_;
  std::vector<ClockReading> readings_;
  Seconds clock_read_;  // when it was last
};

}  // namespace

IdVector<OpId, Seconds> DeviceExecutor::work() {
  IdVector<OpId, Seconds> work;
  work.reserve(stamped_.ops.size());
  for (const Interval& op : stamped_.ops) work.push_back(op.finish - op.start);
  return work;
}

std::unique_ptr<DeviceExecutor> make_device_executor(ComputeDevice& device, const Experiment& experiment,
                                                     std::shared_ptr<const Schedule> schedule, const ModelData& data,
                                                     DeviceSettings settings) {
  return std::make_unique<ScheduleOnDevice>(device, experiment, std::move(schedule), data, std::move(settings));
}

}  // namespace dovetail::exec
