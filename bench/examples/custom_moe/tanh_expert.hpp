// SPDX-License-Identifier: Apache-2.0
// Two matrices with tanh between them: y = tanh(x W1) W2, with W1 (M, S) and then W2 (S, M) among the parameters. Its
// columns between the matrices may be shared out, since the products with the rows of W2 add up.
#pragma once
#include <cmath>

#include "models/extend/custom_expert.hpp"

class TanhExpert : public dovetail::CustomExpert {
 public:
  using Sizes = dovetail::ExpertSizes;

  std::string name() const override { return "tanh"; }
  bool has_shards() const override { return true; }
  std::int64_t parameters(const Sizes& s) const override { return 2 * s.hidden * s.inner; }
  std::int64_t kept(const Sizes& s) const override { return s.inner; }  // tanh(x W1)
  double deviation(const Sizes& s, std::int64_t index) const override {
    const bool first = index < s.hidden * s.inner;
    return 1 / std::sqrt(static_cast<double>(first ? s.hidden : s.inner * s.shards));
  }

  void forward(const Sizes& s, std::span<const double> rows, std::span<const double> parameters,
               std::span<double> results, std::span<double> kept) const override {
    const double *w1 = parameters.data(), *w2 = w1 + s.hidden * s.inner;
    for (std::int64_t i = 0; i < count_of(s, rows); ++i) {
      const double* const x = &rows[at(i * s.hidden)];
      double *const h = &kept[at(i * s.inner)], *const y = &results[at(i * s.hidden)];
      for (std::int64_t n = 0; n < s.inner; ++n) {
        double sum = 0;
        for (std::int64_t m = 0; m < s.hidden; ++m) sum += x[m] * w1[m * s.inner + n];
        h[n] = activation(sum);
      }
      for (std::int64_t m = 0; m < s.hidden; ++m) {
        y[m] = 0;
        for (std::int64_t n = 0; n < s.inner; ++n) y[m] += h[n] * w2[n * s.hidden + m];
      }
    }
  }

  void backward(const Sizes& s, std::span<const double> rows, std::span<const double> parameters,
                std::span<const double> kept, std::span<const double> d_results, std::span<double> d_rows,
                std::span<double> d_parameters) const override {
    const double *w1 = parameters.data(), *w2 = w1 + s.hidden * s.inner;
    double *const d_w1 = d_parameters.data(), *const d_w2 = d_w1 + s.hidden * s.inner;
    for (std::int64_t i = 0; i < count_of(s, rows); ++i) {
      const double *x = &rows[at(i * s.hidden)], *h = &kept[at(i * s.inner)], *d_y = &d_results[at(i * s.hidden)];
      double* const d_x = &d_rows[at(i * s.hidden)];
      for (std::int64_t m = 0; m < s.hidden; ++m) d_x[m] = 0;
      for (std::int64_t n = 0; n < s.inner; ++n) {
        double d_h = 0;
        for (std::int64_t m = 0; m < s.hidden; ++m) {
          d_h += d_y[m] * w2[n * s.hidden + m];
          d_w2[n * s.hidden + m] += h[n] * d_y[m];
        }
        const double d_sum = d_h * derivative(h[n]);
        for (std::int64_t m = 0; m < s.hidden; ++m) {
          d_x[m] += d_sum * w1[m * s.inner + n];
          d_w1[m * s.inner + n] += x[m] * d_sum;
        }
      }
    }
  }

  // A product forward, and two backward: the gradients of what it multiplies. Numbers between them have 4 bytes.
  dovetail::StatedWork forward_work(const Sizes& s, std::int64_t experts, std::int64_t rows) const override {
    const std::int64_t each = rows / experts;
    return {.products = {{each, s.inner, s.hidden, experts}, {each, s.hidden, s.inner, experts}},
            .traffic = dovetail::Bytes(2 * 4. * static_cast<double>(rows * s.inner))};
  }
  dovetail::StatedWork backward_work(const Sizes& s, std::int64_t experts, std::int64_t rows) const override {
    const std::int64_t each = rows / experts;
    return {.products = {{each, s.inner, s.hidden, experts},
                         {s.inner, s.hidden, each, experts},
                         {each, s.hidden, s.inner, experts},
                         {s.hidden, s.inner, each, experts}},
            .traffic = dovetail::Bytes(3 * 4. * static_cast<double>(rows * s.inner))};
  }

 private:
  virtual double activation(double x) const { return std::tanh(x); }
  virtual double derivative(double activated) const { return 1 - activated * activated; }  // of what came out

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  static std::int64_t count_of(const Sizes& s, std::span<const double> rows) {
    return static_cast<std::int64_t>(rows.size()) / s.hidden;
  }
};
