// Costs of operations on a cluster, each with where it comes from. Fits are
// t = alpha + n * beta (FSMoE eq. 1). Only price() reads these.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/dtype.hpp"
#include "models/parallelism.hpp"
#include "models/units.hpp"

namespace dovetail {

enum class Collective { None, AllToAll, AllGather, ReduceScatter, AllReduce, Broadcast, Reduce };
inline constexpr std::array<std::pair<std::string_view, Collective>, 7> collective_names{
    {{"none", Collective::None},
     {"all_to_all", Collective::AllToAll},
     {"all_gather", Collective::AllGather},
     {"reduce_scatter", Collective::ReduceScatter},
     {"all_reduce", Collective::AllReduce},
     {"broadcast", Collective::Broadcast},
     {"reduce", Collective::Reduce}}};

// Links a collective uses: those inside a node or the network between nodes.
enum class LinkKind { Intra, Inter };
inline constexpr std::array<std::pair<std::string_view, LinkKind>, 2> link_kind_names{
    {{"intra", LinkKind::Intra}, {"inter", LinkKind::Inter}}};

enum class Origin { Published, Measured, Fitted, Assumed };
inline constexpr std::array<std::pair<std::string_view, Origin>, 4> origin_names{{{"published", Origin::Published},
                                                                                  {"measured", Origin::Measured},
                                                                                  {"fitted", Origin::Fitted},
                                                                                  {"assumed", Origin::Assumed}}};

struct Provenance {
  Origin origin = Origin::Assumed;
  std::string source;  // paper and figure, or host, date and tool, with the published unit
};

// n is bytes: all-to-all: sent per rank, its own part included; all-gather: the gathered
// buffer; reduce-scatter: the buffer before scattering; all-reduce, broadcast and reduce: the buffer.
struct CollectiveCost {
  Collective collective = Collective::None;
  LinkKind link = LinkKind::Inter;
  int gpus = 0;  // GPUs on the nodes the group spans, when measured; 0: any
  Seconds alpha;
  SecondsPerByte beta;
  Provenance provenance;
};

struct GemmCost {
  DType dtype = DType::Fp32;
  Seconds alpha;        // per GEMM launch
  SecondsPerFlop beta;  // 2 flops per multiply-add
  Provenance provenance;
};

// Kernels bound by device memory (encode, decode, optimizer): n is bytes read plus written.
struct MemoryCost {
  Seconds alpha;
  SecondsPerByte beta;
  Provenance provenance;
};

// Kinds of op that slow each other when they run together.
enum class InterferenceClass { Compute, Inter, Intra, Copy };
inline constexpr std::array<std::pair<std::string_view, InterferenceClass>, 4> interference_class_names{
    {{"compute", InterferenceClass::Compute},
     {"inter", InterferenceClass::Inter},
     {"intra", InterferenceClass::Intra},
     {"copy", InterferenceClass::Copy}}};

// While a and b run together, a keeps a_speed of its own speed and b keeps b_speed. a_speed + b_speed >= 1.
struct Interference {
  InterferenceClass a = InterferenceClass::Compute, b = InterferenceClass::Inter;
  double a_speed = 1, b_speed = 1;
  Provenance provenance;
};

struct Calibration {
  std::string name;
  std::string source;
  std::vector<CollectiveCost> collectives;
  std::vector<GemmCost> gemms;
  MemoryCost memory;
  std::vector<Interference> interference;
};

// The entry for a collective over a group of this shape. Several entries for different numbers of GPUs:
// alpha and beta are interpolated linearly between neighbours and held beyond the ends. A broadcast or reduce without
// entries costs as all-gather or reduce-scatter of the same buffer, as `assumed`: pipelined, every rank receives or
// sends the buffer once. Throws InputError (naming what the calibration has) when there is none for that link.
CollectiveCost find_cost(const Calibration& calibration, Collective collective, GroupShape group, int gpus_per_node);
const GemmCost& find_gemm(const Calibration& calibration, DType dtype);

}  // namespace dovetail
