// SPDX-License-Identifier: Apache-2.0
// Steps of two plans by turns on the same memory: what they keep, that it stays where it is, and their numerics.
#include "exec/host/alternation.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "exec/host/host_executor.hpp"
#include "exec/host/rank_memory.hpp"
#include "exec/reference/language.hpp"
#include "exec/reference/training.hpp"
#include "exec/run/numerics.hpp"
#include "exec/step/lasting_tensors.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/blocks.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

// Two experts' owners, each of two ranks that share the experts.
Experiment shared_experts(ExpertKind kind = ExpertKind::Gated) {
  SmallExperiment s;
  s.dp = 4;
  s.ep = s.esp = 2;
  s.layers = 2;
  s.kind = kind;
  s.capacity_factor = 1;  // some choices are dropped
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 23;
  return e;
}

Plan sharded(ExpertSharding sharding) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  plan.expert_sharding = sharding;
  return plan;
}

std::shared_ptr<const Schedule> schedule_of(const Experiment& e, const Plan& plan) {
  return std::make_shared<const Schedule>(build_schedule(e, plan));
}

SchedulePair pair_of(const Experiment& e, const Plan& first, const Plan& second) {
  return {schedule_of(e, first), schedule_of(e, second)};
}

RunOptions little_measuring() {
  RunOptions options;
  options.measure.limit = Seconds(.001);
  return options;
}

std::int64_t elements_of(const std::vector<LastingTensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t sum, const LastingTensor& t) { return sum + t.name.elements; });
}

}  // namespace

TEST_CASE("Gathered weights and repeated rows keep the same tensors, and each rank keeps its slice of the experts") {
  const Experiment e = shared_experts();
  const SchedulePair plans = pair_of(e, sharded(ExpertSharding::EpDp), sharded(ExpertSharding::EpMp));
  CHECK_FALSE(storage_difference(e, *plans[0], *plans[1]));
  for (const auto& plan : plans) {
    std::int64_t experts = 0;
    for (const LastingTensor& t : kept_tensors(*plan, 1))
      if (t.name.kind == TensorKind::ExpertWeights) experts += t.name.elements;
    CHECK(experts == 2 * 2 * 3 * 8 * 16 / 2);  // layers, experts of an owner, matrices M x H of which a rank has half
  }
}

TEST_CASE("Memory for both plans has what lasts once, and the largest blocks of both by turns") {
  const Experiment e = shared_experts();
  const SchedulePair plans = pair_of(e, sharded(ExpertSharding::EpDp), sharded(ExpertSharding::EpMp));
  const Schedules all{plans.begin(), plans.end()};
  const std::int64_t first = plan_buffers({plans[0]}, 0).all_elements(),
                     second = plan_buffers({plans[1]}, 0).all_elements(), both = plan_buffers(all, 0).all_elements();
  const std::int64_t lasting = elements_of(lasting_tensors(*plans[0], 0));
  CHECK(both >= std::max(first, second));
  CHECK(both < first + second - lasting);
  std::int64_t alone = 0;
  for (const Block& block : memory_blocks(*plans[0]).all) alone += block.elements;
  CHECK(first == alone);

  RankMemory<float> memory(all, 0);
  const Blocks of_first = memory_blocks(*plans[0]), of_second = memory_blocks(*plans[1]);
  const std::vector<LastingTensor> one = lasting_tensors(*plans[0], 0), other = lasting_tensors(*plans[1], 0);
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(memory.block(0, of_first.of_tensor[one[i].id]) == memory.block(1, of_second.of_tensor[other[i].id]));
  std::vector<const float*> blocks;
  for (const BlockId id : of_second.all.ids())
    if (of_second.all[id].elements > 0) blocks.push_back(memory.block(1, id));
  std::ranges::sort(blocks);
  CHECK(std::ranges::adjacent_find(blocks) == blocks.end());  // the blocks of one plan do not share
}

TEST_CASE("Plans that keep other things are refused with the reason") {
  const Experiment e = shared_experts();
  Plan whole = sharded(ExpertSharding::EpDp), shards = whole;
  shards.zero = 1;
  CHECK_THROWS_WITH(require_alternating(e, pair_of(e, whole, shards)),
                    Contains("--alternate: the other plan does not keep what this one keeps: rank 0 keeps") &&
                        Contains("optimizer_state"));
  Plan ahead = shards;
  ahead.parameter_gather = ParameterGather::Ahead;
  CHECK_THROWS_WITH(require_alternating(e, pair_of(e, shards, ahead)), Contains("at the start of its steps"));
  CHECK_FALSE(storage_difference(e, *schedule_of(e, ahead), *schedule_of(e, ahead)));
  Experiment other = e;
  other.workload.batch = 2;
  Plan one, two;
  two.micro_batches = 2;
  CHECK_THROWS_WITH(require_alternating(other, pair_of(other, one, two)), Contains("2 micro-batches in place of 1"));
  other.workload.extent = Extent::Layers;
  CHECK_THROWS_WITH(require_alternating(other, pair_of(other, one, one)), Contains("nothing sums the gradients"));
  other.workload.phases = Phases::ForwardOnly;
  CHECK_THROWS_WITH(require_alternating(other, pair_of(other, one, one)),
                    Contains("expected workload.phases training"));
}

TEST_CASE("Tutel's two plans by turns compute what the sequential training does, and nothing moves") {
  const Experiment e = shared_experts(GENERATE(ExpertKind::Ffn, ExpertKind::Gated));
  const Plan other = sharded(GENERATE(ExpertSharding::EpMp, ExpertSharding::Ep));
  const SwitchReport r = alternate_on_host(e, pair_of(e, sharded(ExpertSharding::EpDp), other), little_measuring());
  CHECK(r.ok);
  CHECK(r.checked_steps == 9);
  CHECK(r.checked_switches == 5);
  CHECK(r.output_error <= 1e-12);
  CHECK(r.gradient_error <= 1e-12);
  CHECK(r.weight_error <= 1e-12);
  CHECK(r.moved_bytes == 0);
  CHECK(r.kept_bytes > 0);
  CHECK(r.repeats >= 10);
  CHECK(r.both_bytes >= std::max(r.alone_bytes[0], r.alone_bytes[1]));
  CHECK(r.both_bytes < r.alone_bytes[0] + r.alone_bytes[1] - r.kept_bytes);
  for (const TurnTimes& turn : r.turns) {
    CHECK(turn.gap.median > Seconds(0));
    CHECK(turn.step.median > Seconds(0));
    CHECK(turn.gap.ci95_low <= turn.gap.ci95_high);
  }
}

TEST_CASE("Any two chunkings and orders go on with each other's weights, without a loss too") {
  Experiment e = shared_experts();
  e.workload.extent = GENERATE(Extent::WholeLayers, Extent::Model);
  Plan other = sharded(ExpertSharding::EpMp);
  other.sharding_repeats = 1;
  other.backward_degree = 3;
  other.comm_streams = CommStreams::InterIntra;
  other.grad_sync = GradSync::WithDense;
  RunOptions options = little_measuring();
  const SwitchReport r = alternate_on_host(e, pair_of(e, sharded(ExpertSharding::EpDp), other), options);
  CHECK(r.ok);
  options.check_numerics = false;
  const SwitchReport unchecked = alternate_on_host(e, pair_of(e, sharded(ExpertSharding::EpDp), other), options);
  CHECK(unchecked.ok);
  CHECK(unchecked.checked_steps == 0);
  CHECK(unchecked.repeats >= 10);
}

TEST_CASE("Random plans that keep the same compute the same after each switch") {
  Random random(43);
  int switched = 0;
  for (int attempt = 0; switched < 15 && attempt < 1000; ++attempt) {
    const Experiment e = random_executable(random);
    const Plan first = random_legal_plan(random, e), second = random_legal_plan(random, e);
    if (e.workload.phases != Phases::Training || !e.workload.whole_layers()) continue;
    const SchedulePair plans = pair_of(e, first, second);
    if (storage_difference(e, *plans[0], *plans[1])) continue;
    INFO(describe(e, first) << "\nand " << describe(e, second));
    const SwitchReport r = alternate_on_host(e, plans, little_measuring());
    const double tolerance = rounding_growth(e) * r.tolerance;
    CHECK(r.output_error <= tolerance);
    CHECK(r.gradient_error <= tolerance);
    CHECK(r.weight_error <= 10 * tolerance);  // Adam divides tiny gradients too by their size, rounded as they are
    CHECK(r.moved_bytes == 0);
    ++switched;
  }
  CHECK(switched == 15);
}

TEST_CASE("A step that does not find the other plan's weights is seen") {
  const Experiment e = shared_experts();
  const SchedulePair plans = pair_of(e, sharded(ExpertSharding::EpDp), sharded(ExpertSharding::EpMp));
  const ModelData data = random_model_data(e, 5);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<HostExecutor>> apart;  // each with memory of its own
  for (const auto& plan : plans) {
    transports.push_back(make_inproc_transport(plan->groups, 4, static_cast<int>(plan->streams.size())));
    apart.push_back(make_host_executor(e, plan, Element::Double, data, {}, *transports.back()));
  }
  ReferenceTraining reference(e, data, rules_of(*plans[0]));
  std::vector<double> errors;
  for (std::size_t plan : {0, 1}) {
    TrainingStep step;
    step.number = static_cast<int>(plan) + 1;
    step.batch.words = language_words(e, 5, step.number);
    const Reference expected = reference.step(step.batch.words);
    step.routing = expected.routing;
    apart[plan]->train_step(step);
    errors.push_back(compare(e, *plans[plan], *apart[plan], expected).output_error);
  }
  CHECK(errors[0] <= 1e-12);
  CHECK(!(errors[1] <= 1e-6));
  CHECK(apart[0]->kept(0).front().data() != apart[1]->kept(0).front().data());
}
