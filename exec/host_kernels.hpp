// The kernels of an MoE layer on the host, on one thread, for float and double. Shapes, layouts and the meaning of
// every operand are those of models/operands.md. Outputs are overwritten unless a comment says otherwise.
#pragma once
#include <span>
#include <vector>

#include "exec/layer_shape.hpp"
#include "exec/matrix.hpp"
#include "exec/routing.hpp"
#include "models/volumes.hpp"

namespace dovetail::exec {

// dense_weights[l], or the same range of the dense gradients, as its four matrices.
template <class Scalar>
struct DenseWeights {
  Matrix<Scalar> query, key, value, output;
  DenseWeights(const LayerShape& shape, Scalar* first);
};

// Causal self-attention of each sample. (attention.cpp)
template <class Scalar>
struct AttentionState {  // what the forward pass leaves
  Matrix<Scalar> query_key_value, context, log_sum_exp;
};
template <class Scalar>
void attention_forward(const LayerShape& shape, Matrix<const Scalar> input, const DenseWeights<const Scalar>& weights,
                       const AttentionState<Scalar>& state, Matrix<Scalar> partial);
template <class Scalar>
void attention_backward(const LayerShape& shape, Matrix<const Scalar> d_partial, Matrix<const Scalar> input,
                        const AttentionState<const Scalar>& state, const DenseWeights<const Scalar>& weights,
                        const DenseWeights<Scalar>& gradients, Matrix<Scalar> d_input);

// gate.cpp. Routing tensors are (T, k, 3): expert, slot, score.
template <class Scalar>
struct GateOperands {
  Matrix<const Scalar> moe_input, router_weights;
};
// moe_input = layer_input + attention_output, then its routing. `preset`, unless empty, gives experts and slots in
// place of the kernel's own choice; scores are always the kernel's.
template <class Scalar>
void gate_forward(const LayerShape& shape, Matrix<const Scalar> layer_input, Matrix<const Scalar> attention_output,
                  Matrix<const Scalar> router_weights, const Routing& preset, Matrix<Scalar> moe_input,
                  Scalar* routing);
// Adds output_gradient and what comes through the scores to d_moe_input.
template <class Scalar>
void gate_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* score_gradient,
                   const Scalar* routing, const GateOperands<Scalar>& operands, Matrix<Scalar> d_moe_input,
                   Matrix<Scalar> router_gradient);

// The capacity rows `rows` of every expert, of any tensor whose layout is (blocks, c, M).
template <class Scalar>
struct Chunk {
  RowRange rows;
  Scalar* data = nullptr;
  RowRange peers = {};  // offsets of the ranks it is for; empty: all
  int expert = -1;      // shadowed: its rows only

  bool holds(std::int64_t slot) const { return rows.first <= slot && slot < rows.last; }
};

// order.cpp
template <class Scalar>
void encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<Scalar>> encoded);
// d_moe_input: the part that came through the experts.
template <class Scalar>
void encode_backward(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                     Matrix<Scalar> d_moe_input);
template <class Scalar>
void decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output);
// output_gradient: sum of `gradients`.
template <class Scalar>
void decode_backward(const LayerShape& shape, std::span<const Matrix<const Scalar>> gradients, const Scalar* routing,
                     std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output_gradient,
                     Scalar* score_gradient, std::span<const Chunk<Scalar>> d_combined);

// expert.cpp
template <class Scalar>
void expert_forward(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* hidden,
                    Scalar* partial);
template <class Scalar>
struct KeptChunk {  // of the forward pass
  Chunk<const Scalar> input;
  const Scalar* hidden = nullptr;
};
// `kept`: all forward chunks that share rows with this one. Adds to `gradient`.
template <class Scalar>
void expert_backward(const LayerShape& shape, Chunk<const Scalar> d_partial, const Scalar* weights,
                     std::span<const KeptChunk<Scalar>> kept, Scalar* gradient, Scalar* d_input);

// update.cpp: one Adam step; `step` counts from 1.
template <class Scalar>
void adam_step(std::int64_t count, const Scalar* gradient, int step, Scalar* weights, Scalar* mean, Scalar* variance);

}  // namespace dovetail::exec
