// SPDX-License-Identifier: Apache-2.0
// A big cluster's experiment in the size of this machine: the schedule is rebuilt and replanned for it.
#pragma once
#include <string_view>

#include "models/question/experiment.hpp"

namespace dovetail::exec {

struct HostScale {
  int ranks = 4;  // of equally many GPUs on each node
  int layers = 1;
  int experts = 0;  // 0: as many as ranks
  int hidden = 128;
  int expert_hidden = 256;  // rounded up to divide over a node's ranks
  int tokens_per_rank = 512;
  int head_size = 0;            // of attention, at most `hidden`; 0: 32, or `hidden` where that is less
  int nodes = 2;                // for each pipeline stage
  int mp = 0, esp = 0, ep = 0;  // groups; 0: as the big experiment's are scaled (below)
  int top_k = 0;                // at most `experts`; 0: the model's
  int sequence = 0;             // tokens of a sample; 0: the big batch stays, as far as it divides the tokens
};

// Keeps the cluster's links and costs (but for its host's launches, since this machine has a host), and the model's
// kind: gated or not, top_k (at most `experts`), capacity factor, query heads per key head (as far as they divide over
// the ranks), pipeline stages, batch (as far as it divides the tokens). Overlap is ideal. fp32 unless it is fp64, and
// flash attention in place of eager; in a stage mp and esp are the GPUs of a node, or 1 where they are so in the
// big experiment, and ep is as large as the experts and the other ranks allow. Routing loads are folded onto the fewer
// experts. Throws InputError for sizes that do not divide, and for what no executor runs.
Experiment scaled_for_host(const Experiment& big, const HostScale& scale);

// Kernels of a device move messages of one size: routed ones become padded ones, with a capacity factor of 1.2 where
// routing is dropless. Returns whether they did.
bool pad_for_device(Experiment& experiment);
inline constexpr std::string_view padded_for_device =
    "kernels of a GPU move messages of one size: here they are padded, with a capacity factor of 1.2 in place of "
    "dropless routing";

}  // namespace dovetail::exec
