// SPDX-License-Identifier: Apache-2.0
#include "tests/reports/exported_plans.hpp"

#include <algorithm>
#include <variant>

#include "models/base/overloaded.hpp"
#include "models/plan/program.hpp"

namespace dovetail::test {

Plan usual_plan() {
  Plan plan;
  plan.micro_batches = 4;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  plan.recompute = {Recompute::MpGather};
  plan.zero = 1;
  return plan;
}

namespace {

// A schedule of usual_plan() on two stages.
ListedProgram listed(std::string_view schedule) {
  const auto named = std::ranges::find(pipeline_schedule_names, schedule, [](const auto& name) { return name.first; });
  return ListedProgram(make_program(named->second, 2, usual_plan().micro_batches).ranks);
}

}  // namespace

Plan with_its_effect(std::string_view knob) {
  Plan plan = usual_plan();
  if (knob == "scope") plan.forward_degree = plan.backward_degree = 2;
  if (knob == "pair_order") {
    plan.scope = Scope::Batch;
    plan.forward_degree = plan.backward_degree = 1;
  }
  if (knob == "virtual_stages" || knob == "pair_order") plan.pipeline_schedule = pipeline_schedule("interleaved");
  if (knob == "program") {
    plan.pipeline_schedule = pipeline_schedule("listed");
    plan.program = listed("1f1b");
  }
  if (knob == "gradient_chunk_bytes") plan.grad_sync = GradSync::FixedChunks;
  if (knob == "gradient_slices") plan.grad_sync = GradSync::Partitioned;
  if (knob == "parameter_gather") plan.grad_sync = GradSync::WithDense;
  if (knob == "comm_sms") plan.all_to_all = AllToAll::NodeDeduplicated;
  if (knob == "sharding_repeats") plan.expert_sharding = ExpertSharding::EpMp;
  return plan;
}

std::vector<Plan> others(const Knob& knob, const Plan& plan) {
  std::vector<Plan> plans;
  const auto add = [&](auto change) {
    Plan other = plan;
    change(other);
    if (!(other == plan)) plans.push_back(std::move(other));
  };
  std::visit(Overloaded{[&](const ChoiceKnob& k) {
                          for (const KnobValue& value : k.values())
                            if (value.built) add([&](Plan& p) { k.set(p, value.value); });
                        },
                        [&](const FlagKnob& k) { add([&](Plan& p) { p.*k.member = !(p.*k.member); }); },
                        [&](const CountKnob& k) {
                          add([&](Plan& p) { p.*k.member = p.*k.member == k.least ? k.least + 1 : k.least; });
                        },
                        [&](const BytesKnob& k) { add([&](Plan& p) { p.*k.member = 4'000'000; }); },
                        [&](const CountsKnob& k) { add([&](Plan& p) {
                                                     p.*k.member = {2, 1, 1, 2};
                                                   }); },
                        [&](const SlicesKnob& k) { add([&](Plan& p) {
                                                     p.*k.member = {{Window::Moe, 0, 64}};
                                                   }); },
                        [&](const ProgramKnob& k) { add([&](Plan& p) { p.*k.member = listed("gpipe"); }); },
                        [&](const SetKnob& k) {
                          for (const KnobValue& value : k.values())
                            add([&](Plan& p) { k.set(p, k.get(p) ^ 1U << static_cast<unsigned>(value.value)); });
                        }},
             knob.type);
  return plans;
}

}  // namespace dovetail::test
