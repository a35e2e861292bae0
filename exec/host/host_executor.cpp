// SPDX-License-Identifier: Apache-2.0
#include "exec/host/host_executor.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "exec/host/communication_kernels.hpp"
#include "exec/host/op_kernels.hpp"
#include "exec/host/rank_memory.hpp"
#include "exec/host/rank_tensors.hpp"
#include "exec/host/stall_watch.hpp"
#include "exec/host/stream_runtime.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/step/lasting_tensors.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
using Memories = std::vector<std::shared_ptr<RankMemory<Scalar>>>;  // by local rank

template <class Scalar>
Memories<Scalar> make_memories(const Schedules& schedules, const std::vector<int>& ranks) {
  Memories<Scalar> memories;
  for (const int rank : ranks) memories.push_back(std::make_shared<RankMemory<Scalar>>(schedules, rank));
  return memories;
}

template <class Scalar>
class TypedExecutor final : public HostExecutor {
 public:
  // `number`: of the schedule among those that the memories are for.
  TypedExecutor(const Experiment& experiment, std::shared_ptr<const Schedule> schedule, const ModelData& data,
                std::vector<std::vector<Routing>> routing, Transport& transport, const Memories<Scalar>& memories,
                std::size_t number)
      : experiment_(experiment),
        schedule_(std::move(schedule)),
        transport_(transport),
        ranks_(transport.local_ranks()),
        routing_(std::move(routing)),
        setup_(experiment, schedule_, ranks_, routing_),
        emulation_(std::make_unique<Emulation>()),
        work_(ranks_.size() * schedule_->ops.size()),
        sent_(work_.size()) {
    for (std::size_t local = 0; local < ranks_.size(); ++local)
      tensors_.push_back(
          std::make_unique<RankTensors<Scalar>>(experiment, *schedule_, data, ranks_[local], memories[local], number));
    for (const Op& op : schedule_->ops)
      kernels_.push_back(op.exchange() == nullptr ? kernel_of<Scalar>(op) : OpKernel<Scalar>());
    lower_exchanges();
    // Ranks that are processes are placed by who started them.
    const bool alone = ranks_.size() == static_cast<std::size_t>(transport_.machine_ranks());
    Placement placement(alone ? ranks_.size() : 0);
    own_cores_ = placement.own_cores();
    runtime_ = std::make_unique<StreamRuntime>(
        schedule_, ranks_, std::move(placement), [this](const OpRun& run) { return run_op(run); }, cancellation_,
        [this] { transport_.cancel(); });
  }

  Seconds run_step(Poison poison) override {
    poison_ = poison != Poison::No;
    training_step_ = 1;
    if (std::exchange(trained_, false)) setup_.set_routing(routing_);
    for (const auto& tensors : tensors_) tensors->prepare(poison_);
    return run();
  }

  Seconds train_step(const TrainingStep& step) override {
    poison_ = step.poison != Poison::No;
    training_step_ = step.number;
    trained_ = true;
    setup_.set_routing(step.routing);
    for (const auto& tensors : tensors_) tensors->prepare_training(experiment_, step.batch, step.number == 1, poison_);
    return run();
  }
  bool shares_choices() const override { return true; }
  StepSpan span() const override { return runtime_->span(); }
  KeptMemory kept(std::size_t local) const override {
    KeptMemory all;
    for (const LastingTensor& tensor : kept_tensors(*schedule_, ranks_[local]))
      all.push_back(std::as_bytes(tensors_[local]->values(tensor.id)));
    return all;
  }

  void set_hooks(Hooks hooks) override {
    hooks_ = std::move(hooks);
    hook_places_ = hook_places(*schedule_);
  }

  void emulate(IdVector<OpId, std::optional<Seconds>> durations, Seconds tolerance, bool spin) override {
    check(durations.size() == schedule_->ops.size(), "a duration for each op");
    emulation_ = std::make_unique<Emulation>(std::move(durations), tolerance, spin);
  }
  long overruns() override {
    double count = static_cast<double>(emulation_->overruns());
    transport_.sum({&count, 1});
    return static_cast<long>(count);
  }

  void report_to(Progress& progress) override { progress_ = &progress; }

  void watch_stalls(Seconds patience, std::function<void(const std::string& why)> stuck) override {
    if (progress_ == nullptr) throw InternalError("stalls are seen by what is reported");
    watch_.emplace(
        *schedule_, static_cast<int>(ranks_.size()), *progress_, patience,
        [this](const std::string& why) { give_up(why); }, std::move(stuck));
  }

  void give_up(const std::string& why) override { runtime_->give_up(std::make_exception_ptr(DeviceError("run", why))); }

  Timeline timeline() override {
    std::vector<double> starts(schedule_->ops.size()), finishes(schedule_->ops.size());
    for (std::size_t local = 0; local < ranks_.size(); ++local)
      for (std::size_t i = 0; i < starts.size(); ++i) {
        const OpTime time = runtime_->times(local)[i];
        starts[i] = std::max(starts[i], time.start);
        finishes[i] = std::max(finishes[i], time.finish);
      }
    transport_.maximum(starts);
    transport_.maximum(finishes);
    receive_after_sending(starts, finishes);
    Timeline timeline;
    timeline.kind = ResultKind::Measured;
    timeline.ops.reserve(starts.size());
    timeline.emulated.reserve(starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      timeline.ops.push_back({Seconds(starts[i]), Seconds(finishes[i])});
      timeline.emulated.push_back(emulation_->holds(static_cast<OpId>(i)));
    }
    return timeline;
  }

  IdVector<OpId, Seconds> work() override {
    std::vector<double> longest(schedule_->ops.size());
    for (std::size_t i = 0; i < work_.size(); ++i) {
      double& of_op = longest[i % longest.size()];
      of_op = std::max(of_op, work_[i]);
    }
    transport_.maximum(longest);
    IdVector<OpId, Seconds> result;
    result.reserve(longest.size());
    for (double seconds : longest) result.push_back(Seconds(seconds));
    return result;
  }

  IdVector<OpId, SentBytes> sent_bytes() override {
    const std::size_t ops = schedule_->ops.size();
    std::vector<double> sums(2 * ops);
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      sums[i % ops] += sent_[i].sent;
      sums[ops + i % ops] += sent_[i].padded;
    }
    transport_.sum(sums);
    IdVector<OpId, SentBytes> result;
    for (std::size_t i = 0; i < ops; ++i) result.push_back({sums[i], sums[ops + i]});
    return result;
  }

  void sum(std::span<double> values) const override { transport_.sum(values); }
  std::vector<int> ranks() const override { return ranks_; }
  Values values(std::size_t local, TensorId id) const override {
    const std::span<const Scalar> values = tensors_[local]->values(id);
    return {values.begin(), values.end()};
  }

 private:
  Seconds run() {
    double time = runtime_->run_step(common_start());
    transport_.maximum({&time, 1});
    return Seconds(time);
  }

  void lower_exchanges() {
    for (int rank : ranks_)
      for (const Op& op : schedule_->ops) {
        const bool here = op.exchange() != nullptr && schedule_->class_of(op) == schedule_->class_of_rank(rank);
        lowered_.push_back(here ? lower(*schedule_, op, rank) : LoweredOp());
      }
  }

  // The steps of all processes on one machine begin together; elsewhere each begins its own as soon as all are there.
  StepClock::Time common_start() {
    constexpr std::chrono::microseconds until_all_know{500};
    using Clock = std::chrono::steady_clock;
    double latest = std::chrono::duration<double>(Clock::now().time_since_epoch() + until_all_know).count();
    transport_.maximum({&latest, 1});
    const bool alone = ranks_.size() == static_cast<std::size_t>(transport_.machine_ranks());
    int all = 0;
    for (const RankClass& c : schedule_->classes) all += c.ranks;
    if (alone || transport_.machine_ranks() != all) return Clock::now();
    const Clock::time_point start{std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(latest))};
    std::this_thread::sleep_until(start);
    return start;
  }

  // A receive begins when its message is there, not when its rank began to wait; and what has arrived had been sent,
  // though the sender's clock was read later.
  void receive_after_sending(std::vector<double>& starts, std::vector<double>& finishes) const {
    for (const OpId i : schedule_->ops.ids())
      if (schedule_->ops[i].kind == OpKind::StageReceive)
        for (OpId id : schedule_->dependencies_of(schedule_->ops[i])) {
          if (schedule_->ops[id].kind != OpKind::StageSend) continue;
          finishes[id] = std::min(finishes[id], finishes[i]);
          starts[i] = std::max(starts[i], finishes[id]);
        }
  }

  double run_op(const OpRun& run) {
    const OpId id = run.op;
    const Op& op = schedule_->ops[id];
    const int rank = ranks_[run.local];
    const Progress::Running running(progress_, op.stream, run.op, run.local);
    OpContext<Scalar> context{setup_.operands(run.local, op), tensors_[run.local]->all(), nullptr, run.ready,
                              training_step_};
    if (op.exchange() != nullptr)  // stages have no stream in common
      context.communicator =
          &transport_.communicator(rank, schedule_->joins_stages(op) ? StreamId(0) : op.stream, op.group());
    const StepClock& clock = runtime_->clock();
    // A message goes off when the time of its transfer is over: receiving takes none.
    const bool sends = op.kind == OpKind::StageSend;
    if (sends) context.ready = emulation_->finish(run.op, context.ready, clock, cancellation_);
    const double start = clock.now();
    static const HookPlace nowhere;
    const HookPlace& place = hook_places_.empty() ? nowhere : hook_places_[id];
    if (!place.amid.empty()) context.amid = [&] { call_hooks(place.amid, context, rank); };
    call_hooks(place.before, context, rank);
    if (op.exchange() == nullptr)
      kernels_[id](context);
    else
      communicate(context, lowered_[run.local * schedule_->ops.size() + id]);
    sent_[run.local * schedule_->ops.size() + static_cast<std::size_t>(id)] = context.traffic;
    call_hooks(place.after, context, rank);
    // An exchange waits for others. A kernel that begins late was woken late, which is part of what it takes, unless
    // other ranks had its core.
    const bool counts_waking = op.exchange() == nullptr && own_cores_;
    work_[run.local * schedule_->ops.size() + static_cast<std::size_t>(id)] =
        clock.now() - (counts_waking ? context.ready : std::max(start, context.ready));
    if (poison_) tensors_[run.local]->release(op);
    if (sends) return emulation_->holds(run.op) ? context.ready : clock.now();
    return emulation_->finish(run.op, context.ready, clock, cancellation_);
  }

  void call_hooks(const std::vector<HookPoint>& points, const OpContext<Scalar>& c, int rank) const {
    for (const HookPoint point : points)
      if (hooks_.at(point)) hooks_.at(point)({point, c.op.phase, c.op.layer, c.op.chunk, rank, shown(point, c)});
  }
  // The points of the MoE part have the rows of the op's own tokens in a tensor of all tokens.
  std::span<Scalar> shown(HookPoint point, const OpContext<Scalar>& c) const {
    const TensorId id = shown_at(point, *schedule_, c.op);
    const Tensor& t = schedule_->tensors[id];
    const std::span<Scalar> all(c.tensors[id], static_cast<std::size_t>(t.elements));
    const bool of_moe = point == HookPoint::BeforeMoe || point == HookPoint::AfterMoe;
    if (!of_moe || c.part.chunk < 0 || t.chunk >= 0) return all;
    return all.subspan(static_cast<std::size_t>(c.part.tokens.first * c.shape.hidden),
                       static_cast<std::size_t>(c.part.tokens.size() * c.shape.hidden));
  }

  const Experiment experiment_;
  std::shared_ptr<const Schedule> schedule_;
  Transport& transport_;
  std::vector<int> ranks_;
  const std::vector<std::vector<Routing>> routing_;  // of steps that are no training
  OpSetup setup_;
  std::vector<std::unique_ptr<RankTensors<Scalar>>> tensors_;  // by local rank
  std::vector<OpKernel<Scalar>> kernels_;                      // by op; null: it exchanges
  std::vector<LoweredOp> lowered_;                             // by local rank and op; empty: it does not exchange here
  std::unique_ptr<Emulation> emulation_;
  std::vector<double> work_;     // of the last step, by local rank and op
  std::vector<SentBytes> sent_;  // the same
  Hooks hooks_;
  std::vector<HookPlace> hook_places_;  // by op; empty: no hooks
  Progress* progress_ = nullptr;
  int training_step_ = 1;
  bool trained_ = false;  // by the last step
  bool poison_ = false;
  bool own_cores_ = false;  // of each rank
  Cancellation cancellation_;
  std::unique_ptr<StreamRuntime> runtime_;  // its threads use all above
  std::optional<StallWatch> watch_;
};

template <class Scalar>
std::vector<std::unique_ptr<HostExecutor>> make_typed(const Experiment& experiment, const Schedules& schedules,
                                                      const ModelData& data,
                                                      const std::vector<std::vector<Routing>>& routing,
                                                      const std::vector<Transport*>& transports) {
  const Memories<Scalar> memories = make_memories<Scalar>(schedules, transports.front()->local_ranks());
  std::vector<std::unique_ptr<HostExecutor>> executors;
  for (std::size_t i = 0; i < schedules.size(); ++i)
    executors.push_back(
        std::make_unique<TypedExecutor<Scalar>>(experiment, schedules[i], data, routing, *transports[i], memories, i));
  return executors;
}

std::vector<std::unique_ptr<HostExecutor>> make_all(const Experiment& experiment, const Schedules& schedules,
                                                    Element element, const ModelData& data,
                                                    const std::vector<std::vector<Routing>>& routing,
                                                    const std::vector<Transport*>& transports) {
  return element == Element::Float ? make_typed<float>(experiment, schedules, data, routing, transports)
                                   : make_typed<double>(experiment, schedules, data, routing, transports);
}

}  // namespace

std::unique_ptr<HostExecutor> make_host_executor(const Experiment& experiment, std::shared_ptr<const Schedule> schedule,
                                                 Element element, const ModelData& data,
                                                 const std::vector<std::vector<Routing>>& routing,
                                                 Transport& transport) {
  return std::move(make_all(experiment, {std::move(schedule)}, element, data, routing, {&transport}).front());
}

std::vector<std::unique_ptr<HostExecutor>> make_host_executors(
    const Experiment& experiment, const std::vector<std::shared_ptr<const Schedule>>& schedules, Element element,
    const ModelData& data, const std::vector<std::unique_ptr<Transport>>& transports) {
  std::vector<Transport*> all;
  for (const auto& transport : transports) all.push_back(transport.get());
  return make_all(experiment, schedules, element, data, {}, all);
}

}  // namespace dovetail::exec
