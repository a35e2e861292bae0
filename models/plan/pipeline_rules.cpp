// SPDX-License-Identifier: Apache-2.0
#include "models/plan/pipeline_rules.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.hpp"
#include "models/plan/program.hpp"
#include "models/plan/refuse.hpp"
#include "models/question/pipeline_layout.hpp"

namespace dovetail {
namespace {

std::string_view schedule_name(const Plan& p) {
  return p.pipeline().name;
}

// A program that is listed is made for so many ranks, stages and micro-batches.
void require_listed(const Plan& p, const Experiment& e) {
  if (!p.lists_program()) {
    if (!p.program.empty())
      refuse("program", fmt::format("contradicts plan.pipeline_schedule {}; expected listed", schedule_name(p)));
    return;
  }
  const ListedProgram& program = p.program;
  if (program.empty())
    refuse("pipeline_schedule", "listed needs a program; expected plan.program, with a line for each pipeline rank");
  if (program.ranks() != e.parallelism.pp)
    refuse("program",
           fmt::format("{} lines; expected {}, one for each of parallelism.pp", program.ranks(), e.parallelism.pp));
  if (program.micro_batches() != p.micro_batches)
    refuse("micro_batches",
           fmt::format("{}, but plan.program has {}; expected the same", p.micro_batches, program.micro_batches()));
  if (program.laps() != p.virtual_stages)
    refuse("virtual_stages", fmt::format("{}, but the ranks of plan.program have {} stages each; expected the same",
                                         p.virtual_stages, program.laps()));
  if (e.workload.phases == Phases::Training && !has_backward(program.program()))
    refuse("program", "no backward passes, which workload.phases training needs");
}

// Programs with several stages on a rank.
void require_virtual_stages(const Plan& p, int stages) {
  const NamedProgram& program = p.pipeline();
  const bool laps = program.shape == StageShape::Laps;
  if (p.virtual_stages == 1 || (!laps && p.virtual_stages != 2))
    refuse("pipeline_schedule", fmt::format("{} needs several stages on each rank; expected plan.virtual_stages of {}",
                                            program.name, laps ? "2 or more" : "2"));
  if (stages == 1)
    refuse("pipeline_schedule", fmt::format("{} needs a pipeline; expected parallelism.pp of 2 or more", program.name));
  // Micro-batches go through a rank's stages in groups of as many as the pipeline has ranks.
  if (laps && !p.lists_program() && p.micro_batches % stages != 0)
    refuse("micro_batches", fmt::format("{} do not divide over the {} pipeline stages, which plan.pipeline_schedule "
                                        "{} needs; expected a multiple of {}",
                                        p.micro_batches, stages, program.name, stages));
  if (p.micro_batches < program.least_per_rank * stages)
    refuse("micro_batches", fmt::format("{} are too few for plan.pipeline_schedule {}; expected {} or more",
                                        p.micro_batches, program.name, program.least_per_rank * stages));
}

// The last backward pass through a stage reduces its gradients, so that no weights' gradients may come after those of
// its micro-batch.
bool ends_with_last_pass(const Program& program) {
  std::vector<int> last_pass(program.rank_of.size()), last_weights = last_pass;  // micro-batches, by stage
  for (const std::vector<Slot>& slots : program.ranks)
    for (const Unit& unit : units_of(slots)) {
      const auto stage = static_cast<std::size_t>(unit.stage);
      if (unit.kind == UnitKind::Backward || unit.kind == UnitKind::InputGradient) last_pass[stage] = unit.micro_batch;
      if (unit.kind == UnitKind::Backward || unit.kind == UnitKind::WeightGradient)
        last_weights[stage] = unit.micro_batch;
    }
  return last_pass == last_weights;
}

}  // namespace

void require_halves(const Plan& p, const Experiment& e) {
  const bool halves = p.pipeline().halves, delayed = p.delay_weight_gradient != DelayedWeights::None;
  if (halves && delayed && !p.pipeline().pairs)
    refuse("delay_weight_gradient",
           fmt::format("{} contradicts plan.pipeline_schedule {}, which makes gradients of "
                       "weights in passes of their own; expected none",
                       name_in(delayed_weights_names, p.delay_weight_gradient), schedule_name(p)));
  if (p.delay_weight_gradient == DelayedWeights::Fill && p.order == Order::ReadyFirst)
    refuse("order",
           "ready_first contradicts plan.delay_weight_gradient fill, which has another order by costs; expected "
           "dispatch_first or alternate");
  if ((!halves && !delayed) || e.workload.phases != Phases::Training) return;
  const std::string_view knob = halves ? "pipeline_schedule" : "delay_weight_gradient";
  const std::string_view value = halves ? schedule_name(p) : name_in(delayed_weights_names, p.delay_weight_gradient);
  const auto refuse_with = [&](std::string_view what, std::string_view expected) {
    refuse(knob, fmt::format("{} is not built yet with {}, because it makes the gradients of weights later than those "
                             "of inputs; expected {}",
                             value, what, expected));
  };
  // A slice may hold gradients of another stage of the rank, whose weights a listed program may come to later.
  const bool cut_anywhere = p.grad_sync == GradSync::Partitioned || p.grad_sync == GradSync::FixedChunks;
  if (halves && p.lists_program() && p.virtual_stages > 1 && cut_anywhere)
    refuse("grad_sync", fmt::format("{} is not built yet with a listed program that has several stages on a rank and "
                                    "makes gradients of weights in passes of their own; expected after or with_dense",
                                    name_in(grad_sync_names, p.grad_sync)));
  if (halves && p.lists_program() && p.grad_sync != GradSync::After && !ends_with_last_pass(p.program.program()))
    refuse("grad_sync", fmt::format("{} needs a program that makes the gradients of weights of the last backward pass "
                                    "through each stage last; expected after",
                                    name_in(grad_sync_names, p.grad_sync)));
  if (halves && e.parallelism.pp == 1)
    refuse("pipeline_schedule",
           fmt::format("{} needs a pipeline; expected parallelism.pp of 2 or more", schedule_name(p)));
  if (p.restore != Restore::Keep)
    refuse_with(fmt::format("plan.restore {}", name_in(restore_names, p.restore)), "restore keep");
  if (p.buffers != Buffers::PerChunk)
    refuse_with(fmt::format("plan.buffers {}", name_in(buffers_names, p.buffers)), "buffers per_chunk");
  if (e.model.expert_profile.given()) refuse_with("model.expert_profile", "experts by their sizes");
  if (e.extensions.expert != nullptr)
    refuse_with(fmt::format("the expert \"{}\"", e.extensions.names()), "the model's own experts");
}

void require_pairs(const Plan& p, const Experiment& e) {
  if (p.scope != Scope::Batch) {
    if (p.pair_order != PairOrder::Alternate)
      refuse("pair_order", fmt::format("{} is of pairs of micro-batches, which plan.scope {} does not have; expected "
                                       "alternate, or scope batch",
                                       name_in(pair_order_names, p.pair_order), name_in(scope_names, p.scope)));
    return;
  }
  const auto refuse_batch = [](std::string_view why) { refuse("scope", fmt::format("batch {}", why)); };
  if (e.workload.phases != Phases::Training)
    refuse_batch("overlaps a forward pass with a backward pass, which workload.phases forward_only does not have");
  if (!p.pipeline().pairs)
    refuse_batch(
        fmt::format("needs a plan.pipeline_schedule in which a forward and a backward pass take turns, which "
                    "{} does not have; expected 1f1b, interleaved, dualpipe_v or dualpipe",
                    schedule_name(p)));
  if (p.micro_batches < 2) refuse_batch("needs two micro-batches; expected plan.micro_batches of 2 or more");
  if (e.model.dense() || e.parallelism.ep == 1)
    refuse_batch(
        fmt::format("overlaps the exchanges of experts, which there are none of with {}; expected ep of 2 or "
                    "more",
                    e.model.dense() ? "a dense model" : "parallelism.ep 1"));
  if (p.host_sync)
    refuse("host_sync",
           "true contradicts plan.scope batch, since a host that waits for one micro-batch holds up the "
           "other; expected false");
}

void require_stages(const Plan& p, const Experiment& e) {
  const int pp = e.parallelism.pp;
  require_listed(p, e);
  if (p.pipeline().shape != StageShape::One)
    require_virtual_stages(p, pp);
  else if (p.virtual_stages > 1)
    refuse("virtual_stages", fmt::format("{} contradicts plan.pipeline_schedule {}, where each rank has one stage; "
                                         "expected 1, or pipeline_schedule interleaved",
                                         p.virtual_stages, schedule_name(p)));
  const std::string& layout = e.parallelism.pipeline_layout;
  const std::int64_t stages = std::int64_t{pp} * p.virtual_stages / pipelines_of(p.pipeline().shape);
  if (layout.empty()) {
    if (stages > e.workload.layers)
      refuse("virtual_stages", fmt::format("{} on each of {} pipeline stages are more than the {} layers",
                                           p.virtual_stages, pp, e.workload.layers));
    return;
  }
  const bool two = pipelines_of(p.pipeline().shape) == 2;
  if (const auto laid_out = std::ssize(parse_pipeline_layout(layout)); laid_out != stages)
    refuse("virtual_stages",
           fmt::format("{} on each of {} pipeline stages are {} stages{}, but parallelism.pipeline_layout has {}; "
                       "expected {}",
                       p.virtual_stages, pp, stages, two ? " of each pipeline" : "", laid_out,
                       two ? fmt::format("a layout of {}", stages) : fmt::format("{}", laid_out / pp)));
}

void require_two_pipelines(const Plan& p, const Experiment& e) {
  if (pipelines_of(p.pipeline().shape) != 2) return;
  const std::string_view name = schedule_name(p);
  if (e.parallelism.pp % 2 != 0)
    refuse("pipeline_schedule",
           fmt::format("{} has two pipelines over {} ranks; expected an even parallelism.pp", name, e.parallelism.pp));
  if (p.micro_batches % 2 != 0)
    refuse("micro_batches", fmt::format("{} do not divide over the two pipelines of plan.pipeline_schedule {}; "
                                        "expected an even number",
                                        p.micro_batches, name));
  if (p.grad_sync != GradSync::After && e.workload.phases == Phases::Training)
    refuse(
        "grad_sync",
        fmt::format("{} is not built yet with plan.pipeline_schedule {}, where the gradients of a layer are complete "
                    "once both pipelines are done; expected after",
                    name_in(grad_sync_names, p.grad_sync), name));
  if (p.parameter_gather != ParameterGather::AfterUpdate)
    refuse("parameter_gather",
           fmt::format("ahead is not built yet with plan.pipeline_schedule {}, in which two stages of a rank begin "
                       "with different layers; expected after_update",
                       name));
}

}  // namespace dovetail
