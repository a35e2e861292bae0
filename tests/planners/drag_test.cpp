// SPDX-License-Identifier: Apache-2.0
// Computation that holds up a stream of communication: the bound against the time of hand-made schedules.
#include "planners/search/drag.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;
using enum InterferenceClass;

namespace {

StreamId stream_of(const PricedSchedule& priced, StreamKind kind) {
  for (const StreamId stream : priced.schedule->streams.ids())
    if (priced.schedule->streams[stream].kind == kind) return stream;
  return {};
}

// On testbed B: dispatch and combine between nodes, gathers inside.
double drag(CommStreams streams, StreamKind kind, std::vector<Interference> pairs) {
  Experiment e = test::testbed_b(1);
  e.calibration.edit().interference = std::move(pairs);
  Plan plan = test::moe_plan();
  plan.comm_streams = streams;
  const PricedSchedule priced = price_plan(e, plan);
  return drag_of(priced, stream_of(priced, kind), e.calibration->interference);
}

}  // namespace

TEST_CASE("drag: the least loss of the kinds on a stream, where each kind has one stream") {
  // Beside computation traffic between nodes loses .2 of its speed, and traffic inside .3.
  const std::vector<Interference> pairs{{Compute, Inter, 1, .8, {}}, {Intra, Compute, .7, 1, {}}};
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, pairs) == Approx(.2));
  CHECK(drag(CommStreams::InterIntra, StreamKind::Intra, pairs) == Approx(.3));
  CHECK(drag(CommStreams::One, StreamKind::Communication, pairs) == Approx(.2));
  // Dispatch and combine are on two streams: together they lose less.
  CHECK(drag(CommStreams::DispatchCombine, StreamKind::Communication, pairs) == 0);
}

TEST_CASE("drag: the least loss where entries of some all-to-alls stand beside that of all exchanges") {
  std::vector<Interference> pairs{{Compute, Inter, 1, .8, {}}, {Compute, Inter, 1, .9, {}}};
  pairs[1].all_to_all = AllToAll::Linear;
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, pairs) == Approx(.1));
  pairs[1].b_speed = .5;
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, pairs) == Approx(.2));
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, {pairs[1]}) == 0);  // other exchanges keep their speed
}

TEST_CASE("drag: none without interference, or where computation is slowed too") {
  CHECK(drag(CommStreams::One, StreamKind::Communication, {}) == 0);
  CHECK(drag(CommStreams::One, StreamKind::Communication, {{Compute, Inter, 1, .8, {}}}) == 0);  // not inside nodes
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, {{Compute, Inter, 1, .8, {}}, {Compute, Intra, .9, 1, {}}}) ==
        0);
  // Three kinds at once may slow computation, where there are such ops: there are no copies to the host.
  std::vector<Interference> three{{Compute, Inter, 1, .8, {}}, {Compute, Inter, 1, .5, {}}};
  three[1].c = KeptSpeed{Intra, .8};
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, three) == 0);
  three[1].c = KeptSpeed{Copy, .8};
  CHECK(drag(CommStreams::InterIntra, StreamKind::Inter, three) == Approx(.2));
}
