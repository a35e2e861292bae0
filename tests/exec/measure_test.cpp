// SPDX-License-Identifier: Apache-2.0
#include "exec/run/measure.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace dovetail;
using namespace dovetail::exec;

namespace {

std::vector<Seconds> seconds(std::initializer_list<double> values) {
  std::vector<Seconds> all;
  for (double v : values) all.emplace_back(v);
  return all;
}

}  // namespace

TEST_CASE("The median of an even and an odd number of samples") {
  CHECK(median(seconds({3, 1, 2})) == Seconds(2));
  CHECK(median(seconds({4, 1, 2, 3})) == Seconds(2.5));
}

TEST_CASE("The relative deviation ignores a few delayed samples") {
  CHECK(relative_deviation(seconds({1, 1, 1, 1, 9})) == 0);
  CHECK(relative_deviation(seconds({9, 10, 10, 11})) == Approx(.1 / 1.349));
  CHECK(relative_deviation(seconds({1, 2, 1, 2, 1, 2, 1})) > .5);
}

TEST_CASE("Steady samples end the measuring once there are enough of them and of time") {
  MeasureSettings settings;
  int steps = 0;
  Measurement m = measure([&] { return ++steps, Seconds(.2); }, settings);
  CHECK(m.stopped_by == "deviation");
  CHECK(m.samples.size() == 10);
  CHECK(steps == 11);  // the warm-up is not kept
  CHECK(m.median == Seconds(.2));
  CHECK(m.ci95_low == Seconds(.2));
  m = measure([] { return Seconds(.01); }, settings);
  CHECK(m.samples.size() == 50);  // half a second
}

TEST_CASE("Unsteady samples end at the time limit") {
  MeasureSettings settings;
  settings.limit = Seconds(.05);
  int steps = 0;
  const Measurement m = measure(
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Seconds(++steps % 2 == 0 ? 1 : 2);
      },
      settings);
  CHECK(m.stopped_by == "time limit");
  CHECK(m.samples.size() < 50);
}

TEST_CASE("Samples that are no good end at once") {
  const Measurement m = measure([] { return Seconds(1); }, {}, [] { return true; });
  CHECK(m.stopped_by == "given up");
  CHECK(m.samples.size() == 1);
}

TEST_CASE("The bootstrap interval holds the median and depends on the seed alone") {
  const std::vector<Seconds> samples = seconds({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto [low, high] = bootstrap_median(samples, 7);
  CHECK(low >= Seconds(1));
  CHECK(low < Seconds(5));
  CHECK(high > Seconds(5));
  CHECK(high <= Seconds(9));
  CHECK(bootstrap_median(samples, 7) == std::pair(low, high));
}
