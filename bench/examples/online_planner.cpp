// SPDX-License-Identifier: Apache-2.0
// How a training framework embeds an online planner: choose before a step, report after it, keep the state between
// runs. Usage: online_planner STATE.json
#include <algorithm>
#include <cstdio>

#include "models/base/errors.hpp"
#include "planners/online/online.hpp"

namespace {

using namespace dovetail;
using namespace dovetail::planners;

// Stands for the framework's own step, which would run with that many chunks and be timed: each chunk costs a launch,
// and all but one chunk's exchange hides behind experts.
Seconds train_one_step(double capacity_factor, int chunks) {
  const double launch = .4e-3, exchange = 3e-3 * capacity_factor, experts = 4e-3 * capacity_factor;
  return Seconds(launch * chunks + exchange / chunks + experts);
}

// The capacity factor of the batch that is about to be trained on, the largest over ranks; here made up.
double capacity_factor_of(int step) {
  return 1 + 3 * ((step * 37) % 100) / 100.0;
}

int run(const char* state) {
  const int chunks[] = {1, 2, 4, 8};
  const auto planner = make_online("bucketed_search", {.strategies = {"1 chunk", "2 chunks", "4 chunks", "8 chunks"},
                                                       .context = "example, made-up times",
                                                       .bucket_length = .5,
                                                       .lines = {}});
  const bool resumed = planner->load(state);
  Seconds spent, best;
  for (int step = 0; step < 1000; ++step) {
    const double factor = capacity_factor_of(step);
    const std::size_t choice = planner->choose({.capacity_factor = factor});
    const Seconds time = train_one_step(factor, chunks[choice]);
    planner->report(time);
    if (step % 100 == 99) planner->save(state);  // whole on the disk whenever training is killed
    spent += time;
    Seconds least = time;
    for (int each : chunks) least = std::min(least, train_one_step(factor, each));
    best += least;
  }
  std::printf("%s: %.3f s, %.2f %% more than with the best choice in every step\n", resumed ? "resumed" : "new",
              spent.value(), 100 * (spent / best - 1));
  return spent / best < 1.02 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::puts("usage: online_planner STATE.json");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {  // a state of other strategies, a full disk
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
