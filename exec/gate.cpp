// The gate: residual sum, router, top-k, capacity slots; backward through the scores.
#include "exec/gemm.hpp"
#include "exec/host_kernels.hpp"
#include "models/errors.hpp"

namespace dovetail::exec {

template <class Scalar>
void gate_forward(const LayerShape& shape, Matrix<const Scalar> layer_input, Matrix<const Scalar> attention_output,
                  Matrix<const Scalar> router_weights, const Routing& preset, Matrix<Scalar> moe_input,
                  Scalar* routing) {
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t m = 0; m < shape.hidden; ++m)
      moe_input.row(t)[m] = layer_input.row(t)[m] + attention_output.row(t)[m];
  const std::vector<double> p = router_probabilities<Scalar>(moe_input, router_weights);
  Routing chosen = route(p, shape.experts, shape.top_k, shape.capacity, shape.first_slot);
  if (!preset.empty()) {
    check(preset.size() == chosen.size(), "preset routing of another shape");
    chosen = preset;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto token = static_cast<std::int64_t>(i) / shape.top_k;
    routing[3 * i] = static_cast<Scalar>(chosen[i].expert);
    routing[3 * i + 1] = static_cast<Scalar>(chosen[i].slot);
    routing[3 * i + 2] = static_cast<Scalar>(p[static_cast<std::size_t>(token * shape.experts + chosen[i].expert)]);
  }
}

template <class Scalar>
void gate_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* score_gradient,
                   const Scalar* routing, const GateOperands<Scalar>& operands, Matrix<Scalar> d_moe_input,
                   Matrix<Scalar> router_gradient, Into into) {
  const std::int64_t experts = shape.experts;
  const std::vector<double> p = router_probabilities<Scalar>(operands.moe_input, operands.router_weights);
  std::vector<Scalar> memory(p.size());
  const Matrix<Scalar> d_logits(memory.data(), shape.tokens, experts);
  std::vector<double> d_p(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    d_p.assign(d_p.size(), 0);
    double dot = 0;
    for (std::int64_t j = 0; j < shape.top_k; ++j) {
      const std::int64_t choice = t * shape.top_k + j;
      const auto expert = static_cast<std::int64_t>(routing[3 * choice]);
      d_p[static_cast<std::size_t>(expert)] = score_gradient[choice];
      dot += p[static_cast<std::size_t>(t * experts + expert)] * score_gradient[choice];
    }
    for (std::int64_t e = 0; e < experts; ++e)
      d_logits.row(t)[e] =
          static_cast<Scalar>(p[static_cast<std::size_t>(t * experts + e)] * (d_p[static_cast<std::size_t>(e)] - dot));
    for (std::int64_t m = 0; m < shape.hidden; ++m) d_moe_input.row(t)[m] += output_gradient.row(t)[m];
  }
  multiply(d_logits, transposed(operands.router_weights), d_moe_input, Into::Add);
  multiply(transposed(operands.moe_input), d_logits, router_gradient, into);
}

template void gate_forward<float>(const LayerShape&, Matrix<const float>, Matrix<const float>, Matrix<const float>,
                                  const Routing&, Matrix<float>, float*);
template void gate_forward<double>(const LayerShape&, Matrix<const double>, Matrix<const double>, Matrix<const double>,
                                   const Routing&, Matrix<double>, double*);
template void gate_backward<float>(const LayerShape&, Matrix<const float>, const float*, const float*,
                                   const GateOperands<float>&, Matrix<float>, Matrix<float>, Into);
template void gate_backward<double>(const LayerShape&, Matrix<const double>, const double*, const double*,
                                    const GateOperands<double>&, Matrix<double>, Matrix<double>, Into);

}  // namespace dovetail::exec
