// SPDX-License-Identifier: Apache-2.0
#include "tests/support/experiments.hpp"

#include "models/plan/communication.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::test {
namespace {

CollectiveCost cost(Collective collective, LinkKind link, double alpha_ms, double beta_ms_per_fp32) {
  return {collective,
          link,
          0,
          Seconds(alpha_ms * 1e-3),
          SecondsPerByte(beta_ms_per_fp32 * 1e-3 / 4),
          {Origin::Published, "FSMoE fig. 6"}};
}

}  // namespace

Experiment testbed_b(int layers) {
  Experiment e;
  e.cluster.name = "fsmoe-testbed-b";
  e.cluster.nodes = 8;
  e.cluster.gpus_per_node = 4;
  e.cluster.device = {"RTX 2080 Ti", Bytes(11e9), BytesPerSecond(616e9), {{DType::Fp32, FlopsPerSecond(13.45e12)}}};
  e.model = {"mixtral-8x7b", "", 32, 4096, {32, 8, 128}, 8, 2, 14336, ExpertKind::Gated, 32000};
  e.calibration.edit().name = "fsmoe-testbed-b";
  e.calibration.edit().collectives = {cost(Collective::AllToAll, LinkKind::Inter, .175, 1.224e-6),
                                      cost(Collective::AllGather, LinkKind::Intra, .032, 6.72e-7),
                                      cost(Collective::ReduceScatter, LinkKind::Intra, .0391, 6.68e-7),
                                      cost(Collective::AllReduce, LinkKind::Inter, .0837, 2.396e-6)};
  e.calibration.edit().gemms = {{DType::Fp32, Seconds(.0924e-3), SecondsPerFlop(1.768e-13 / 2), {}}};
  e.workload = {1, 256, layers, 2, 1.2, DType::Fp32, Phases::Training};
  e.parallelism = default_parallelism(e.cluster, e.model);
  return e;
}

Experiment round_numbers(int layers) {
  Experiment e;
  e.cluster.name = "round";
  e.cluster.nodes = 2;
  e.cluster.gpus_per_node = 2;
  e.cluster.device = {"round", Bytes(1e9), BytesPerSecond(1e9), {{DType::Fp32, FlopsPerSecond(1e12)}}};
  e.model = {"round", "", layers, 8, {2, 2, 4}, 4, 2, 16, ExpertKind::Ffn, 0};
  e.calibration.edit().name = "round";
  for (Collective c : {Collective::AllToAll, Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce})
    for (LinkKind link : {LinkKind::Intra, LinkKind::Inter})
      e.calibration.edit().collectives.push_back({c, link, 0, Seconds(1e-3), SecondsPerByte(1e-9), {}});
  e.calibration.edit().gemms = {{DType::Fp32, Seconds(1e-3), SecondsPerFlop(1e-12), {}}};
  e.calibration.edit().copy = MemoryCost{Seconds(1e-3), SecondsPerByte(1e-9), {}};
  e.workload = {1, 16, layers, 2, 1.0, DType::Fp32, Phases::Training};
  e.parallelism = default_parallelism(e.cluster, e.model);
  return e;
}

}  // namespace dovetail::test
