// SPDX-License-Identifier: Apache-2.0
// Routing as an input: how many tokens of each rank choose each expert. The loads size the capacity where the workload
// does not, tell drops and imbalance, and are what host runs really route.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail {

// Router: what the gate does; where nothing has run yet, loads are taken as uniform. Zipf: expert e is chosen in
// proportion to 1 / (e + 1)^s. Hot: one expert takes a share, the others divide the rest. Trace: recorded counts.
enum class RoutingKind { Router, Uniform, Zipf, Hot, Trace };
inline constexpr std::array<std::pair<std::string_view, RoutingKind>, 5> routing_kind_names{
    {{"router", RoutingKind::Router},
     {"uniform", RoutingKind::Uniform},
     {"zipf", RoutingKind::Zipf},
     {"hot", RoutingKind::Hot},
     {"trace", RoutingKind::Trace}}};

// The loads of one layer: rows are source ranks, columns are experts. Only proportions within a row count.
using LoadTable = std::vector<std::vector<double>>;

struct RoutingModel {
  RoutingKind kind = RoutingKind::Router;
  double exponent = 1;            // Zipf: s
  int hot_expert = 0;             // Hot
  double hot_share = .5;          // Hot: of all choices
  int seed = 1;                   // of which tokens make up a load
  std::string trace;              // Trace: name or path of the file
  std::vector<LoadTable> layers;  // Trace: of the workload's step; layer l uses table l mod size, rank r row r mod rows
};

}  // namespace dovetail
