// SPDX-License-Identifier: Apache-2.0
// Bodies of gates that are not a choice among linear logits: soft gates, cosines, choices by experts; and of the dense
// form (T, E, C) of choices.
#pragma once
#include <cmath>

#include "exec/device/order_bodies.hpp"

namespace dovetail::exec {

// Experts choose: the `capacity` tokens with the best scores, ties to the lower index. By token and expert,
// i = t E + e: the entry that the expert gives the token, or -1.
template <class Number>
struct ChooseTokens {
  std::int64_t tokens, experts, capacity;
  const Number* scores;
  std::int32_t* table;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t token = i / experts, expert = i % experts;
    std::int64_t better = 0;
    for (std::int64_t t = 0; t < tokens && better < capacity; ++t) {
      const Number other = scores[t * experts + expert];
      if (other > scores[i] || (other == scores[i] && t < token)) ++better;
    }
    table[i] = better < capacity ? static_cast<std::int32_t>(expert * capacity + better) : -1;
  }
};

// By entry: the same from a routing of experts that chose. -1 before.
template <class Number>
struct TableOfEntries {
  std::int64_t experts, capacity;
  const Number* routing;
  std::int32_t* table;
  DOVETAIL_BOTH void operator()(std::int64_t entry) const {
    table[static_cast<std::int64_t>(routing[3 * entry]) * experts + entry / capacity] =
        static_cast<std::int32_t>(entry);
  }
};

// By entry that is not dropped: its score and a 1 in (T, slots), 0 before.
template <class Scalar>
struct WriteDense {
  std::int64_t slots;
  const Wide<Scalar>* routing;
  Wide<Scalar>* combine;
  Scalar* mask;
  DOVETAIL_BOTH void operator()(std::int64_t entry) const {
    const auto token = static_cast<std::int64_t>(routing[3 * entry]),
               place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    if (place < 0) return;
    combine[token * slots + place] = routing[3 * entry + 2];
    mask[token * slots + place] = narrow<Scalar>(1);
  }
};
template <class Number>
struct ReadDense {  // by entry: the gradient of its score
  std::int64_t slots;
  const Number *routing, *d_combine;
  Number* score_gradient;
  DOVETAIL_BOTH void operator()(std::int64_t entry) const {
    const auto token = static_cast<std::int64_t>(routing[3 * entry]),
               place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    score_gradient[entry] = place < 0 ? Number(0) : d_combine[token * slots + place];
  }
};

// A softmax over `size` numbers, `step` apart.
template <class Number>
struct SoftmaxOf {
  const Number* logits;
  std::int64_t size, step;
  Number largest, sum;
  DOVETAIL_BOTH SoftmaxOf(const Number* from, std::int64_t count, std::int64_t apart)
      : logits(from), size(count), step(apart), largest(from[0]), sum(0) {
    for (std::int64_t i = 1; i < size; ++i) largest = logits[i * step] > largest ? logits[i * step] : largest;
    for (std::int64_t i = 0; i < size; ++i) sum += std::exp(logits[i * step] - largest);
  }
  DOVETAIL_BOTH Number operator()(std::int64_t i) const { return std::exp(logits[i * step] - largest) / sum; }
};

// How much of each token a slot holds: over the tokens. By slot.
template <class Scalar>
struct SoftDispatch {
  std::int64_t tokens, slots;
  const Wide<Scalar>* logits;
  Scalar* dispatch;
  DOVETAIL_BOTH void operator()(std::int64_t slot) const {
    const SoftmaxOf<Wide<Scalar>> p(logits + slot, tokens, slots);
    for (std::int64_t t = 0; t < tokens; ++t) dispatch[t * slots + slot] = narrow<Scalar>(p(t));
  }
};
// Through it, by slot: d = p (g - p . g).
template <class Scalar>
struct SoftDispatchBackward {
  std::int64_t tokens, slots;
  const Wide<Scalar>* logits;
  const Scalar* gradient;
  Wide<Scalar>* d_logits;
  DOVETAIL_BOTH void operator()(std::int64_t slot) const {
    using Number = Wide<Scalar>;
    const SoftmaxOf<Number> p(logits + slot, tokens, slots);
    Number mean = 0;
    for (std::int64_t t = 0; t < tokens; ++t) mean += p(t) * wide(gradient[t * slots + slot]);
    for (std::int64_t t = 0; t < tokens; ++t)
      d_logits[t * slots + slot] = p(t) * (wide(gradient[t * slots + slot]) - mean);
  }
};
// Through how much of each slot's result a token gets, over all slots, added to that. By token.
template <class Scalar>
struct SoftCombineBackward {
  std::int64_t slots;
  const Wide<Scalar>*logits, *gradient, *d_dispatch;
  Scalar* d_logits;
  DOVETAIL_BOTH void operator()(std::int64_t token) const {
    using Number = Wide<Scalar>;
    const std::int64_t first = token * slots;
    const SoftmaxOf<Number> p(logits + first, slots, 1);
    Number mean = 0;
    for (std::int64_t i = 0; i < slots; ++i) mean += p(i) * gradient[first + i];
    for (std::int64_t i = 0; i < slots; ++i)
      d_logits[first + i] = narrow<Scalar>(p(i) * (gradient[first + i] - mean) + d_dispatch[first + i]);
  }
};

// to[i]: of the numbers from i * stride on, `step` apart, the sum, or the length of the vector, never 0.
template <class Number>
struct SumUp {
  const Number* from;
  std::int64_t stride, size, step;
  bool length;
  Number* to;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    Number sum = 0;
    for (std::int64_t j = lanes.index(); j < size; j += lanes.count()) {
      const Number x = from[i * stride + j * step];
      sum += length ? x * x : x;
    }
    sum = lanes.sum(sum);
    if (length) sum = sum > Number(1e-24) ? std::sqrt(sum) : Number(1e-12);
    if (lanes.index() == 0) to[i] = sum;
  }
};

// exp(min(theta, log 100)): at most 100, as in Tutel.
template <class Number>
DOVETAIL_BOTH Number cosine_scale(Number theta) {
  const Number largest = std::log(Number(100));
  return std::exp(theta < largest ? theta : largest);
}

// Products of projected tokens and embeddings to cosines, and those to logits. By token and expert.
template <class Number>
struct CosineLogits {
  std::int64_t experts;
  const Number *token_length, *expert_length, *theta;
  Number *cosines, *logits;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    cosines[i] /= token_length[i / experts] * expert_length[i % experts];
    logits[i] = cosines[i] * cosine_scale(*theta);
  }
};
// With h a projected token, u an embedding, c their cosine: dc/dh = (u / |u| - c h / |h|) / |h|, and so for u.
// `product`: of the first part; `along`: d c, of the second.
template <class Scalar>
struct CosineGradient {
  std::int64_t experts;
  const Wide<Scalar>*token_length, *expert_length, *theta, *cosines;
  const Scalar* d_logits;
  Wide<Scalar>*product, *along;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Wide<Scalar> d = wide(d_logits[i]) * cosine_scale(*theta);
    product[i] = d / (token_length[i / experts] * expert_length[i % experts]);
    along[i] = d * cosines[i];
  }
};
// (rows, cols): first part - along / length^2 of a row or column times the vectors; added or not.
template <class Scalar>
struct WithoutRadial {
  std::int64_t cols;
  bool by_column, adds;
  const Wide<Scalar>*first_part, *along, *length, *vectors;
  Scalar* to;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t k = by_column ? i % cols : i / cols;
    const Wide<Scalar> d = first_part[i] - along[k] / (length[k] * length[k]) * vectors[i];
    to[i] = narrow<Scalar>(adds ? wide(to[i]) + d : d);
  }
};
template <class Scalar>
struct ThetaGradient {
  const Wide<Scalar>*along, *theta;  // their sum
  Scalar* to;
  DOVETAIL_BOTH void operator()(std::int64_t) const {
    if (*theta < std::log(Wide<Scalar>(100))) *to = narrow<Scalar>(wide(*to) + *along);
  }
};

template <class Scalar>
struct Widen {
  const Scalar* from;
  Wide<Scalar>* to;
  DOVETAIL_BOTH void operator()(std::int64_t i) const { to[i] = wide(from[i]); }
};
template <class Scalar, int size>
struct Narrow {
  const Wide<Scalar>* from;
  Scalar* to;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Pack<size, Wide<Scalar>> values = load_constant<size>(from + i * size);
    Pack<size, Scalar> result;
    for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(values.at[j]);
    store(to + i * size, result);
  }
};

}  // namespace dovetail::exec
