// SPDX-License-Identifier: Apache-2.0
// Steps with one wait for an event taken away, each in turn: whatever then has no order is reported.
#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "tests/exec_device/command_order.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

struct Drops {
  int redundant = 0;  // another path orders the same accesses
  int found = 0;      // reported
  int refused = 0;    // by the capture
  int missed = 0;     // not reported, but unordered by the log
  int invented = 0;   // reported, but ordered by the log
  int outside = 0;    // not captured in full
  int total() const { return redundant + found + refused + missed + invented + outside; }
};

// Steps of one plan. With `captured` as graphs, from whose capture a wait is left out.
class Dropper {
 public:
  Dropper(const Experiment& e, const Plan& plan, DeviceRanks ranks, bool captured)
      : device_(make_deferred_device({3, true, true})), captured_(captured) {
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    DeviceSettings settings;
    settings.scalar = Stored::Double;
    settings.ranks = ranks;
    if (ranks == DeviceRanks::One) settings.exchange_durations.assign(schedule->ops.size(), Seconds(1e-5));
    settings.overrun_tolerance = Seconds(1);
    executor_ = make_device_executor(*device_, e, schedule, random_model_data(e, 1, plan.micro_batches), settings);
    executor_->run_stamped();
    const std::int64_t before = device_->waits();
    REQUIRE(step());
    waits_ = device_->waits() - before;
    commands_ = device_->commands().size();
    CHECK(device_->races().empty());
    CHECK(unordered_accesses(device_->commands()).empty());
  }
  std::int64_t waits() const { return waits_; }

  // A capture is made twice, without stamps and with them: the second one's waits.
  void drop_each(Drops& drops) {
    for (std::int64_t n = captured_ ? waits_ / 2 : 0; n < waits_; ++n) {
      device_->plant({n, std::nullopt});
      if (!step()) {
        ++drops.refused;
      } else {
        // A queue's first wait takes it into the capture: the graph lacks what comes before the second one.
        if (const std::size_t commands = device_->commands().size() + 1; commands != commands_) {
          REQUIRE((captured_ && commands < commands_));
          ++drops.outside;
          device_->synchronize();
          device_->forget_races();
          continue;
        }
        const bool unordered = !unordered_accesses(device_->commands()).empty(), reported = !device_->races().empty();
        ++(unordered ? reported ? drops.found : drops.missed : reported ? drops.invented : drops.redundant);
      }
      device_->synchronize();
      device_->forget_races();
    }
  }

 private:
  bool step() {
    if (captured_ && !executor_->capture().empty()) return false;
    executor_->run_stamped();
    return true;
  }

  std::unique_ptr<DeferredDevice> device_;
  bool captured_;
  std::unique_ptr<DeviceExecutor> executor_;
  std::int64_t waits_ = 0;
  std::size_t commands_ = 0;
};

}  // namespace

TEST_CASE("Whatever order a missing wait leaves out is reported, and nothing else") {
  Random random(77);
  Drops all;
  for (int run = 0; run < 12;) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    const DeviceRanks ranks = run % 3 == 2 ? DeviceRanks::One : DeviceRanks::All;
    const bool captured = run % 2 == 1 && !plan.host_sync;
    INFO(describe(e, plan));
    Dropper dropper(e, plan, ranks, captured);
    if (dropper.waits() > 200) continue;
    dropper.drop_each(all);
    ++run;
  }
  INFO(all.total() << " waits: " << all.redundant << " redundant, " << all.found << " found, " << all.refused
                   << " refused by captures, " << all.outside << " captured in part");
  CHECK(all.missed == 0);
  CHECK(all.invented == 0);
  CHECK(all.found > 100);
  CHECK(all.refused > 5);
  CHECK(all.redundant > 100);
}
