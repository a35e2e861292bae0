// SPDX-License-Identifier: Apache-2.0
// The share of a training framework in a schedule: passes over gradients, waits, and memory.
#include "models/question/framework.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// One MoE layer in bf16 whose gradients add up in fp32 and are clipped.
Experiment trained() {
  Experiment e = test::testbed_b();
  e.workload.dtype = DType::Bf16;
  e.workload.extent = Extent::WholeLayers;
  e.workload.gradients = DType::Fp32;
  e.workload.clip_gradients = 1;
  return e;
}

Plan unchunked() {
  Plan plan;
  plan.scope = Scope::Moe;
  return plan;
}

Bytes update_traffic(const Experiment& e) {
  const Schedule s = build_step(e, unchunked());
  return std::ranges::find(s.ops, OpKind::Update, &Op::kind)->kernel()->memory_traffic;
}

double elements(const Schedule& s, TensorKind kind) {
  double sum = 0;
  for (const Tensor& t : s.tensors)
    if (t.kind == kind && !t.gradient) sum += t.held * static_cast<double>(t.elements);
  return sum;
}

long waits(const Schedule& s) {
  return std::ranges::count(s.ops, OpKind::HostSync, &Op::kind);
}

}  // namespace

TEST_CASE("Passes over gradients and weights count with the update") {
  Experiment e = trained();
  const Schedule s = build_step(e, unchunked());
  const double parameters = elements(s, TensorKind::DenseGradients) + elements(s, TensorKind::ExpertGradient) +
                            elements(s, TensorKind::ReplicatedGradients);
  const Bytes before = update_traffic(e);
  e.framework.passes = {.gradients = 16, .updated = 8, .weights = 4};
  // ZeRO-0: a rank updates all that it holds, 16 + 8 + 4 bytes more for each parameter.
  CHECK((update_traffic(e) - before).value() == Approx(28 * parameters));
  e.workload.clip_gradients = 0;
  CHECK((update_traffic(e) - before).value() == Approx(20 * parameters));
  e.workload.gradients = DType::Bf16;  // half as many bytes of gradients, and a narrower one to read
  CHECK((update_traffic(e) - before).value() == Approx((16 / 2 + 4 - 2) * parameters));
}

TEST_CASE("A framework keeps an empty gradient for each different shape of weights, and workspaces") {
  Experiment e = trained();
  e.framework.workspace = Bytes(1000);
  CHECK(elements(build_step(e, unchunked()), TensorKind::FrameworkBuffers) == 500);  // of 2 bytes
  e.framework.workspace = {};
  e.framework.empty_weight_gradients = true;
  const LayerVolumes v = layer_volumes(e);
  // Attention: queries, keys and values in one, and the output; one expert: its first products in one, and the last.
  const std::int64_t attention = v.projected_width * v.hidden + v.hidden * v.context_width;
  const std::int64_t expert = v.expert_gemms * v.hidden * v.worked_hidden();
  const auto buffers = elements(build_step(e, unchunked()), TensorKind::FrameworkBuffers);
  CHECK(buffers == static_cast<double>(attention + expert));
  // More layers of the same shapes keep no more.
  Experiment two = e;
  two.workload.layers = 2;
  CHECK(elements(build_step(two, unchunked()), TensorKind::FrameworkBuffers) == buffers);
}

TEST_CASE("The host waits for each loss and for the norm where the framework looks at them") {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.nodes = 1;
  request.model = "olmoe-1b-7b";
  request.set = {"framework=bare", "workload.batch=2", "plan.micro_batches=2", "workload.capacity_factor=1",
                 "workload.message_sizes=padded"};
  FilesRead files;
  std::vector<std::string> notes;
  Experiment e = load_experiment(request, files, notes);
  Plan plan = unchunked();
  plan.micro_batches = 2;
  CHECK(waits(build_step(e, plan)) == 0);
  e.framework.waits_for_loss = true;
  CHECK(waits(build_step(e, plan)) == 2);
  e.framework.waits_for_norm = true;
  const Schedule s = build_step(e, plan);
  CHECK(waits(s) == 3);
  validate(s);
  plan.graphs = Graphs::All;  // a captured step looks at nothing
  CHECK(waits(build_step(e, plan)) == 0);
}

TEST_CASE("What eager attention keeps for each score beside its probabilities counts in memory") {
  Experiment e = trained();
  e.workload.attention = AttentionKernel::Eager;
  const double once = elements(build_step(e, unchunked()), TensorKind::AttentionProbabilities);
  CHECK(once > 0);
  e.framework.score_copies = 3;  // a mask of dropout and the dropped scores, beside 2 bytes
  CHECK(elements(build_step(e, unchunked()), TensorKind::AttentionProbabilities) == Approx(2.5 * once));
}

TEST_CASE("Derivatives of activations without a gate read what they were made of") {
  Experiment e = trained();
  e.model.expert_kind = ExpertKind::Ffn;
  const double once = elements(build_step(e, unchunked()), TensorKind::Hidden);
  CHECK(once > 0);
  e.framework.activation_inputs = 2;     // of gelu, in bf16
  e.framework.weighted_activations = 2;  // gelu's result, beside its product with the score
  CHECK(elements(build_step(e, unchunked()), TensorKind::Hidden) == Approx(3 * once));
  e.model.expert_kind = ExpertKind::Gated;
  const double gated = elements(build_step(e, unchunked()), TensorKind::Hidden);
  e.framework.activation_inputs = e.framework.weighted_activations = 0;
  CHECK(elements(build_step(e, unchunked()), TensorKind::Hidden) == gated);
}

TEST_CASE("Dropout keeps a byte for each element of a layer's sums, unless the layer is recomputed") {
  Experiment e = trained();
  const double input = elements(build_step(e, unchunked()), TensorKind::MoeInput);
  const double output = elements(build_step(e, unchunked()), TensorKind::LayerInput);
  e.framework.dropout_masks = 1;
  CHECK(elements(build_step(e, unchunked()), TensorKind::MoeInput) == Approx(1.5 * input));
  // The layer's own input comes from outside, its output has a mask.
  CHECK(elements(build_step(e, unchunked()), TensorKind::LayerInput) == Approx(1.25 * output));
  Plan again = unchunked();
  again.recompute = {Recompute::Full};
  const double recomputed = elements(build_step(e, again), TensorKind::LayerInput);
  e.framework.dropout_masks = 0;
  CHECK(elements(build_step(e, again), TensorKind::LayerInput) == recomputed);
}

TEST_CASE("The host waits for rows that came where tokens go to each node once") {
  Experiment e = trained();
  e.workload.message_sizes = MessageSizes::Routed;
  Plan plan = unchunked();
  plan.all_to_all = AllToAll::NodeDeduplicated;
  plan.scores_at = ScoresAt::Experts;
  const long before = waits(build_step(e, plan));
  e.framework.waits_for_rows = true;
  CHECK(waits(build_step(e, plan)) == before + 1);
  CHECK(waits(build_step(e, unchunked())) == before);
}

TEST_CASE("Further copies of the logits count in memory, and not in executors") {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.nodes = 1;
  request.model = "olmoe-1b-7b";
  request.set = {"framework=bare", "workload.message_sizes=padded"};
  FilesRead files;
  std::vector<std::string> notes;
  Experiment e = load_experiment(request, files, notes);
  const double once = elements(build_step(e, unchunked()), TensorKind::Logits);
  e.framework.logits_copies = 4;  // in fp32, beside bf16
  CHECK(elements(build_step(e, unchunked()), TensorKind::Logits) == Approx(3 * once));
}
