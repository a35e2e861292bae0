// SPDX-License-Identifier: Apache-2.0
// Why the best plan takes as long as it does, in numbers of the analytic model: where its time goes, what the step
// would be without a part of it, what the next best plan does otherwise, and what other choices would bring.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/price/step_part.hpp"
#include "models/time/timeline.hpp"

namespace dovetail {

// A plan's step, and what it holds.
struct ExplainedStep {
  Metrics metrics;
  Bytes peak;  // of the fullest rank
};

// The step if one of its parts took no time.
struct WithoutPart {
  StepPart part;
  Seconds step;
};

// Another choice than the best plan's.
enum class OtherChoice { Uncut, Cut, KeepRows, MoreMicroBatches, Graphs, LargerMicroBatches, FusedKernels };
inline constexpr Names<OtherChoice, 7> other_choice_names{{{"uncut", OtherChoice::Uncut},
                                                           {"cut", OtherChoice::Cut},
                                                           {"keep_rows", OtherChoice::KeepRows},
                                                           {"more_micro_batches", OtherChoice::MoreMicroBatches},
                                                           {"graphs", OtherChoice::Graphs},
                                                           {"larger_micro_batches", OtherChoice::LargerMicroBatches},
                                                           {"fused_kernels", OtherChoice::FusedKernels}}};
struct Alternative {
  OtherChoice choice;
  ExplainedStep step;
};

// The next best plan that is not the same.
struct NextBest {
  std::string name;
  ExplainedStep step;
  std::vector<std::string> changes;  // of its layout and plan: "pp 8 in place of 4"
  bool tied = false;                 // not known to be slower
};

// It decides whether pairs of micro-batches pay: computation beside communication loses multiprocessors, the host
// launches both passes in one order, streams may share a hardware queue (plan.one_connection), and pairs have an order.
enum class PairLimit { Multiprocessors, Launches, Connections, Order };
inline constexpr Names<PairLimit, 4> pair_limit_names{{{"multiprocessors", PairLimit::Multiprocessors},
                                                       {"launches", PairLimit::Launches},
                                                       {"connections", PairLimit::Connections},
                                                       {"order", PairLimit::Order}}};

// The steps with and without pairs if one of these were otherwise: computation kept its speed, launches took no time,
// streams shared a queue (or had their own, if they share one), pairs had the fastest of the other orders.
struct PairStep {
  PairLimit limit;
  Seconds paired, apart;
};

struct PairsExplained {
  bool chosen = false;          // the best plan has pairs
  bool one_connection = false;  // its streams share a queue
  int micro_batches = 1;
  std::optional<ExplainedStep> other;  // the same plan with pairs, or without; none: refused
  std::string refusal;
  std::vector<PairStep> otherwise;
};

struct Explanation {
  std::string name;  // of the best plan
  int stages = 1, degree = 1;
  ExplainedStep best;
  std::optional<NextBest> next;
  std::vector<WithoutPart> without;  // those that gain, the largest gain first
  std::vector<Alternative> alternatives;
  std::optional<PairsExplained> pairs;  // where micro-batches have exchanges
  Bytes limit;                          // of device memory that may be used
  std::optional<Seconds> reported;      // the step of the result, where another backend than the analytic one timed it
};

}  // namespace dovetail
