// SPDX-License-Identifier: Apache-2.0
// Experiments for tests, written out in code so that a test does not depend on data files.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail::test {

// FSMoE's testbed B (8 nodes x 4 RTX 2080 Ti), first layers of Mixtral-8x7B, with its published costs.
Experiment testbed_b(int layers = 1);

// 4 ranks as 2 nodes x 2 GPUs with round costs: every collective 1 ms + 1 ns/B, GEMM 1 ms + 1 ps/flop, device
// memory free. M 8, H 16, 4 experts, 2 heads of 4, sequence 16, f 1, k 2: T = 8 tokens a rank, C = 4.
Experiment round_numbers(int layers = 1);

}  // namespace dovetail::test
