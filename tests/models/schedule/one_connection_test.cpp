// SPDX-License-Identifier: Apache-2.0
// Devices whose streams share one hardware queue.
#include "models/schedule/one_connection.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

// How often an op begins before one that stands before it in the program of its rank class.
int early_begins(const PricedSchedule& priced) {
  const Timeline timeline = AnalyticBackend().run(priced);
  const Schedule& s = *priced.schedule;
  std::vector<Seconds> latest(s.classes.size());
  int early = 0;
  for (const OpId id : s.ops.ids()) {
    if (std::holds_alternative<HostWait>(*s.ops[id].work)) continue;
    Seconds& begun = latest[static_cast<std::size_t>(s.class_of(s.ops[id]))];
    early += timeline.ops[id].start < begun - Seconds(1e-12) ? 1 : 0;
    begun = std::max(begun, timeline.ops[id].start);
  }
  return early;
}

}  // namespace

TEST_CASE("With one connection ops begin in the order in which they are issued") {
  int otherwise = 0, done = 0;
  for (unsigned seed = 1; done < test::cases(60); ++seed) {
    test::Random random(seed);
    const Experiment e = test::random_experiment(random);
    Plan plan = test::random_legal_plan(random, e);
    if (e.parallelism.pp > 1) continue;  // messages of stages begin when they are received
    ++done;
    INFO("seed " << seed << ": " << test::describe(e, plan));
    plan.one_connection = true;
    const PricedSchedule in_one = price_plan(e, plan);
    CHECK_NOTHROW(validate(*in_one.schedule));
    CHECK(early_begins(in_one) == 0);
    plan.one_connection = false;
    otherwise += early_begins(price_plan(e, plan)) > 0 ? 1 : 0;
  }
  CHECK(otherwise >= done / 4);
}

TEST_CASE("A kernel that waits holds up what is issued after it, on whatever stream") {
  Schedule s;
  s.classes = {{1}};
  for (const StreamKind kind : {StreamKind::Compute, StreamKind::Inter, StreamKind::Intra})
    s.streams.push_back({kind, 0});
  const auto add = [&](int stream, std::vector<OpId> before) {
    Op op;
    op.stream = StreamId(stream);
    op.dependencies.first = static_cast<std::int32_t>(s.dependencies.size());
    s.dependencies.insert(s.dependencies.end(), before.begin(), before.end());
    op.dependencies.last = static_cast<std::int32_t>(s.dependencies.size());
    s.ops.push_back(op);
    return OpId(s.ops.size() - 1);
  };
  const OpId a = add(0, {}), b = add(1, {a}), beside = add(2, {}), d = add(1, {}), after = add(0, {});
  take_from_one_queue(s);
  const auto waits_for = [&](OpId op) {
    const auto all = s.dependencies_of(s.ops[op]);
    return std::vector<OpId>(all.begin(), all.end());
  };
  CHECK(waits_for(a).empty());
  CHECK(waits_for(b) == std::vector{a});
  CHECK(waits_for(beside) == std::vector{a});  // b does not begin before a has ended
  CHECK(waits_for(d).empty());                 // its stream has b before it, which waits for a
  CHECK(waits_for(after) == std::vector{b});   // d does not begin before b has ended
}
