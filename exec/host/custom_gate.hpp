// SPDX-License-Identifier: Apache-2.0
// A gate of the user's own (models/extend/custom_gate.hpp), in the layouts of gates.
#pragma once
#include <vector>

#include "exec/host/gate_logits.hpp"
#include "exec/reference/routing.hpp"

namespace dovetail::exec {

// The choices of x (tokens, M), or those of `preset` unless it is empty, with slots in token order. Throws InputError
// for an expert that does not exist.
Routing custom_routing(const LayerShape& shape, const TokenPlace& place, Matrix<const double> x,
                       const double* parameters, const Routing& preset);

// The scores of choices, by entry.
std::vector<double> custom_scores(const LayerShape& shape, const TokenPlace& place, Matrix<const double> x,
                                  const double* parameters, const Routing& routing);

// Adds what comes through the scores to d_x and d_parameters.
void custom_scores_backward(const LayerShape& shape, const TokenPlace& place, Matrix<const double> x,
                            const double* parameters, const Routing& routing, const std::vector<double>& d_scores,
                            Matrix<double> d_x, double* d_parameters);

}  // namespace dovetail::exec
