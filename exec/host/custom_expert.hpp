// SPDX-License-Identifier: Apache-2.0
// Experts of the user's own (models/extend/custom_expert.hpp) on a chunk's rows, run by run, with conversion to double.
#pragma once
#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {

// As expert_forward, with what the expert keeps in the place of hidden rows. Results null: only what is kept is wanted.
template <class Scalar>
void custom_expert_forward(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* kept,
                           Scalar* results);

// As expert_backward; the gradients of hidden rows and of scores are left as they are.
template <class Scalar>
void custom_expert_backward(const LayerShape& shape, Chunk<const Scalar> d_results, const Scalar* weights,
                            std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients);

}  // namespace dovetail::exec
