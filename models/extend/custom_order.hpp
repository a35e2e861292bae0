// SPDX-License-Identifier: Apache-2.0
// An order of the user's own (FSMoE section 3.1: Order and I-Order): how the rows of tokens come to the layout in which
// experts get them, and back. A class that derives from CustomOrder takes the place of plan.encoding sparse.
//
// An order moves rows. It may place a token's row in any of the C rows of its expert, as long as its four functions
// agree: results must be those of the formulas below. Runs check that.
//
// - Numbers are double, whatever the run's format: the library converts. All arrays are row-major.
// - Spans belong to the library and are valid during the call alone. Results are 0 when a function gets them.
// - Functions are called from many threads at once, for other ranks and layers.
// - An exception ends the step with the name of the op.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/extend/stated_work.hpp"

namespace dovetail {

struct OrderSizes {
  std::int64_t tokens = 0;    // T, of a rank and a micro-batch or, with plan.scope block, of one of its chunks
  std::int64_t hidden = 0;    // M, elements of a token
  std::int64_t experts = 0;   // E
  std::int64_t capacity = 0;  // C, rows that each expert has for these tokens
};

// A choice that is not dropped. No two have the same expert and slot.
struct PlacedChoice {
  std::int64_t token = 0, expert = 0;
  std::int64_t slot = 0;  // 0 to C - 1, in the order in which the gate's choices came
  double score = 0;
};

enum class OrderStep : std::uint8_t { Encode, Decode, EncodeBackward, DecodeBackward };

class CustomOrder {
 public:
  virtual ~CustomOrder() = default;
  virtual std::string name() const = 0;

  // Rows (E, C, M) from the tokens (T, M): that of a choice is its token's. The others stay 0.
  virtual void encode(const OrderSizes& sizes, std::span<const PlacedChoice> choices, std::span<const double> tokens,
                      std::span<double> rows) const = 0;
  // Results (T, M) from the experts' rows (E, C, M): of each token, the sum of score times row over its choices.
  virtual void decode(const OrderSizes& sizes, std::span<const PlacedChoice> choices, std::span<const double> rows,
                      std::span<double> results) const = 0;

  // The gradients of the tokens, from those of encode's rows.
  virtual void encode_backward(const OrderSizes& sizes, std::span<const PlacedChoice> choices,
                               std::span<const double> d_rows, std::span<double> d_tokens) const = 0;
  // The gradients of decode's rows and of the choices' scores, from those of the results.
  virtual void decode_backward(const OrderSizes& sizes, std::span<const PlacedChoice> choices,
                               std::span<const double> rows, std::span<const double> d_results,
                               std::span<double> d_rows, std::span<double> d_scores) const = 0;

  // The work of a function on one rank; none: that of the project's own sparse order.
  virtual std::optional<StatedWork> work(OrderStep, const OrderSizes&) const { return {}; }
};

}  // namespace dovetail
