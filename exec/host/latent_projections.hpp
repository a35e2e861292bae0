// SPDX-License-Identifier: Apache-2.0
// The projections of latent attention: down to the low ranks, of a rank's own tokens, and up from the low ranks of all.
// In a head of queries or keys, the part without position comes first.
#pragma once
#include <algorithm>
#include <vector>

#include "exec/host/host_kernels.hpp"
#include "exec/host/op_context.hpp"
#include "exec/host/rotary.hpp"
#include "exec/host/token_order.hpp"
#include "exec/step/projection_columns.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

// A matrix with memory of its own.
template <class Scalar>
class OwnMatrix {
 public:
  OwnMatrix(std::int64_t rows, std::int64_t cols)
      : memory_(static_cast<std::size_t>(rows * cols)), matrix_(memory_.data(), rows, cols) {}
  const Matrix<Scalar>& operator*() const { return matrix_; }
  const Matrix<Scalar>* operator->() const { return &matrix_; }

 private:
  std::vector<Scalar> memory_;
  Matrix<Scalar> matrix_;
};

// The inputs of the projections up, by sample and position.
template <class Scalar>
struct UpInputs {
  Matrix<const Scalar> query, key_value, position;
};

template <class Scalar>
class OrderedLowRanks {
 public:
  explicit OrderedLowRanks(const OpContext<Scalar>& c)
      : low_ranks_(c.shape.sequence_tokens(), c.shape.low_rank_width()),
        input_(c.shape.latent.q_rank > 0 ? 0 : c.shape.sequence_tokens(), c.shape.hidden) {
    const auto order = [&](Role role, const Matrix<Scalar>& to) {
      check(c.read_tensor(role).elements == to.rows * to.cols, "a tensor's size differs from its shape");
      order_rows<Scalar>({c.read(role), to.rows, to.cols}, c.rows, to);
    };
    order(roles::low_ranks, *low_ranks_);
    if (input_->rows > 0) order(roles::attention_input, *input_);
    const LowRankColumns<const Scalar> columns(c.shape, *low_ranks_);
    inputs_ = {input_->rows > 0 ? Matrix<const Scalar>(*input_) : columns.query, columns.key_value, columns.position};
  }
  const UpInputs<Scalar>& inputs() const { return inputs_; }

 private:
  OwnMatrix<Scalar> low_ranks_, input_;
  UpInputs<Scalar> inputs_;
};

// visit(token, turn): turn(from, to) turns the part of a head that has a position by that of the token, or back; `to`
// may be `from`. It copies if nothing is turned.
template <class Scalar, class Visit>
void for_each_turn(const LayerShape& s, Turn way, Visit visit) {
  PositionTurn<Scalar> at(s.latent.rope);
  for (std::int64_t token = 0; token < s.sequence_tokens(); ++token) {
    at.set(token % s.sequence, way);
    visit(token, [&](const Scalar* from, Scalar* to) {
      if (s.rotary)
        at.turn(from, to);
      else
        std::copy_n(from, s.latent.rope, to);
    });
  }
}

template <class Scalar>
void forward_up_projection(const LayerShape& s, const UpInputs<Scalar>& from, const DenseWeights<const Scalar>& w,
                           Matrix<Scalar> query_key_value) {
  const ProjectionColumns<Scalar> to(s, query_key_value);
  const OwnMatrix<Scalar> keys(s.sequence_tokens(), s.key_columns());
  multiply(from.query, w.query, to.query);
  multiply(from.key_value, w.key, *keys);
  multiply(from.key_value, w.value, to.value);
  const std::int64_t nope = s.latent.nope;
  for_each_turn<Scalar>(s, Turn::On, [&](std::int64_t token, auto turn) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      Scalar *const query = to.query.row(token) + head * s.head_size, *const key =
                                                                          to.key.row(token) + head * s.head_size;
      turn(query + nope, query + nope);
      std::copy_n(keys->row(token) + head * nope, nope, key);
      turn(from.position.row(token), key + nope);
    }
  });
}

// The gradients of what the products of the projections up gave, and of the position's part.
template <class Scalar>
struct UpGradients {
  OwnMatrix<Scalar> query, key, position;
  Matrix<const Scalar> value;
  UpGradients(const LayerShape& s, Matrix<const Scalar> d_query_key_value)
      : query(s.sequence_tokens(), s.query_width()),
        key(s.sequence_tokens(), s.key_columns()),
        position(s.sequence_tokens(), s.latent.rope) {
    const ProjectionColumns<const Scalar> d(s, d_query_key_value);
    value = d.value;
    const std::int64_t nope = s.latent.nope, rope = s.latent.rope;
    for_each_turn<Scalar>(s, Turn::Back, [&](std::int64_t token, auto turn) {
      Scalar* const sum = position->row(token);
      for (std::int64_t head = 0; head < s.heads; ++head) {
        const Scalar *const d_query = d.query.row(token) + head * s.head_size, *const d_key = d.key.row(token) +
                                                                                              head * s.head_size;
        Scalar* const to = query->row(token) + head * s.head_size;
        std::copy_n(d_query, nope, to);
        turn(d_query + nope, to + nope);
        std::copy_n(d_key, nope, key->row(token) + head * nope);
        for (std::int64_t i = 0; i < rope; ++i) sum[i] += d_key[nope + i];
      }
      turn(sum, sum);
    });
  }
};

// Adds to the gradients of the weights.
template <class Scalar>
void up_weight_gradients(const UpInputs<Scalar>& from, const UpGradients<Scalar>& d,
                         const DenseWeights<Scalar>& gradients) {
  multiply(transposed(from.query), *d.query, gradients.query, Into::Add);
  multiply(transposed(from.key_value), *d.key, gradients.key, Into::Add);
  multiply(transposed(from.key_value), d.value, gradients.value, Into::Add);
}

template <class Scalar>
void up_input_gradients(const UpGradients<Scalar>& d, const DenseWeights<const Scalar>& w,
                        const Matrix<Scalar>& d_query_input, const LowRankColumns<Scalar>& to) {
  multiply(*d.query, transposed(w.query), d_query_input);
  multiply(*d.key, transposed(w.key), to.key_value);
  multiply(d.value, transposed(w.value), to.key_value, Into::Add);
  for (std::int64_t i = 0; i < to.position.rows; ++i)
    std::copy_n(d.position->row(i), to.position.cols, to.position.row(i));
}

template <class Scalar>
Matrix<Scalar> projected_rows(const LayerShape& s, Scalar* query_key_value) {
  return {query_key_value, s.sequence_tokens(), s.projected_width()};
}

template <class Scalar>
void forward_up_projection(OpContext<Scalar>& c) {
  const OrderedLowRanks<Scalar> from(c);
  forward_up_projection<Scalar>(c.shape, from.inputs(), {c.shape, c.read(TensorKind::DenseWeights)},
                                projected_rows(c.shape, c.write(TensorKind::QueryKeyValue)));
}

template <class Scalar>
void give_up_input_gradients(OpContext<Scalar>& c, const UpGradients<Scalar>& d) {
  const LayerShape& s = c.shape;
  const OwnMatrix<Scalar> d_low_ranks(s.sequence_tokens(), s.low_rank_width());
  const LowRankColumns<Scalar> columns(s, *d_low_ranks);
  const bool straight = s.latent.q_rank == 0;
  const OwnMatrix<Scalar> d_input(straight ? s.sequence_tokens() : 0, s.hidden);
  up_input_gradients<Scalar>(d, {s, c.read(TensorKind::DenseWeights)}, straight ? *d_input : columns.query, columns);
  const auto give = [&](Role role, const Matrix<Scalar>& rows) {
    return_rows<Scalar>(rows, c.rows, {c.write(role), rows.rows, rows.cols});
  };
  give(gradient_of(roles::low_ranks), *d_low_ranks);
  if (straight) give(gradient_of(TensorKind::AttentionInput), *d_input);
}

template <class Scalar>
void backward_up_projection(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const UpGradients<Scalar> d(s, projected_rows(s, c.read(gradient_of(TensorKind::QueryKeyValue))));
  if (c.op.half != Half::Inputs) {
    const OrderedLowRanks<Scalar> from(c);
    Scalar* const gradients = c.write(TensorKind::DenseGradients) + c.op.gradients.first - s.low_rank_parameters();
    up_weight_gradients<Scalar>(from.inputs(), d, {s, gradients});
  }
  if (c.op.half != Half::Weights) give_up_input_gradients<Scalar>(c, d);
}

template <class Scalar>
Matrix<const Scalar> own_input(const OpContext<Scalar>& c) {
  return {c.read(roles::own_attention_input), c.shape.rank_tokens, c.shape.hidden};
}

template <class Scalar>
void forward_down_projection(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const DenseWeights<const Scalar> w(s, c.read(TensorKind::DenseWeights));
  const Matrix<Scalar> to(c.write(TensorKind::LowRanks), s.rank_tokens, s.low_rank_width());
  if (s.latent.q_rank > 0) multiply(own_input(c), w.query_down, to.cols_from(0, s.latent.q_rank));
  multiply(own_input(c), w.key_value_down, to.cols_from(s.latent.q_rank, w.key_value_down.cols));
}

template <class Scalar>
void down_weight_gradients(const OpContext<Scalar>& c, Matrix<const Scalar> d_query, Matrix<const Scalar> d_key_value) {
  const DenseWeights<Scalar> gradients(c.shape, c.write(TensorKind::DenseGradients) + c.op.gradients.first);
  if (d_query.cols > 0) multiply(transposed(own_input(c)), d_query, gradients.query_down, Into::Add);
  multiply(transposed(own_input(c)), d_key_value, gradients.key_value_down, Into::Add);
}

// A gradient that came straight through queries, which have no low rank then, is there already.
template <class Scalar>
void down_input_gradients(const OpContext<Scalar>& c, Matrix<const Scalar> d_query, Matrix<const Scalar> d_key_value) {
  const DenseWeights<const Scalar> w(c.shape, c.read(TensorKind::DenseWeights));
  const Matrix<Scalar> d_input(c.write(roles::through_attention), c.shape.rank_tokens, c.shape.hidden);
  if (d_query.cols > 0) multiply(d_query, transposed(w.query_down), d_input);
  multiply(d_key_value, transposed(w.key_value_down), d_input, Into::Add);
}

template <class Scalar>
void backward_down_projection(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  const Matrix<const Scalar> d(c.read(gradient_of(TensorKind::LowRanks)), s.rank_tokens, s.low_rank_width());
  const Matrix<const Scalar> d_query = d.cols_from(0, s.latent.q_rank),
                             d_key_value = d.cols_from(s.latent.q_rank, s.latent.kv_rank + s.latent.rope);
  if (c.op.half != Half::Inputs) down_weight_gradients<Scalar>(c, d_query, d_key_value);
  if (c.op.half != Half::Weights) down_input_gradients<Scalar>(c, d_query, d_key_value);
}

}  // namespace dovetail::exec
