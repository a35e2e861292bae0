// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout_search.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <set>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/question/volumes.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/steps/least_state.hpp"
#include "planners/steps/step_prediction.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/layout_questions.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// The knobs that stay as the user has them: formats of messages, layouts in memory, graphs, shadowed experts. Slices of
// gradients, backward degrees of each layer and rows that are restored are not searched either.
void leave_unsearched(Plan& plan) {
  copy_knobs(KnobClass::Numerics, Plan{}, plan);
  copy_knobs(KnobClass::Memory, Plan{}, plan);
  const Plan usual;
  plan.graphs = usual.graphs;
  plan.host_sync = usual.host_sync;
  plan.layout = usual.layout;
  plan.row_tile = usual.row_tile;
  plan.comm_sms = usual.comm_sms;
  plan.scores_at = usual.scores_at;
  plan.expert_kernel = usual.expert_kernel;
  plan.shadowed_experts.clear();
  plan = without_choices(plan);
}

struct Setting {
  Seconds time;
  Plan plan;
  std::string text;
};

// A layout, and any plan that is allowed on it. Nothing if it does not fit.
std::optional<Setting> random_setting(test::Random& random, const Experiment& base,
                                      const std::vector<ParallelLayout>& all) {
  const ParallelLayout& layout = all[random() % all.size()];
  const Experiment e = with_layout(base, layout);
  Plan plan;
  for (int draw = 0;; ++draw) {
    plan = test::random_plan(random, e);
    leave_unsearched(plan);
    plan.micro_batches = layout.micro_batches;
    if (!planners::refusal(plan, e)) break;
    if (draw == 100) return std::nullopt;
  }
  const StepPrediction step(e, plan);
  if (step.peak() > e.cluster.device.memory) return std::nullopt;
  return Setting{step.time(), plan, test::describe(e, plan)};
}

Experiment real_question(const std::string& cluster, int nodes, const std::string& model) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.nodes = nodes;
  request.model = model;
  request.set = {"workload.batch=8", "workload.sequence=4096"};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace

TEST_CASE("Layouts fold dense groups and experts' groups over the ranks of a stage") {
  Experiment e = test::round_numbers(2);  // 2 nodes of 2 GPUs, 2 layers, 4 experts, 2 heads
  const LayoutRequest request{.global_batch = 4};
  // pp 1: mp 1 or 2 inside a node, esp 1 or 2, ep what divides 4 experts and the rest of 4 ranks. pp 2: the same on 2.
  const auto count = [&](const LayoutRequest& asked) {
    std::set<std::array<int, 5>> groups;
    for (const ParallelLayout& layout : layouts(e, asked)) {
      const Parallelism& p = layout.groups;
      CHECK(p.pp * p.mp * p.dp == 4);
      CHECK(p.pp * p.ep * p.esp * p.edp == 4);
      CHECK(layout.micro_batch * layout.micro_batches * p.dp == asked.global_batch);
      groups.insert({p.pp, p.mp, p.dp, p.ep, p.esp});
    }
    return groups.size();
  };
  // pp 1: (esp 1: ep 1, 2, 4; esp 2: ep 1, 2) with mp 1, 2. pp 2: (esp 1: ep 1, 2; esp 2: ep 1) with mp 1, 2.
  CHECK(count(request) == 5 * 2 + 3 * 2);
  CHECK(count({.global_batch = 4, .pp = 2}) == 3 * 2);
  CHECK(count({.global_batch = 4, .pp = 2, .ep = 2}) == 2);
  CHECK(count({.global_batch = 2}) == 5 + 3 * 2);                                           // not dp 4
  CHECK(layouts(e, {.global_batch = 4, .pp = 1, .mp = 1, .ep = 1, .esp = 1}).size() == 1);  // one sample for each rank
}

TEST_CASE("Estimates of whole models are near what their whole steps take") {
  for (const auto& [cluster, nodes, model, batch, count] : {std::tuple{"dgx-h100", 16, "mixtral-8x22b", 512, 25},
                                                            {"dgx-h100", 8, "qwen3-30b-a3b", 256, 25},
                                                            {"dgx-h100", 32, "deepseek-v3", 2048, 5}}) {
    const Experiment e = real_question(cluster, nodes, model);
    StageCostTable costs;
    PipelineOrders orders;
    test::Random random(1);
    const std::vector<ParallelLayout> all = layouts(e, {.global_batch = batch});
    for (int i = 0; i < count;) {
      const ParallelLayout& layout = all[random() % all.size()];
      if (layout.groups.esp > 2 || layout.micro_batches > 64 || layout.micro_batch > 8) continue;
      ++i;
      const Experiment laid_out = with_layout(e, layout);
      Plan plan;
      plan.zero = static_cast<int>(random() % 2);
      plan.scope = random() % 2 == 0 ? Scope::Layer : Scope::Moe;
      plan.micro_batches = layout.micro_batches;
      plan.pipeline_schedule = pipeline_schedule("1f1b");
      INFO(test::describe(laid_out, plan));
      const StepEstimate estimated =
          estimate(laid_out, plan, costs.of(laid_out, plan), costs.hop(laid_out, plan), orders);
      const StepPrediction predicted(laid_out, plan);
      CHECK(estimated.time / predicted.time() == Approx(1).epsilon(.07));
      CHECK(estimated.peak / predicted.peak() == Approx(1).epsilon(.03));
      CHECK(estimated.held <= predicted.peak() * (1 + 1e-9));
    }
  }
}

TEST_CASE("A stage whose ranks repeat tokens has costs of its own in a table that knows the same stage without") {
  Experiment e = real_question("dgx-h100", 1, "qwen3-30b-a3b");
  e.parallelism = {.dp = 4, .mp = 2, .ep = 4, .esp = 2, .pp = 1, .edp = 1};
  Experiment repeating = e;
  repeating.parallelism.sequence_parallel = false;
  Plan plan;
  plan.pad_messages = true;
  plan.micro_batches = e.workload.batch;
  StageCostTable shared, own;
  const Seconds usual = shared.of(e, plan).moe.forward, repeated = shared.of(repeating, plan).moe.forward;
  CHECK(repeated == own.of(repeating, plan).moe.forward);
  CHECK(repeated > usual);
}

TEST_CASE(
    "The state of a layout: weights, gradients and a third of the optimizer's states for each of three replicas") {
  Experiment e = real_question("dgx-h100", 3, "qwen3-30b-a3b");
  e.workload.extent = Extent::Layers;
  e.parallelism = {.dp = 24, .mp = 1, .ep = 8, .esp = 1, .pp = 1, .edp = 3};
  const LayerVolumes v = layer_volumes(e, 0);
  // bf16 weights, and gradients of the workload's type. Adam has two moments and a master weight of 4 bytes each, of
  // which ZeRO leaves each of 24 or 3 replicas its share.
  const double each = 2 + size_of(e.workload.gradient_dtype()).value();
  const auto replicated = static_cast<double>(v.dense_parameters + v.replicated_parameters());
  const auto experts = static_cast<double>(v.expert_parameters);
  const double layer = (replicated + experts) * each + 12 * (replicated / 24 + experts / 3);
  CHECK(least_state(e, 1).value() == Approx(48 * layer).epsilon(1e-6));
  CHECK(least_state(e, 0).value() == Approx(48 * (replicated + experts) * (each + 12)).epsilon(1e-12));
}

TEST_CASE(
    "The least state of a layout is never above what its fullest stage holds, and near it where stages are alike") {
  int near = 0;
  for (const auto& [cluster, nodes, model] : {std::tuple{"dgx-h100", 16, "mixtral-8x22b"},
                                              {"dgx-h100", 8, "qwen3-30b-a3b"},
                                              {"dgx-h100", 32, "deepseek-v3"}}) {
    const Experiment e = real_question(cluster, nodes, model);
    StageCostTable costs;
    test::Random random(1);
    const std::vector<ParallelLayout> all = layouts(e, {.global_batch = 512});
    for (int i = 0; i < 40; ++i) {
      const ParallelLayout& layout = all[random() % all.size()];
      const Experiment laid_out = with_layout(e, layout);
      Plan plan;
      plan.zero = static_cast<int>(random() % 2);
      plan.micro_batches = layout.micro_batches;
      INFO(test::describe(laid_out, plan));
      const Bytes least = least_state(laid_out, plan.zero);
      const Bytes held = quick_estimate(laid_out, plan, costs.of(laid_out, plan), Seconds(0)).persistent;
      CHECK(least <= held * (1 + 1e-9));
      if (least > .9 * held) ++near;
    }
  }
  CHECK(near > 60);
}

TEST_CASE("No setting of a user is faster than the plan found on a layout of its own, nor than the bound") {
  const std::vector<System> systems = test::shipped_systems();
  int tried = 0;
  for (int seed = 1; seed <= test::cases(30); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const test::RandomQuestion question = test::random_question(random);
    const Experiment& e = question.experiment;
    const std::vector<ParallelLayout> all = layouts(e, question.request);
    if (all.empty()) continue;
    LayoutSearch search({e, question.request, e.cluster.device.memory, {}, {}, find_planner});
    const std::vector<LaidOutPlan> best = search.best({.systems = systems}, 10);
    if (best.empty()) continue;
    for (int i = 0; i < 100; ++i)
      if (const auto setting = random_setting(random, e, all)) {
        ++tried;
        INFO("seed " << seed << ": " << setting->text);
        if (search.may_be_answer(setting->plan)) CHECK(setting->time >= best.front().time * (1 - 1e-9));
        CHECK(setting->time >= search.report().bound * (1 - 1e-9));
      }
  }
  CHECK(tried > 30 * test::cases(30));
}

TEST_CASE("A knob that the user has fixed brings along what goes with it, and is no faster than a free choice") {
  Experiment e = real_question("dgx-h100", 1, "olmoe-1b-7b");
  e.workload.layers = 10;
  const auto fastest = [&](const std::function<void(Plan&)>& hold) {
    LayoutSearch search({e, {.global_batch = 32}, .9 * e.cluster.device.memory, hold, {}, find_planner});
    const std::vector<LaidOutPlan> best = search.best({}, 1);
    return best.empty() ? Seconds(0) : best.front().time;
  };
  const Seconds free = fastest({});
  REQUIRE(free > Seconds(0));
  struct Fixed {
    std::string name;
    std::function<void(Plan&)> hold;
  };
  for (const auto& [name, hold] :
       std::vector<Fixed>{{"two chunks", [](Plan& p) { p.forward_degree = 2; }},
                          {"to each node once", [](Plan& p) { p.all_to_all = AllToAll::NodeDeduplicated; }},
                          {"multiprocessors", [](Plan& p) { p.comm_sms = 16; }},
                          {"virtual stages", [](Plan& p) { p.virtual_stages = 2; }},
                          {"gpipe", [](Plan& p) { p.pipeline_schedule = pipeline_schedule("gpipe"); }},
                          {"double buffers", [](Plan& p) { p.buffers = Buffers::Double; }},
                          {"weights ahead", [](Plan& p) { p.parameter_gather = ParameterGather::Ahead; }},
                          {"slices of gradients", [](Plan& p) { p.grad_sync = GradSync::Partitioned; }}}) {
    INFO(name);
    const Seconds held = fastest(hold);
    CHECK(held / free >= .995);  // 0: no plan was found
  }
}

TEST_CASE("Sizes and knobs that the user has fixed hold in every plan found") {
  const Experiment e = real_question("dgx-h100", 2, "qwen3-30b-a3b");
  LayoutSearch search({e,
                       {.global_batch = 128, .pp = 2, .micro_batch = 1},
                       .9 * e.cluster.device.memory,
                       [](Plan& plan) {
                         plan.zero = 0;
                         plan.scope = Scope::Moe;
                       },
                       {},
                       find_planner});
  const std::vector<LaidOutPlan> best = search.best({.systems = test::shipped_systems()}, 5);
  REQUIRE(!best.empty());
  for (const LaidOutPlan& found : best) {
    CHECK(found.layout.groups.pp == 2);
    CHECK(found.layout.micro_batch == 1);
    CHECK(found.plan.zero == 0);
    CHECK(found.plan.scope == Scope::Moe);
    CHECK(found.peak <= .9 * e.cluster.device.memory);
  }
}
