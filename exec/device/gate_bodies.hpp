// SPDX-License-Identifier: Apache-2.0
// Bodies of the gate, in the wide format.
#pragma once
#include <cmath>

#include "exec/device/order_bodies.hpp"

namespace dovetail::exec {

struct GateShape {
  std::int64_t tokens, experts, top_k, capacity, first_slot;
  bool sigmoid;         // scores are sigmoids, else a softmax over the experts
  bool divides_by_sum;  // of a token's choices
};

// softplus(x) = log(1 + exp x). logits += noise softplus(spread)
template <class Number, int size>
struct AddNoise {
  Number* logits;
  const Number *spread, *noise;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    Pack<size, Number> sum = load<size>(logits + i * size);
    const Pack<size, Number> of = load_constant<size>(spread + i * size), by = load_constant<size>(noise + i * size);
    for (int j = 0; j < size; ++j) {
      const Number x = of.at[j];
      sum.at[j] += by.at[j] * ((x > 0 ? x : Number(0)) + std::log1p(std::exp(-std::fabs(x))));
    }
    store(logits + i * size, sum);
  }
};

// Logits of a token to scores, in place.
template <class Number>
struct ExpertScores {
  GateShape shape;
  Number* logits;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t token, const Lanes& lanes) const {
    Number* const row = logits + token * shape.experts;
    if (shape.sigmoid) {
      for (std::int64_t e = lanes.index(); e < shape.experts; e += lanes.count()) row[e] = 1 / (1 + std::exp(-row[e]));
      return;
    }
    Number largest = row[0];
    for (std::int64_t e = lanes.index(); e < shape.experts; e += lanes.count())
      largest = row[e] > largest ? row[e] : largest;
    largest = lanes.max(largest);  // of sum() and max() all lanes have read row[0] before any writes
    Number sum = 0;
    for (std::int64_t e = lanes.index(); e < shape.experts; e += lanes.count())
      sum += row[e] = std::exp(row[e] - largest);
    sum = lanes.sum(sum);
    for (std::int64_t e = lanes.index(); e < shape.experts; e += lanes.count()) row[e] /= sum;
  }
};

// The k best experts of a token, ties to the lower index.
template <class Number>
struct ChooseExperts {
  GateShape shape;
  const Number* scores;
  std::int32_t* experts;  // by entry
  DOVETAIL_BOTH void operator()(std::int64_t token) const {
    const Number* const row = scores + token * shape.experts;
    std::int32_t* const chosen = experts + token * shape.top_k;
    for (std::int64_t j = 0; j < shape.top_k; ++j) {
      std::int32_t best = -1;
      for (std::int32_t e = 0; e < shape.experts; ++e) {
        bool taken = false;
        for (std::int64_t i = 0; i < j; ++i) taken = taken || chosen[i] == e;
        if (!taken && (best < 0 || row[e] > row[best])) best = e;
      }
      chosen[j] = best;
    }
  }
};

// Slots are given in the order of all first choices, then all second choices. The order is cut into segments: each
// expert's choices are counted by segment, the counts added up, and slots given within each segment.
struct SlotOrder {
  static constexpr std::int64_t segment = 64;
  GateShape shape;
  const std::int32_t* experts;  // by entry
  std::int32_t* counts;         // (segments, E)

  DOVETAIL_BOTH std::int64_t segments() const { return (shape.tokens * shape.top_k + segment - 1) / segment; }
  DOVETAIL_BOTH std::int32_t* counts_of(std::int64_t s) const { return counts + s * shape.experts; }

  // visit(entry, its expert's count before) for a segment's entries in order; counts become those after it.
  template <class Lanes, class Visit>
  DOVETAIL_BOTH void count(std::int64_t s, const Lanes& lanes, Visit visit) const {
    std::int32_t* const of_expert = counts_of(s);
    const auto tokens = static_cast<std::uint32_t>(shape.tokens), top_k = static_cast<std::uint32_t>(shape.top_k);
    for (int i = 0; i < segment; i += lanes.count()) {
      const auto at = static_cast<std::uint32_t>(s * segment + i + lanes.index());
      const bool is_entry = at < tokens * top_k;
      const std::uint32_t entry = at % tokens * top_k + at / tokens;
      const std::int32_t expert = is_entry ? experts[entry] : -1;
      const Alike alike = lanes.alike(expert);
      const std::int32_t before = is_entry ? of_expert[expert] : 0;
      if (is_entry) visit(entry, before + alike.before);
      lanes.sync();
      if (is_entry && alike.before == 0) of_expert[expert] = before + alike.count;
      lanes.sync();
    }
  }
};
struct CountChoices {  // of a segment
  SlotOrder order;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t s, const Lanes& lanes) const {
    for (std::int64_t e = lanes.index(); e < order.shape.experts; e += lanes.count()) order.counts_of(s)[e] = 0;
    lanes.sync();
    order.count(s, lanes, [](std::uint32_t, std::int32_t) {});
  }
};
struct AddUpCounts {  // of an expert: counts become those of the segments before
  SlotOrder order;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t expert, const Lanes& lanes) const {
    std::int32_t before = 0;
    for (std::int64_t first = 0; first < order.segments(); first += lanes.count()) {
      const std::int64_t s = first + lanes.index();
      const std::int32_t here = s < order.segments() ? order.counts_of(s)[expert] : 0;
      const std::int32_t here_before = lanes.before(here);
      if (s < order.segments()) order.counts_of(s)[expert] = before + here_before;
      before += lanes.sum(here);
    }
  }
};
struct GiveSlots {  // of a segment
  SlotOrder order;
  std::int32_t* slots;  // by entry; -1: dropped
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t s, const Lanes& lanes) const {
    order.count(s, lanes, [&](std::uint32_t entry, std::int32_t before) {
      const GateShape& shape = order.shape;
      slots[entry] = before < shape.capacity ? static_cast<std::int32_t>(shape.first_slot) + before : -1;
    });
  }
};

// By token. If experts choose, entry and place are the same.
template <class Number>
struct WriteRouting {
  GateShape shape;
  TokenEntries entries;
  const Number* scores;
  const std::int32_t *experts, *slots;  // by entry, where tokens choose
  Number* routing;
  DOVETAIL_BOTH void operator()(std::int64_t token) const {
    const auto expert_of = [&](std::int64_t i) -> std::int64_t {
      return entries.table != nullptr ? i / shape.capacity : experts[i];
    };
    Number sum = 0;
    entries.visit(token, [&](std::int64_t i) { sum += scores[token * shape.experts + expert_of(i)]; });
    entries.visit(token, [&](std::int64_t i) {
      const std::int64_t expert = expert_of(i);
      std::int64_t place = i;
      if (entries.table == nullptr)
        place = slots[i] < 0 ? -1 - expert : expert * shape.capacity + slots[i] - shape.first_slot;
      const Number score = scores[token * shape.experts + expert];
      routing[3 * i] = static_cast<Number>(token);
      routing[3 * i + 1] = static_cast<Number>(place);
      routing[3 * i + 2] = shape.divides_by_sum ? score / sum : score;
    });
  }
};

// By token and expert, i = t E + e: from the gradients of the choices' scores to that of the logits.
// With a = score, A = their sum over the choices: d a_i = (d_i - sum d_j a_j / A) / A where divided by the sum; then
// through the sigmoid, or p (d - p . d).
template <class Scalar>
struct LogitGradients {
  using Number = Wide<Scalar>;
  GateShape shape;
  TokenEntries entries;
  const Number *scores, *routing, *score_gradient;
  Scalar* d_logits;
  DOVETAIL_BOTH std::int64_t expert_of(std::int64_t entry) const {
    const auto place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    return place < 0 ? -1 - place : place / shape.capacity;
  }
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t token = i / shape.experts, own = i % shape.experts;
    const Number* const row = scores + token * shape.experts;
    Number sum = 1, mean = 0;
    if (shape.divides_by_sum) {
      sum = 0;
      entries.visit(token, [&](std::int64_t c) { sum += row[expert_of(c)]; });
      entries.visit(token, [&](std::int64_t c) { mean += score_gradient[c] * (row[expert_of(c)] / sum); });
    }
    Number dot = 0, d = 0;
    entries.visit(token, [&](std::int64_t c) {
      const std::int64_t expert = expert_of(c);
      const Number of_choice = (score_gradient[c] - mean) / sum;
      dot += row[expert] * of_choice;
      if (expert == own) d = of_choice;
    });
    d_logits[i] = narrow<Scalar>(shape.sigmoid ? d * row[own] * (1 - row[own]) : row[own] * (d - dot));
  }
};

// The gradient of a noisy gate's spread: d softplus = sigmoid.
template <class Scalar, int size>
struct SpreadGradients {
  const Scalar* d_logits;
  const Wide<Scalar>*spread, *noise;
  Scalar* d_spread;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Pack<size, Scalar> d = load_constant<size>(d_logits + i * size);
    const Pack<size, Wide<Scalar>> of = load_constant<size>(spread + i * size),
                                   by = load_constant<size>(noise + i * size);
    Pack<size, Scalar> result;
    for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(wide(d.at[j]) * by.at[j] / (1 + std::exp(-of.at[j])));
    store(d_spread + i * size, result);
  }
};

}  // namespace dovetail::exec
