// SPDX-License-Identifier: Apache-2.0
// Latent attention: the reference against a step worked out by hand and finite differences, executed steps against the
// reference, and trainings.
#include "exec/reference/latent.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "exec/reference/reference.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/other_models.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// Four ranks in nodes of `mp`.
Experiment latent(int q_rank, int mp, Extent extent, int layers = 2) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = layers;
  s.batch = 2;
  Experiment e = with_latent_attention(small_experiment(s), q_rank);
  e.workload.extent = extent;
  e.model.vocabulary = 23;
  return e;
}

// One head of one sample of two tokens of two elements; low ranks of one.
Experiment by_hand(Extent extent) {
  SmallExperiment s;
  s.sequence = s.hidden = 2;
  s.experts = s.top_k = s.heads = s.kv_heads = 1;
  Experiment e = small_experiment(s);
  e.model.attention = {.heads = 1,
                       .kv_heads = 1,
                       .head_size = 3,
                       .kind = AttentionKind::Latent,
                       .q_rank = 1,
                       .kv_rank = 1,
                       .nope_size = 1,
                       .rope_size = 2,
                       .value_size = 1};
  e.workload.extent = extent;
  return e;
}

}  // namespace

TEST_CASE("Queries, keys and values of latent attention, by hand", "[latent]") {
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  const Experiment e = by_hand(extent);
  const exec::naive::Sizes s(e, {});
  exec::LayerWeights w;
  w.query_down = {1, 1};         // the sum of both elements
  w.key_value_down = {1, 0, 1,   // the first element is the low rank and the second of the position's part,
                      0, 1, 0};  // whose first is the second element
  w.query = {2, 1, 0};
  w.key = {3};
  w.value = {5};
  w.norm = {1, 1, 1, 1, 10, 100};  // of the layer, of the queries' low rank, and of the keys' and values'
  const Values x{1, 2, 4, -1};
  exec::naive::AttentionPass pass;
  pass.query.resize(2 * 3);
  pass.key.resize(2 * 3);
  pass.value.resize(2);
  exec::naive::make_latent_heads(s, w, x, pass);
  // Low ranks 3 and 3 of the queries, 1 and 4 of the keys and values. A norm over one element leaves its sign.
  const bool norms = extent == Extent::WholeLayers;
  const std::array query_rank{norms ? 10. : 3., norms ? 10. : 3.}, rank{norms ? 100. : 1., norms ? 100. : 4.};
  const std::array<std::array<double, 2>, 2> position{{{2, 1}, {-1, 4}}};
  for (std::size_t t = 0; t < 2; ++t) {
    const double angle = norms ? static_cast<double>(t) : 0;  // of the only pair: one radian from token to token
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const auto margin = Approx::custom().epsilon(1e-5);  // the norm's epsilon, beside squares of 1 and more
    const std::array query{2 * query_rank[t], query_rank[t] * cosine, query_rank[t] * sine};
    const std::array key{3 * rank[t], position[t][0] * cosine - position[t][1] * sine,
                         position[t][1] * cosine + position[t][0] * sine};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(pass.query[3 * t + i] == margin(query[i]));
      CHECK(pass.key[3 * t + i] == margin(key[i]));
    }
    CHECK(pass.value[t] == margin(5 * rank[t]));
  }
}

TEST_CASE("Gradients of latent attention are those of finite differences", "[latent]") {
  Experiment e = latent(GENERATE(0, 7), 1, GENERATE(Extent::Layers, Extent::WholeLayers), 1);
  e.workload.batch = 1;
  exec::ModelData data = exec::random_model_data(e, 5);
  const exec::Reference reference = exec::compute_reference(e, data);
  // The gate chooses the same experts, so that small steps change nothing else.
  const auto loss = [&] { return dot(exec::compute_reference(e, data).output, data.output_gradient); };
  for (const exec::Weight weight :
       {&exec::LayerWeights::query_down, &exec::LayerWeights::key_value_down, &exec::LayerWeights::query,
        &exec::LayerWeights::key, &exec::LayerWeights::value, &exec::LayerWeights::output, &exec::LayerWeights::norm})
    CHECK(gradient_error(data.layers[0].*weight, reference.gradients[0].*weight, loss) < 1e-6);
  CHECK(gradient_error(data.input, reference.input_gradient, loss) < 1e-6);
}

TEST_CASE("Latent attention computes what the reference does: whole, in chunks, in slices, with ZeRO-1", "[latent]") {
  const int q_rank = GENERATE(0, 7), mp = GENERATE(1, 2, 4);
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers, Extent::Model);
  const Experiment e = latent(q_rank, mp, extent);
  CAPTURE(q_rank, mp, name_in(extent_names, extent));
  Plan plan;
  check_numerics(e, plan);
  plan.zero = 1;
  plan.grad_sync = GradSync::FixedChunks;
  plan.gradient_chunk_bytes = 4 * 150;
  check_numerics(e, plan);
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = 2;
  plan.comm_streams = CommStreams::InterIntra;
  check_numerics(e, plan);
  plan.micro_batches = 2;
  check_numerics(e, plan);
}

TEST_CASE("Latent attention in pipelines, with dense layers, shared experts and further predictions", "[latent]") {
  const int q_rank = GENERATE(0, 7), mp = GENERATE(1, 2);
  Experiment e = latent(q_rank, mp, Extent::Model, 4);
  e.workload.batch = 4;
  e.parallelism.pp = 2;
  e.cluster.nodes *= 2;
  e.model.first_dense = 1;
  e.model.dense_hidden = 12;
  e.model.shared_experts = {1, 8, false};
  e.workload.clip_gradients = .01;
  Plan plan;
  plan.micro_batches = 4;
  plan.pipeline_schedule = GENERATE(pipeline_schedule("1f1b"), pipeline_schedule("zb_h1"));
  plan.zero = GENERATE(0, 1);
  check_numerics(e, plan);
  check_numerics(with_predictions(e, 1), plan);
}

TEST_CASE("Heads that pad a rank's share of latent attention change nothing", "[latent]") {
  Experiment e = latent(GENERATE(0, 7), 2, Extent::WholeLayers);
  e.model.attention.heads = e.model.attention.kv_heads = 3;
  check_numerics(e, Plan{});
}

TEST_CASE("Parts of latent attention that run again compute the same", "[latent]") {
  const int q_rank = GENERATE(0, 7), mp = GENERATE(1, 2);
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  const Experiment e = latent(q_rank, mp, extent);
  Plan plan;
  plan.scope = GENERATE(Scope::Layer, Scope::Block);
  if (plan.scope == Scope::Block) plan.forward_degree = plan.backward_degree = 2;
  using Parts = EnumSet<Recompute>;
  std::vector<Parts> all{
      {Recompute::UpProjections}, {Recompute::UpProjections, Recompute::Attention}, {Recompute::Full}};
  if (mp > 1) {
    all.push_back({Recompute::MpGather});
    all.push_back({Recompute::MpGather, Recompute::UpProjections});
  }
  if (extent == Extent::WholeLayers) {
    all.push_back({Recompute::Norms});
    all.push_back({Recompute::UpProjections, Recompute::Norms, Recompute::Attention});
    if (mp > 1) all.push_back({Recompute::MpGather, Recompute::Norms, Recompute::UpProjections});
  }
  for (const Parts& parts : all) {
    plan.recompute = parts;
    check_numerics(e, plan);
  }
}

TEST_CASE("Ranks send what is simulated of latent attention, op by op", "[latent]") {
  const Experiment e = latent(GENERATE(0, 7), GENERATE(2, 4), GENERATE(Extent::Layers, Extent::Model));
  const ExecutedStep step = execute(e, Plan{});
  int summed = 0;
  for (const OpId i : step.schedule->ops.ids()) {
    const Op& op = step.schedule->ops[i];
    if (op.exchange() == nullptr || op.group() != GroupKind::Mp) continue;
    INFO(to_string(op));
    CHECK(step.sent[i].sent == Approx(simulated_bytes(e, *step.schedule, op)).epsilon(1e-12));
    summed += op.kind == OpKind::ReplicatedGradientAllReduce && op.gradients.size() > 0;
  }
  CHECK(summed == 2);  // by layer
}

TEST_CASE("Rotary positions of latent attention turn pairs of the part that has a position", "[latent]") {
  Experiment e = latent(7, 1, Extent::WholeLayers);
  e.model.attention.rope_size = 3;  // with 3 elements without position a head has an even size
  e.model.attention.head_size = 6;
  CHECK_THROWS_WITH(check_numerics(e, Plan{}), Catch::Contains("/model/attention/rope_size: rotary positions turn"));
  e.workload.extent = Extent::Layers;  // where nothing is turned
  check_numerics(e, Plan{});
  e.model.attention.rope_size = 0;
  e.model.attention.head_size = 3;
  e.workload.extent = Extent::WholeLayers;
  check_numerics(e, Plan{});
}
