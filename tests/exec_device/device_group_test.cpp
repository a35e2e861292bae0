// SPDX-License-Identifier: Apache-2.0
// Several devices at once, a rank on each, as threads with devices of host memory: what each rank asks of its network,
// and that the bytes which move make the reference's numbers.
#include "exec/device/device_group.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "exec/device/channels.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/load.hpp"
#include "models/plan/communication.hpp"
#include "models/plan/program_text.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

// A random experiment that a plan fits, on so many GPUs. Gives a plan that needs micro-batches as many as it needs.
Experiment experiment_on(int gpus, Plan& plan, Random& random) {
  for (int attempt = 0; attempt < 20000; ++attempt) {
    Experiment e = random_on_device(random);
    e.model.expert_kind = ExpertKind::Gated;
    fill_pipeline(plan, e);
    if (e.cluster.gpus() == gpus && !refusal(plan, e)) return e;
  }
  FAIL("no experiment on " << gpus << " GPUs that the plan fits");
  return {};
}

// A call that one rank made to its network: for each message, who it is for or from, and its bytes.
struct Call {
  std::string name;
  std::vector<std::pair<int, std::int64_t>> sends, receives;
  std::int64_t bytes = 0;
  bool operator==(const Call&) const = default;
};
struct CallLog {
  // A group: its number on each rank, and its first rank.
  using Place = std::pair<std::pair<int, int>, int>;  // group and rank in it
  std::mutex mutex;
  std::map<Place, std::vector<Call>> calls;
  int failing_rank = -1;  // whose second call to any communicator fails
};

// Writes down what is asked of another communicator.
class LoggedCommunicator final : public DeviceCommunicator {
 public:
  LoggedCommunicator(std::unique_ptr<DeviceCommunicator> other, CallLog& log, CallLog::Place place, bool fails)
      : other_(std::move(other)), log_(log), place_(std::move(place)), fails_(fails) {}
  int rank() const override { return other_->rank(); }
  int size() const override { return other_->size(); }
  void send_receive(Queue& queue, std::span<const DeviceSend> sends, std::span<const DeviceReceive> receives) override {
    Call call{"send_receive", {}, {}, 0};
    for (const DeviceSend& s : sends) call.sends.emplace_back(s.peer, s.bytes);
    for (const DeviceReceive& r : receives) call.receives.emplace_back(r.peer, r.bytes);
    add(call);
    other_->send_receive(queue, sends, receives);
  }
  void collective(Queue& queue, const DeviceCollective& call) override {
    add({std::string(name_in(collective_names, call.kind)), {}, {}, call.bytes});
    other_->collective(queue, call);
  }

 private:
  void add(const Call& call) {
    const std::scoped_lock lock(log_.mutex);
    std::vector<Call>& calls = log_.calls[place_];
    calls.push_back(call);
    if (fails_ && calls.size() == 2) throw DeviceError("ncclGroupEnd", "unhandled system error", 2);
  }
  std::unique_ptr<DeviceCommunicator> other_;
  CallLog& log_;
  CallLog::Place place_;
  bool fails_;
};

class LoggedNetwork final : public DeviceNetwork {
 public:
  LoggedNetwork(std::unique_ptr<DeviceNetwork> other, CallLog& log) : other_(std::move(other)), log_(log) {}
  int rank() const override { return other_->rank(); }
  int size() const override { return other_->size(); }
  std::unique_ptr<DeviceCommunicator> communicator(std::span<const int> members) override {
    auto made = other_->communicator(members);
    const int number = next_++;
    if (made == nullptr) return nullptr;
    const CallLog::Place place{{number, members.front()}, made->rank()};
    return std::make_unique<LoggedCommunicator>(std::move(made), log_, place, rank() == log_.failing_rank);
  }
  void check() override { other_->check(); }

 private:
  std::unique_ptr<DeviceNetwork> other_;
  CallLog& log_;
  int next_ = 0;
};

// The calls of one step.
void run_logged(const Experiment& e, const Plan& plan, CallLog& log) {
  Cancellation cancellation;
  DeviceGroup group = loop_group(e.cluster.gpus(), cancellation);
  group.make_network = [make = group.make_network, &log](std::size_t local) {
    return std::make_unique<LoggedNetwork>(make(local), log);
  };
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto executor =
      make_group_executor(group, e, schedule, random_model_data(e, 1, plan.micro_batches), {}, cancellation);
  executor->run_step(Poison::No);
}

Experiment four_gpus() {
  Random random(11);
  for (;;) {
    Experiment e = random_on_device(random);
    const Parallelism& p = e.parallelism;
    if (p.ep == 4 && p.pp == 1 && p.esp == 1 && p.mp == 1 && p.edp == 1 && e.workload.layers == 1 && !refusal({}, e))
      return e;
  }
}

}  // namespace

TEST_CASE("Shipped systems on 2, 4 and 8 devices compute what the reference does") {
  for (const std::string& name : known_names("systems")) {
    Plan plan = shipped_plan(name);
    cut_rows(plan, 2);
    Random random(3);
    for (int gpus : {2, 4, 8}) {
      INFO(name << " on " << gpus);
      if (plan.scope == Scope::Batch && plan.pipeline().halves && gpus < 4) continue;  // stages and exchanges
      const Experiment e = experiment_on(gpus, plan, random);
      check_on_devices(e, plan, {Stored::Double, true, false, 5});
    }
  }
}

TEST_CASE("Trainings on several devices have the losses of the sequential one") {
  Cancellation cancellation;
  DeviceGroup group;  // outlives each executor
  check_trainings(8, 29, false,
                  [&](const Experiment& e, const std::shared_ptr<const Schedule>& schedule, const ModelData& data) {
                    group = loop_group(e.cluster.gpus(), cancellation);
                    DeviceSettings settings;
                    settings.scalar = Stored::Double;
                    return make_group_executor(group, e, schedule, data, settings, cancellation);
                  });
}

TEST_CASE("Random plans on several devices compute what the reference does, in double and float") {
  const std::set<OpKind> rare{
      OpKind::ShadowWeights,           OpKind::GatherExpertWeights, OpKind::StageSend,
      OpKind::EspReduceScatter,        OpKind::MpAllGather,         OpKind::DenseGradientAllReduce,
      OpKind::ExpertGradientAllReduce, OpKind::RestoreDispatch};
  Random random(26);
  std::set<OpKind> kinds;
  int run = 0, stages = 0, stepped = 0;
  // Until each of them has come, for which 60 plans are enough most of the time.
  for (std::uint64_t i = 0; run < 60 || (run < 300 && !std::ranges::includes(kinds, rare)); ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.cluster.gpus() < 2) continue;
    const bool in_float = run % 3 == 0 && e.model.expert_kind == ExpertKind::Gated;
    check_on_devices(e, plan, {in_float ? Stored::Float : Stored::Double, true, false, i});
    const Schedule schedule = build_schedule(e, plan);
    for (const Op& op : schedule.ops) {
      kinds.insert(op.kind);
      stepped += schedule.steps_of(op).empty() ? 0 : 1;
    }
    stages += e.parallelism.pp > 1;
    ++run;
  }
  CHECK(std::ranges::includes(kinds, rare));
  CHECK(stages > 0);
  CHECK(stepped > 0);
}

TEST_CASE("Each rank gives its network the calls of its ops in program order") {
  const Experiment e = four_gpus();
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  const Schedule schedule = build_schedule(e, plan);
  CallLog log;
  run_logged(e, plan, log);
  std::vector<std::string> expected_reduces;
  std::vector<std::int64_t> expected_blocks;  // bytes to each peer, of float
  for (const Op& op : schedule.ops) {
    if (op.collective() == Collective::AllToAll)
      expected_blocks.push_back(schedule.tensors[schedule.reads_of(op).front()].elements / 4 * 4);
    if (op.collective() == Collective::AllReduce) expected_reduces.emplace_back("all_reduce");
  }
  CHECK(expected_blocks.size() == 8);  // dispatch and combine, forward and backward, in two chunks
  std::vector<std::int64_t> blocks;
  std::size_t reduces = 0;
  for (const auto& [place, calls] : log.calls)
    for (const Call& call : calls) {
      if (place.second != 0) continue;
      if (call.name == "all_reduce") ++reduces;
      if (call.name != "send_receive") continue;
      REQUIRE(call.sends.size() == 4);
      CHECK(call.sends == call.receives);
      for (int peer = 0; peer < 4; ++peer)
        CHECK(call.sends[static_cast<std::size_t>(peer)] == std::pair(peer, call.sends[0].second));
      blocks.push_back(call.sends[0].second);
    }
  CHECK(blocks == expected_blocks);
  CHECK(reduces == expected_reduces.size());
}

TEST_CASE("What a rank sends to a peer is what that receives from it, in the same order") {
  Random random(5);
  int stepped = 0;
  for (int run = 0; run < 12 || stepped == 0;) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.parallelism.ep < 2 || e.workload.gate.batch_prioritised) continue;
    INFO(describe(e, plan));
    CallLog log;
    run_logged(e, plan, log);
    const Schedule schedule = build_schedule(e, plan);
    for (const Op& op : schedule.ops) stepped += schedule.steps_of(op).empty() ? 0 : 1;
    // By group, sender and receiver: the sizes of the messages. And what is not made of messages, by group and rank.
    std::map<std::tuple<int, int, int, int>, std::vector<std::int64_t>> sent, received;
    std::map<std::pair<int, int>, std::map<int, std::vector<std::pair<std::string, std::int64_t>>>> others;
    for (const auto& [place, calls] : log.calls) {
      const auto& [group, rank] = place;
      for (const Call& call : calls) {
        for (const auto& [peer, bytes] : call.sends) sent[{group.first, group.second, rank, peer}].push_back(bytes);
        for (const auto& [peer, bytes] : call.receives)
          received[{group.first, group.second, peer, rank}].push_back(bytes);
        if (call.name != "send_receive") others[group][rank].emplace_back(call.name, call.bytes);
      }
    }
    CHECK(!sent.empty());
    CHECK(sent == received);
    for (const auto& [group, by_rank] : others)
      for (const auto& [rank, calls] : by_rank) CHECK(calls == by_rank.begin()->second);
    ++run;
  }
  CHECK(stepped > 0);
}

TEST_CASE("A program that takes messages in another order than they are sent is not for devices") {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  plan.pipeline_schedule = pipeline_schedule("listed");
  plan.program = ListedProgram({read_slots("0F0 0F1 0B0 0B1"), read_slots("1F0 1B0 1F1 1B1")});
  CHECK_NOTHROW(require_messages_in_turn(build_schedule(e, plan)));
  plan.program = ListedProgram({read_slots("0F0 0F1 0B1 0B0"), read_slots("1F1 1B1 1F0 1B0")});
  CHECK_THROWS_WITH(require_messages_in_turn(build_schedule(e, plan)),
                    Contains("/plan/program: stage 1 takes micro-batch 1 before 0, which stage 0 sends first"));
}

TEST_CASE("A device that fails ends all others, and is named with its op") {
  CallLog log;
  log.failing_rank = 2;
  CHECK_THROWS_WITH(run_logged(four_gpus(), {}, log), Catch::Contains("combine") &&
                                                          Catch::Contains("ncclGroupEnd: unhandled system error (2)") &&
                                                          Catch::Contains("rank 2"));
}
