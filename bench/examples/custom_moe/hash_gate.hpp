// SPDX-License-Identifier: Apache-2.0
// Sends token t to the experts t, t + 1, .. (mod E), each with the same score (Roller et al. 2021, "Hash Layers", with
// the token's number as its hash). It learns nothing and balances the experts exactly.
#pragma once
#include <algorithm>

#include "models/extend/custom_gate.hpp"

class HashGate : public dovetail::CustomGate {
 public:
  std::string name() const override { return "hash"; }
  std::int64_t parameters(const dovetail::GateSizes&) const override { return 0; }

  void choose(const dovetail::GateSizes& sizes, const dovetail::GateTokens& tokens, std::span<const double>,
              std::span<std::int32_t> experts) const override {
    for (std::int64_t t = 0; t < tokens.count; ++t)
      for (std::int64_t j = 0; j < sizes.top_k; ++j)
        experts[static_cast<std::size_t>(t * sizes.top_k + j)] =
            static_cast<std::int32_t>((tokens.first + t + j) % sizes.experts);
  }

  void score(const dovetail::GateSizes& sizes, const dovetail::GateTokens&, std::span<const double>,
             std::span<const std::int32_t>, std::span<double> scores) const override {
    std::ranges::fill(scores, 1. / static_cast<double>(sizes.top_k));
  }

  // Scores depend on nothing.
  void score_backward(const dovetail::GateSizes&, const dovetail::GateTokens&, std::span<const double>,
                      std::span<const std::int32_t>, std::span<const double>, std::span<double>,
                      std::span<double>) const override {}

  // An index and a score of 4 bytes each are written for each choice.
  dovetail::StatedWork forward_work(const dovetail::GateSizes& sizes, std::int64_t tokens) const override {
    return {.traffic = dovetail::Bytes(8. * static_cast<double>(tokens * sizes.top_k))};
  }
  dovetail::StatedWork backward_work(const dovetail::GateSizes&, std::int64_t) const override { return {}; }
};
