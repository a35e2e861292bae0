// SPDX-License-Identifier: Apache-2.0
// Without sharing: streams, dependencies, times that add up, and what does not depend on the schedule at all.
#include "sim/simgrid_backend.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <thread>

#include "models/base/errors.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;
using sim::SimGridBackend;

namespace {

Approx near(Seconds expected) {
  return Approx(expected.value()).epsilon(1e-12).margin(0);
}

bool same_bytes(const Timeline& a, const Timeline& b) {
  return a.ops.size() == b.ops.size() && std::memcmp(a.ops.data(), b.ops.data(), a.ops.size() * sizeof(Interval)) == 0;
}

Timeline simulate(const PricedSchedule& priced) {
  return SimGridBackend().run(priced);
}

void check_equal_to_analytic(const PricedSchedule& priced) {
  const Timeline simulated = simulate(priced);
  const Timeline predicted = AnalyticBackend().run(priced);
  REQUIRE(simulated.ops.size() == predicted.ops.size());
  for (const OpId i : simulated.ops.ids()) {
    INFO("op " << i);
    CHECK(simulated.ops[i].start.value() == near(predicted.ops[i].start));
    CHECK(simulated.ops[i].finish.value() == near(predicted.ops[i].finish));
  }
}

// The text that `action` writes to standard output and standard error, by SimGrid or anyone.
template <class Action>
std::string output_of(Action action) {
  std::FILE* const file = std::tmpfile();
  std::fflush(nullptr);
  const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  action();
  std::fflush(nullptr);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close(out);
  close(err);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

const RandomShape contended{.ops = 80, .streams = 5, .shared_resources = 4};

}  // namespace

TEST_CASE("Without sharing the simulation is the analytic prediction") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const int streams = 1 + static_cast<int>(seed % 7);
    check_equal_to_analytic(random_priced(seed, {.ops = 50, .streams = streams}));
  }
}

TEST_CASE("Durations of any size are equally exact") {
  for (const double unit : {1e-15, 1e-9, 1e3, 1e12}) {
    INFO("unit " << unit);
    check_equal_to_analytic(random_priced(1, {.shortest = 1e-6 * unit, .longest = unit}));
  }
}

TEST_CASE("A simulated timeline says so") {
  HandMade made(1, 1);
  made.add(0, {}, 1, {});
  CHECK(simulate(made.priced()).kind == ResultKind::Simulated);
  CHECK(SimGridBackend().name() == "simgrid");
}

TEST_CASE("An empty schedule takes no time") {
  CHECK(simulate(HandMade(2, 1).priced()).ops.empty());
}

TEST_CASE("An op that is ready waits for the one before it in its stream") {
  HandMade made(2, 2);
  const OpId slow = made.add(0, {}, 0, {use(0, 5)});
  made.add(1, {slow}, 0, {use(1, 1)});
  made.add(1, {}, 0, {use(1, 2)});  // ready at 0, but behind the one above
  const Timeline timeline = simulate(made.priced());
  CHECK(timeline.ops[1].start.value() == 5);
  CHECK(timeline.ops[2].start.value() == 6);
  CHECK(timeline.ops[2].finish.value() == 8);
}

TEST_CASE("An op takes its fixed time and then its longest demand") {
  HandMade made(1, 3);
  made.add(0, {}, 0.25, {use(0, 1), use(1, 3), use(2, 2)});
  CHECK(simulate(made.priced()).ops[0].finish.value() == 3.25);
}

TEST_CASE("Ops without work end where they begin and release their successors") {
  HandMade made(3, 2);
  const OpId first = made.add(0, {}, 0, {});
  const OpId work = made.add(1, {first}, 0, {use(0, 2)});
  const OpId join = made.add(2, {first, work}, 0, {use(0, 0)});
  const OpId last = made.add(0, {join}, 1, {use(1, 0)});
  const Timeline timeline = simulate(made.priced());
  CHECK(timeline.ops[0].finish.value() == 0);
  CHECK(timeline.ops[join].start.value() == 2);
  CHECK(timeline.ops[join].finish.value() == 2);
  CHECK(timeline.ops[last].finish.value() == 3);
}

TEST_CASE("A long chain of ops without work needs no deep stack") {
  HandMade made(2, 1);
  constexpr int length = 200'000;
  for (int i = 0; i < length; ++i) {
    const OpId previous(i - 1);
    made.add(StreamId(i % 2), std::span(&previous, i == 0 ? 0 : 1), 0, {});
  }
  CHECK(simulate(made.priced()).ops.back().finish.value() == 0);
}

TEST_CASE("Equal ops on different streams end at the same instant, to the bit") {
  HandMade made(8, 8);
  for (int stream = 0; stream < 8; ++stream) {
    made.add(StreamId(stream), {}, 0.1, {use(stream, 0.7)});
    made.add(StreamId(stream), {}, 0.2, {use(stream, 1.0 / 3)});
  }
  const Timeline timeline = simulate(made.priced());
  for (const OpId i : timeline.ops.ids()) CHECK(timeline.ops[i].finish == timeline.ops[OpId(i % 2)].finish);
}

TEST_CASE("The result does not depend on what ran before") {
  const PricedSchedule priced = random_priced(7, contended);
  const Timeline first = simulate(priced);
  // After these the clock of the engine is some 1e14 times an op of `priced`.
  for (std::uint32_t seed = 0; seed < 50; ++seed)
    simulate(random_priced(seed, {.ops = 60, .longest = 1e12, .shared_resources = 3}));
  CHECK(same_bytes(first, simulate(priced)));

  // More resources than there were: the engine is replaced.
  HandMade wide(5000, 5000);
  for (int stream = 0; stream < 5000; ++stream) wide.add(StreamId(stream), {}, 0, {use(stream, 1)});
  CHECK(simulate(wide.priced()).ops.back().finish.value() == 1);
  CHECK(same_bytes(first, simulate(priced)));
}

TEST_CASE("Another thread is refused") {
  const PricedSchedule priced = random_priced(3, contended);
  simulate(priced);
  bool refused = false;
  std::jthread([&] {
    try {
      simulate(priced);
    } catch (const InternalError&) {
      refused = true;
    }
  }).join();
  CHECK(refused);
}

TEST_CASE("A new engine leaves the handlers of the program alone") {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  const std::terminate_handler terminate = std::get_terminate();
  const HandMade wider(20000, 1);  // than any before: makes a new engine
  simulate(wider.priced());
  sigaction(SIGINT, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
  CHECK(std::get_terminate() == terminate);
}

TEST_CASE("Nothing is printed") {
  const HandMade wider(50000, 1);
  CHECK(output_of([&] { simulate(wider.priced()); }) == "");  // makes a new engine
  CHECK(output_of([] { simulate(random_priced(2, contended)); }) == "");
}

TEST_CASE("Prices that no simulation could end with are refused") {
  HandMade endless(1, 1);
  endless.add(0, {}, 0, {use(0, std::numeric_limits<double>::infinity())});
  CHECK_THROWS_AS(simulate(endless.priced()), InternalError);
  HandMade negative(1, 1);
  negative.add(0, {}, -1, {});
  CHECK_THROWS_AS(simulate(negative.priced()), InternalError);
  HandMade nowhere(1, 1);
  nowhere.add(0, {}, 0, {use(1, 1)});
  CHECK_THROWS_AS(simulate(nowhere.priced()), InternalError);
}
