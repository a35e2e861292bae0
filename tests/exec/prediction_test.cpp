// SPDX-License-Identifier: Apache-2.0
// Layers of multi-token prediction, really executed: which word each position predicts, gradients by finite
// differences, and steps and trainings that are those of the reference.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "exec/host/end_kernels.hpp"
#include "exec/host/host_executor.hpp"
#include "exec/reference/ends.hpp"
#include "exec/reference/language.hpp"
#include "exec/reference/training.hpp"
#include "exec/run/training.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Stages of four ranks in two nodes of `mp`.
Experiment predicting(int mp, int pp, int depth) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = 2;
  s.heads = s.kv_heads = 2;
  s.batch = 4;
  s.kind = ExpertKind::Gated;
  Experiment e = with_predictions(small_experiment(s), depth);
  e.model.vocabulary = 23;  // two ranks have 12 words each, one of which no token is
  e.parallelism.pp = pp;
  e.cluster.nodes *= pp;
  return e;
}

Plan chunked_in_micro_batches(Scope scope, int micro_batches) {
  Plan plan;
  plan.scope = scope;
  if (scope != Scope::Layer) {
    plan.forward_degree = 2;
    plan.backward_degree = scope == Scope::Block ? 2 : 3;
    plan.comm_streams = CommStreams::InterIntra;
  }
  plan.micro_batches = micro_batches;
  if (micro_batches > 1) plan.pipeline_schedule = pipeline_schedule("1f1b");
  return plan;
}

}  // namespace

TEST_CASE("At each depth a position sees the words up to that depth, and predicts the one after these", "[mtp]") {
  // Two samples of four words. After the last word of a sample comes its first.
  const Values words{5, 6, 7, 8, 1, 2, 3, 4};
  const std::vector<Values> after{words, {6, 7, 8, 5, 2, 3, 4, 1}, {7, 8, 5, 6, 3, 4, 1, 2}, {8, 5, 6, 7, 4, 1, 2, 3}};
  for (std::size_t distance = 0; distance < after.size(); ++distance)
    CHECK(words_after(words, 4, distance) == after[distance]);
  // A rank that has words 0 to 9 of a vocabulary, and one with 3 to 6, which are its own 0 to 3.
  Values tokens = words;
  tokens.insert(tokens.end(), after[1].begin(), after[1].end());
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4, 5, 6, 7};
  for (std::int64_t depth = 0; depth < 3; ++depth) {
    const RankWords<double> all{tokens.data(), rows, 4, depth, 0, 10, 1}, some{tokens.data(), rows, 4, depth, 3, 4, 2};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      const auto seen = static_cast<std::int64_t>(after[static_cast<std::size_t>(depth)][i]),
                 predicted = static_cast<std::int64_t>(after[static_cast<std::size_t>(depth) + 1][i]);
      CHECK(all.word(position) == seen);
      CHECK(all.next_word(position) == predicted);
      CHECK(some.word(position) == (3 <= seen && seen < 7 ? seen - 3 : -1));
    }
  }
}

TEST_CASE("The reference's gradients through two layers of multi-token prediction are those of finite differences",
          "[mtp]") {
  SmallExperiment sizes;
  sizes.dp = 2;
  sizes.sequence = 4;
  sizes.hidden = 4;
  sizes.expert_hidden = 3;
  sizes.heads = sizes.kv_heads = 1;
  sizes.head_size = 2;
  sizes.capacity_factor = .75;
  sizes.kind = ExpertKind::Gated;
  Experiment e = with_predictions(small_experiment(sizes), 2);
  e.model.vocabulary = 7;
  e.model.tied_embeddings = GENERATE(false, true);
  ModelData data = random_model_data(e, 5);
  const Reference r = compute_reference(e, data);
  CHECK(r.dropped > 0);
  REQUIRE(r.further_losses.size() == 2);
  REQUIRE(r.gradients.size() == 3);
  const auto loss = [&] { return mean_loss(compute_reference(e, data)); };
  CHECK(gradient_error(data.ends.embedding, r.end_gradients.embedding, loss) < 1e-6);
  if (!data.ends.head.empty()) CHECK(gradient_error(data.ends.head, r.end_gradients.head, loss) < 1e-6);
  CHECK(gradient_error(data.ends.norm, r.end_gradients.norm, loss) < 1e-6);
  for (std::size_t layer = 0; layer < 3; ++layer)
    for (const Weight weight : {&LayerWeights::query, &LayerWeights::router, &LayerWeights::w1, &LayerWeights::norm,
                                &LayerWeights::projection}) {
      CAPTURE(layer);
      Values& w = data.layers[layer].*weight;
      if (!w.empty()) CHECK(gradient_error(w, r.gradients[layer].*weight, loss) < 1e-6);
    }
  CHECK(data.layers[0].projection.empty());
  CHECK(data.layers[1].projection.size() == 2 * 4 * 4);
}

TEST_CASE("Each depth's loss has the weight 1", "[mtp]") {
  const Experiment e = predicting(1, 1, 2);
  ModelData data = random_model_data(e, 5);
  // Every logit is 0 where the weights of the norms before the output head are, so that all 23 words are as likely.
  for (Values* const norm : {&data.ends.norm, &data.layers[2].norm, &data.layers[3].norm})
    std::fill(norm->end() - e.model.hidden, norm->end(), 0.);
  const Reference r = compute_reference(e, data);
  const double guess = std::log(23.);
  for (const double loss : r.loss) REQUIRE(loss == Approx(guess));
  for (const Values& losses : r.further_losses)
    for (const double loss : losses) REQUIRE(loss == Approx(guess));
  CHECK(mean_loss(r) == Approx(3 * guess));
}

TEST_CASE("Layers of multi-token prediction compute what the reference does", "[mtp]") {
  const int mp = GENERATE(1, 2), pp = GENERATE(1, 2), depth = GENERATE(1, 2), zero = GENERATE(0, 1);
  const Scope scope = GENERATE(Scope::Layer, Scope::Moe, Scope::Block);
  const Experiment e = predicting(mp, pp, depth);
  Plan plan = chunked_in_micro_batches(scope, pp == 1 ? 1 : 4);
  plan.zero = zero;
  INFO(describe(e, plan));
  check_numerics(e, plan);
}

TEST_CASE("The output head's gradient is complete before it is reduced beside layers of multi-token prediction",
          "[mtp]") {
  const Experiment e = predicting(GENERATE(1, 2), GENERATE(1, 2), 3);
  Plan plan = chunked_in_micro_batches(Scope::Moe, 2);
  plan.grad_sync = GENERATE(GradSync::WithDense, GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 50;
  INFO(describe(e, plan));
  check_numerics(e, plan);
}

TEST_CASE("Multi-token prediction shares a tied embedding with the output head, and nothing counts twice", "[mtp]") {
  const int mp = GENERATE(1, 2), pp = GENERATE(1, 2), zero = GENERATE(0, 1);
  Experiment e = predicting(mp, pp, 2);
  e.model.tied_embeddings = true;
  e.workload.clip_gradients = .01;
  Plan plan = chunked_in_micro_batches(Scope::Moe, 2);
  plan.grad_sync = GENERATE(GradSync::After, GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 150;
  plan.zero = zero;
  INFO(describe(e, plan));
  check_numerics(e, plan);
  for (const exec::Element element : {Element::Double, Element::Float}) {
    const NumericsReport r = numerics_of(e, plan, element);
    CHECK(r.gradient_norm_error <= tolerance_of(element));
  }
}

TEST_CASE("Layers of multi-token prediction compute the same again where plans recompute", "[mtp]") {
  const int mp = GENERATE(1, 2);
  Experiment e = predicting(mp, 1, 2);
  if (GENERATE(false, true)) e.model.shared_experts = {2, 6, false};
  for (const Scope scope : {Scope::Layer, Scope::Moe, Scope::Block})
    for (const EnumSet<Recompute> parts :
         {EnumSet{Recompute::Full}, EnumSet{Recompute::Norms}, EnumSet{Recompute::MpGather},
          EnumSet{Recompute::Norms, Recompute::MpGather}, EnumSet{Recompute::Moe, Recompute::Attention}}) {
      Plan plan = chunked_in_micro_batches(scope, 2);
      plan.pipeline_schedule = pipeline_schedule("gpipe");
      plan.recompute = parts;
      if (refusal(plan, e)) continue;
      INFO(describe(e, plan));
      check_numerics(e, plan);
    }
}

TEST_CASE("Dropless layers of multi-token prediction, with grouped experts and norms of queries and keys", "[mtp]") {
  const int mp = GENERATE(1, 2);
  Experiment e = predicting(mp, GENERATE(1, 2), 1);
  e.model.attention.qk_norm = QkNorm::Head;
  e.workload.message_sizes = MessageSizes::Routed;
  e.workload.capacity_factor = 0;
  e.workload.routing.kind = GENERATE(RoutingKind::Router, RoutingKind::Zipf);
  resolve_capacity(e);
  Plan plan = chunked_in_micro_batches(Scope::Moe, 2);
  plan.forward_degree = plan.backward_degree = 1;
  plan.expert_kernel = ExpertKernel::Grouped;
  INFO(describe(e, plan));
  REQUIRE_FALSE(refusal(plan, e));
  check_numerics(e, plan);
}

TEST_CASE("A forward pass with multi-token prediction gives the losses of all depths", "[mtp]") {
  Experiment e = predicting(2, 1, 2);
  e.workload.phases = Phases::ForwardOnly;
  CHECK(numerics_of(e, Plan{}, Element::Double).output_error <= 1e-12);
}

TEST_CASE("The bytes that multi-token prediction exchanges are those that are simulated", "[mtp]") {
  const Experiment e = predicting(2, 1, 1);
  const ExecutedStep step = execute(e, Plan{});
  double sent = 0;
  for (const OpId id : step.schedule->ops.ids()) {
    const Op& op = step.schedule->ops[id];
    if (op.kind != OpKind::MpAllGather || op.layer != e.workload.layers) continue;
    INFO(to_string(op));
    CHECK(step.sent[id].sent == Approx(simulated_bytes(e, *step.schedule, op)));
    sent += step.sent[id].sent;
  }
  CHECK(sent > 0);
}

TEST_CASE("Trainings with multi-token prediction are those of the sequential one, on several stages too", "[mtp]") {
  Experiment e = predicting(GENERATE(1, 2), GENERATE(1, 2), GENERATE(1, 2));
  e.model.tied_embeddings = GENERATE(false, true);
  Plan plan = chunked_in_micro_batches(Scope::Moe, 2);
  plan.zero = GENERATE(0, 1);
  INFO(describe(e, plan));
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport =
      make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(schedule->streams.size()));
  ModelData data = random_model_data(e, 5, plan.micro_batches);
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  const TrainingReport r = train(*executor, e, *schedule, std::move(data), {20, 5, true, 1e-12});
  CHECK(r.losses.back() < r.losses.front() - .1);
  CHECK(r.loss_error <= 1e-12);
  CHECK(r.weight_error <= 1e-12);
}
