// SPDX-License-Identifier: Apache-2.0
// The kernels of an MoE layer on the host, on one thread, for float and double. Shapes, layouts and the meaning of
// every operand are those of models/schedule/operands.md. Outputs are overwritten unless a comment says otherwise.
#pragma once
#include <span>
#include <vector>

#include "exec/host/gate_logits.hpp"
#include "exec/host/gemm.hpp"
#include "exec/reference/routing.hpp"
#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"
#include "exec/step/projection_columns.hpp"
#include "models/plan/plan.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op_kind.hpp"

namespace dovetail::exec {

// The matrices of attention in dense_weights[l], or in the same range of the dense gradients; `first` null: nowhere.
template <class Scalar>
struct DenseWeights {
  Matrix<Scalar> query_down, key_value_down;  // of latent attention; `query_down` only with a low rank of queries
  Matrix<Scalar> query, key, value, output;
  DenseWeights(const LayerShape& shape, Scalar* first) {
    const auto next = [&first](std::int64_t rows, std::int64_t cols) {
      const Matrix<Scalar> matrix(first, rows, cols);
      if (first != nullptr) first += rows * cols;
      return matrix;
    };
    query_down = next(shape.hidden, shape.latent.q_rank);
    key_value_down = next(shape.hidden, shape.latent.kv_rank + shape.latent.rope);
    query = next(shape.query_inner(), shape.query_width());
    key = next(shape.key_inner(), shape.key_columns());
    value = next(shape.key_inner(), shape.value_width());
    output = next(shape.context_width(), shape.hidden);
  }
};

// Causal self-attention of each sample, in two parts: the projections of all tokens; then, for any range of positions
// of every sample, the queries there with the keys up to them and the output's projection. Queries and keys are turned
// by their positions as they are projected (LayerShape::turns_projections). The projections of latent attention are
// in latent_projections.hpp. (attention.cpp)
template <class Scalar>
struct AttentionState {  // what the forward pass leaves; rows by sample and position
  Matrix<const Scalar> query_key_value;
  Matrix<Scalar> context, log_sum_exp;
};
// `rows`: the row of `input` (and of d_input) that each token's is.
template <class Scalar>
void projection_forward(const LayerShape& shape, std::span<const std::int64_t> rows, Matrix<const Scalar> input,
                        const DenseWeights<const Scalar>& weights, Matrix<Scalar> query_key_value);
// partial: the range's tokens by sample and position.
template <class Scalar>
void core_attention(const LayerShape& shape, RowRange positions, const AttentionState<Scalar>& state);
// The same, and the projection of its result.
template <class Scalar>
void attention_forward(const LayerShape& shape, RowRange positions, const DenseWeights<const Scalar>& weights,
                       const AttentionState<Scalar>& state, Matrix<Scalar> partial);
// Adds to d_query_key_value and to the gradient of the output's projection.
template <class Scalar>
void attention_backward(const LayerShape& shape, RowRange positions, Matrix<const Scalar> d_partial,
                        const AttentionState<const Scalar>& state, const DenseWeights<const Scalar>& weights,
                        Matrix<Scalar> d_query_key_value, Matrix<Scalar> d_output_weights, Half half = Half::Both);
// Adds to `gradients`.
template <class Scalar>
void projection_backward(const LayerShape& shape, std::span<const std::int64_t> rows,
                         Matrix<const Scalar> d_query_key_value, Matrix<const Scalar> input,
                         const DenseWeights<const Scalar>& weights, const DenseWeights<Scalar>& gradients,
                         Matrix<Scalar> d_input, Half half = Half::Both);

// gate.cpp. A routing tensor (entries, 3) holds token, place, score; place = expert C + slot, or -1 - expert if
// dropped.
template <class Scalar>
struct RoutedChoice {
  std::int64_t token, place;
  Scalar score;
  RoutedChoice(const Scalar* routing, std::int64_t entry)
      : token(static_cast<std::int64_t>(routing[3 * entry])),
        place(static_cast<std::int64_t>(routing[3 * entry + 1])),
        score(routing[3 * entry + 2]) {}
  bool dropped() const { return place < 0; }
};
// A gate's results, or their gradients: the sparse part, the dense part (T, E, C), or both; null: not there.
template <class Scalar>
struct GateWeights {
  Scalar* routing = nullptr;   // as a gradient: of the scores (entries)
  Scalar* combine = nullptr;   // scores
  Scalar* dispatch = nullptr;  // 1 where a token has a slot; soft gates: its share of it
};
template <class Scalar>
struct GateOperands {
  Matrix<const Scalar> input;
  const Scalar* router_weights = nullptr;
  TokenPlace place = {};
};
// The routing of `input`. `preset`, unless empty, gives experts (and slots, if it has them) in place of the kernel's
// own choice; scores are always the kernel's.
template <class Scalar>
void gate_forward(const LayerShape& shape, Matrix<const Scalar> input, const Scalar* router_weights,
                  const TokenPlace& place, const Routing& preset, const GateWeights<Scalar>& weights);
// By expert, the choices that are not dropped.
template <class Scalar>
void count_rows(const LayerShape& shape, const Scalar* routing, Scalar* counts);
// Adds what comes through the scores to d_input; adds to router_gradient.
template <class Scalar>
void gate_backward(const LayerShape& shape, const GateWeights<const Scalar>& weights_gradient, const Scalar* routing,
                   const GateOperands<Scalar>& operands, Matrix<Scalar> d_input, Scalar* router_gradient);

// The capacity rows `rows` of every expert, of any tensor whose layout is (blocks, c, M).
template <class Scalar>
struct Chunk {
  RowRange rows;
  Scalar* data = nullptr;
  RowRange peers = {};  // offsets of the ranks it is for; empty: all
  int expert = -1;      // shadowed: its rows only

  bool holds(std::int64_t slot) const { return rows.first <= slot && slot < rows.last; }
};

// order.cpp: by the entries of a routing tensor.
// Sum of `gradients`, all (T, M).
template <class Scalar>
void add_up(std::span<const Matrix<const Scalar>> gradients, Matrix<Scalar> sum);
template <class Scalar>
void encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<Scalar>> encoded);
// d_moe_input: the part that came through the experts.
template <class Scalar>
void encode_backward(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                     Matrix<Scalar> d_moe_input);
// Scores of the rows, as `encoded` has these, one number each; and from their gradients those of the choices.
template <class Scalar>
void encode_scores(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<Scalar>> scores);
template <class Scalar>
void score_gradients(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_scores,
                     Scalar* score_gradient);
// `scores_at` experts: the rows have been multiplied by their scores.
template <class Scalar>
void decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing, ScoresAt scores_at,
                    std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output);
// score_gradient: null where the experts apply the scores; `combined` is not read then.
template <class Scalar>
void decode_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* routing,
                     std::span<const Chunk<const Scalar>> combined, Scalar* score_gradient,
                     std::span<const Chunk<Scalar>> d_combined);

// dense_order.cpp: the same as matrix products with the dense weights (T, E, C) of the gate.
template <class Scalar>
void dense_encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* dispatch,
                          std::span<const Chunk<Scalar>> encoded);
// d_dispatch: only soft gates ask for it, else null.
template <class Scalar>
void dense_encode_backward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* dispatch,
                           std::span<const Chunk<const Scalar>> d_encoded, Matrix<Scalar> d_moe_input,
                           Scalar* d_dispatch);
template <class Scalar>
void dense_decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* combine,
                          std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output);
template <class Scalar>
void dense_decode_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* combine,
                           std::span<const Chunk<const Scalar>> combined, Scalar* d_combine,
                           std::span<const Chunk<Scalar>> d_combined);

// expert.cpp. `scores`, unless null, multiply the activated rows, one each.
template <class Scalar>
void expert_forward(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* hidden,
                    Scalar* partial, Scalar* activated = nullptr, const Scalar* scores = nullptr);
// The hidden rows alone, as expert_forward leaves them to the bit.
template <class Scalar>
void expert_hidden(const LayerShape& shape, Chunk<const Scalar> input, const Scalar* weights, Scalar* hidden);
template <class Scalar>
struct KeptChunk {  // of the forward pass
  Chunk<const Scalar> input;
  const Scalar* hidden = nullptr;
  const Scalar* activated = nullptr;  // null: computed again
  const Scalar* scores = nullptr;     // null: decode applies them
};
template <class Scalar>
struct ExpertGradients {
  Scalar* weights = nullptr;  // added to
  Scalar* input = nullptr;
  Scalar* hidden = nullptr;
  Scalar* scores = nullptr;  // null: decode applies them
};
// `kept`: all forward chunks that share rows with this one. The half of the weights finds the hidden rows' gradients
// where that of the inputs, which needs no inputs, has left them.
template <class Scalar>
void expert_backward(const LayerShape& shape, Chunk<const Scalar> d_partial, const Scalar* weights,
                     std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients,
                     Half half = Half::Both);

// grouped_expert.cpp: the same on each expert's own rows, brought together for one product of each matrix. The other
// rows of the chunk are neither read nor computed. Results for them are 0, and hidden rows are left as they are.
struct OwnRows {
  std::vector<std::int64_t> counts;  // by block of rows: so many slots, from the first on, are taken
  std::int64_t tile = 1;             // each expert's rows are rounded up to it with rows of 0
};
template <class Scalar>
void grouped_forward(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> input, const Scalar* weights,
                     Scalar* hidden, Scalar* partial, Scalar* activated = nullptr, const Scalar* scores = nullptr);
template <class Scalar>
void grouped_hidden(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> input, const Scalar* weights,
                    Scalar* hidden);
template <class Scalar>
void grouped_backward(const LayerShape& shape, const OwnRows& own, Chunk<const Scalar> d_partial, const Scalar* weights,
                      std::span<const KeptChunk<Scalar>> kept, const ExpertGradients<Scalar>& gradients,
                      Half half = Half::Both);

// update.cpp: one step of Adam (adam_rule.hpp), which counts from 1.
template <class Scalar>
void adam_step(std::int64_t count, const Scalar* gradient, int step, Scalar* weights, Scalar* mean, Scalar* variance);

}  // namespace dovetail::exec
