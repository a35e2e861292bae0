// SPDX-License-Identifier: Apache-2.0
// The gate: residual sum, router, choices, capacity slots; backward through the scores. In double whatever the tensors
// hold, so that no choice depends on their precision.
#include <algorithm>

#include "exec/host/custom_gate.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/step/gate_scores.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

using Values = std::vector<double>;

Matrix<const double> tokens_of(const LayerShape& shape, const Values& values) {
  return {values.data(), shape.tokens, shape.hidden};
}

template <class Scalar>
void write_sparse(const LayerShape& shape, const Routing& routing, const Values& scores, Scalar* to) {
  for (std::size_t i = 0; i < routing.size(); ++i) {
    const auto& [token, expert, slot] = routing[i];
    to[3 * i] = static_cast<Scalar>(token);
    to[3 * i + 1] = static_cast<Scalar>(slot < 0 ? -1 - expert : slot_place(shape, routing[i]));
    to[3 * i + 2] = static_cast<Scalar>(scores[i]);
  }
}

template <class Scalar>
Routing read_sparse(const LayerShape& shape, const Scalar* from) {
  Routing routing;
  for (std::int64_t i = 0; i < shape.routing_entries(); ++i) {
    const RoutedChoice<Scalar> c(from, i);
    const std::int64_t expert = c.dropped() ? -1 - c.place : c.place / shape.capacity;
    const std::int64_t slot = c.dropped() ? Choice::dropped : c.place % shape.capacity + shape.first_slot;
    routing.push_back(
        {static_cast<std::int32_t>(c.token), static_cast<std::int32_t>(expert), static_cast<std::int32_t>(slot)});
  }
  return routing;
}

template <class Scalar>
void write_dense(const LayerShape& shape, const Routing& routing, const Values& scores,
                 const GateWeights<Scalar>& weights) {
  const std::int64_t slots = shape.slots();
  std::fill_n(weights.combine, shape.tokens * slots, Scalar(0));
  std::fill_n(weights.dispatch, shape.tokens * slots, Scalar(0));
  for (std::size_t i = 0; i < routing.size(); ++i) {
    if (routing[i].slot < 0) continue;
    const std::int64_t at = routing[i].token * slots + slot_place(shape, routing[i]);
    weights.combine[at] = static_cast<Scalar>(scores[i]);
    weights.dispatch[at] = Scalar(1);
  }
}

template <class Scalar>
void write_weights(const LayerShape& shape, const Routing& routing, const Values& scores,
                   const GateWeights<Scalar>& weights) {
  check(static_cast<std::int64_t>(routing.size()) == shape.routing_entries(), "preset routing of another shape");
  write_sparse(shape, routing, scores, weights.routing);
  if (weights.combine != nullptr) write_dense(shape, routing, scores, weights);
}

// The gradients of the choices' scores, wherever they stand.
template <class Scalar>
Values score_gradients(const LayerShape& shape, const Routing& routing, const GateWeights<const Scalar>& gradient) {
  if (gradient.combine == nullptr) return {gradient.routing, gradient.routing + routing.size()};
  Values result;
  for (const Choice& c : routing)
    result.push_back(c.slot < 0 ? 0 : gradient.combine[c.token * shape.slots() + slot_place(shape, c)]);
  return result;
}

template <class Scalar>
Values logits_gradient(const LayerShape& shape, const Values& logits, const GateWeights<const Scalar>& gradient,
                       const Scalar* routing) {
  const std::int64_t dense = shape.tokens * shape.slots();
  if (shape.gate.kind == GateKind::SoftMoe)
    return soft_weights_backward(
        shape, soft_weights(shape, logits),
        {Values(gradient.dispatch, gradient.dispatch + dense), Values(gradient.combine, gradient.combine + dense)});
  const Routing choices = read_sparse(shape, routing);
  return choice_scores_backward(shape, expert_scores(shape, logits), choices,
                                score_gradients(shape, choices, gradient));
}

}  // namespace

template <class Scalar>
void gate_forward(const LayerShape& shape, Matrix<const Scalar> input, const Scalar* router_weights,
                  const TokenPlace& place, const Routing& preset, const GateWeights<Scalar>& weights) {
  const Values x(input.data, input.data + shape.tokens * shape.hidden);
  const Values router(router_weights, router_weights + shape.router_parameters);
  if (shape.extensions.gate != nullptr) {
    const Routing routing = custom_routing(shape, place, tokens_of(shape, x), router.data(), preset);
    const Values chosen = custom_scores(shape, place, tokens_of(shape, x), router.data(), routing);
    return write_weights(shape, routing, chosen, weights);
  }
  Values logits = gate_logits(shape, place, tokens_of(shape, x), router.data());
  if (shape.gate.kind == GateKind::SoftMoe) {
    const SoftWeights soft = soft_weights(shape, logits);
    std::ranges::copy(soft.combine, weights.combine);
    std::ranges::copy(soft.dispatch, weights.dispatch);
    return;
  }
  const Values scores = expert_scores(shape, std::move(logits));
  Routing routing = preset.empty() ? choose(shape, scores) : preset;
  assign_slots(shape, scores, routing);
  const Values chosen = choice_scores(shape, scores, routing);
  write_weights(shape, routing, chosen, weights);
}

template <class Scalar>
void gate_backward(const LayerShape& shape, const GateWeights<const Scalar>& weights_gradient, const Scalar* routing,
                   const GateOperands<Scalar>& operands, Matrix<Scalar> d_input, Scalar* router_gradient) {
  const std::int64_t elements = shape.tokens * shape.hidden;
  const Values x(operands.input.data, operands.input.data + elements);
  const Values router(operands.router_weights, operands.router_weights + shape.router_parameters);
  Values d_x(x.size()), d_router(router.size());
  const Matrix<double> d_tokens(d_x.data(), shape.tokens, shape.hidden);
  if (shape.extensions.gate != nullptr) {
    const Routing choices = read_sparse(shape, routing);
    custom_scores_backward(shape, operands.place, tokens_of(shape, x), router.data(), choices,
                           score_gradients(shape, choices, weights_gradient), d_tokens, d_router.data());
  } else {
    const Values logits = gate_logits(shape, operands.place, tokens_of(shape, x), router.data());
    gate_logits_backward(shape, operands.place, tokens_of(shape, x), router.data(),
                         logits_gradient(shape, logits, weights_gradient, routing), d_tokens, d_router.data());
  }
  for (std::int64_t i = 0; i < elements; ++i) d_input.data[i] += static_cast<Scalar>(d_x[static_cast<std::size_t>(i)]);
  for (std::size_t i = 0; i < d_router.size(); ++i) router_gradient[i] += static_cast<Scalar>(d_router[i]);
}

template <class Scalar>
void count_rows(const LayerShape& shape, const Scalar* routing, Scalar* counts) {
  std::fill_n(counts, shape.experts, Scalar(0));
  for (std::int64_t i = 0; i < shape.routing_entries(); ++i)
    if (const RoutedChoice<Scalar> choice(routing, i); !choice.dropped()) counts[choice.place / shape.capacity] += 1;
}

template void count_rows(const LayerShape&, const float*, float*);
template void count_rows(const LayerShape&, const double*, double*);
template void gate_forward<float>(const LayerShape&, Matrix<const float>, const float*, const TokenPlace&,
                                  const Routing&, const GateWeights<float>&);
template void gate_forward<double>(const LayerShape&, Matrix<const double>, const double*, const TokenPlace&,
                                   const Routing&, const GateWeights<double>&);
template void gate_backward<float>(const LayerShape&, const GateWeights<const float>&, const float*,
                                   const GateOperands<float>&, Matrix<float>, float*);
template void gate_backward<double>(const LayerShape&, const GateWeights<const double>&, const double*,
                                    const GateOperands<double>&, Matrix<double>, double*);

}  // namespace dovetail::exec
