// SPDX-License-Identifier: Apache-2.0
#include "exec/run/dilation.hpp"

#include <catch2/catch.hpp>

#include "models/schedule/schedule_writer.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

// Ops one after the other, with these modelled seconds.
PricedSchedule chain(const std::vector<double>& durations) {
  ScheduleWriter writer(durations.size());
  writer.add_stream(StreamKind::Compute);
  PricedSchedule priced;
  priced.resources = {"compute"};
  for (double d : durations) {
    writer.add_op({}, {}, {});
    priced.fixed.push_back(Seconds(d / 2));
    priced.duration.push_back(Seconds(d));
    priced.first_demand.push_back(static_cast<std::int32_t>(priced.demands.size()));
    priced.demands.push_back({0, Seconds(d / 2), 1});
  }
  priced.first_demand.push_back(static_cast<std::int32_t>(priced.demands.size()));
  priced.schedule = std::make_shared<const Schedule>(writer.finish(1));
  return priced;
}

Emulated emulated(IdVector<OpId, bool> held, const std::vector<double>& work) {
  Emulated e{std::move(held), {}};
  for (double w : work) e.work.push_back(Seconds(w));
  return e;
}

}  // namespace

TEST_CASE("Work that fills less than half of every op needs no dilation") {
  CHECK(choose_dilation(chain({1, 1}), emulated({true, true}, {.4, .1})) == 1);
}

TEST_CASE("Work of an op may fill half of its stretched time, plus the tolerance") {
  // At d: an op of 2 s of work lags 2 * 2 - d <= 1 % of 2 d.
  CHECK(choose_dilation(chain({1, 1}), emulated({true, true}, {2, 2})) == Approx(4).epsilon(.04));
}

TEST_CASE("A free op between long ones lags only until the next catches up") {
  // Twice 10 ms of work may lag 1 % of the step: a step of 2 s.
  CHECK(choose_dilation(chain({.5, 0, .5}), emulated({true, true, true}, {0, .01, 0})) == Approx(2).epsilon(.02));
  CHECK(choose_dilation(chain({0, 0}), emulated({true, true}, {.1, .1})) == 1);
}

TEST_CASE("Stretching scales held ops and gives the others their work") {
  const PricedSchedule s = stretch(chain({1, 2, 0}), emulated({true, false, false}, {.1, .5, .3}), 10);
  CHECK(s.duration == IdVector<OpId, Seconds>{Seconds(10), Seconds(.5), Seconds(.3)});
  for (const OpId i : s.duration.ids()) {
    CHECK(s.demands_of(PricedSchedule::only_activity(i)).empty());
    CHECK(s.fixed[i] == s.duration[i]);
  }
  CHECK(AnalyticBackend().run(s).ops.back().finish.value() == Approx(10.8));
}
