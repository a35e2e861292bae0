// A published system or baseline: a preset of the plan space and who chooses its degrees.
#pragma once
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace dovetail {

struct PlannerChoice {
  std::string name = "fixed";   // in planners/registry.cpp
  std::vector<int> degrees{1};  // candidates
  bool tie_degrees = true;      // forward degree = backward degree
};

struct System {
  std::string name;
  std::string description;
  std::string source;
  Plan plan;
  PlannerChoice planner;
};

}  // namespace dovetail
