// SPDX-License-Identifier: Apache-2.0
// The gate and the routing model of a workload.
#include <nlohmann/json.hpp>

#include "models/files/read_parts.hpp"

namespace dovetail {

Gate read_gate(const JsonReader& json) {
  Gate gate;
  gate.kind = json.enumeration_or("kind", gate_kind_names, gate.kind);
  gate.projection = json.integer_or("projection", gate.projection);
  gate.noise_seed = json.integer_or("noise_seed", gate.noise_seed);
  gate.renormalise = json.boolean_or("renormalise", gate.renormalise);
  gate.batch_prioritised = json.boolean_or("batch_prioritised", gate.batch_prioritised);
  return gate;
}

RoutingModel read_routing(const JsonReader& json) {
  RoutingModel routing;
  routing.kind = json.enumeration("kind", routing_kind_names);
  routing.exponent = json.number_or("exponent", routing.exponent, 0);
  routing.hot_expert = json.integer_or("expert", routing.hot_expert);
  routing.hot_share = json.number_or("share", routing.hot_share, 0, 1);
  routing.seed = json.integer_or("seed", routing.seed);
  routing.trace = json.string_or("trace", "");
  if (routing.kind != RoutingKind::Trace) return routing;
  if (const auto layers = json.find("layers"))
    routing.layers = read_load_tables(*layers);
  else if (routing.trace.empty())
    json.fail("a trace without file, expected \"trace\" (a name or path) or \"layers\"");
  return routing;
}

}  // namespace dovetail
