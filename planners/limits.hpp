// SPDX-License-Identifier: Apache-2.0
// How far the search over layouts looks. Each limit trades time for finds, and all are by choice.
#pragma once
#include <cstddef>
#include <vector>

namespace dovetail::planners::limits {

// Times of whole steps closer than this differ by rounding only, and estimates by less than is worth a change.
inline constexpr double rounding = 1e-9, least_gain = 1e-6;

// Layouts.
inline constexpr std::size_t arranged = 48;       // the most promising ones, arranged in every system's way
inline constexpr std::size_t tried = 400;         // with the best plan of another
inline constexpr std::size_t improved = 6;        // of those, improved knob by knob
inline constexpr std::size_t improved_pairs = 2;  // and of those whose micro-batches overlap
inline constexpr std::size_t polished = 2;        // of those, by predictions of whole steps
inline constexpr std::size_t systems_tries = 3;   // of a system's layouts: what is estimated to fit may not
inline constexpr int arranged_degree = 4;         // the most chunks with which a layout is arranged at first

// Whole steps.
inline constexpr long finalists_layers = 2000;  // predicted of plans that are not the first of their layout
inline constexpr int ready_step = 6000;         // layers x micro-batches of a step whose order by readiness is tried
inline constexpr long polish_layers = 10'000;   // built in search of a better neighbour of the best plan
inline constexpr int short_step = 128;          // the same of a step that planners look at whole
inline constexpr int small_question = 64;       // layers x GPUs of a question in which everything is predicted whole
inline constexpr double promising = 1.02;  // times the best estimate: whole steps of what is slower are not looked at

// The degrees of climbs by estimate.
inline std::vector<int> degrees() {
  return {1, 2, 3, 4, 5, 6, 8};
}

// Not searched at all, by an experiment on five questions: more than 8 chunks of rows (6.8 to 65 % slower), captured
// graphs of a part (.06 % faster at most), and model-parallel ranks that repeat tokens (21 % slower). Other numbers of
// multiprocessors than a kernel's own 20 (plan.comm_sms) are not searched either: they would count for sums of
// gradients too, which other kernels do. 16 gained .6 % on DeepSeek-V3 on 256 H100, and 32 .6 % on Qwen3-30B on 16.

}  // namespace dovetail::planners::limits
