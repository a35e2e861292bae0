// SPDX-License-Identifier: Apache-2.0
// Branch and bound over a stated space, by the analytic model, under a memory limit. Bounds grow tighter step by step:
// of the ops whatever their order, of one layer as arranged, of the whole step. The most promising is looked at first.
#pragma once
#include <optional>
#include <vector>

#include "planners/search/predictions.hpp"

namespace dovetail::planners {

struct SearchResult {
  std::vector<Prediction> plans;  // that fit, the fastest first; where none fits, the one that lacks least
  std::vector<FrontPoint> front;
  Proof proof;
};

// How much a search may do: predicted layers, each of a whole plan's and of a micro-batch, and half as many looked at
// by themselves. With pipeline stages enough for 30 whole plans, or 20,000.
long search_budget(const Experiment& experiment);

// Whether a whole step takes so long to predict that the search takes the best known plan that fits for the best of the
// space, and looks further with the least budget only where none fits.
bool climbs(const PlanningTask& task);

// `known`: plans to begin with, of the space or not. With a large enough budget the best of the space is among the
// result's plans, and the proof says so.
SearchResult search_plans(const PlanningTask& task, const std::vector<Plan>& known, Bytes limit,
                          std::optional<long> budget = {});

}  // namespace dovetail::planners
