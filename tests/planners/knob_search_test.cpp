// SPDX-License-Identifier: Apache-2.0
// The table of knobs says how planners search each knob; the space of plans does the same.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"
#include "planners/search/plan_kinds.hpp"
#include "planners/search/plan_space.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/planted_knobs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// Values, as names, that settings of a space give to each knob that they change.
using Given = std::map<std::string_view, std::set<int>>;

void note(const Plan& base, const Plan& plan, std::span<const Knob> table, Given& given) {
  for (const Knob& knob : table)
    if (const auto* choice = std::get_if<ChoiceKnob>(&knob.type))
      given[knob.name].insert(choice->get(plan));
    else if (!same_value(knob, base, plan))
      given[knob.name].insert(1);
}

Given given_by(const PlanningTask& task, std::span<const Knob> table = knobs()) {
  const PlanSpace space = plan_space(task, table);
  Given given;
  const std::array all{space.volumes, space.arrangements, std::vector{space.keeping, space.restoring}};
  for (const std::vector<Axis>& axes : all)
    for (const Axis& axis : axes)
      for (const Setting& set : axis) {
        Plan plan = task.base;
        set(plan);
        note(task.base, plan, table, given);
      }
  for (const int degree : space.forward_degrees) {
    Plan plan = task.base;
    plan.forward_degree = plan.backward_degree = degree;
    note(task.base, plan, table, given);
  }
  Plan plan = task.base;
  plan.forward_degree = 2;
  for (const Plan& way : gradient_plans(plan, space, task.experiment, layer_times(task.experiment, plan)))
    note(task.base, way, table, given);
  return given;
}

PlanningTask task_of(const Experiment& e) {
  PlanningTask task{e, {}, {"dovetail", {1, 2, 4}, false, SearchSpace::Plans}};
  task.base.scope = Scope::Moe;
  return task;
}

void add(const Given& more, Given& given) {
  for (const auto& [knob, values] : more) given[knob].insert(values.begin(), values.end());
}

// Messages that are cheaper by one protocol when small and by the other when large.
void add_protocols(Experiment& e) {
  for (LinkKind link : {LinkKind::Intra, LinkKind::Inter})
    for (Protocol protocol : {Protocol::Simple, Protocol::LowLatency})
      e.calibration.edit().messages.push_back(
          {link, protocol, Seconds(1e-4), 10, BytesPerSecond(1e9), BytesPerSecond(5e8), {}});
}

// All searches together: on ranks that share experts, on nodes of several, and with pipeline stages, one or two
// on each rank.
Given given_by_searches() {
  Given given;
  Experiment e = test::testbed_b(2);
  e.calibration.edit().copy = e.calibration->memory;  // rows may come back from the host
  add(given_by(task_of(e)), given);
  e.parallelism = {.dp = 32, .mp = 1, .ep = 8, .esp = 1, .pp = 1, .edp = 4};  // 4 ranks on each of 2 nodes
  add_protocols(e);
  PlanningTask levels = task_of(e);
  levels.base.all_to_all = AllToAll::TwoDimensional;
  levels.base.all_to_all_levels = {4, 2};
  add(given_by(levels), given);
  e = test::testbed_b(2);
  e.workload.batch = 4;
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  add(given_by(task_of(e)), given);
  e.model.layers = e.workload.layers = 4;
  PlanningTask laps = task_of(e);
  laps.base.pipeline_schedule = pipeline_schedule("interleaved");
  laps.base.virtual_stages = laps.base.micro_batches = 2;
  add(given_by(laps), given);
  return given;
}

}  // namespace

TEST_CASE("planners search the knobs that the table says, with every built value, and keep the others") {
  const Given given = given_by_searches();
  const std::set<std::string> left_out{"scope layer",                   // in which nothing overlaps
                                       "scope batch",                   // which is tried on what is found
                                       "protocol low_latency",          // by_size has it where it costs less
                                       "all_to_all node_deduplicated",  // needs scores at the experts, which are kept
                                       "pipeline_schedule zb_v",        // need virtual stages, which are kept
                                       "pipeline_schedule interleaved_zb",
                                       "pipeline_schedule dualpipe_v",
                                       "pipeline_schedule dualpipe",
                                       "pipeline_schedule listed"};  // which only a user can list
  for (const Knob& knob : knobs()) {
    INFO(knob.name);
    const auto* choice = std::get_if<ChoiceKnob>(&knob.type);
    const auto found = given.find(knob.name);
    const std::set<int> values = found == given.end() ? std::set<int>() : found->second;
    if (knob.search == KnobSearch::Kept) {
      CHECK(values.size() == (choice == nullptr ? 0 : 1));
      continue;
    }
    CHECK_FALSE(values.empty());
    if (choice == nullptr) continue;
    for (const KnobValue& value : choice->values()) {
      const std::string name = std::string(knob.name) + ' ' + std::string(value.name);
      INFO(name);
      CHECK(values.contains(value.value) == (value.built && !left_out.contains(name)));
    }
  }
}

TEST_CASE("planners search a value and a knob that are planted in the table") {
  const Experiment e = test::testbed_b(2);
  const PlanningTask task = task_of(e);
  std::vector<Knob> table(knobs().begin(), knobs().end());
  test::plant_value(table, "order", {"planted_value", 3, "It is planted by a test.", true});  // searched alone
  test::plant_value(table, "scope", {"planted_value", 4, "It is planted by a test.", true});  // with others
  test::plant_value(table, "buffers", {"planted_value", 3, "It is planted by a test.", true});
  table.push_back({.name = "planted_knob",
                   .type = FlagKnob{&Plan::host_sync},
                   .group = KnobClass::Volumes,
                   .search = KnobSearch::Alone,
                   .searched_as = "planted knobs",
                   .holds_rows = false,
                   .help = "This knob is planted by a test."});
  const PlanSpace space = plan_space(task, table);
  CHECK(space.volumes.size() == plan_space(task).volumes.size() + 1);
  CHECK(space.words.find("shardings, planted knobs, restoring") != std::string::npos);
  const Given given = given_by(task, table);
  CHECK(given.at("order").contains(3));
  CHECK(given.at("scope").contains(4));
  CHECK(given.at("buffers").contains(3));
  CHECK(given.contains("planted_knob"));
}

TEST_CASE("plans that share layer times are alike in what the table calls volumes, and no more") {
  for (const Knob& knob : knobs()) {
    INFO(knob.name);
    const auto* choice = std::get_if<ChoiceKnob>(&knob.type);
    if (choice == nullptr) continue;
    Plan plan;
    choice->set(plan, choice->values()[1].value);
    CHECK((volume_kind(plan) != volume_kind({})) == (knob.group == KnobClass::Volumes));
    CHECK((memory_kind(plan) != memory_kind({})) == knob.holds_rows);
    CHECK((sequential_plan(plan) == plan) == (knob.group == KnobClass::Volumes));
  }
}
