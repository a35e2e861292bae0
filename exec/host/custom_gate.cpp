// SPDX-License-Identifier: Apache-2.0
#include "exec/host/custom_gate.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

GateTokens gate_tokens(const TokenPlace& place, Matrix<const double> x) {
  return {place.layer, place.first_token, x.rows, {x.data, static_cast<std::size_t>(x.rows * x.cols)}};
}

std::span<const double> gate_numbers(const LayerShape& s, const double* parameters) {
  return {parameters, static_cast<std::size_t>(s.router_parameters)};
}

std::vector<std::int32_t> experts_of(const Routing& routing) {
  std::vector<std::int32_t> experts;
  for (const Choice& choice : routing) experts.push_back(choice.expert);
  return experts;
}

Routing own_choices(const LayerShape& s, const TokenPlace& place, Matrix<const double> x, const double* parameters) {
  const CustomGate& gate = *s.extensions.gate;
  std::vector<std::int32_t> experts(static_cast<std::size_t>(x.rows * s.top_k), -1);
  gate.choose(s.gate_sizes, gate_tokens(place, x), gate_numbers(s, parameters), experts);
  Routing routing;
  for (const std::int32_t expert : experts) {
    if (expert < 0 || expert >= s.experts)
      throw InputError(fmt::format("gate {}: chose expert {}, expected 0 to {}", gate.name(), expert, s.experts - 1));
    const auto token = static_cast<std::int64_t>(routing.size()) / s.top_k;
    routing.push_back({static_cast<std::int32_t>(token), expert});
  }
  return routing;
}

}  // namespace

Routing custom_routing(const LayerShape& s, const TokenPlace& place, Matrix<const double> x, const double* parameters,
                       const Routing& preset) {
  Routing routing = preset.empty() ? own_choices(s, place, x, parameters) : preset;
  const std::vector<double> no_ranks(static_cast<std::size_t>(x.rows * s.experts));
  assign_slots(s, no_ranks, routing);
  return routing;
}

std::vector<double> custom_scores(const LayerShape& s, const TokenPlace& place, Matrix<const double> x,
                                  const double* parameters, const Routing& routing) {
  std::vector<double> scores(routing.size());
  s.extensions.gate->score(s.gate_sizes, gate_tokens(place, x), gate_numbers(s, parameters), experts_of(routing),
                           scores);
  return scores;
}

void custom_scores_backward(const LayerShape& s, const TokenPlace& place, Matrix<const double> x,
                            const double* parameters, const Routing& routing, const std::vector<double>& d_scores,
                            Matrix<double> d_x, double* d_parameters) {
  s.extensions.gate->score_backward(s.gate_sizes, gate_tokens(place, x), gate_numbers(s, parameters),
                                    experts_of(routing), d_scores,
                                    {d_x.data, static_cast<std::size_t>(d_x.rows * d_x.cols)},
                                    {d_parameters, static_cast<std::size_t>(s.router_parameters)});
}

}  // namespace dovetail::exec
