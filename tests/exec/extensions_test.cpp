// SPDX-License-Identifier: Apache-2.0
// Sub-modules of a program's own on real plans: those of the example against the reference, and some that repeat the
// project's own against these.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/nodes_first.hpp"
#include "bench/examples/custom_moe/reversed_order.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "exec/host/gate_logits.hpp"
#include "exec/host/host_executor.hpp"
#include "exec/host/host_run.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"
#include "models/extend/derivatives.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/volumes.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// GShard's gate, written once more: noisy logits x Wg + noise softplus(x Wn), and a softmax over the k largest.
class GshardAgain : public CustomGate {
 public:
  std::string name() const override { return "gshard again"; }
  std::int64_t parameters(const GateSizes& s) const override { return 2 * s.hidden * s.experts; }

  void choose(const GateSizes& s, const GateTokens& tokens, std::span<const double> parameters,
              std::span<std::int32_t> experts) const override {
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      const Values logits = logits_of(s, tokens, parameters, t);
      std::vector<std::int32_t> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return logits[at(a)] > logits[at(b)]; });
      std::copy_n(order.begin(), s.top_k, &experts[at(t * s.top_k)]);
    }
  }

  void score(const GateSizes& s, const GateTokens& tokens, std::span<const double> parameters,
             std::span<const std::int32_t> experts, std::span<double> scores) const override {
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      const Values logits = logits_of(s, tokens, parameters, t);
      double sum = 0;
      for (std::int64_t j = t * s.top_k; j < (t + 1) * s.top_k; ++j)
        sum += scores[at(j)] = std::exp(logits[at(experts[at(j)])]);
      for (std::int64_t j = t * s.top_k; j < (t + 1) * s.top_k; ++j) scores[at(j)] /= sum;
    }
  }

  void score_backward(const GateSizes& s, const GateTokens& tokens, std::span<const double> parameters,
                      std::span<const std::int32_t> experts, std::span<const double> d_scores,
                      std::span<double> d_tokens, std::span<double> d_parameters) const override {
    Values scores(d_scores.size());
    score(s, tokens, parameters, experts, scores);
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      double mean = 0;
      for (std::int64_t j = t * s.top_k; j < (t + 1) * s.top_k; ++j) mean += scores[at(j)] * d_scores[at(j)];
      for (std::int64_t j = t * s.top_k; j < (t + 1) * s.top_k; ++j) {
        const std::int64_t e = experts[at(j)], second = s.hidden * s.experts;
        const double d_logit = scores[at(j)] * (d_scores[at(j)] - mean);
        const double spread = product(s, tokens, &parameters[at(second)], t, e);
        const double d_spread = d_logit * noise(tokens, t, e) / (1 + std::exp(-spread));
        for (std::int64_t m = 0; m < s.hidden; ++m) {
          const std::size_t x = at(t * s.hidden + m), w = at(m * s.experts + e), n = at(second + m * s.experts + e);
          d_tokens[x] += d_logit * parameters[w] + d_spread * parameters[n];
          d_parameters[w] += d_logit * tokens.rows[x];
          d_parameters[n] += d_spread * tokens.rows[x];
        }
      }
    }
  }

  StatedWork forward_work(const GateSizes& s, std::int64_t tokens) const override {
    return {.products = {{tokens, s.experts, s.hidden}, {tokens, s.experts, s.hidden}}};
  }
  StatedWork backward_work(const GateSizes& s, std::int64_t tokens) const override {
    return {.products = {{tokens, s.hidden, s.experts},
                         {s.hidden, s.experts, tokens},
                         {tokens, s.hidden, s.experts},
                         {s.hidden, s.experts, tokens}}};
  }

 private:
  static double noise(const GateTokens& tokens, std::int64_t t, std::int64_t e) {
    return gate_noise(1, tokens.layer, tokens.first + t, e);
  }
  static double product(const GateSizes& s, const GateTokens& tokens, const double* w, std::int64_t t, std::int64_t e) {
    double sum = 0;
    for (std::int64_t m = 0; m < s.hidden; ++m) sum += tokens.rows[at(t * s.hidden + m)] * w[m * s.experts + e];
    return sum;
  }
  static Values logits_of(const GateSizes& s, const GateTokens& tokens, std::span<const double> parameters,
                          std::int64_t t) {
    Values logits;
    for (std::int64_t e = 0; e < s.experts; ++e)
      logits.push_back(product(s, tokens, parameters.data(), t, e) +
                       noise(tokens, t, e) *
                           std::log1p(std::exp(product(s, tokens, &parameters[at(s.hidden * s.experts)], t, e))));
    return logits;
  }
};

// The model's feed-forward expert, written once more: tanh's expert with ReLU in its place.
class ReluAgain : public TanhExpert {
 public:
  std::string name() const override { return "relu again"; }

 private:
  double activation(double x) const override { return x > 0 ? x : 0; }
  double derivative(double activated) const override { return activated > 0 ? 1 : 0; }
};

Plan in_chunks(Scope scope, int forward_degree, int backward_degree) {
  Plan plan;
  plan.scope = scope;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  return plan;
}

SmallExperiment two_layers_of_four_ranks() {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  s.layers = 2;
  return s;
}

// The example's sub-modules, of which a letter each picks some: gate, expert, order, all-to-all.
Extensions example(std::string_view which) {
  Extensions all;
  const auto has = [&](char letter) { return which.find(letter) != std::string_view::npos; };
  if (has('g')) all.gate = std::make_shared<HashGate>();
  if (has('e')) all.expert = std::make_shared<TanhExpert>();
  if (has('o')) all.order = std::make_shared<ReversedOrder>();
  if (has('a')) all.all_to_all = std::make_shared<NodesFirst>();
  return all;
}

// An executed step, whose tensors are there on all ranks.
struct Executed {
  std::shared_ptr<const Schedule> schedule;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<HostExecutor> executor;

  Executed(const Experiment& e, const Plan& plan, const ModelData& data)
      : schedule(std::make_shared<const Schedule>(build_schedule(e, plan))),
        transport(make_inproc_transport(schedule->groups, e.cluster.gpus(), std::ssize(schedule->streams))),
        executor(make_host_executor(e, schedule, Element::Double, data, {}, *transport)) {
    executor->run_step(Poison::Yes);
  }
  Values values(TensorKind kind, int layer) const {
    Values all;
    for (const TensorId i : schedule->tensors.ids())
      if (const Tensor& t = schedule->tensors[i]; t.kind == kind && t.layer == layer && !t.gradient)
        for (const int rank : executor->ranks())
          std::ranges::copy(executor->values(at(rank), i), std::back_inserter(all));
    return all;
  }
};

double difference(const Executed& a, const Executed& b, TensorKind kind, int layer) {
  const Values x = a.values(kind, layer), y = b.values(kind, layer);
  REQUIRE_FALSE(x.empty());
  REQUIRE(x.size() == y.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::fabs(x[i]));
    worst = std::max(worst, std::fabs(x[i] - y[i]));
  }
  REQUIRE(largest > 0);
  return worst / largest;
}

void check_same_step(const Executed& a, const Executed& b) {
  CHECK(difference(a, b, TensorKind::LayerInput, 2) < 1e-12);
  for (const int layer : {0, 1})
    for (const TensorKind kind : {TensorKind::RouterGradient, TensorKind::ExpertGradient})
      CHECK(difference(a, b, kind, layer) < 1e-12);
}

}  // namespace

TEST_CASE("A gate that repeats GShard's trains as GShard's does") {
  for (const Plan& plan : {in_chunks(Scope::Moe, 2, 3), in_chunks(Scope::Block, 2, 2)}) {
    Experiment e = small_experiment(two_layers_of_four_ranks());
    e.workload.gate.kind = GateKind::Gshard;
    const ModelData data = random_model_data(e, 5);
    const Executed own(e, plan, data);
    e.workload.gate = {};
    e.extensions.gate = std::make_shared<GshardAgain>();
    const Executed custom(e, plan, data);
    CHECK(custom.values(TensorKind::Routing, 0) != Values());
    check_same_step(own, custom);
    check_numerics(e, plan);
  }
}

TEST_CASE("Experts that repeat the model's train as the model's do, whole and cut into shards") {
  for (const int esp : {1, 2}) {
    SmallExperiment s = two_layers_of_four_ranks();
    s.esp = esp;
    s.ep = 4 / esp;
    Experiment e = small_experiment(s);
    ModelData data = random_model_data(e, 5);
    const Executed own(e, in_chunks(Scope::Moe, 2, 3), data);
    for (LayerWeights& w : data.layers)
      for (int shard = 0; shard < esp; ++shard)  // ranks of a node share an expert
        for (int owner = 0; owner < s.ep; ++owner)
          std::ranges::copy(expert_shard(e, w, owner * esp + shard), std::back_inserter(w.custom_experts));
    e.extensions.expert = std::make_shared<ReluAgain>();
    check_same_step(own, Executed(e, in_chunks(Scope::Moe, 2, 3), data));
    check_numerics(e, in_chunks(Scope::Moe, 2, 3));
  }
}

TEST_CASE("Sub-modules of a program's own compute what the reference does with the same gate and experts") {
  const auto which = GENERATE("g", "e", "o", "goe");
  INFO(which);
  Experiment e = small_experiment(two_layers_of_four_ranks());
  e.extensions = example(which);
  for (const Scope scope : {Scope::Layer, Scope::Moe, Scope::Block}) {
    const int degree = scope == Scope::Layer ? 1 : 2;
    check_numerics(e, in_chunks(scope, degree, scope == Scope::Moe ? 3 : degree));
    e.workload.extent = Extent::WholeLayers;
    check_numerics(e, in_chunks(scope, degree, degree));
    e.workload.extent = Extent::Layers;
  }
}

TEST_CASE("They go with what plans do with rows") {
  const auto change = GENERATE(
      +[](Plan& p) { p.restore = Restore::S1; }, +[](Plan& p) { p.restore = Restore::S4; },
      +[](Plan& p) { p.recompute = {Recompute::Full}; }, +[](Plan& p) { p.recompute = {Recompute::Moe}; },
      +[](Plan& p) { p.dispatch_wire = p.combine_wire = Wire::Bf16; },
      +[](Plan& p) { p.comm_streams = CommStreams::InterIntra; }, +[](Plan& p) { p.layout = Layout::RankMajor; });
  Plan plan = in_chunks(Scope::Moe, 2, 2);
  change(plan);
  Experiment e = small_experiment(two_layers_of_four_ranks());
  e.extensions = example("goe");
  check_numerics(e, plan);
}

TEST_CASE("A gate of a program's own goes with routed messages, dense encoding and micro-batches") {
  SmallExperiment s = two_layers_of_four_ranks();
  s.batch = 2;
  Experiment e = small_experiment(s);
  e.extensions.gate = std::make_shared<GshardAgain>();
  Plan plan = in_chunks(Scope::Moe, 2, 2);
  plan.encoding = Encoding::Dense;
  plan.micro_batches = 2;
  check_numerics(e, plan);
  e.workload.message_sizes = MessageSizes::Routed;
  plan.encoding = Encoding::Sparse;
  plan.expert_kernel = ExpertKernel::Grouped;
  check_numerics(e, plan);
}

TEST_CASE("An all-to-all of a program's own brings every row home, step by step and fused") {
  SmallExperiment s;
  s.dp = s.mp = 2;
  s.ep = 4;
  Experiment e = small_experiment(s);
  e.extensions = example(GENERATE("a", "goea"));
  for (const auto implementation : {AllToAllImplementation::PointToPoint, AllToAllImplementation::Fused}) {
    Plan plan = in_chunks(Scope::Moe, 2, 2);
    plan.all_to_all_implementation = implementation;
    plan.comm_streams = CommStreams::InterIntra;
    const Schedule schedule = build_schedule(e, plan);
    REQUIRE(schedule.steps.size() == 2);
    CHECK(schedule.steps.front().subgroup == Subgroup{2, 2});  // between the nodes first
    check_numerics(e, plan);
  }
}

TEST_CASE("A model is trained with a gate, an order and experts of a program's own") {
  SmallExperiment s = two_layers_of_four_ranks();
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 32;
  e.extensions = example("oe");
  e.extensions.gate = std::make_shared<GshardAgain>();
  RunOptions options;
  options.train = 5;
  options.emulate_links = false;
  options.hold_compute = HoldCompute::Never;
  options.measure.limit = Seconds(0);
  const RunResult run =
      run_on_host(e, std::make_shared<const PricedSchedule>(price_plan(e, in_chunks(Scope::Moe, 2, 2))), options);
  CHECK(run.report.numerics_ok);
  REQUIRE(run.report.training);
  CHECK(run.report.training->ok);
  CHECK(std::ranges::any_of(run.notes, [](const std::string& note) {
    return note.starts_with("gate gshard again, order reversed, expert tanh: of this program's own");
  }));
}

TEST_CASE("Derivatives of a sub-module are checked by itself") {
  CHECK(derivative_error(HashGate(), {8, 4, 2}, 5, 1) == 0);
  CHECK(derivative_error(GshardAgain(), {8, 4, 2}, 5, 1) < 1e-7);
  CHECK(derivative_error(TanhExpert(), {8, 6, 1}, 5, 1) < 1e-7);
  struct Wrong : TanhExpert {
    double derivative(double activated) const override { return 1 - activated; }
  };
  CHECK(derivative_error(Wrong(), {8, 6, 1}, 5, 1) > 1e-2);
  struct Forgotten : GshardAgain {
    void score_backward(const GateSizes&, const GateTokens&, std::span<const double>, std::span<const std::int32_t>,
                        std::span<const double>, std::span<double>, std::span<double>) const override {}
  };
  CHECK(derivative_error(Forgotten(), {8, 4, 2}, 5, 1) > 1e-2);
}

TEST_CASE("An order that loses a row, and a gate that chooses nobody, are told") {
  struct Loses : ReversedOrder {
    void decode(const Sizes& s, Choices choices, std::span<const double> rows,
                std::span<double> results) const override {
      ReversedOrder::decode(s, choices.subspan(1), rows, results);
    }
  };
  Experiment e = small_experiment(two_layers_of_four_ranks());
  e.extensions.order = std::make_shared<Loses>();
  CHECK(numerics_of(e, Plan{}, Element::Double).output_error > 1e-3);
  struct Nobody : HashGate {
    std::string name() const override { return "nobody"; }
    void choose(const GateSizes&, const GateTokens&, std::span<const double>, std::span<std::int32_t>) const override {}
  };
  e.extensions = {};
  e.extensions.gate = std::make_shared<Nobody>();
  CHECK_THROWS_WITH(numerics_of(e, Plan{}, Element::Double, false),
                    Catch::Contains("gate nobody: chose expert -1, expected 0 to 3"));
}
