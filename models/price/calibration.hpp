// SPDX-License-Identifier: Apache-2.0
// Costs of operations on a cluster, each with where it comes from. Fits are
// t = alpha + n * beta (FSMoE eq. 1). Only what makes prices reads these.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/provenance.hpp"
#include "models/base/units.hpp"
#include "models/plan/communication.hpp"
#include "models/price/host_profile.hpp"
#include "models/price/interference.hpp"
#include "models/price/kernel_table.hpp"
#include "models/price/measured_line.hpp"
#include "models/price/work_rates.hpp"
#include "models/question/parallelism.hpp"
#include "models/schedule/op_kind.hpp"

namespace dovetail {

// The messages of a collective that wait for each other, in a group of so many ranks on so many nodes:
//   ring:   inside (ranks - nodes)     + between (nodes - 1)
//   tree:   inside (ranks / nodes - 1) + between log2(nodes)
//   direct: inside (ranks / nodes - 1) + between (ranks - ranks / nodes)
enum class Hops { Ring, Tree, Direct };
inline constexpr std::array<std::pair<std::string_view, Hops>, 3> hops_names{
    {{"ring", Hops::Ring}, {"tree", Hops::Tree}, {"direct", Hops::Direct}}};
struct Latency {
  Hops hops = Hops::Ring;
  Seconds inside, between;  // of a message to the same node and to another
};

// n is bytes: all-to-all: sent per rank, its own part included; all-gather: the gathered
// buffer; reduce-scatter: the buffer before scattering; all-reduce, broadcast and reduce: the buffer; send: the
// message.
struct CollectiveCost {
  Collective collective = Collective::None;
  LinkKind link = LinkKind::Inter;
  int gpus = 0;  // GPUs on the nodes the group spans, when measured; 0: any
  Seconds alpha;
  SecondsPerByte beta;
  Provenance provenance;
  // Members of the group on each node, when measured between nodes: then `gpus` are its members, and 0 the limit of
  // many nodes. 0: the cost holds wherever a group lies.
  int members_per_node = 0;
  std::optional<Latency> latency = {};  // beside alpha; none: alpha holds for every group
  Outside<SecondsPerByte> outside = {};
};

struct GemmCost {
  DType dtype = DType::Fp32;
  Seconds alpha;        // per GEMM launch
  SecondsPerFlop beta;  // 2 flops per multiply-add
  Provenance provenance;
  Outside<SecondsPerFlop> outside = {};
};

// Kernels bound by device memory (encode, decode, optimizer): n is bytes read plus written.
struct MemoryCost {
  Seconds alpha;
  SecondsPerByte beta;
  Provenance provenance;
  Outside<SecondsPerByte> outside = {};
};

// The rate of the device's L2 cache to all multiprocessors together, for operands that it holds (kernel_price.hpp).
struct CacheRate {
  BytesPerSecond bandwidth;
  Provenance provenance;
};

// All-to-alls by their messages, where known, in place of the CollectiveCost: a rank that sends m messages to p peers,
// n bytes over this kind of link, takes
//   m * per_message * (1 + p / connections) + max(n / bandwidth, n / p / peer_bandwidth).
struct MessageCost {
  LinkKind link = LinkKind::Inter;
  Protocol protocol = Protocol::Simple;  // not BySize
  Seconds per_message;
  double connections = 0;         // at which a message costs twice as much; 0: it always costs the same
  BytesPerSecond bandwidth;       // of a GPU and direction, while all GPUs of its node send
  BytesPerSecond peer_bandwidth;  // of one connection; 0: as much as `bandwidth`
  Provenance provenance;
};

// The host, which launches kernels one by one, and does what the framework does for each op.
struct HostCost {
  Seconds launch;  // of one kernel, beside what a profile counts
  Provenance provenance;
  double pace = 1;           // of the framework's work, by that on the processor of its profile
  HostProfile profile = {};  // of the framework that trains; empty: none
  HostPace speed() const { return {launch, pace}; }
};

// The time of the kernels of one kind of op in one pass: alpha, and either its own rates for what they do or `factor`
// times what GEMMs, tables and device memory say of them. Kinds without an entry take the time that those say.
struct KernelCost {
  OpKind op = OpKind::Expert;
  Phase phase = Phase::Forward;
  Seconds alpha;
  double factor = 1;               // where there are no rates
  std::optional<WorkRates> rates;  // see work_rates.hpp
  Provenance provenance;
};

// Kernels of a training that nobody measured by themselves on this device take so many times what the table or the cost
// of the kernel says that does as much: weight gradients of products, backward attention of attention, experts and
// their gradients of experts.
struct TrainingKernel {
  KernelKind kernel = KernelKind::WeightGradient;
  double times = 1;  // at least 1
  Provenance provenance;
};

// The rate of products that a device keeps up for as long as a training lasts, and the rate of short measurements, by
// which tables were made. A kernel at that rate is slowed to the sustained one, others as much less as their own rate
// is lower: t' = t (1 + (burst / rate - 1) x rate of the kernel / burst).
struct SustainedRate {
  DType dtype = DType::Bf16;
  FlopsPerSecond burst, rate;
  bool always = false;  // not for heat alone: the library is slower than that of the tables
  Provenance provenance;
  // How many times as long a kernel of this rate takes.
  double slowing(FlopsPerSecond of_kernel) const { return 1 + (burst / rate - 1) * std::min(1.0, of_kernel / burst); }
};

// Rates that costs are bound by, as data sheets have them.
struct Hardware {
  std::map<DType, FlopsPerSecond> peak;
  BytesPerSecond memory_bandwidth;
  BytesPerSecond node_bandwidth;  // of a GPU and direction, inside the node
  BytesPerSecond card_share;      // of a GPU and direction, of its node's network cards
};

struct Calibration {
  std::string name;
  std::string source;
  std::optional<Hardware> hardware;  // that the costs were made on; none: not known
  std::vector<std::string> adapted;  // what was changed for other hardware, a sentence each
  std::vector<CollectiveCost> collectives;
  std::vector<GemmCost> gemms;      // of kernels whose shape no table knows
  std::vector<KernelTable> tables;  // of kernels by their shapes
  std::vector<TrainingKernel> training;
  std::vector<SustainedRate> sustained;
  MemoryCost memory;
  std::optional<MemoryCost> strided_copy;  // of many short pieces; none: as memory
  std::optional<CacheRate> l2_cache;       // none: what is read again is priced as read from memory
  std::vector<MessageCost> messages;
  std::optional<MemoryCost> copy;  // between device and pinned host memory, one direction; n is bytes
  std::vector<KernelCost> kernels;
  std::vector<Interference> interference;
  std::optional<HostCost> host;  // none: launches take the host no time, or are part of the other costs
};

// Null: the calibration does not know such messages.
const MessageCost* find_message(const Calibration& calibration, LinkKind link, Protocol protocol);
const GemmCost& find_gemm(const Calibration& calibration, DType dtype);  // InputError where it has none
const GemmCost* gemm_cost(const Calibration& calibration, DType dtype);  // null: none
// InputError unless products in this format have a cost or a table.
void require_products(const Calibration& calibration, DType dtype);
// Null: as the general rates say.
const KernelCost* find_kernel(const Calibration& calibration, OpKind op, Phase phase);
const MemoryCost& find_copy(const Calibration& calibration);  // InputError where it has none

}  // namespace dovetail
