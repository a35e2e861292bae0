// SPDX-License-Identifier: Apache-2.0
// Plans and random costs for tests that hold planners against an oracle.
#pragma once
#include <cmath>
#include <random>

#include "models/plan/plan.hpp"
#include "models/price/calibration.hpp"
#include "planners/closed_form/four_case.hpp"
#include "tests/support/experiments.hpp"

namespace dovetail::test {

inline int integer(std::mt19937& engine, int low, int high) {
  return std::uniform_int_distribution(low, high)(engine);
}
inline double real(std::mt19937& engine, double low, double high) {
  return std::uniform_real_distribution(low, high)(engine);
}

inline Plan moe_plan() {
  Plan plan;
  plan.scope = Scope::Moe;
  return plan;
}

// Each cost 1/5 to 5 times its own.
inline void scale_costs(Calibration& calibration, std::mt19937& engine) {
  const auto factor = [&] { return std::pow(5.0, real(engine, -1, 1)); };
  for (CollectiveCost& c : calibration.collectives) {
    c.alpha = c.alpha * factor();
    c.beta = c.beta * factor();
  }
  for (GemmCost& gemm : calibration.gemms) gemm.beta = gemm.beta * factor();
  if (calibration.copy) calibration.copy->beta = calibration.copy->beta * factor();
}

// Three kinds together; the loader would refuse some of these, whose pairs keep more.
inline Interference random_three(std::mt19937& engine) {
  const bool copies = engine() % 2 == 0;
  Interference three{
      InterferenceClass::Compute, InterferenceClass::Inter, real(engine, .5, 1), real(engine, .5, 1), {}};
  three.c = KeptSpeed{copies ? InterferenceClass::Copy : InterferenceClass::Intra, real(engine, .5, 1)};
  return three;
}

// All-to-alls of one algorithm interfere in another way.
inline void restrict_one(Calibration& calibration, std::mt19937& engine) {
  if (calibration.interference.empty()) return;
  Interference entry = calibration.interference[engine() % calibration.interference.size()];
  if (engine() % 2 == 0)
    entry.all_to_all = engine() % 2 == 0 ? AllToAll::Linear : AllToAll::TwoDimensional;
  else
    entry.messages = Protocol::Simple;
  entry.b_speed = real(engine, std::max(.05, 1 - entry.a_speed), 1);
  calibration.interference.push_back(entry);
}

// Kinds of ops slow each other; in half of the cases computation keeps all of its speed, as on the shipped A100s.
inline void slow_each_other(Calibration& calibration, std::mt19937& engine) {
  const bool computes_freely = engine() % 2 == 0;
  calibration.interference.clear();
  for (std::size_t a = 0; a < interference_class_names.size(); ++a)
    for (std::size_t b = a + 1; b < interference_class_names.size(); ++b) {
      if (engine() % 4 == 0) continue;
      Interference pair{interference_class_names[a].second, interference_class_names[b].second, 1, 1, {}};
      pair.a_speed = a == 0 && computes_freely ? 1 : real(engine, .5, 1);
      pair.b_speed = real(engine, pair.a_speed == 1 ? .05 : .5, 1);
      calibration.interference.push_back(pair);
    }
  if (engine() % 3 == 0) calibration.interference.push_back(random_three(engine));
  if (engine() % 3 == 0) restrict_one(calibration, engine);
}

inline planners::MoeTimes random_moe(std::mt19937& engine) {
  const auto chunk = [&] { return planners::ChunkTime{Seconds(real(engine, 0, .1)), Seconds(real(engine, 0, 1))}; };
  return {chunk(), chunk(), chunk(), chunk()};
}

}  // namespace dovetail::test
