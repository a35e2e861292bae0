// SPDX-License-Identifier: Apache-2.0
// The device's program of every op, on a device of host memory: outputs, gradients and drops are the reference's.
#include "tests/exec_device/device_numerics.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/price/calibration.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// On one device and on several, in double and, without pipeline stages, in bf16.
void check_everywhere(ComputeDevice& device, Experiment e, const Plan& plan) {
  check_on_device(device, e, plan, {Stored::Double, true, false, 1});
  check_on_devices(e, plan, {Stored::Double, true, false, 1});
  if (e.parallelism.pp > 1) return;
  e.workload.dtype = DType::Bf16;
  e.calibration.edit().gemms.front().dtype = DType::Bf16;
  check_on_device(device, e, plan, {Stored::Bf16, true, false, 1});
  check_on_devices(e, plan, {Stored::Bf16, true, false, 1});
}

// Equal words that begin a sequence have equal rows after attention, since nothing in the values tells their places.
// Rounding decides which of them an expert chooses.
bool repeats_words(const Experiment& e, const Plan& plan, std::uint64_t seed) {
  const ModelData data = random_model_data(e, seed, plan.micro_batches);
  return std::ranges::adjacent_find(data.words) != data.words.end();
}

}  // namespace

TEST_CASE("Random plans compute on a device what the reference does") {
  const auto device = make_loop_device();
  Random random(31);
  int run = 0;
  for (std::uint64_t i = 0; run < 200; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    check_on_device(*device, e, plan, {Stored::Double, true, false, i});
    ++run;
  }
}

TEST_CASE("Gates of a device choose experts and slots as the reference does") {
  const auto device = make_loop_device();
  Random random(5);
  int run = 0;
  for (std::uint64_t i = 0; run < 50; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    check_on_device(*device, e, plan, {Stored::Double, false, false, i});
    ++run;
  }
}

TEST_CASE("Shipped systems compute on a device what the reference does, in double, float and bf16") {
  const auto device = make_loop_device();
  check_systems_on_device(*device, false);
}

TEST_CASE("Every gate in every encoding computes on a device what the reference does, by its own choices too") {
  const auto device = make_loop_device();
  Random random(13);
  std::map<std::pair<GateKind, Encoding>, int> runs;
  for (std::uint64_t i = 0; i < 6000 && runs.size() < 13; ++i) {
    Experiment e = random_on_device(random);
    Plan plan = random_plan_on_device(random, e);
    const GateKind kind = e.workload.gate.kind;
    e.model.expert_kind = ExpertKind::Gated;  // no kink
    if (refusal(plan, e) || e.workload.gate.batch_prioritised || runs.contains({kind, plan.encoding})) continue;
    // Logits by cosines are divided by a temperature, which makes much of what float rounds off.
    const bool narrow = e.workload.layers == 1 && !e.workload.gate.cosine() && plan.dispatch_wire == Wire::Same &&
                        plan.combine_wire == Wire::Same;
    if (!narrow && !e.workload.gate.cosine()) continue;
    if (plan.is_ordered_by_costs()) continue;  // needs costs of bf16
    runs[{kind, plan.encoding}] = 1;
    check_on_device(*device, e, plan, {Stored::Double, true, false, i});
    const bool tied = kind == GateKind::ExpertChoice && repeats_words(e, plan, i);
    if (!tied) check_on_device(*device, e, plan, {Stored::Double, false, false, i});
    if (!narrow) continue;
    check_on_device(*device, e, plan, {Stored::Float, true, false, i});
    e.workload.dtype = DType::Bf16;
    check_on_device(*device, e, plan, {Stored::Bf16, true, false, i});
  }
  std::set<GateKind> sparse, dense;
  for (const auto& [how, count] : runs) (how.second == Encoding::Sparse ? sparse : dense).insert(how.first);
  CHECK(sparse.size() >= 6);
  CHECK(dense.size() == 7);
}

TEST_CASE("Rows that are sent to the experts again, in steps, arrive on a device in the format of their messages") {
  const auto device = make_loop_device();
  Experiment e = round_numbers(1);
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1};
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.backward_degree = 4;
  plan.all_to_all = AllToAll::Hierarchical1d;
  plan.dispatch_wire = plan.combine_wire = GENERATE(Wire::Same, Wire::Bf16, Wire::Fp8);
  plan.restore = Restore::S2;
  check_on_device(*device, e, plan, {Stored::Double, true, false, 1});
}

TEST_CASE("Tied embeddings at both ends of a pipeline, on one device and on several") {
  const auto device = make_loop_device();
  const int pp = GENERATE(2, 3);
  Experiment e = round_numbers(3);
  e.cluster.nodes = pp;
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = pp};
  e.model.vocabulary = 10;
  e.model.tied_embeddings = true;
  e.workload.extent = Extent::Model;
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  plan.zero = GENERATE(0, 1);
  check_on_device(*device, e, plan, {Stored::Double, true, false, 1});
  check_on_devices(e, plan, {Stored::Double, true, false, 1});
}

TEST_CASE("Layers of multi-token prediction compute on one device and on several what the reference does", "[mtp]") {
  const auto device = make_loop_device();
  const int mp = GENERATE(1, 2), pp = GENERATE(1, 2);
  Experiment e = round_numbers(pp);
  e.cluster.nodes = 2 * pp;
  e.parallelism = {.dp = 4 / mp, .mp = mp, .ep = 4, .esp = 1, .pp = pp};
  e.model.expert_kind = ExpertKind::Gated;
  e.model.vocabulary = 10;
  e.model.tied_embeddings = GENERATE(false, true);
  e = with_predictions(e, 2);
  e.workload.batch = 2;
  Plan plan;
  plan.scope = GENERATE(Scope::Layer, Scope::Block);
  if (plan.scope == Scope::Block)
    plan.forward_degree = plan.backward_degree = 2;
  else
    e.model.shared_experts = {1, 4, false};
  plan.micro_batches = pp;
  check_everywhere(*device, e, plan);
}

TEST_CASE("Latent attention computes on one device and on several what the reference does", "[latent]") {
  const auto device = make_loop_device();
  const int mp = GENERATE(1, 2), q_rank = GENERATE(0, 7, 8);
  Experiment e = round_numbers(2);
  e.cluster.nodes = 2;
  e.parallelism = {.dp = 4 / mp, .mp = mp, .ep = 4, .esp = 1};
  e.model.expert_kind = ExpertKind::Gated;
  e.model.vocabulary = 10;
  e.workload.extent = GENERATE(Extent::Layers, Extent::Model);
  e.workload.batch = 2;
  e = with_latent_attention(e, q_rank);
  if (q_rank == 8) {  // sizes of which GPUs load and store packs
    e.model.attention.kv_rank = e.model.attention.value_size = 8;
    e.model.attention.nope_size = e.model.attention.rope_size = 16;
    e.model.attention.head_size = 32;
  }
  Plan plan;
  plan.scope = GENERATE(Scope::Layer, Scope::Block);
  if (plan.scope == Scope::Block) plan.forward_degree = plan.backward_degree = 2;
  plan.recompute = {Recompute::UpProjections};
  check_on_device(*device, e, plan, {Stored::Double, true, false, 1});
  check_on_devices(e, plan, {Stored::Double, true, false, 1});
  e.model.layers = e.workload.layers = 1;
  e.workload.dtype = DType::Bf16;
  e.calibration.edit().gemms.front().dtype = DType::Bf16;
  check_on_device(*device, e, plan, {Stored::Bf16, true, false, 1});
}

TEST_CASE("Clipped gradients of a whole model with norms of queries and keys, on one device and on several") {
  const auto device = make_loop_device();
  const int mp = GENERATE(1, 2), pp = GENERATE(1, 2);
  Experiment e = round_numbers(pp);
  e.cluster.nodes = 2 * pp;
  e.parallelism = {.dp = 4 / mp, .mp = mp, .ep = 2, .esp = 1, .pp = pp, .edp = 2};
  e.model.expert_kind = ExpertKind::Gated;
  e.model.vocabulary = 10;
  e.model.attention.qk_norm = mp == 1 ? GENERATE(QkNorm::None, QkNorm::Head, QkNorm::Width) : QkNorm::Head;
  e.workload.extent = Extent::Model;
  e.workload.clip_gradients = .01;
  e.workload.batch = 2;
  Plan plan;
  plan.scope = GENERATE(Scope::Layer, Scope::Block);
  if (plan.scope == Scope::Block) plan.forward_degree = plan.backward_degree = 2;
  plan.micro_batches = pp;
  plan.zero = GENERATE(0, 1);
  check_everywhere(*device, e, plan);
}
