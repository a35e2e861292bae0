// SPDX-License-Identifier: Apache-2.0
// An all-to-all in steps, as data. Ranks are group indices 0 to W - 1; a block is what one rank has for one other,
// 1/W of a rank's buffer. Who copies which block where follows from a step's few numbers, so its cost does too.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/question/parallelism.hpp"

namespace dovetail {

// Copy: each rank moves blocks within its memory; its buffer (outer, middle, parts, run) becomes
//   (parts, middle, outer, run).
// Exchange: each member of the subgroup has (outer, size, run) and ends with the same, where (o, i, :) was
//   member i's (o, own place, :). Outer > 1: many short messages instead of one to each peer.
// Gather: member 0 ends with (size, run), every member's `run` blocks. Scatter: the reverse.
enum class StepKind : std::uint8_t { Copy, Exchange, Gather, Scatter };
inline constexpr std::array<std::pair<std::string_view, StepKind>, 4> step_kind_names{{{"copy", StepKind::Copy},
                                                                                       {"exchange", StepKind::Exchange},
                                                                                       {"gather", StepKind::Gather},
                                                                                       {"scatter", StepKind::Scatter}}};

struct CollectiveStep {
  StepKind kind = StepKind::Exchange;
  Subgroup subgroup;  // who exchanges; of a copy {1, 1}
  int every = 1;      // only ranks that are multiples of this take part (the first of each node: its leader)
  std::int64_t outer = 1, middle = 1, parts = 1, run = 1;  // parts: the subgroup's size, unless a copy

  // The blocks of a rank that takes part and, in a gather or scatter, is member 0.
  std::int64_t blocks() const { return outer * middle * parts * run; }
  std::int64_t source_blocks() const { return kind == StepKind::Gather ? run : blocks(); }
  std::int64_t target_blocks() const { return kind == StepKind::Scatter ? run : blocks(); }
  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

CollectiveStep copy_step(std::int64_t outer, std::int64_t middle, std::int64_t parts, std::int64_t run);
CollectiveStep exchange_step(Subgroup subgroup, std::int64_t outer, std::int64_t run);

// `blocks` blocks that follow one another, from a rank's source buffer to a rank's target buffer.
struct Move {
  int source = 0;
  std::int64_t source_block = 0;
  int target = 0;
  std::int64_t target_block = 0;
  std::int64_t blocks = 0;
};
std::vector<Move> moves_from(const CollectiveStep& step, int rank);
std::vector<Move> moves_to(const CollectiveStep& step, int rank);  // in the order of the senders' moves

// The traffic that the busiest rank sends (gather: receives) to others over one kind of link.
struct LinkTraffic {
  std::int64_t peers = 0, messages = 0, blocks = 0;
  friend bool operator==(const LinkTraffic&, const LinkTraffic&) = default;
};
struct Traffic {
  LinkTraffic intra, inter;
  std::int64_t copied = 0;  // blocks that a copy reads and writes
};
// The traffic of a group with `ranks_per_node` consecutive members on each node; the step's subgroups must lie evenly
// on them (members_per_node not 0).
Traffic traffic(const CollectiveStep& step, int ranks_per_node);

bool crosses_nodes(const CollectiveStep& step, int ranks_per_node);

// Blocks of all exchanges, gathers and scatters among the steps; of all copies.
std::int64_t exchanged_blocks(std::span<const CollectiveStep> steps);
std::int64_t copied_blocks(std::span<const CollectiveStep> steps);

}  // namespace dovetail
