// SPDX-License-Identifier: Apache-2.0
// Tutel table 5: which way to share experts among GPUs was measured to be faster.
#pragma once
#include <array>

#include "tests/support/experiments.hpp"

namespace dovetail::test {

// 8 GPUs, M = 2048, top 1; experts in 8 / experts shards each, tokens of a GPU.
struct ShardingSetting {
  int experts, tokens, expert_hidden;
  double capacity_factor;
  bool repeats_rows;  // P2 was faster: repeated rows, not gathered weights
};

inline constexpr std::array tutel_table5{
    ShardingSetting{2, 2048, 8192, 1, true},   ShardingSetting{2, 2048, 8192, 2, true},
    ShardingSetting{2, 2048, 8192, 4, false},  ShardingSetting{2, 2048, 8192, 8, false},
    ShardingSetting{2, 2048, 8192, 16, false}, ShardingSetting{4, 1024, 4096, 1, true},
    ShardingSetting{4, 1024, 8192, 1, true},   ShardingSetting{2, 16384, 2048, 1, false},
    ShardingSetting{2, 32768, 2048, 1, false}, ShardingSetting{4, 4096, 8192, 1, true},
    ShardingSetting{1, 4096, 8192, 1, false}};

// One layer on eight GPUs of a node. Factors above E are published, but no more than all tokens can go to one expert:
// the factor is 1 here.
inline Experiment tutel_layer(const ShardingSetting& s, int tokens) {
  Experiment e = round_numbers();
  e.cluster.nodes = 1;
  e.cluster.gpus_per_node = 8;
  e.model.experts = s.experts;
  e.model.top_k = e.workload.top_k = 1;
  e.model.hidden = 2048;
  e.model.expert_hidden = s.expert_hidden;
  e.workload.sequence = tokens;
  e.workload.capacity_factor = 1;
  e.parallelism = {.dp = 8, .mp = 1, .ep = s.experts, .esp = 8 / s.experts, .pp = 1, .edp = 1};
  return e;
}

}  // namespace dovetail::test
