// SPDX-License-Identifier: Apache-2.0
#include "models/plan/collectives/step.hpp"

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

int place_in(Subgroup group, int rank) {
  return rank / group.stride % group.size;
}

void append_copies(const CollectiveStep& s, int rank, std::vector<Move>& moves) {
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t m = 0; m < s.middle; ++m)
      for (std::int64_t p = 0; p < s.parts; ++p)
        moves.push_back({rank, ((o * s.middle + m) * s.parts + p) * s.run, rank,
                         ((p * s.middle + m) * s.outer + o) * s.run, s.run});
}

}  // namespace

CollectiveStep copy_step(std::int64_t outer, std::int64_t middle, std::int64_t parts, std::int64_t run) {
  return {StepKind::Copy, {1, 1}, 1, outer, middle, parts, run};
}

CollectiveStep exchange_step(Subgroup subgroup, std::int64_t outer, std::int64_t run) {
  return {StepKind::Exchange, subgroup, 1, outer, 1, subgroup.size, run};
}

std::vector<Move> moves_from(const CollectiveStep& s, int rank) {
  std::vector<Move> moves;
  if (rank % s.every != 0) return moves;
  const int place = place_in(s.subgroup, rank), first = rank - place * s.subgroup.stride;
  const auto member = [&](std::int64_t i) { return first + static_cast<int>(i) * s.subgroup.stride; };
  switch (s.kind) {
    case StepKind::Copy:
      append_copies(s, rank, moves);
      break;
    case StepKind::Exchange:
      for (std::int64_t p = 0; p < s.parts; ++p)
        for (std::int64_t o = 0; o < s.outer; ++o)
          moves.push_back({rank, (o * s.parts + p) * s.run, member(p), (o * s.parts + place) * s.run, s.run});
      break;
    case StepKind::Gather:
      moves.push_back({rank, 0, first, place * s.run, s.run});
      break;
    case StepKind::Scatter:
      if (place != 0) break;
      for (std::int64_t p = 0; p < s.parts; ++p) moves.push_back({rank, p * s.run, member(p), 0, s.run});
      break;
  }
  return moves;
}

std::vector<Move> moves_to(const CollectiveStep& s, int rank) {
  std::vector<Move> moves;
  const int first = rank - place_in(s.subgroup, rank) * s.subgroup.stride;
  for (int i = 0; i < s.subgroup.size; ++i)
    for (const Move& move : moves_from(s, first + i * s.subgroup.stride))
      if (move.target == rank) moves.push_back(move);
  return moves;
}

Traffic traffic(const CollectiveStep& s, int ranks_per_node) {
  Traffic t;
  if (s.kind == StepKind::Copy) {
    t.copied = s.blocks();
    return t;
  }
  const std::int64_t inside = members_per_node(s.subgroup, ranks_per_node);
  check(inside > 0, "a subgroup whose members lie unevenly on the nodes");
  const auto link = [&](std::int64_t peers) { return LinkTraffic{peers, peers * s.outer, peers * s.outer * s.run}; };
  t.intra = link(inside - 1);
  t.inter = link(s.subgroup.size - inside);
  return t;
}

bool crosses_nodes(const CollectiveStep& step, int ranks_per_node) {
  return traffic(step, ranks_per_node).inter.peers > 0;
}

std::int64_t exchanged_blocks(std::span<const CollectiveStep> steps) {
  std::int64_t sum = 0;
  for (const CollectiveStep& step : steps)
    if (step.kind != StepKind::Copy) sum += step.blocks();
  return sum;
}

std::int64_t copied_blocks(std::span<const CollectiveStep> steps) {
  std::int64_t sum = 0;
  for (const CollectiveStep& step : steps)
    if (step.kind == StepKind::Copy) sum += step.blocks();
  return sum;
}

}  // namespace dovetail
