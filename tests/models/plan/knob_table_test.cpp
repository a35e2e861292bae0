// SPDX-License-Identifier: Apache-2.0
// The table of knobs: it describes every member of Plan once, and readers, writers and rules go by it.
#include "models/plan/knob_table.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/examples/custom_moe/reversed_order.hpp"
#include "models/base/errors.hpp"
#include "models/files/plan_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/program_text.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/planted_knobs.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

Plan read(const std::string& text, std::span<const Knob> table = knobs()) {
  const JsonFile file = JsonFile::parse(text, "plan.json");
  Plan plan;
  read_plan(JsonReader(file), plan, table);
  return plan;
}

// A plan in which one knob is not as usual.
struct Other {
  const Knob& knob;

  Plan operator()(const ChoiceKnob& choice) const {
    return changed([&](Plan& p) { choice.set(p, choice.values()[1].value); });
  }
  Plan operator()(const FlagKnob& flag) const {
    return changed([&](Plan& p) { p.*flag.member = !(p.*flag.member); });
  }
  Plan operator()(const CountKnob& count) const {
    return changed([&](Plan& p) { p.*count.member = count.most; });
  }
  Plan operator()(const BytesKnob& bytes) const {
    return changed([&](Plan& p) { p.*bytes.member = 7; });
  }
  Plan operator()(const CountsKnob& list) const {
    return changed([&](Plan& p) { p.*list.member = {1, 5}; });
  }
  Plan operator()(const SlicesKnob& list) const {
    return changed([&](Plan& p) { p.*list.member = {{Window::Moe, 1, 5}}; });
  }
  Plan operator()(const ProgramKnob& program) const {
    return changed([&](Plan& p) { p.*program.member = ListedProgram({read_slots("0F0 0B0")}); });
  }
  Plan operator()(const SetKnob& set) const {
    return changed([&](Plan& p) { set.set(p, 0b101); });
  }
  static Plan changed(const std::function<void(Plan&)>& change) {
    Plan plan;
    change(plan);
    return plan;
  }
};

Plan other(const Knob& knob) {
  return std::visit(Other{knob}, knob.type);
}

}  // namespace

TEST_CASE("every knob is described once, by a name, sentences and a member of its own") {
  std::set<std::string_view> names;
  for (const Knob& knob : knobs()) {
    INFO(knob.name);
    CHECK(names.insert(knob.name).second);
    CHECK(knob.help.ends_with('.'));
    CHECK(has_default(knob, Plan{}));
    CHECK((knob.search == KnobSearch::Kept) <= knob.searched_as.empty());
    // The compiler counts the members of Plan; here no two knobs have the same one.
    const Plan plan = other(knob);
    for (const Knob& each : knobs()) CHECK(has_default(each, plan) == (each.name != knob.name));
    if (const auto* choice = std::get_if<ChoiceKnob>(&knob.type)) {
      CHECK(choice->get(Plan{}) == choice->values().front().value);
      CHECK(choice->values().front().built);
    }
    std::set<std::string_view> values;
    for (const KnobValue& value : named_values(knob)) {
      INFO(value.name);
      CHECK(values.insert(value.name).second);
      CHECK(value.help.ends_with('.'));
    }
  }
}

TEST_CASE("what is written of every knob is read again") {
  for (const Knob& knob : knobs()) {
    INFO(knob.name);
    const Plan plan = other(knob);
    CHECK(read(to_json(plan).dump()) == plan);
    const std::string alone = nlohmann::json{{knob.name, value_json(knob, plan)}}.dump();
    CHECK(read(alone) == plan);
    std::vector<std::int64_t> numbers, usual;
    append_value(knob, plan, numbers);
    append_value(knob, Plan{}, usual);
    CHECK(numbers != usual);
  }
}

TEST_CASE("knobs of one class are copied, and no others") {
  for (const Knob& knob : knobs()) {
    INFO(knob.name);
    const Plan from = other(knob);
    for (const auto& [name, group] : knob_class_names) {
      Plan to;
      copy_knobs(group, from, to);
      CHECK((to == from) == (knob.group == group));
    }
  }
}

TEST_CASE("a value and a knob that are planted in the table are written, read, refused and drawn") {
  const std::vector<Knob> table = test::planted_knobs();
  const Plan plan = read(R"({"planted_knob": 3, "scope": "planted_value"})", table);
  const auto json = to_json(plan, table);
  CHECK(json["planted_knob"] == 3);
  CHECK(json["scope"] == "planted_value");
  CHECK_THROWS_WITH(read(R"({"scope": "planted"})", table), Contains(R"(did you mean "planted_value"?)"));
  CHECK_THROWS_WITH(require_built(plan, table),
                    Contains("/plan/scope: planted_value is not built yet; built: layer, moe, block"));
  CHECK_THROWS_WITH(require_built(plan, std::span(table).last(1)),
                    Contains("/plan/planted_knob: 3 is not built yet; built: 1"));
  test::Random random(5);
  const Experiment e = test::random_experiment(random);
  int values = 0, counts = 0;
  for (int draw = 0; draw < 5000; ++draw) {
    const Plan drawn = test::random_plan(random, e, table);
    values += to_json(drawn, table)["scope"] == "planted_value" ? 1 : 0;
    counts += to_json(drawn, table)["planted_knob"] != 1 ? 1 : 0;
  }
  CHECK(values > 0);
  CHECK(counts > 0);
}

TEST_CASE("every rule between knobs is listed, names knobs, and refuses them") {
  struct Case {
    std::string_view rule;
    std::function<void(Plan&, Experiment&)> change;
  };
  const std::vector<Case> cases{
      {"micro_batches", [](Plan& p, Experiment&) { p.micro_batches = 3; }},
      {"stages", [](Plan& p, Experiment&) { p.virtual_stages = 2; }},
      {"two_pipelines", [](Plan& p, Experiment&) { p.pipeline_schedule = pipeline_schedule("dualpipe"); }},
      {"halves",
       [](Plan& p, Experiment&) { p.pipeline_schedule = pipeline_schedule("zb_h1"), p.restore = Restore::S4; }},
      {"pairs", [](Plan& p, Experiment&) { p.pair_order = PairOrder::ExpertsFirst; }},
      {"scores", [](Plan& p, Experiment&) { p.scores_at = ScoresAt::Experts, p.encoding = Encoding::Dense; }},
      {"zero", [](Plan& p, Experiment&) { p.parameter_gather = ParameterGather::Ahead; }},
      {"sharding", [](Plan& p, Experiment&) { p.sharding_repeats = 2; }},
      {"shadowing", [](Plan& p, Experiment&) { p.shadowed_experts = {-1}; }},
      {"shared_experts", [](Plan& p, Experiment&) { p.shared_experts = SharedExperts::Overlapped; }},
      {"peers", [](Plan& p, Experiment&) { p.split = Split::Peers, p.forward_degree = 2; }},
      {"built_together", [](Plan& p, Experiment&) { p.split = Split::Peers, p.restore = Restore::S4; }},
      {"extensions",
       [](Plan& p, Experiment& e) {
         e.extensions.order = std::make_shared<ReversedOrder>(), p.encoding = Encoding::Dense;
       }},
      {"all_to_all", [](Plan& p, Experiment&) { p.all_to_all_levels = {8}; }},
      {"message_sizes",
       [](Plan& p, Experiment& e) {
         e.workload.message_sizes = MessageSizes::Routed, p.expert_sharding = ExpertSharding::EpDp;
       }},
      {"grouped",
       [](Plan& p, Experiment& e) {
         e.workload.message_sizes = MessageSizes::Routed, p.expert_kernel = ExpertKernel::Grouped;
         p.layout = Layout::RankMajor;
       }},
      {"slots", [](Plan&, Experiment& e) { e.workload.gate.kind = GateKind::SoftMoe; }},
      {"degrees", [](Plan& p, Experiment&) { p.forward_degree = 2; }},
      {"block", [](Plan& p, Experiment&) { p.scope = Scope::Block, p.split = Split::Peers; }},
      {"rings", [](Plan& p, Experiment&) { p.buffers = Buffers::Double; }},
      {"recompute",
       [](Plan& p, Experiment&) {
         p.recompute = {Recompute::Full, Recompute::Moe};
       }},
      {"gradients",
       [](Plan& p, Experiment&) {
         p.gradient_slices = {{Window::Tail, 0, 1}};
       }},
      {"graphs", [](Plan& p, Experiment&) { p.graphs = Graphs::All, p.host_sync = true; }}};
  REQUIRE(cases.size() == plan_rules().size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const PlanRule& rule = plan_rules()[i];
    INFO(rule.name);
    CHECK(rule.name == cases[i].rule);
    CHECK(rule.help.ends_with('.'));
    Experiment e = test::testbed_b(2);
    e.workload.batch = 4;
    Plan plan;
    const LayerVolumes volumes = layer_volumes(e);
    CHECK_NOTHROW(rule.require({plan, e, e, volumes}));
    cases[i].change(plan, e);
    try {
      rule.require({plan, e, e, volumes});
      FAIL("refused nothing");
    } catch (const InputError& error) {
      const std::string refused = error.where().pointer.substr(std::string_view("/plan/").size());
      CHECK_NOTHROW(knob(refused));
      CHECK((" " + std::string(rule.knobs) + " ").find(" " + refused + " ") != std::string::npos);
      CHECK_THROWS_AS(validate(plan, e), InputError);
    }
  }
}
