// SPDX-License-Identifier: Apache-2.0
// Few kinds of ops that share: the same times as by following every rate.
#include "models/time/mix_sharing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/time/fair_sharing.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// Both ways, and how many ops there are.
void check_agreement(const PricedSchedule& priced) {
  IdVector<OpId, Interval> ops(priced.schedule->ops.size());
  const std::optional<Seconds> end = run_mixes(priced, &ops);
  REQUIRE(end);
  const Timeline followed = run_sharing(priced);
  Seconds last;
  for (const OpId i : ops.ids()) {
    INFO("op " << i << " of " << ops.size());
    const double rounding = 1e-9 * std::max(1e-12, followed.ops[i].finish.value());
    CHECK(std::abs((ops[i].start - followed.ops[i].start).value()) <= rounding);
    CHECK(std::abs((ops[i].finish - followed.ops[i].finish).value()) <= rounding);
    last = std::max(last, ops[i].finish);
  }
  CHECK(*end == last);
  CHECK(run_mixes(priced, nullptr) == end);
}

Experiment shipped(std::vector<std::string> set = {}) {
  ExperimentRequest request;
  request.cluster = "fsmoe-testbed-b";
  request.model = "mixtral-8x7b";
  request.set = std::move(set);
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace

TEST_CASE("Two kinds that slow each other, worked out by hand") {
  // Resource 2 stands for contention: of it compute (0) demands half of its time, and traffic (1) 5/8 of it. Both get
  // half: compute runs at full speed, traffic at 4/5 of it. Op 1 begins at 1 and has done 4/5 x 3 when op 0 ends at 4;
  // the last 2 - 12/5 < 0: it ends before, at 1 + 2 / (4/5) = 3.5.
  HandMade made(2, 3);
  const OpId compute = made.add(StreamId(0), {}, 0, {use(0, 4), use(2, 2)});
  const OpId traffic = made.add(StreamId(1), {}, 1, {use(1, 2), use(2, 1.25)});
  // It waits for both, and runs alone: 4 + 8.
  const OpId after = made.add(StreamId(1), {compute, traffic}, 0, {use(1, 8), use(2, 5)});
  const PricedSchedule priced = made.priced();
  IdVector<OpId, Interval> ops(3);
  CHECK(run_mixes(priced, &ops) == Seconds(12));
  CHECK(ops[compute].finish.value() == Approx(4));
  CHECK(ops[traffic].start == Seconds(0));
  CHECK(ops[traffic].finish.value() == Approx(3.5));
  CHECK(ops[after].start.value() == Approx(4));
}

TEST_CASE("Random schedules that share: the same times as by following every rate") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    check_agreement(random_priced(seed, {.ops = 12, .streams = 3, .shared_resources = 2}));
  }
}

TEST_CASE("Plans under the interference of a shipped calibration: the same times as by following every rate") {
  FilesRead files;
  const std::vector<Interference> interference = load_calibration("dgx-h100", files).interference;
  for (const char* stages : {"parallelism.pp=1", "parallelism.pp=4"}) {
    Experiment e = shipped({"workload.layers=4", "workload.batch=4", stages});
    e.calibration.edit().interference = interference;
    for (const CommStreams streams : {CommStreams::One, CommStreams::InterIntra}) {
      Plan plan;
      plan.scope = Scope::Moe;
      plan.forward_degree = plan.backward_degree = 4;
      plan.comm_streams = streams;
      plan.micro_batches = e.parallelism.pp;
      const PricedSchedule priced = price_plan(e, plan);
      CHECK(priced.contended);
      check_agreement(priced);
    }
  }
}

TEST_CASE("Launches of the host hold ops back as when every rate is followed") {
  Experiment e = shipped({"workload.layers=2"});
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 4;
  plan.comm_streams = CommStreams::InterIntra;
  const Seconds ideal = *run_mixes(price_plan(e, plan), nullptr);
  for (const double launch : {1e-5, 1e-4, 1e-3})
    for (const bool waits : {false, true}) {
      INFO(launch << " s for each launch, the host waits: " << waits);
      e.calibration.edit().host = HostCost{Seconds(launch), {}};
      plan.host_sync = waits;
      check_agreement(price_plan(e, plan));
    }
  CHECK(*run_mixes(price_plan(e, plan), nullptr) > ideal);
}

TEST_CASE("Schedules of other kinds are left to the general way") {
  CHECK_FALSE(run_mixes(random_priced(1, {.shared_resources = 2, .activities = 3}), nullptr));
  CHECK_FALSE(run_mixes(random_priced(1, {.shared_resources = 2, .speed_changes = 3}), nullptr));
  // 40 ops demand four resources in all proportions, of which 16 are known.
  CHECK_FALSE(run_mixes(random_priced(1, {.ops = 200, .shared_resources = 4}), nullptr));
}
