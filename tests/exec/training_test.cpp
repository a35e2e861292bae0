// SPDX-License-Identifier: Apache-2.0
// Trainings: Adam over steps, the language, and losses that are those of the sequential reference.
#include "exec/run/training.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "exec/host/host_executor.hpp"
#include "exec/host/host_run.hpp"
#include "exec/reference/language.hpp"
#include "exec/reference/training.hpp"
#include "exec/run/numerics.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Four ranks in two nodes of `mp`.
Experiment small_language_model(int mp = 2) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = 2;
  s.experts = 8;
  s.heads = s.kv_heads = 2;
  s.batch = 2;
  s.capacity_factor = 1;  // some choices are dropped
  s.kind = ExpertKind::Gated;
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 23;
  return e;
}

class HostTraining {
 public:
  HostTraining(const Experiment& e, const Plan& plan, Element element)
      : e_(e),
        schedule_(std::make_shared<const Schedule>(build_schedule(e, plan))),
        transport_(
            make_inproc_transport(schedule_->groups, e.cluster.gpus(), static_cast<int>(schedule_->streams.size()))),
        executor_(make_host_executor(e_, schedule_, element, start(), {}, *transport_)) {}

  TrainingReport train(int steps, bool check = true) {
    return exec::train(*executor_, e_, *schedule_, start(), {steps, 5, check, {}});
  }
  ModelData start() const { return random_model_data(e_, 5, schedule_->micro_batches); }
  const Schedule& schedule() const { return *schedule_; }
  HostExecutor& executor() { return *executor_; }

 private:
  const Experiment e_;
  std::shared_ptr<const Schedule> schedule_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<HostExecutor> executor_;
};

Plan chunked_plan(GradSync sync) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.backward_degree = 3;
  plan.grad_sync = sync;
  return plan;
}

// It has learned something, as the same training in sequence does.
void check_trained(const TrainingReport& r) {
  CHECK(r.losses.back() < r.losses.front());
  CHECK(r.loss_error <= 1e-12);
  CHECK(r.weight_error <= 1e-12);
}

}  // namespace

TEST_CASE("Each word of the language has four words that may follow, the first of them in half of the cases") {
  Experiment e = small_language_model();
  e.workload.batch = 20;
  std::map<double, std::map<double, int>> followers;
  for (int step = 1; step <= 200; ++step) {
    const Values words = language_words(e, 5, step);
    REQUIRE(words.size() == 2U * 20 * 16);  // dp, batch and sequence
    for (std::size_t i = 1; i < words.size(); ++i)
      if (i % 16 != 0) ++followers[words[i - 1]][words[i]];
  }
  CHECK(followers.size() == 23);
  for (const auto& [word, next] : followers) {
    REQUIRE(next.size() <= 4);
    int most = 0, all = 0;
    for (const auto& [follower, count] : next) {
      REQUIRE((follower >= 0 && follower < 23));
      most = std::max(most, count);
      all += count;
    }
    CHECK(most > .45 * all);  // more where two of the four are the same word
  }
}

TEST_CASE("Steps have texts of their own in one language, and another seed has another language") {
  const Experiment e = small_language_model();
  CHECK(language_words(e, 5, 1) == language_words(e, 5, 1));
  CHECK(language_words(e, 5, 1) != language_words(e, 5, 2));
  const auto pairs = [&](std::uint64_t seed) {
    std::set<std::pair<double, double>> found;
    for (int step = 1; step <= 100; ++step) {
      const Values words = language_words(e, seed, step);
      for (std::size_t i = 1; i < words.size(); ++i)
        if (i % 16 != 0) found.emplace(words[i - 1], words[i]);
    }
    return found;
  };
  CHECK(pairs(5).size() <= 4 * 23);
  CHECK(pairs(5) != pairs(6));
}

TEST_CASE("The reference's second step goes by the moments of both gradients without their bias") {
  Experiment e = small_language_model();
  e.workload.clip_gradients = 0;
  ReferenceTraining training(e, random_model_data(e, 5), {});
  const double before = training.model().ends.norm[0];
  const double first = training.step(language_words(e, 5, 1)).end_gradients.norm[0];
  const double between = training.model().ends.norm[0];
  CHECK(between == Approx(before - 1e-3 * (first > 0 ? 1 : -1)).epsilon(1e-6));  // the rate, against the gradient
  const double second = training.step(language_words(e, 5, 2)).end_gradients.norm[0];
  // (.9 x .1 g1 + .1 g2) / (1 - .9^2) and (.999 x .001 g1^2 + .001 g2^2) / (1 - .999^2)
  const double mean = (.09 * first + .1 * second) / .19;
  const double variance = (.000999 * first * first + .001 * second * second) / .001999;
  CHECK(training.model().ends.norm[0] == Approx(between - 1e-3 * mean / (std::sqrt(variance) + 1e-8)).epsilon(1e-12));
}

TEST_CASE("The reference's second step goes by clipped gradients, where these are clipped") {
  Experiment e = small_language_model();
  e.workload.clip_gradients = .25;
  ReferenceTraining training(e, random_model_data(e, 5), {});
  const auto clipped = [](const Reference& r) {
    const double norm = gradient_norm(r);
    CHECK(norm > .3);
    return r.end_gradients.norm[0] * .25 / (norm + 1e-6);
  };
  const double first = clipped(training.step(language_words(e, 5, 1))), between = training.model().ends.norm[0];
  const double second = clipped(training.step(language_words(e, 5, 2)));
  const double mean = (.09 * first + .1 * second) / .19;
  const double variance = (.000999 * first * first + .001 * second * second) / .001999;
  CHECK(training.model().ends.norm[0] == Approx(between - 1e-3 * mean / (std::sqrt(variance) + 1e-8)).epsilon(1e-12));
}

TEST_CASE("Losses and weights of a training are those of the sequential one, with drops, in both formats") {
  const Element element = GENERATE(Element::Double, Element::Float);
  const GradSync sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks);
  const Experiment e = small_language_model(GENERATE(1, 2));
  CAPTURE(name_in(grad_sync_names, sync), e.parallelism.mp);
  HostTraining training(e, chunked_plan(sync), element);
  CHECK(compute_reference(e, training.start()).dropped > 0);
  const TrainingReport r = training.train(40);
  REQUIRE(r.losses.size() == 40);
  REQUIRE(r.reference_losses.size() == 40);
  CHECK(r.losses.back() < r.losses.front() - .2);
  const double tolerance = training_tolerance(40, tolerance_of(element));
  CHECK(tolerance == tolerance_of(element));
  CHECK(r.loss_error <= tolerance);
  CHECK(r.weight_error <= tolerance);
  CHECK(r.ok);
}

TEST_CASE("A training goes on with ZeRO-1, whose weights may be gathered in the next step, and over pipeline stages") {
  Experiment e = small_language_model(1);
  Plan plan = chunked_plan(GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 150;
  plan.zero = 1;
  plan.parameter_gather = GENERATE(ParameterGather::AfterUpdate, ParameterGather::Ahead);
  if (GENERATE(false, true)) {
    e.parallelism.pp = 2;
    e.cluster.nodes *= 2;
    plan.micro_batches = 2;
    plan.pipeline_schedule = GENERATE(pipeline_schedule("1f1b"), pipeline_schedule("zb_h1"));
  }
  const TrainingReport r = HostTraining(e, plan, Element::Double).train(20);
  CHECK(r.losses.back() < r.losses.front());
  CHECK(r.loss_error <= 1e-12);
  CHECK(r.weight_error <= 1e-12);
}

TEST_CASE("200 steps of every schedule in pairs or halves have the losses of a training in sequence") {
  Experiment e = small_language_model(1);
  e.model.layers = e.workload.layers = 4;
  e.workload.batch = 8;
  Plan plan;
  plan.micro_batches = 4;
  const std::string name =
      GENERATE("megatron_ep_overlap", "megatron_ep_overlap on stages", "zb_h1", "zb_v", "dualpipe_v", "dualpipe");
  CAPTURE(name);
  if (name != "megatron_ep_overlap") {
    e.parallelism.pp = 2;
    e.cluster.nodes *= 2;
  }
  if (name.starts_with("megatron")) {
    plan.scope = Scope::Batch;
    plan.pair_order = PairOrder::AttentionEarly;
    plan.delay_weight_gradient = DelayedWeights::All;
    plan.pipeline_schedule = e.parallelism.pp > 1 ? pipeline_schedule("interleaved") : pipeline_schedule("1f1b");
    plan.virtual_stages = e.parallelism.pp > 1 ? 2 : 1;
  } else {
    plan.pipeline_schedule = std::ranges::find(pipeline_schedule_names, std::string_view(name), [](const auto& named) {
                               return named.first;
                             })->second;
    if (name.starts_with("dualpipe")) plan.scope = Scope::Batch;
    if (name == "dualpipe") plan.zero = 1;
    if (name != "zb_h1") plan.virtual_stages = 2;
  }
  const TrainingReport r = HostTraining(e, plan, Element::Double).train(200);
  CHECK(r.losses.back() < r.losses.front());
  const double tolerance = training_tolerance(200, tolerance_of(Element::Double));
  CHECK(r.loss_error <= tolerance);
  CHECK(r.weight_error <= tolerance);
}

TEST_CASE("Tied embeddings train on several stages as in sequence, and both ends keep the same weights") {
  Experiment e = small_language_model(GENERATE(1, 2));
  e.model.tied_embeddings = true;
  e.model.layers = e.workload.layers = 4;
  e.workload.batch = 4;
  e.parallelism.pp = GENERATE(2, 4);
  e.cluster.nodes *= e.parallelism.pp;
  Plan plan;
  plan.micro_batches = 2;
  plan.zero = GENERATE(0, 1);
  CAPTURE(e.parallelism.mp, e.parallelism.pp, plan.zero);
  HostTraining training(e, plan, Element::Double);
  check_trained(training.train(20));
  const Schedule& s = training.schedule();
  std::vector<TensorId> ends;
  for (const TensorId id : s.tensors.ids())
    if (s.tensors[id].kind == TensorKind::EmbeddingWeights) ends.push_back(id);
  REQUIRE(ends.size() == 2);
  const auto ranks = static_cast<std::size_t>(s.groups.stage_ranks()), last = ranks * (s.classes.size() - 1);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    CHECK(training.executor().values(rank, ends[0]) == training.executor().values(last + rank, ends[1]));
}

TEST_CASE("Latent attention trains as in sequence, and model-parallel ranks keep the same projections to low ranks") {
  const int mp = GENERATE(1, 2), q_rank = GENERATE(0, 7);
  const Experiment e = with_latent_attention(small_language_model(mp), q_rank);
  Plan plan = chunked_plan(GENERATE(GradSync::After, GradSync::WithDense));
  plan.zero = GENERATE(0, 1);
  CAPTURE(mp, q_rank, plan.zero);
  HostTraining training(e, plan, Element::Double);
  check_trained(training.train(20));
  const Schedule& s = training.schedule();
  const auto down = static_cast<std::ptrdiff_t>(layer_volumes(e, 0).low_rank_parameters());
  for (const TensorId id : s.tensors.ids()) {
    if (s.tensors[id].kind != TensorKind::DenseWeights) continue;
    const Values first = training.executor().values(0, id), second = training.executor().values(1, id);
    CHECK(std::equal(first.begin(), first.begin() + down, second.begin()));
    CHECK((first == second) == (mp == 1));  // ranks 0 and 1 are replicas, or have other heads
  }
}

TEST_CASE("Random plans train as the reference does") {
  Random random(37);
  for (int run = 0; run < 40;) {
    const Experiment e = random_executable(random);
    const Plan plan = random_legal_plan(random, e);
    if (e.workload.extent != Extent::Model || e.workload.phases != Phases::Training) continue;
    ++run;
    INFO(describe(e, plan));
    HostTraining training(e, plan, Element::Double);
    const TrainingReport r = training.train(5);
    const double tolerance = rounding_growth(e) * tolerance_of(Element::Double, rules_of(training.schedule()));
    REQUIRE(r.loss_error <= tolerance);
    REQUIRE(r.weight_error <= tolerance);
  }
}

TEST_CASE("A training may begin again, and a step that is none begins with the initial weights") {
  HostTraining training(small_language_model(), Plan{}, Element::Double);
  const auto weights = [&] {
    std::vector<Values> all;
    for (const TensorId id : training.schedule().tensors.ids())
      if (training.schedule().tensors[id].persistent) all.push_back(training.executor().values(0, id));
    return all;
  };
  training.executor().run_step(Poison::Yes);
  const std::vector<Values> after_first_step = weights();
  const TrainingReport first = training.train(5);
  CHECK(weights() != after_first_step);
  training.executor().run_step(Poison::Yes);
  CHECK(weights() == after_first_step);
  CHECK(training.train(5).losses == first.losses);
  CHECK(training.train(5, false).losses == first.losses);  // gates choose the same by themselves
}

TEST_CASE("A wrong batch is seen in the losses") {
  const Experiment e = small_language_model();
  HostTraining training(e, Plan{}, Element::Double);
  TrainingStep step;
  step.batch.words = language_words(e, 6, 1);  // of another language than that of 5
  training.executor().train_step(step);
  const TrainingReport other = training.train(1);
  CHECK(other.loss_error <= 1e-12);
  ReferenceTraining reference(e, training.start(), {});
  CHECK(mean_loss(reference.step(step.batch.words)) != Approx(other.losses.front()).epsilon(1e-6));
}

TEST_CASE("A run that trains reports its losses, and one without a loss cannot") {
  Experiment e = small_language_model();
  const auto run = [&](bool check) {
    RunOptions options;
    options.train = 3;
    options.check_numerics = check;
    options.emulate_links = false;
    options.measure.limit = Seconds(.05);
    return run_on_host(e, std::make_shared<const PricedSchedule>(price_plan(e, Plan{})), options).report.training;
  };
  const auto checked = run(true), alone = run(false);
  REQUIRE(checked);
  CHECK(checked->ok);
  CHECK(checked->tolerance == 1e-12);  // in double, whatever the run is in
  CHECK(checked->reference_losses.size() == 3);
  REQUIRE(alone);
  CHECK(alone->losses.size() == 3);
  CHECK(alone->reference_losses.empty());
  e.workload.extent = Extent::WholeLayers;
  CHECK_THROWS_WITH(run(true), Catch::Contains("--train: only a whole training step has a loss"));
}

TEST_CASE("More steps than a weight needs for its own size have a tolerance in proportion") {
  CHECK(training_tolerance(200, 1e-12) == 1e-12);
  CHECK(training_tolerance(1000, 1e-12) == Approx(1e-12));
  CHECK(training_tolerance(5000, 1e-12) == Approx(5e-12));
}
