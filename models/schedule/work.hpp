// SPDX-License-Identifier: Apache-2.0
// The work of an op: how much there is to compute or to move. It says nothing of how long that takes.
#pragma once
#include <cstdint>
#include <variant>

#include "models/base/names.hpp"
#include "models/base/units.hpp"
#include "models/plan/communication.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail {

// Modules that the model gives as measured times (model.hpp) instead of sizes.
enum class Profiled : std::uint8_t { Expert, Gate };
inline constexpr Names<Profiled, 2> profiled_names{{{"expert", Profiled::Expert}, {"gate", Profiled::Gate}}};

// Half-open range into one of the schedule's arrays.
struct Span {
  std::int32_t first = 0, last = 0;
  bool empty() const { return first == last; }
  friend bool operator==(Span, Span) = default;
};

// Kernels of the device: matrix products, and kernels that device memory bounds.
struct KernelWork {
  Flops flops = {};            // of matrix products, as the kernels' shapes have them
  int gemms = 0;               // launches of matrix products
  std::int64_t gemm_rows = 0;  // of each product, where the layout cuts an expert's rows; 0: all of them
  Bytes gemm_traffic = {};     // read plus written by such products: they take at least as long as this
  Bytes memory_traffic = {};   // read plus written by kernels bound by device memory
  Bytes row_traffic = {};      // the part of it that is of rows between tokens and experts, all of the capacity
  int memory_kernels = 1;      // launches of those, where there is such traffic
  Span kernels = {};           // the products and attention (Schedule::kernels)
  double row_share = 1;        // of the shapes' rows, where fewer arrive
  int elsewhere = 0;           // small kernels of the kind of op (OpEntry::small) that other ops of the step do
};

// A module whose time the model gives for a size: the rows of all experts of this rank, or the tokens of a gate.
struct ProfiledWork {
  Profiled module = Profiled::Expert;
  std::int64_t size = 0;
};

// An exchange between ranks. Two kinds have no collective: a step of an all-to-all that only copies, and the receiving
// end of a send.
struct ExchangeWork {
  Collective collective = Collective::None;  // over `group`
  GroupKind group = GroupKind::Ep;
  Protocol protocol = Protocol::Simple;
  Bytes message =
      {};  // n of CollectiveCost; of steps: the bytes that the busiest rank has before or after each exchange
  Bytes copy_traffic = {};  // read plus written by the steps that copy
  // For an exchange that sends a token to a node once (Schedule::relays), whose `message` is a row for each token and
  // rank: the bytes that the busiest rank has for other nodes, and for other ranks of its node.
  Bytes to_nodes = {}, in_node = {};
  Span steps = {};  // the steps of an all-to-all that this op does (Schedule::steps); empty: the whole at once
  friend bool operator==(const ExchangeWork&, const ExchangeWork&) = default;
};

// A copy between device memory and pinned host memory.
struct CopyWork {
  Bytes bytes;
};

// A launch after the host has waited for everything before it.
struct HostWait {};

using Work = std::variant<KernelWork, ProfiledWork, ExchangeWork, CopyWork, HostWait>;

}  // namespace dovetail
