// SPDX-License-Identifier: Apache-2.0
// Steps with held exchanges, predicted against arithmetic done by hand.
#include "bench/validate/held_exchanges.hpp"

#include <catch2/catch.hpp>

#include "bench/validate/slow_links.hpp"
#include "models/files/load.hpp"
#include "models/price/collective_price.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

constexpr Seconds ms(1e-3);

// One rank with a compute stream, two streams that exchange and one that copies. All ops begin at once.
struct Step {
  Schedule schedule;
  PricedSchedule priced;
  Experiment experiment = test::round_numbers(1);

  Step() {
    schedule.classes.resize(1);
    for (const StreamKind kind : {StreamKind::Compute, StreamKind::Inter, StreamKind::Intra, StreamKind::Copy})
      schedule.streams.push_back({kind, 0});
    experiment.overlap = Overlap::Interfering;
    experiment.calibration.edit().interference = {};
  }

  void add(int stream, InterferenceClass kind, Work work, Seconds time) {
    Op op;
    op.stream = StreamId(stream);
    op.work = work;
    schedule.ops.push_back(op);
    if (priced.first_demand.empty()) priced.first_demand.push_back(0);
    priced.fixed.push_back(Seconds(0));
    priced.duration.push_back(time);
    priced.demands.push_back({static_cast<int>(kind), time, 1});
    priced.first_demand.push_back(static_cast<int>(priced.demands.size()));
  }
  void add_product(Seconds time) { add(0, InterferenceClass::Compute, KernelWork{}, time); }
  void add_copy(Seconds time) { add(3, InterferenceClass::Copy, CopyWork{}, time); }
  void add_exchange(int stream, Seconds time) {
    ExchangeWork work;
    work.collective = Collective::AllToAll;
    add(stream, InterferenceClass::Intra, work, time);
  }
  void keep(InterferenceClass a, InterferenceClass b, double a_speed, double b_speed) {
    experiment.calibration.edit().interference.push_back({a, b, a_speed, b_speed, {}});
  }

  Timeline run() {
    priced.schedule = std::make_shared<const Schedule>(schedule);
    priced.resources = {"compute", "inter", "intra", "copy"};
    priced.physical = priced.resources.size();
    return AnalyticBackend().run(with_held_exchanges(experiment, Plan{}, priced));
  }
  double finish(int op) { return run().ops[OpId(op)].finish / ms; }
};

}  // namespace

TEST_CASE("A product beside a held exchange loses speed, the exchange does not") {
  Step step;
  step.keep(InterferenceClass::Compute, InterferenceClass::Intra, .5, 1);
  step.add_product(ms);
  step.add_exchange(1, ms);
  CHECK(step.finish(1) == Approx(1));
  CHECK(step.finish(0) == Approx(1.5));  // half done after 1 ms, and half a millisecond is left
  step.experiment.overlap = Overlap::Ideal;
  CHECK(step.finish(0) == Approx(1));
}

TEST_CASE("Beside two exchanges a product is as slow as beside one, and both last their own time") {
  Step step;
  step.keep(InterferenceClass::Compute, InterferenceClass::Intra, .25, 1);
  step.add_product(2 * ms);
  step.add_exchange(1, ms);
  step.add_exchange(2, 3 * ms);
  CHECK(step.finish(1) == Approx(1));
  CHECK(step.finish(2) == Approx(3));
  CHECK(step.finish(0) == Approx(4.25));  // .75 ms of work after 3 ms, and 1.25 ms are left
}

TEST_CASE("Products and copies keep speeds of their own beside an exchange, and beside each other") {
  Step step;
  step.keep(InterferenceClass::Compute, InterferenceClass::Intra, .8, 1);
  step.keep(InterferenceClass::Intra, InterferenceClass::Copy, 1, .5);
  step.add_product(ms);
  step.add_exchange(1, 4 * ms);
  step.add_copy(ms);
  CHECK(step.finish(0) == Approx(1.25));  // 1 / .8
  CHECK(step.finish(1) == Approx(4));
  CHECK(step.finish(2) == Approx(2));  // 1 / .5
  Step without;
  without.keep(InterferenceClass::Compute, InterferenceClass::Copy, .5, 1);
  without.add_product(ms);
  without.add_copy(ms);
  CHECK(without.finish(1) == Approx(1));
  CHECK(without.finish(0) == Approx(1.5));  // as the first product
}

TEST_CASE("Held exchanges keep their speed in every entry, entries of exchanges alone are left out") {
  using enum InterferenceClass;
  const std::vector<Interference> kept = beside_held({{Compute, Intra, .6, .7, {}},
                                                      {Inter, Copy, .5, .8, {}},
                                                      {Inter, Intra, .8, .8, {}},
                                                      {Compute, Copy, .9, .8, {}},
                                                      {Compute, Intra, .5, .5, {}, KeptSpeed{Copy, .4}}});
  REQUIRE(kept.size() == 3);
  CHECK(kept[0].a_speed == .6);
  CHECK(kept[0].b_speed == 1);
  CHECK(kept[1].a_speed == 1);
  CHECK(kept[1].b_speed == .8);
  CHECK(kept[2].a_speed == .9);
  CHECK(kept[2].b_speed == .8);
}

TEST_CASE(
    "Links that are slowed take that many times as long, by every kind of cost, and copies only where they are held") {
  using namespace dovetail::bench;
  FilesRead files;
  const Calibration shipped = load_calibration("dgx-h100", files);
  const double slowdown = GENERATE(.5, 4);
  Calibration slow = shipped;
  slow_links(slow, slowdown, Copies::Real);
  CHECK(slow.copy->beta == shipped.copy->beta);
  CHECK(slow.gemms.front().beta == shipped.gemms.front().beta);
  const GroupPlace node{{8, 1}, 8, 8, {}}, nodes{{64, 8}, 8, 8, {}};
  for (const Collective collective : {Collective::AllToAll, Collective::AllReduce})
    for (const GroupPlace& place : {node, nodes})
      for (const double bytes : {1e4, 1e9}) {
        const auto time = [&](const Calibration& c) {
          const ResourceTime t = find_cost(c, collective, place).of(Bytes(bytes));
          return (t.fixed + t.busy).value();
        };
        CAPTURE(bytes, place.shape.nodes);
        CHECK(time(slow) == Approx(slowdown * time(shipped)));
      }
  slow_links(slow, 3, Copies::Slowed);
  CHECK(slow.copy->beta.value() == Approx(3 * shipped.copy->beta.value()));
}
