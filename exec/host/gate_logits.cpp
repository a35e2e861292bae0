// SPDX-License-Identifier: Apache-2.0
#include "exec/host/gate_logits.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "exec/host/gemm.hpp"

namespace dovetail::exec {
namespace {

using Values = std::vector<double>;

Values zeros(std::int64_t rows, std::int64_t cols) {
  return Values(static_cast<std::size_t>(rows * cols));
}

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// splitmix64 (Steele et al. 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// visit(index of the logit, noise)
template <class Visit>
void for_each_noise(const LayerShape& s, const TokenPlace& place, std::int64_t tokens, Visit visit) {
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < s.experts; ++e)
      visit(static_cast<std::size_t>(t * s.experts + e),
            gate_noise(s.gate.noise_seed, place.layer, place.first_token + t, e));
}

// Lengths of `count` vectors of `size` elements, `stride` apart, their elements `step` apart; never 0.
Values lengths(const double* first, std::int64_t count, std::int64_t stride, std::int64_t size, std::int64_t step) {
  Values result;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < size; ++j) sum += std::pow(first[i * stride + j * step], 2);
    result.push_back(std::max(std::sqrt(sum), 1e-12));
  }
  return result;
}

// Wp (M, P), expert embeddings (P, E), log(1 / temperature).
class CosineGate {
 public:
  CosineGate(const LayerShape& s, Matrix<const double> x, const double* weights)
      : x_(x),
        projector_(weights, s.hidden, s.projection),
        experts_(weights + s.hidden * s.projection, s.projection, s.experts),
        log_scale_(weights[s.projection * (s.hidden + s.experts)]),
        projected_(zeros(x.rows, s.projection)),
        cosines_(zeros(x.rows, s.experts)) {
    multiply<double>(x_, projector_, projected());
    token_length_ = lengths(projected_.data(), x.rows, s.projection, s.projection, 1);
    expert_length_ = lengths(experts_.data, s.experts, 1, s.projection, s.experts);
    multiply<double>(projected(), experts_, cosines());
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t e = 0; e < s.experts; ++e) cosines().row(t)[e] /= token_length(t) * expert_length(e);
  }

  Values logits() const {
    Values result = cosines_;
    for (double& logit : result) logit *= scale();
    return result;
  }

  // With h = x Wp, u_e the embedding and c their cosine: dc/dh = (u / |u| - c h / |h|) / |h|, and so for u.
  void backward(const Values& d_logits, Matrix<double> d_x, double* d_weights) {
    const std::int64_t p = projector_.cols, experts = experts_.cols;
    Values d_projected = zeros(x_.rows, p), d_cosine = zeros(x_.rows, experts);
    const Matrix<double> d_h(d_projected.data(), x_.rows, p), d_c(d_cosine.data(), x_.rows, experts);
    const Matrix<double> d_experts(d_weights + x_.cols * p, p, experts);
    double d_log_scale = 0;
    Values radial_h(static_cast<std::size_t>(x_.rows)), radial_u(static_cast<std::size_t>(experts));
    for (std::int64_t t = 0; t < x_.rows; ++t)
      for (std::int64_t e = 0; e < experts; ++e) {
        const auto at = static_cast<std::size_t>(t * experts + e);
        d_log_scale += d_logits[at] * cosines_[at] * scale();
        const double along = d_logits[at] * scale() * cosines_[at];
        radial_h[static_cast<std::size_t>(t)] += along / (token_length(t) * token_length(t));
        radial_u[static_cast<std::size_t>(e)] += along / (expert_length(e) * expert_length(e));
        d_cosine[at] = d_logits[at] * scale() / (token_length(t) * expert_length(e));
      }
    multiply<double>(d_c, transposed(experts_), d_h);
    multiply<double>(transposed(projected()), d_c, d_experts, Into::Add);
    for (std::int64_t t = 0; t < x_.rows; ++t)
      for (std::int64_t i = 0; i < p; ++i)
        d_h.row(t)[i] -= radial_h[static_cast<std::size_t>(t)] * projected().row(t)[i];
    for (std::int64_t i = 0; i < p; ++i)
      for (std::int64_t e = 0; e < experts; ++e)
        d_experts.row(i)[e] -= radial_u[static_cast<std::size_t>(e)] * experts_.row(i)[e];
    multiply<double>(transposed(x_), d_h, Matrix<double>(d_weights, x_.cols, p), Into::Add);
    multiply<double>(d_h, transposed(projector_), d_x, Into::Add);
    if (log_scale_ < largest_log_scale) d_weights[p * (x_.cols + experts)] += d_log_scale;
  }

 private:
  static inline const double largest_log_scale = std::log(100);  // temperature >= .01, as in Tutel

  double scale() const { return std::exp(std::min(log_scale_, largest_log_scale)); }
  double token_length(std::int64_t t) const { return token_length_[static_cast<std::size_t>(t)]; }
  double expert_length(std::int64_t e) const { return expert_length_[static_cast<std::size_t>(e)]; }
  Matrix<double> projected() { return {projected_.data(), x_.rows, projector_.cols}; }
  Matrix<double> cosines() { return {cosines_.data(), x_.rows, experts_.cols}; }

  Matrix<const double> x_, projector_, experts_;
  double log_scale_;
  Values projected_, cosines_, token_length_, expert_length_;
};

// The weights that tokens are multiplied with, of a gate without cosines: (M, E) or (M, E C).
Matrix<const double> linear(const LayerShape& s, const double* weights) {
  return {weights, s.hidden, s.gate.kind == GateKind::SoftMoe ? s.slots() : s.experts};
}

// x Wn of a noisy gate, whose second matrix that is.
Values noise_logits(const LayerShape& s, Matrix<const double> x, const double* weights) {
  Values result = zeros(x.rows, s.experts);
  multiply<double>(x, linear(s, weights + s.hidden * s.experts), Matrix<double>(result.data(), x.rows, s.experts));
  return result;
}

void linear_backward(Matrix<const double> x, Matrix<const double> w, const Values& d_logits, Matrix<double> d_x,
                     double* d_weights) {
  const Matrix<const double> d(d_logits.data(), x.rows, w.cols);
  multiply<double>(d, transposed(w), d_x, Into::Add);
  multiply<double>(transposed(x), d, Matrix<double>(d_weights, w.rows, w.cols), Into::Add);
}

}  // namespace

double gate_noise(int seed, int layer, std::int64_t token, std::int64_t expert) {
  std::uint64_t state = mix(static_cast<std::uint64_t>(seed));
  for (std::int64_t part : {std::int64_t{layer}, token, expert}) state = mix(state ^ static_cast<std::uint64_t>(part));
  const auto uniform = [](std::uint64_t bits) { return (static_cast<double>(bits >> 11) + .5) * 0x1p-53; };
  return std::sqrt(-2 * std::log(uniform(state))) * std::cos(2 * std::numbers::pi * uniform(mix(state)));
}

Values gate_logits(const LayerShape& s, const TokenPlace& place, Matrix<const double> x, const double* weights) {
  if (s.gate.cosine()) return CosineGate(s, x, weights).logits();
  const Matrix<const double> w = linear(s, weights);
  Values logits = zeros(x.rows, w.cols);
  multiply<double>(x, w, Matrix<double>(logits.data(), x.rows, w.cols));
  if (s.gate.kind != GateKind::Gshard) return logits;
  const Values spread = noise_logits(s, x, weights);
  for_each_noise(s, place, x.rows, [&](std::size_t i, double noise) { logits[i] += noise * softplus(spread[i]); });
  return logits;
}

void gate_logits_backward(const LayerShape& s, const TokenPlace& place, Matrix<const double> x, const double* weights,
                          const Values& d_logits, Matrix<double> d_x, double* d_weights) {
  if (s.gate.cosine()) return CosineGate(s, x, weights).backward(d_logits, d_x, d_weights);
  linear_backward(x, linear(s, weights), d_logits, d_x, d_weights);
  if (s.gate.kind != GateKind::Gshard) return;
  Values d_spread = noise_logits(s, x, weights);
  for_each_noise(s, place, x.rows,
                 [&](std::size_t i, double noise) { d_spread[i] = d_logits[i] * noise * sigmoid(d_spread[i]); });
  const std::int64_t second = s.hidden * s.experts;
  linear_backward(x, linear(s, weights + second), d_spread, d_x, d_weights + second);
}

}  // namespace dovetail::exec
