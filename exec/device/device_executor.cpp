#include "exec/device/device_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "exec/device/channels.hpp"
#include "exec/device/collective_op.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/group_op.hpp"
#include "exec/device/self_exchange.hpp"
#include "exec/device/stamps.hpp"
#include "exec/run/failure.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr std::chrono::microseconds between_looks{20};
// A step waits this long before it begins, so that the host is ahead of the device, with a graph too.
constexpr Seconds lead_of_host{.002};

enum class Stamped { No, Yes };

// An op on the ranks that do it together: one, or all of a group, whose work the first one's queue gets.
struct Task {
  OpId op{0};
  std::vector<std::size_t> members;  // indices of ranks here
  std::vector<std::size_t> also;     // ranks whose ops may depend on it
  std::vector<DeviceWork> work;
  std::vector<std::vector<const Event*>> waits;  // by member: events of other queues
  std::unique_ptr<Event> done;
  std::vector<std::unique_ptr<Event>> arrived;  // by member
};

class DeviceTables final : public Tables {
 public:
  explicit DeviceTables(ComputeDevice& device) : device_(device) {}
  const void* upload(const void* data, std::int64_t bytes) override {
    kept_.push_back(device_.allocate(bytes, Place::Device));
    device_.copy_now(kept_.back()->data(), data, bytes);
    return kept_.back()->data();
  }

 private:
  ComputeDevice& device_;
  std::vector<std::unique_ptr<Memory>> kept_;
};

template <class Scalar>
class TypedDeviceExecutor final : public DeviceExecutor {
 public:
  TypedDeviceExecutor(ComputeDevice& device, const Experiment& experiment, std::shared_ptr<const Schedule> schedule,
                      const ModelData& data, DeviceSettings settings)
      : device_(device),
        schedule_(std::move(schedule)),
        settings_(std::move(settings)),
        ranks_(ranks_here(experiment)),
        stage_ranks_(experiment.parallelism.stage_ranks()),
        setup_(experiment, schedule_, ranks_, settings_.routing),
        channels_(own() ? std::make_unique<Channels>(*schedule_, *settings_.network) : nullptr),
        tables_(device),
        origin_(device.make_queue()),
        moment_(device.allocate(sizeof(std::int64_t), Place::Device)),
        begin_(device.make_event()),
        fork_(device.make_event()),
        end_(device.make_event()) {
    require_device_ops(*schedule_);
    for (int rank : ranks_)
      memory_.push_back(std::make_unique<DeviceMemory>(device, experiment, *schedule_, data, rank, settings_.scalar));
    make_queues();
    if (settings_.ranks == DeviceRanks::One)
      self_exchanges_.emplace(device, *schedule_, schedule_->class_of_rank(0), settings_);
    make_tasks();
    stamps_ = std::make_unique<Stamps>(device, tasks_.size());
    record_tasks();
  }

  Seconds run_step(Poison poison) override { return step(poison, Stamped::No); }

  Timeline stamped_step() override {
    step(Poison::No, Stamped::Yes);
    Timeline timeline;
    timeline.kind = ResultKind::Measured;
    timeline.ops.resize(schedule_->ops.size());
    timeline.emulated.resize(schedule_->ops.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const OpId at = tasks_[i].op;
      const Interval here = stamps_->of(i);
      timeline.ops[at] = {std::max(timeline.ops[at].start, here.start), std::max(timeline.ops[at].finish, here.finish)};
      timeline.emulated[at] = self_exchanges_ && self_exchanges_->holds(tasks_[i].op);
    }
    return timeline;
  }

  std::string capture() override {
    if (std::ranges::any_of(schedule_->ops, [](const Op& op) { return op.kind == OpKind::HostSync; }))
      return "the host waits in it";
    check(stepped_, "a step before its capture: libraries allocate in the first");
    try {
      plain_graph_ = device_.capture(*origin_, [this] { issue(Poison::No, Stamped::No); });
      if (plain_graph_) stamped_graph_ = device_.capture(*origin_, [this] { issue(Poison::No, Stamped::Yes); });
    } catch (const DeviceError& error) {
      plain_graph_.reset();
      return error.what();
    }
    return plain_graph_ ? "" : "the device gives out each op";
  }

  long overruns() override { return self_exchanges_ ? self_exchanges_->overruns() : 0; }
  std::string description() const override { return device_.description(); }
  std::int64_t memory_bytes() const override {
    std::int64_t most = 0;
    for (const auto& memory : memory_) most = std::max(most, memory->device_bytes());
    return most;
  }
  std::int64_t scratch_bytes() const override {
    std::int64_t sum = 0;
    for (const auto& memory : scratch_) sum += memory->bytes();
    return sum;
  }

  std::vector<int> ranks() const override { return ranks_; }
  Values values(std::size_t local, TensorId id) const override { return memory_[local]->values(id); }

 private:
  bool own() const { return settings_.ranks == DeviceRanks::Own; }
  // Other ranks are not here.
  bool alone() const { return settings_.ranks != DeviceRanks::All; }

  std::vector<int> ranks_here(const Experiment& experiment) const {
    if (own()) return {settings_.network->rank()};
    std::vector<int> ranks(alone() ? 1 : static_cast<std::size_t>(experiment.cluster.gpus()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  Seconds step(Poison poison, Stamped stamped) {
    for (const auto& memory : memory_) memory->prepare(*origin_, poison != Poison::No);
    device_.synchronize();
    stamps_->clear();
    if (settings_.align) settings_.align();
    Graph* const graph = poison == Poison::Yes     ? nullptr
                         : stamped == Stamped::Yes ? stamped_graph_.get()
                                                   : plain_graph_.get();
    try {
      launch(graph, poison, stamped);
      if (own()) wait_with_others(graph != nullptr);
      device_.synchronize();
    } catch (const DeviceError& error) {
      throw with_ops_under_way(error);
    }
    stepped_ = true;
    return device_.elapsed(*begin_, *end_);
  }

  void launch(Graph* graph, Poison poison, Stamped stamped) {
    device_.mark(*origin_, moment());
    device_.hold(*origin_, moment(), lead_of_host);
    origin_->record(*begin_);
    if (graph != nullptr)
      graph->launch(*origin_);
    else
      issue(poison, stamped);
    origin_->record(*end_);
  }

  // A device fails after the host has given it the op that is at fault.
  DeviceError with_ops_under_way(const DeviceError& error) const {
    std::string ops;
    for (std::size_t i : stamps_->unfinished())
      ops += fmt::format("{}{} on rank {}", ops.empty() ? "" : ", ", to_string(op_of(tasks_[i])),
                         ranks_[tasks_[i].members.front()]);
    return ops.empty() ? error : DeviceError("while under way: " + ops, error.what());
  }

  // A transfer that failed and a rank that gave up are seen while waiting.
  void wait_until(const Event& event) {
    while (!device_.reached(event)) {
      settings_.network->check();
      std::this_thread::sleep_for(between_looks);
    }
  }

  // Op by op, so that it is known which one nobody gets past. Events that were captured cannot be asked.
  void wait_with_others(bool as_graph) {
    const Task& last = tasks_.back();
    if (as_graph) {
      const Progress::Running running(settings_.progress, op_of(last).stream, last.op);
      return wait_until(*end_);
    }
    for (const Task& task : tasks_)
      named_by(task, [&] {
        const Progress::Running running(settings_.progress, op_of(task).stream, task.op);
        wait_until(*task.done);
      });
    wait_until(*end_);
  }

  template <class Body>
  void named_by(const Task& task, Body body) const {
    try {
      body();
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      std::rethrow_exception(named(std::current_exception(), to_string(op_of(task)), ranks_[task.members.front()]));
    }
  }

  // Streams that exchange come first where multiprocessors are free.
  void make_queues() {
    std::vector<Priority> priorities(schedule_->streams.size(), Priority::Normal);
    for (const Op& op : schedule_->ops)
      if (exchanges(*schedule_, op)) priorities[static_cast<std::size_t>(op.stream)] = Priority::High;
    for (std::size_t i = 0; i < ranks_.size() * priorities.size(); ++i) {
      queues_.push_back(device_.make_queue(priorities[i % priorities.size()]));
      joined_.push_back(device_.make_event());
    }
  }

  std::int64_t* moment() const { return reinterpret_cast<std::int64_t*>(moment_->data()); }
  const Op& op_of(const Task& task) const { return schedule_->ops[task.op]; }
  std::size_t queue_of(std::size_t local, const Op& op) const {
    return local * schedule_->streams.size() + static_cast<std::size_t>(op.stream);
  }

  // The ranks that do an op together with this one, as indices of ranks here; this one's group has them in its order.
  std::vector<std::size_t> group_of(std::size_t local, const Op& op) const {
    if (alone() || !exchanges(*schedule_, op) || op.kind == OpKind::StageSend) return {local};
    std::vector<std::size_t> members;
    for (int rank : group_members(schedule_->groups, op.group(), ranks_[local]))
      members.push_back(static_cast<std::size_t>(rank));  // all ranks are here, in their order
    return members;
  }

  void make_tasks() {
    // By op and rank: the event after which the op is done there.
    std::vector<std::vector<const Event*>> done(schedule_->ops.size(), std::vector<const Event*>(ranks_.size()));
    for (const OpId id : schedule_->ops.ids()) {
      const Op& op = schedule_->ops[id];
      for (std::size_t local = 0; local < ranks_.size(); ++local) {
        if (schedule_->class_of_rank(ranks_[local]) != schedule_->class_of(op) || done[id][local] != nullptr) continue;
        Task task;
        task.op = id;
        task.members = group_of(local, op);
        if (op.kind == OpKind::StageSend && !alone()) task.also = {receiver_of(local, op)};
        task.done = device_.make_event();
        for (std::size_t member : task.members) {
          task.waits.emplace_back();
          for (OpId before : schedule_->dependencies_of(op)) {
            // The stream itself is in order. A rank alone has no sender to wait for.
            if (schedule_->ops[before].stream != op.stream && done[before][member] != nullptr)
              task.waits.back().push_back(done[before][member]);
          }
          task.arrived.push_back(device_.make_event());
          done[id][member] = task.done.get();
        }
        for (std::size_t member : task.also) done[id][member] = task.done.get();
        tasks_.push_back(std::move(task));
      }
    }
    done_ = std::move(done);
  }

  std::size_t receiver_of(std::size_t local, const Op& op) const {
    const auto ranks = static_cast<std::size_t>(stage_ranks_);
    return op.phase == Phase::Forward ? local + ranks : local - ranks;
  }

  // First without memory, to learn how much scratch each queue needs.
  void record_tasks() {
    std::vector<std::int64_t> scratch(queues_.size());
    for (Task& task : tasks_) {
      Recorder sizes(nullptr, reinterpret_cast<std::byte*>(std::uintptr_t{256}));
      record(task, sizes);
      std::int64_t& most = scratch[queue_of(task.members.front(), op_of(task))];
      most = std::max(most, sizes.scratch_bytes());
    }
    for (std::int64_t bytes : scratch) scratch_.push_back(device_.allocate(bytes, Place::Device));
    for (Task& task : tasks_) {
      Recorder recorder(&tables_, scratch_[queue_of(task.members.front(), op_of(task))]->data());
      record(task, recorder);
      task.work = recorder.take();
    }
  }

  GroupMember member(std::size_t local, const Op& op) const {
    return {setup_.operands(local, op), memory_[local].get(), ranks_[local]};
  }

  void record(Task& task, Recorder& recorder) const {
    const Op& op = op_of(task);
    const bool receives = op.kind == OpKind::StageReceive;
    if (own() && (receives || exchanges(*schedule_, op)))
      return record_collective<Scalar>(recorder, member(0, op), channels_->of(op));
    if (receives) return;  // what it waits for is all
    if (alone() && exchanges(*schedule_, op)) return self_exchanges_->record(member(0, op), task.op, recorder);
    if (exchanges(*schedule_, op)) {
      std::vector<GroupMember> members;
      for (std::size_t local : task.members) members.push_back(member(local, op));
      for (std::size_t local : task.also) members.push_back(member(local, op));
      return record_exchange<Scalar>(recorder, members);
    }
    const std::size_t local = task.members.front();
    DeviceOp<Scalar> device_op{setup_.operands(local, op), memory_[local]->tensors(), recorder};
    record_op(device_op);
  }

  void issue(Poison poison, Stamped stamped) {
    if (self_exchanges_) self_exchanges_->begin(*origin_);
    if (stamped == Stamped::Yes) stamps_->step_begins(*origin_);
    origin_->record(*fork_);
    for (const auto& queue : queues_) queue->wait(*fork_);
    for (std::size_t i = 0; i < tasks_.size(); ++i) named_by(tasks_[i], [&] { issue(i, poison, stamped); });
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      queues_[i]->record(*joined_[i]);
      origin_->wait(*joined_[i]);
    }
  }

  void issue(std::size_t index, Poison poison, Stamped stamped) {
    const Task& task = tasks_[index];
    const Op& op = op_of(task);
    Queue& queue = *queues_[queue_of(task.members.front(), op)];
    for (std::size_t i = 0; i < task.members.size(); ++i) {
      Queue& of_member = *queues_[queue_of(task.members[i], op)];
      of_member.serves({task.op, ranks_[task.members[i]]});
      for (const Event* event : task.waits[i]) of_member.wait(*event);
      if (i == 0) continue;
      of_member.record(*task.arrived[i]);
      queue.wait(*task.arrived[i]);
    }
    if (op.kind == OpKind::HostSync) empty(queue, task);
    if (stamped == Stamped::Yes) stamps_->begins(queue, index);
    for (const DeviceWork& work : task.work) work(queue);
    if (stamped == Stamped::Yes) stamps_->ends(queue, index);
    if (self_exchanges_) self_exchanges_->after(queue, task.op);
    if (poison == Poison::Yes) release(task, queue);
    queue.record(*task.done);
    for (std::size_t i = 1; i < task.members.size(); ++i) queues_[queue_of(task.members[i], op)]->wait(*task.done);
  }

  void empty(Queue& queue, const Task& task) {
    if (!own()) return device_.synchronize(queue);
    queue.record(*task.arrived.front());
    wait_until(*task.arrived.front());
  }

  // Before the op counts as done, so that whoever takes over the memory comes later.
  void release(const Task& task, Queue& queue) {
    for (std::size_t member : task.members)
      for (TensorId id : memory_[member]->released_by(task.op)) {
        for (OpId user : memory_[member]->users_of(id))
          if (user != task.op) queue.wait(*done_[static_cast<std::size_t>(user)][member]);
        queue.fill(memory_[member]->tensors()[static_cast<std::size_t>(id)], 0xff, memory_[member]->bytes_of(id));
      }
  }

  ComputeDevice& device_;
  std::shared_ptr<const Schedule> schedule_;
  DeviceSettings settings_;
  std::vector<int> ranks_;
  int stage_ranks_;
  OpSetup setup_;
  std::unique_ptr<Channels> channels_;
  std::optional<SelfExchanges> self_exchanges_;  // One
  DeviceTables tables_;
  std::unique_ptr<Queue> origin_;
  std::unique_ptr<Memory> moment_;  // when a step was given out
  std::unique_ptr<Event> begin_, fork_, end_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  // by rank here
  std::vector<std::unique_ptr<Queue>> queues_;         // by rank here and stream, as the next two
  std::vector<std::unique_ptr<Event>> joined_;
  std::vector<std::unique_ptr<Memory>> scratch_;
  std::vector<Task> tasks_;                      // in program order
  std::vector<std::vector<const Event*>> done_;  // by op and rank here
  std::unique_ptr<Stamps> stamps_;               // by task
  std::unique_ptr<Graph> plain_graph_, stamped_graph_;
  bool stepped_ = false;
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
  switch (settings.scalar) {
    case Stored::Double:
      return std::make_unique<TypedDeviceExecutor<double>>(device, experiment, std::move(schedule), data,
                                                           std::move(settings));
    case Stored::Float:
      return std::make_unique<TypedDeviceExecutor<float>>(device, experiment, std::move(schedule), data,
                                                          std::move(settings));
    default:
      return std::make_unique<TypedDeviceExecutor<Bf16>>(device, experiment, std::move(schedule), data,
                                                         std::move(settings));
  }
}

}  // namespace dovetail::exec
