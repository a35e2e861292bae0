// SPDX-License-Identifier: Apache-2.0
// Puts the rows of each expert the other way round: slot 0 into its last row. Experts work on each row alone, so that
// only those who look at the rows on their way see a difference.
#pragma once
#include "models/extend/custom_order.hpp"

class ReversedOrder : public dovetail::CustomOrder {
 public:
  using Sizes = dovetail::OrderSizes;
  using Choices = std::span<const dovetail::PlacedChoice>;

  std::string name() const override { return "reversed"; }

  void encode(const Sizes& s, Choices choices, std::span<const double> tokens, std::span<double> rows) const override {
    for (const dovetail::PlacedChoice& c : choices) add(s, 1, &tokens[token(s, c)], &rows[row(s, c)]);
  }
  void decode(const Sizes& s, Choices choices, std::span<const double> rows, std::span<double> results) const override {
    for (const dovetail::PlacedChoice& c : choices) add(s, c.score, &rows[row(s, c)], &results[token(s, c)]);
  }
  void encode_backward(const Sizes& s, Choices choices, std::span<const double> d_rows,
                       std::span<double> d_tokens) const override {
    for (const dovetail::PlacedChoice& c : choices) add(s, 1, &d_rows[row(s, c)], &d_tokens[token(s, c)]);
  }
  void decode_backward(const Sizes& s, Choices choices, std::span<const double> rows, std::span<const double> d_results,
                       std::span<double> d_rows, std::span<double> d_scores) const override {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const dovetail::PlacedChoice& c = choices[i];
      add(s, c.score, &d_results[token(s, c)], &d_rows[row(s, c)]);
      for (std::size_t m = 0; m < static_cast<std::size_t>(s.hidden); ++m)
        d_scores[i] += rows[row(s, c) + m] * d_results[token(s, c) + m];
    }
  }

 private:
  static std::size_t token(const Sizes& s, const dovetail::PlacedChoice& c) {
    return static_cast<std::size_t>(c.token * s.hidden);
  }
  static std::size_t row(const Sizes& s, const dovetail::PlacedChoice& c) {
    return static_cast<std::size_t>((c.expert * s.capacity + s.capacity - 1 - c.slot) * s.hidden);
  }
  static void add(const Sizes& s, double factor, const double* from, double* to) {
    for (std::int64_t m = 0; m < s.hidden; ++m) to[m] += factor * from[m];
  }
};
