// SPDX-License-Identifier: Apache-2.0
// The marks that a program's own gates, orders, experts and all-to-alls leave on plans, schedules and prices.
#include "models/extend/extensions.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/nodes_first.hpp"
#include "bench/examples/custom_moe/reversed_order.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "models/base/errors.hpp"
#include "models/files/experiment_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/extension_sizes.hpp"
#include "models/question/model_flops.hpp"
#include "models/question/volumes.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// Four ranks on two nodes, whose experts are shared out whole.
Experiment whole_experts() {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  return e;
}

Extensions all_of_the_example() {
  return {std::make_shared<HashGate>(), std::make_shared<ReversedOrder>(), std::make_shared<TanhExpert>(),
          std::make_shared<NodesFirst>()};
}

const Op& first_op(const Schedule& schedule, OpKind kind, Phase phase) {
  for (const Op& op : schedule.ops)
    if (op.kind == kind && op.phase == phase) return op;
  throw InternalError("no such op");
}

std::string refusal(const Experiment& e, const Plan& plan) {
  try {
    build_schedule(e, plan);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

struct Cannot : TanhExpert {
  bool has_shards() const override { return false; }
};

}  // namespace

TEST_CASE("a registry gives sub-modules by name, and says which names there are") {
  ExtensionRegistry registry;
  registry.add(std::make_shared<HashGate>());
  registry.add(std::make_shared<TanhExpert>());
  registry.add(std::make_shared<NodesFirst>());
  const Extensions chosen = registry.choose({.gate = "hash", .order = "", .expert = "tanh", .all_to_all = ""});
  CHECK(chosen.names() == "gate hash, expert tanh");
  CHECK_FALSE(chosen.empty());
  CHECK(registry.choose({}).empty());
  CHECK_THROWS_WITH(registry.choose({.gate = "hsh", .order = "", .expert = "", .all_to_all = ""}),
                    "gate hsh: nobody has registered it; registered: hash");
  CHECK_THROWS_WITH(registry.choose({.gate = "", .order = "reversed", .expert = "", .all_to_all = ""}),
                    "order reversed: nobody has registered it; registered: none");
  CHECK_THROWS_WITH(registry.add(std::make_shared<HashGate>()), "gate hash: another one of this name is registered");
  struct Nameless : HashGate {
    std::string name() const override { return ""; }
  };
  CHECK_THROWS_WITH(registry.add(std::make_shared<Nameless>()), "gate: a registered one needs a name");
}

TEST_CASE("the sizes of a schedule are those that sub-modules of a program's own state") {
  Experiment e = test::round_numbers();  // esp 2: S = 8 of H = 16
  e.extensions = all_of_the_example();
  e.extensions.all_to_all = nullptr;
  const LayerVolumes v = layer_volumes(e);
  CHECK(v.router_parameters == 1);  // none, but no tensor is empty
  CHECK(v.expert_parameters == 2 * (2 * 8 * 8));
  CHECK(v.kept_hidden() == 8);
  const Schedule schedule = build_schedule(e, Plan{});
  for (const Tensor& t : schedule.tensors) {
    if (t.kind == TensorKind::ExpertWeights) CHECK(t.elements == 2 * (2 * 8 * 8));
    if (t.kind == TensorKind::Hidden) CHECK(t.elements == 8 * v.expert_rows(RowRange{0, v.capacity}));
  }
}

TEST_CASE("prices take the work that sub-modules of a program's own state") {
  Experiment e = test::round_numbers();
  e.extensions.gate = std::make_shared<HashGate>();
  e.extensions.expert = std::make_shared<TanhExpert>();
  const PricedSchedule priced = price_plan(e, Plan{});
  const Schedule& s = *priced.schedule;
  const LayerVolumes v = layer_volumes(e);
  const std::int64_t rows = v.expert_rows(RowRange{0, v.capacity});
  const Op& forward = first_op(s, OpKind::Expert, Phase::Forward);
  const Op& backward = first_op(s, OpKind::Expert, Phase::Backward);
  CHECK(forward.flops() == Flops(2. * 2 * static_cast<double>(rows * 8 * 8)));
  CHECK(backward.flops() == Flops(2. * 4 * static_cast<double>(rows * 8 * 8)));
  CHECK(forward.kernel()->gemms == 2);
  CHECK(forward.memory_traffic() == Bytes(8. * static_cast<double>(rows * 8)));
  CHECK(first_op(s, OpKind::Gate, Phase::Forward).flops() == Flops(0));
  // Every launch of a product takes 1 ms and a flop 1 ps, and device memory is free.
  CHECK(priced.duration[OpId(&forward - s.ops.data())].value() == Approx(2e-3 + 1e-12 * forward.flops().value()));
  const Experiment own = test::round_numbers();
  const auto simulated = [](const Experiment& experiment) {
    const PricedSchedule all = price_plan(experiment, Plan{});
    return metrics(*all.schedule, AnalyticBackend().run(all)).makespan;
  };
  CHECK((simulated(own) - simulated(e)).value() == Approx(3e-3).epsilon(1e-3));  // the gate's products of both passes
}

TEST_CASE("an order may state its work, else it is that of the project's own") {
  struct Stated : ReversedOrder {
    std::optional<StatedWork> work(dovetail::OrderStep step, const Sizes&) const override {
      if (step != OrderStep::Encode) return {};
      return StatedWork{.products = {{3, 5, 7}}, .traffic = Bytes(11), .kernels = 2};
    }
  };
  Experiment e = test::round_numbers();
  const Schedule own = build_schedule(e, Plan{});
  e.extensions.order = std::make_shared<Stated>();
  const Schedule stated = build_schedule(e, Plan{});
  CHECK(first_op(stated, OpKind::Encode, Phase::Forward).flops() == Flops(2. * 3 * 5 * 7));
  CHECK(first_op(stated, OpKind::Encode, Phase::Forward).memory_traffic() == Bytes(11));
  CHECK(first_op(stated, OpKind::Encode, Phase::Forward).kernel()->memory_kernels == 2);
  CHECK(first_op(stated, OpKind::Decode, Phase::Forward).memory_traffic() ==
        first_op(own, OpKind::Decode, Phase::Forward).memory_traffic());
}

TEST_CASE("flops of a model count what an expert of a program's own states") {
  Experiment e = test::round_numbers();
  const double own = model_flops(e).active_parameters;
  e.extensions.expert = std::make_shared<TanhExpert>();  // as many as the model's two matrices
  CHECK(model_flops(e).active_parameters == own);
  struct Twice : TanhExpert {
    StatedWork forward_work(const Sizes& s, std::int64_t experts, std::int64_t rows) const override {
      StatedWork work = TanhExpert::forward_work(s, experts, rows);
      work.products.insert(work.products.end(), work.products.begin(), work.products.end());
      return work;
    }
  };
  e.extensions.expert = std::make_shared<Twice>();
  CHECK(model_flops(e).active_parameters == own + e.workload.layers * e.workload.top_k * 2. * 8 * 16);
}

TEST_CASE("an all-to-all of a program's own takes the place of a linear one") {
  Experiment e = whole_experts();
  e.extensions.all_to_all = std::make_shared<NodesFirst>();
  const Schedule s = build_schedule(e, Plan{});
  REQUIRE(s.steps.size() == 2);
  CHECK(s.steps[0] == exchange_step({2, 2}, 1, 2));
  CHECK(s.steps[1] == exchange_step({1, 2}, 2, 1));
  Plan plan;
  plan.all_to_all_levels = {4};
  CHECK(build_schedule(e, plan).steps.empty());  // one exchange
}

TEST_CASE("an all-to-all of a program's own that does not deliver is refused, with what goes wrong") {
  struct Steps : NodesFirst {
    explicit Steps(std::vector<CollectiveStep> are) : steps_(std::move(are)) {}
    std::vector<CollectiveStep> steps(std::span<const int>) const override { return steps_; }
    std::vector<CollectiveStep> steps_;
  };
  const auto refused = [](std::vector<CollectiveStep> steps) {
    Experiment e = whole_experts();
    e.extensions.all_to_all = std::make_shared<Steps>(std::move(steps));
    return refusal(e, Plan{});
  };
  const std::string begin = "/plan/all_to_all: the steps of the all-to-all nodes-first for 4 ranks do not deliver: ";
  CHECK(refused({}) == begin + "a block in another's place");
  CHECK(refused({exchange_step({1, 2}, 2, 1)}) == begin + "a block in another's place");
  CHECK(refused({exchange_step({1, 3}, 1, 1)}) == begin + "a step whose sizes or subgroup do not fit the ranks");
  CHECK(refused({copy_step(1, 1, 1, 3)}) == begin + "a buffer of another size");
  CHECK(refused({copy_step(1, 1, 1, 5)}) == begin + "a block outside of a buffer");
  CHECK(refused({exchange_step({1, 4}, 1, 1), copy_step(1, 1, 1, 4)}).empty());  // ends with a copy
}

TEST_CASE("what sub-modules of a program's own do not go with is refused, by name") {
  struct Case {
    const char* message;
    std::function<void(Experiment&, Plan&)> change;
  };
  const std::vector<Case> cases{
      {"/workload/gate: gate hash: takes the place of the workload's gate; expected its defaults",
       [](Experiment& e, Plan&) { e.workload.gate.kind = GateKind::Gshard; }},
      {"/workload/routing/kind: gate hash: makes the choices itself; expected router",
       [](Experiment& e, Plan&) { e.workload.routing.kind = RoutingKind::Uniform; }},
      {"/workload/message_sizes: expert tanh: is not built yet with routed messages; expected padded",
       [](Experiment& e, Plan&) { e.workload.message_sizes = MessageSizes::Routed; }},
      {"/workload/message_sizes: order reversed: is not built yet with routed messages; expected padded",
       [](Experiment& e, Plan&) {
         e.workload.message_sizes = MessageSizes::Routed;
         e.extensions.expert = nullptr;
       }},
      {"/workload/message_sizes: routed is not built yet with the all-to-all nodes-first; expected padded",
       [](Experiment& e, Plan&) {
         e.workload.message_sizes = MessageSizes::Routed;
         e.extensions.expert = nullptr;
         e.extensions.order = nullptr;
       }},
      {"/plan/scores_at: experts is not built yet together with the expert tanh; expected decode",
       [](Experiment&, Plan& p) { p.scores_at = ScoresAt::Experts; }},
      {"/plan/expert_sharding: ep_dp is not built yet together with the expert tanh; expected ep",
       [](Experiment&, Plan& p) { p.expert_sharding = ExpertSharding::EpDp; }},
      {"/plan/shadowed_experts: not built yet together with the expert tanh; expected none",
       [](Experiment&, Plan& p) { p.shadowed_experts = {1}; }},
      {"/plan/encoding: dense is not built yet together with the order reversed; expected sparse",
       [](Experiment&, Plan& p) { p.encoding = Encoding::Dense; }},
      {"/plan/all_to_all: two_dimensional is not built yet together with the all-to-all nodes-first; expected linear",
       [](Experiment&, Plan& p) { p.all_to_all = AllToAll::TwoDimensional; }},
      {"/plan/split: peers is not built yet together with the all-to-all nodes-first; expected capacity",
       [](Experiment&, Plan& p) {
         p.split = Split::Peers;
         p.scope = Scope::Moe;
       }},
      {"/parallelism/esp: expert tanh: cannot be cut into 2 shards; expected 1",
       [](Experiment& e, Plan&) {
         e = test::round_numbers();
         e.extensions.expert = std::make_shared<Cannot>();
       }},
      {"/model/experts: Mixtral has no MoE layer that could have gate hash", [](Experiment& e, Plan&) {
         e.model.name = "Mixtral";
         e.model.experts = e.model.top_k = e.workload.top_k = 0;
         e.model.first_dense = e.model.layers;
         e.model.dense_hidden = 16;
         e.parallelism.ep = 1;
         e.parallelism.edp = 4;
         e.extensions = {};
         e.extensions.gate = std::make_shared<HashGate>();
       }}};
  for (const Case& c : cases) {
    Experiment e = whole_experts();
    e.extensions = all_of_the_example();
    Plan plan;
    REQUIRE(refusal(e, plan).empty());
    c.change(e, plan);
    CHECK(refusal(e, plan) == c.message);
  }
}

TEST_CASE("no file holds what a program has of its own") {
  Experiment e = test::round_numbers();
  CHECK_NOTHROW(to_json(e));
  e.extensions.gate = std::make_shared<HashGate>();
  CHECK_THROWS_WITH(to_json(e), "gate hash: a file cannot hold what a program has of its own");
}
