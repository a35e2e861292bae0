// SPDX-License-Identifier: Apache-2.0
// The device's program of every op touches the tensors that the schedule says, and no others: orders follow from those.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "exec/device/deferred/deferred_device.hpp"
#include "exec/device/device_op.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

using deferred::Range;

// A step of all ranks, and where their tensors lie.
class TracedStep {
 public:
  TracedStep(const Experiment& e, const Plan& plan)
      : schedule_(std::make_shared<const Schedule>(build_schedule(e, plan))),
        device_(make_deferred_device({1, true, true})) {
    DeviceSettings settings;
    settings.scalar = Stored::Double;
    const auto executor =
        make_device_executor(*device_, e, schedule_, random_model_data(e, 1, plan.micro_batches), settings);
    executor->run_step(Poison::No);
    log_ = device_->commands();
    for (const int rank : executor->ranks()) find_tensors(*executor, rank);
  }

  // The tensors that commands of an op touch although they are not its operands; empty: none.
  std::string strangers() const {
    for (const LoggedCommand& c : log_) {
      if (!c.purpose.op.exists()) continue;
      const Op& op = schedule_->ops[c.purpose.op];
      for (const bool writes : {false, true})
        for (const Range& bytes : writes ? c.writes : c.reads)
          for (const Place& place : places_)
            if (overlap(bytes, place.bytes) && !is_operand(op, place, writes))
              return to_string(op) + (writes ? " writes " : " reads ") + std::to_string(place.tensor) + " of rank " +
                     std::to_string(place.rank);
    }
    return "";
  }

  // Operands that no command of an op touches.
  std::vector<std::string> untouched() const {
    std::vector<std::string> names;
    for (const OpId i : schedule_->ops.ids()) {
      const Op& op = schedule_->ops[i];
      if (op.kind == OpKind::StageReceive) continue;  // its sender writes
      for (const bool writes : {false, true})
        for (TensorId id : writes ? schedule_->writes_of(op) : schedule_->reads_of(op))
          if (schedule_->tensors[id].kind != TensorKind::GateScratch &&  // memory of published code alone
              !touches(static_cast<std::int32_t>(i), id, writes))
            names.push_back(to_string(op) + (writes ? " writes " : " reads ") + to_string(schedule_->tensors[id]));
    }
    return names;
  }
  std::size_t operands() const { return schedule_->operands.size(); }

 private:
  struct Place {
    Range bytes;
    TensorId tensor;
    int rank;
  };

  static bool overlap(const Range& a, const Range& b) { return a.first < b.last && b.first < a.last; }

  void find_tensors(const DeviceExecutor& executor, int rank) {
    for (const TensorId i : schedule_->tensors.ids()) {
      const Tensor& t = schedule_->tensors[i];
      if (t.rank_class != schedule_->class_of_rank(rank) || t.elements == 0) continue;
      try {
        executor.values(static_cast<std::size_t>(rank), i);
      } catch (const InternalError&) {  // fp8 has been copied, but is not decoded
      }
      places_.push_back({device_->copied_now(), i, rank});
    }
  }

  // Tensors that take over one another's memory are at one place.
  bool is_operand(const Op& op, const Place& place, bool writes) const {
    const auto among = [&](const auto& ids) {
      return std::ranges::any_of(places_, [&](const Place& other) {
        return other.rank == place.rank && overlap(other.bytes, place.bytes) &&
               std::ranges::find(ids, other.tensor) != ids.end();
      });
    };
    return among(schedule_->writes_of(op)) || (!writes && among(schedule_->reads_of(op)));
  }

  bool touches(std::int32_t op, TensorId id, bool writes) const {
    return std::ranges::any_of(log_, [&](const LoggedCommand& c) {
      return c.purpose.op == op && std::ranges::any_of(places_, [&](const Place& place) {
               return place.tensor == id && std::ranges::any_of(writes ? c.writes : c.reads, [&](const Range& bytes) {
                        return overlap(bytes, place.bytes);
                      });
             });
    });
  }

  std::shared_ptr<const Schedule> schedule_;
  std::unique_ptr<DeferredDevice> device_;
  std::vector<LoggedCommand> log_;
  std::vector<Place> places_;
};

}  // namespace

TEST_CASE("Ops touch the tensors that the schedule says, and no others") {
  Random random(55);
  std::size_t untouched = 0, all = 0;
  for (int i = 0; i < 60; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    INFO(describe(e, plan));
    const TracedStep step(e, plan);
    CHECK(step.strangers() == "");
    for (const std::string& name : step.untouched()) {
      INFO(name);
      // With activated rows kept, one half of an expert's op works with them and the other with the hidden rows.
      const bool of_halves = (name.starts_with("di_expert") && name.find("activated") != std::string::npos) ||
                             (name.starts_with("dw_expert") && name.find("hidden") != std::string::npos);
      // The norm's few weights are no rank's share of so many.
      const bool few = name.starts_with("parameter_all_gather") && name.find("norm_weights") != std::string::npos;
      if (of_halves || few) continue;
      const bool moves_rows =
          name.starts_with("d_encode") || name.starts_with("decode") || name.starts_with("d_decode");
      CHECK(moves_rows);  // the chunk got none of the rows
      ++untouched;
    }
    all += step.operands();
  }
  CHECK(all > 5000);
  CHECK(untouched * 500 < all);
}

TEST_CASE("One rank's exchange reads all that the rank would send or sum, and fills what would arrive") {
  Random random(12);
  int exchanges_seen = 0;
  for (int i = 0; i < 20; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    INFO(describe(e, plan));
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    const auto device = make_deferred_device({1, true, true});
    DeviceSettings settings;
    settings.ranks = DeviceRanks::One;
    const auto executor =
        make_device_executor(*device, e, schedule, random_model_data(e, 1, plan.micro_batches), settings);
    executor->run_step(Poison::No);
    const auto size_of_all = [](const std::vector<Range>& ranges) {
      std::uintptr_t bytes = 0;
      for (const Range& range : ranges) bytes += range.last - range.first;
      return static_cast<std::int64_t>(bytes);
    };
    for (const LoggedCommand& c : device->commands()) {
      if (!c.purpose.op.exists()) continue;
      const Op& op = schedule->ops[c.purpose.op];
      if (op.collective() == Collective::None || op.kind == OpKind::StageSend || c.reads.empty()) continue;
      INFO(to_string(op));
      const auto bytes = [&](TensorId id) {
        const Tensor& t = schedule->tensors[id];
        return t.elements * size_of(stored_as(t, settings.scalar));
      };
      const std::int64_t read = bytes(schedule->reads_of(op)[0]), written = bytes(schedule->writes_of(op)[0]);
      const bool slice = op.gradients.size() > 0, in_place = op.kind == OpKind::ParameterAllGather;
      const bool sums = op.collective() == Collective::ReduceScatter || op.collective() == Collective::AllReduce;
      const std::int64_t summed = slice ? op.gradients.size() * size_of(settings.scalar) : read;
      if (!in_place) CHECK(size_of_all(c.reads) >= (sums ? summed : std::min(read, written)));
      CHECK(size_of_all(c.writes) >= (sums || in_place ? 1 : written));
      ++exchanges_seen;
    }
  }
  CHECK(exchanges_seen > 100);
}
