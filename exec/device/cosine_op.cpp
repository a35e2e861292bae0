// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cosine_op.hpp"

#include "exec/device/soft_bodies.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
class Cosine {
 public:
  using Number = Wide<Scalar>;
  explicit Cosine(const DeviceOp<Scalar>& op)
      : op_(op),
        out_(op.out),
        tokens_(op.shape.tokens),
        hidden_(op.shape.hidden),
        width_(op.shape.projection),
        experts_(op.shape.experts) {}

  CosineOperands<Number> forward(const Scalar* tokens, const Scalar* router, Number* logits) const {
    const std::int64_t wide_weights = width_ * experts_ + 1;
    Number* const weights = scratch(wide_weights);
    Number* const projected = scratch(tokens_ * width_);
    Number* const cosines = scratch(tokens_ * experts_);
    Number *const token_length = scratch(tokens_), *const expert_length = scratch(experts_);
    out_.launch(wide_weights, Widen<Scalar>{router + hidden_ * width_, weights});
    out_.multiply(product<Scalar>(Matrix<const Scalar>(tokens, tokens_, hidden_),
                                  Matrix<const Scalar>(router, hidden_, width_),
                                  Matrix<Number>(projected, tokens_, width_)));
    out_.multiply(product<Number>(Matrix<const Number>(projected, tokens_, width_),
                                  Matrix<const Number>(weights, width_, experts_),
                                  Matrix<Number>(cosines, tokens_, experts_)));
    out_.launch(tokens_, SumUp<Number>{projected, width_, width_, 1, true, token_length});
    out_.launch(experts_, SumUp<Number>{weights, 1, width_, experts_, true, expert_length});
    out_.launch(tokens_ * experts_,
                CosineLogits<Number>{experts_, token_length, expert_length, theta(weights), cosines, logits});
    return {weights, projected, token_length, expert_length, cosines};
  }

  void backward(const Scalar* d_logits, const CosineOperands<Number>& c) const {
    Number *const d_cosines = scratch(tokens_ * experts_), *const along = scratch(tokens_ * experts_);
    Number *const of_token = scratch(tokens_), *const of_expert = scratch(experts_), *const of_all = scratch(1);
    out_.launch(tokens_ * experts_, CosineGradient<Scalar>{experts_, c.token_length, c.expert_length, theta(c.weights),
                                                           c.cosines, d_logits, d_cosines, along});
    out_.launch(tokens_, SumUp<Number>{along, experts_, experts_, 1, false, of_token});
    out_.launch(experts_, SumUp<Number>{along, 1, tokens_, experts_, false, of_expert});
    out_.launch(1, SumUp<Number>{of_expert, 0, experts_, 1, false, of_all});
    Scalar* const d_weights = router_gradient(op_);
    Scalar* const d_embeddings = d_weights + hidden_ * width_;
    out_.launch(1, ThetaGradient<Scalar>{of_all, theta(c.weights), d_embeddings + width_ * experts_});

    const Matrix<const Number> d(d_cosines, tokens_, experts_), h(c.projected, tokens_, width_),
        u(c.weights, width_, experts_);
    Number* const first_of_u = scratch(width_ * experts_);
    out_.multiply(product<Number>(transposed(h), d, Matrix<Number>(first_of_u, width_, experts_)));
    out_.launch(width_ * experts_, WithoutRadial<Scalar>{experts_, true, true, first_of_u, of_expert, c.expert_length,
                                                         c.weights, d_embeddings});
    Number* const first_of_h = scratch(tokens_ * width_);
    Scalar* const d_h = out_.template scratch<Scalar>(tokens_ * width_);
    out_.multiply(product<Number>(d, transposed(u), Matrix<Number>(first_of_h, tokens_, width_)));
    out_.launch(tokens_ * width_,
                WithoutRadial<Scalar>{width_, false, false, first_of_h, of_token, c.token_length, c.projected, d_h});
    const Matrix<const Scalar> d_projected(d_h, tokens_, width_),
        x(read_tokens(op_, roles::moe_input), tokens_, hidden_),
        w(op_.read(TensorKind::RouterWeights), hidden_, width_);
    out_.multiply(product<Scalar>(transposed(x), d_projected, Matrix<Scalar>(d_weights, hidden_, width_), Into::Add));
    out_.multiply(product<Scalar>(d_projected, transposed(w),
                                  Matrix<Scalar>(write_tokens(op_, gradient_of(roles::moe_input)), tokens_, hidden_),
                                  Into::Add));
  }

 private:
  Number* scratch(std::int64_t count) const { return out_.template scratch<Number>(count); }
  const Number* theta(const Number* weights) const { return weights + width_ * experts_; }

  const DeviceOp<Scalar>& op_;
  Recorder& out_;
  std::int64_t tokens_, hidden_, width_, experts_;
};

}  // namespace

template <class Scalar>
CosineOperands<Wide<Scalar>> record_cosines(const DeviceOp<Scalar>& op, const Scalar* tokens, const Scalar* router,
                                            Wide<Scalar>* logits) {
  return Cosine<Scalar>(op).forward(tokens, router, logits);
}

template <class Scalar>
void record_cosine_backward(const DeviceOp<Scalar>& op, const Scalar* d_logits, const CosineOperands<Wide<Scalar>>& c) {
  Cosine<Scalar>(op).backward(d_logits, c);
}

template CosineOperands<double> record_cosines(const DeviceOp<double>&, const double*, const double*, double*);
template CosineOperands<float> record_cosines(const DeviceOp<float>&, const float*, const float*, float*);
template CosineOperands<Wide<Bf16>> record_cosines(const DeviceOp<Bf16>&, const Bf16*, const Bf16*, Wide<Bf16>*);
template void record_cosine_backward(const DeviceOp<double>&, const double*, const CosineOperands<double>&);
template void record_cosine_backward(const DeviceOp<float>&, const float*, const CosineOperands<float>&);
template void record_cosine_backward(const DeviceOp<Bf16>&, const Bf16*, const CosineOperands<Wide<Bf16>>&);

}  // namespace dovetail::exec
