// SPDX-License-Identifier: Apache-2.0
// An op that communicates, as one member of its group does it: a few steps over regions of memory that every executor
// and the flow simulator know.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail {

// Elements of a tensor, or of the scratch memory that the op has while it runs.
struct Region {
  static constexpr TensorId scratch{};
  TensorId tensor = scratch;
  std::int64_t first = 0, count = 0;

  Region part(std::int64_t at, std::int64_t elements) const { return {tensor, first + at, elements}; }
  friend bool operator==(const Region&, const Region&) = default;
};

// Columns of matrices: so many rows, each of as many elements as the two regions have, which are those of the first
// row. From a row to the next are so many elements.
struct RowStrides {
  std::int64_t rows = 1, from = 0, to = 0;
  friend bool operator==(const RowStrides&, const RowStrides&) = default;
};

// Within the member's own memory. Zero: `to` becomes 0, and there is no `from`. Add: `from` is added to `to`.
enum class LocalKind : std::uint8_t { Zero, Copy, Add };
struct LocalStep {
  LocalKind kind = LocalKind::Copy;
  Region from, to;
  RowStrides strides = {};  // of a copy
  friend bool operator==(const LocalStep&, const LocalStep&) = default;
};
using LocalSteps = std::vector<LocalStep>;  // one after another

// Peers are places in the op's group, the own one included.
struct Transfer {
  int peer = 0;
  Region region;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// All at once. A member's n-th send to a peer is the peer's n-th receive from it, of equal size.
struct Transfers {
  std::vector<Transfer> sends, receives;
  TensorId arrives;  // between stages: the tensor of the receiver, whose op for it is another one
  friend bool operator==(const Transfers&, const Transfers&) = default;
};

// One collective that communicators have, over the whole group. If a region holds a block for each member, blocks
// stand in group order.
struct NativeCollective {
  Collective collective = Collective::None;
  Region from, to;  // of a broadcast `from` counts on the root alone, of a reduce `to`
  int root = -1;    // of a broadcast or reduce

  // The elements that one member gives to another, or gets from it; in sums, of its result.
  std::int64_t block(int members) const {
    return collective == Collective::AllToAll                                               ? from.count / members
           : collective == Collective::ReduceScatter || collective == Collective::Broadcast ? to.count
                                                                                            : from.count;
  }
  friend bool operator==(const NativeCollective&, const NativeCollective&) = default;
};

using LoweredStep = std::variant<LocalSteps, Transfers, NativeCollective>;

// Steps run in order. All members have the same kinds of steps at the same places, though some have nothing to do
// there.
struct LoweredOp {
  std::vector<LoweredStep> steps;
  std::int64_t scratch = 0;  // elements
};

// Lowers an op with ExchangeWork for one of the ranks of its group; throws InternalError for an op that does not fit
// its operands. On each side of a pair of stages the op is another one: StageSend on the sender, StageReceive on the
// receiver. On the other stages a StageSend is what the receiver does for it, or nothing. An exchange that sends a
// token to a node once (Schedule::relays) has no steps here: its messages are not known before it runs.
LoweredOp lower(const Schedule& schedule, const Op& op, int rank);

// The messages of an all-to-all in a group of `members`.
Transfers messages_of(const NativeCollective& all_to_all, int members);

// Rows go to the experts' owners in such a dispatch or combine, back from them in the others.
bool to_owners(const Op& op);

}  // namespace dovetail
