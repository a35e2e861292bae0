// SPDX-License-Identifier: Apache-2.0
#include "models/plan/plan_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/plan/extension_rules.hpp"
#include "models/plan/knob_table.hpp"
#include "models/plan/message_sizes.hpp"
#include "models/plan/pipeline_rules.hpp"
#include "models/plan/refuse.hpp"
#include "models/question/capacity.hpp"
#include "models/question/stage_layout.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

void require_slots(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (r.experiment.workload.gate.kind == GateKind::SoftMoe && p.encoding == Encoding::Sparse)
    refuse("encoding", "sparse contradicts the gate soft_moe, whose every slot mixes all tokens; expected dense");
  // As the counts of elements that validate(Experiment) asks for: those of dense encoding are the plan's.
  const LayerVolumes& v = r.volumes;
  const double weights =
      static_cast<double>(v.tokens) * static_cast<double>(v.experts) * static_cast<double>(v.capacity);
  if (p.encoding == Encoding::Dense && weights > 0x1p53)
    refuse("encoding", fmt::format("dense has {:.3g} weights of tokens for slots, expected at most 2^53", weights));
}

void require_degree(std::string_view knob, int degree, const RuledPlan& r) {
  const std::int64_t capacity = r.volumes.capacity;
  if (degree < 1) refuse(knob, fmt::format("{}, expected at least 1", degree));
  if (degree > 1 && r.experiment.model.dense())
    refuse(knob, fmt::format("{} chunks, but {} has no experts", degree, r.experiment.model.name));
  if (degree > std::max<std::int64_t>(1, capacity))
    refuse(knob, fmt::format("{} chunks, but an expert takes only {} rows of each rank", degree, capacity));
  if (degree == 1) return;
  if (r.plan.scope == Scope::Layer)
    refuse(knob, fmt::format("{} contradicts plan.scope layer, which overlaps nothing; expected 1", degree));
  if (r.plan.scope == Scope::Batch)
    refuse(knob, fmt::format("{} is not built yet with plan.scope batch, which overlaps whole parts of layers; "
                             "expected 1",
                             degree));
}

void require_degrees(const RuledPlan& r) {
  const Plan& p = r.plan;
  require_degree("forward_degree", p.forward_degree, r);
  require_degree("backward_degree", p.backward_degree, r);
  if (!p.backward_degrees.empty() &&
      p.backward_degrees.size() != static_cast<std::size_t>(r.experiment.workload.all_layers()))
    refuse("backward_degrees", fmt::format("{} degrees for {} layers; expected one each or none",
                                           p.backward_degrees.size(), r.experiment.workload.all_layers()));
  for (int degree : p.backward_degrees) require_degree("backward_degrees", degree, r);
}

// Chunks of tokens are the chunks of both passes, in the order of the published code.
void require_block(const RuledPlan& r) {
  const auto& [p, e, micro_batch, v] = r;
  if (p.scope != Scope::Block) return;
  if (e.model.dense_hidden > 0 || e.model.shared_experts.count > 0)
    refuse("scope", fmt::format("block is not built yet with dense layers or shared experts, as {} has; built: "
                                "layer, moe",
                                e.model.name));
  for (int layer = 0; layer < e.workload.all_layers(); ++layer)
    if (p.backward_degree_of(layer) != p.forward_degree)
      refuse(p.backward_degrees.empty() ? "backward_degree" : "backward_degrees",
             fmt::format("{} contradicts plan.scope block, where both passes have the chunks of the forward pass; "
                         "expected {}",
                         p.backward_degree_of(layer), p.forward_degree));
  if (p.split != Split::Capacity)
    refuse("split", fmt::format("{} contradicts plan.scope block; expected capacity", name_in(split_names, p.split)));
  if (!e.workload.gate.token_choice())
    refuse("scope", fmt::format("block contradicts the gate {}, which looks at all tokens at once",
                                name_in(gate_kind_names, e.workload.gate.kind)));
  if (p.forward_degree > v.sequence)
    refuse("forward_degree", fmt::format("{} chunks of {} positions", p.forward_degree, v.sequence));
  for (int i = 0; i < p.forward_degree; ++i)
    if (const std::int64_t tokens = token_part(v, p.forward_degree, i).volumes.sequence_tokens;
        tokens % e.parallelism.token_shares() != 0)
      refuse("forward_degree", fmt::format("chunk {} of {} has {} tokens, which do not divide over mp {} ranks", i,
                                           p.forward_degree, tokens, e.parallelism.mp));
}

// Copies of a token are alike on their way to the experts. On the way back they can be summed where they have been
// multiplied by their scores, and no other format has rounded them.
void require_deduplicated(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (p.all_to_all != AllToAll::NodeDeduplicated) return;
  const auto refuse_unless = [](bool condition, std::string_view why) {
    if (!condition) refuse("all_to_all", fmt::format("node_deduplicated {}", why));
  };
  refuse_unless(sends_routed(p, r.experiment.workload),
                fmt::format("needs {}, since padded messages do not tell which rows are of one token",
                            p.pad_messages ? "plan.pad_messages false" : "workload.message_sizes routed"));
  refuse_unless(p.scores_at == ScoresAt::Experts,
                "needs plan.scores_at experts, since it sums the rows of a token before they come back");
  refuse_unless(r.experiment.workload.gate.token_choice(),
                fmt::format("contradicts the gate {}, where tokens do not choose",
                            name_in(gate_kind_names, r.experiment.workload.gate.kind)));
  refuse_unless(p.protocol == Protocol::Simple,
                fmt::format("contradicts plan.protocol {}; expected simple", name_in(protocol_names, p.protocol)));
  deduplicating_ranks(p, r.experiment);
}

void require_all_to_all(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (!has_steps(p, r.experiment)) {
    const std::string_view name = name_in(all_to_all_names, p.all_to_all);
    if (!p.all_to_all_levels.empty())
      refuse("all_to_all_levels", fmt::format("given, but plan.all_to_all is {}", name));
    if (p.all_to_all_implementation == AllToAllImplementation::Fused)
      refuse("all_to_all_implementation",
             fmt::format("fused contradicts plan.all_to_all {}, which has one step; expected p2p", name));
  }
  if (p.comm_sms > 0 && p.all_to_all != AllToAll::NodeDeduplicated)
    refuse("comm_sms",
           fmt::format("contradicts plan.all_to_all {}, whose kernels take as many multiprocessors as their "
                       "library says; expected 0, or node_deduplicated",
                       name_in(all_to_all_names, p.all_to_all)));
  require_deduplicated(r);
  all_to_all_steps(p, r.experiment);  // throws for levels that do not fit
}

void require_message_sizes(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (!sends_routed(p, r.experiment.workload)) return;
  const auto refuse_unless = [](std::string_view knob, bool condition, std::string_view value) {
    if (!condition)
      refuse(knob, fmt::format("{} is not built yet with workload.message_sizes routed; plan.pad_messages true sends "
                               "the same tokens in padded ones",
                               value));
  };
  if (r.experiment.parallelism.repeats_tokens())
    refuse("pad_messages",
           fmt::format("false is not built yet without parallelism.sequence_parallel, where {} ranks of "
                       "mp repeat tokens; expected true, or workload.message_sizes padded",
                       r.experiment.parallelism.mp));
  refuse_unless("scope", p.scope != Scope::Block, name_in(scope_names, p.scope));
  refuse_unless("split", p.split == Split::Capacity, name_in(split_names, p.split));
  refuse_unless("all_to_all", p.all_to_all == AllToAll::Linear || p.all_to_all == AllToAll::NodeDeduplicated,
                name_in(all_to_all_names, p.all_to_all));
  refuse_unless("expert_sharding", p.expert_sharding == ExpertSharding::Ep,
                name_in(expert_sharding_names, p.expert_sharding));
  refuse_unless("shadowed_experts", p.shadowed_experts.empty(), "shadowing");
}

// All rows of padded messages are computed, as by a batched kernel.
void require_grouped(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (p.expert_kernel == ExpertKernel::Batched || !sends_routed(p, r.experiment.workload)) return;
  if (p.layout == Layout::RankMajor)
    refuse("expert_kernel",
           "grouped contradicts plan.layout rank_major, where an expert has a product for the rows of "
           "each rank; expected batched, or layout expert_major");
  if (r.experiment.model.expert_profile.given())
    refuse("expert_kernel",
           "grouped contradicts model.expert_profile, whose times are of equally many rows; expected "
           "batched");
}

std::vector<int> backward_degrees(const Plan& p, const Experiment& e) {
  if (e.workload.phases != Phases::Training) return {};
  return p.backward_degrees.empty() ? std::vector{p.backward_degree} : p.backward_degrees;
}

// Refuses rings that would overwrite rows that are still needed, or wait for themselves.
void require_rings(const RuledPlan& r) {
  const Plan& p = r.plan;
  const std::int64_t capacity = r.volumes.capacity;
  const int depth = ring_depth(p.buffers);
  if (depth == 0 || r.experiment.model.dense()) return;
  const std::string_view name = name_in(buffers_names, p.buffers);
  const std::vector<int> backward = backward_degrees(p, r.experiment);
  if (!backward.empty() && p.restore == Restore::Keep)
    refuse("buffers", fmt::format("{} overwrites rows that the backward pass needs, but plan.restore is keep; expected "
                                  "restore s1 to s4, or workload.phases forward_only",
                                  name));
  const int most = std::max(p.forward_degree, backward.empty() ? 1 : *std::ranges::max_element(backward));
  if (p.order == Order::DispatchFirst && most > depth)
    refuse("buffers",
           fmt::format("{} holds {} of {} chunks, but plan.order dispatch_first sends all of them before one "
                       "comes back: that would wait forever; expected order alternate or ready_first",
                       name, depth, most));
  for (int degree : backward)
    for (int j = 0; j < degree; ++j)
      if (const int chunks = chunks_sharing(chunk_rows(capacity, degree, j), capacity, p.forward_degree).size();
          chunks > 1)
        refuse("buffers",
               fmt::format("{} brings back the hidden rows of one forward chunk at a time, but backward chunk "
                           "{} of {} shares rows with {} of the {} forward chunks",
                           name, j, degree, chunks, p.forward_degree));
}

// Windows in the order in which the backward pass of their stage reaches them, the last stage first.
std::array<int, 3> window_order(const GradientSlice& slice, const StageLayout& layout) {
  return {-layout.stage_of(slice.layer), -slice.layer, static_cast<int>(slice.window)};
}

void require_slice(const GradientSlice& s, int first_layer) {
  if (s.elements < 1) refuse("gradient_slices", fmt::format("a slice of {} elements, expected at least 1", s.elements));
  if (s.window == Window::Tail && s.layer != first_layer)
    refuse("gradient_slices", fmt::format("a slice of the tail at layer {}, expected {}", s.layer, first_layer));
}

// The slices of one stage, from `next` on, which is left at the first of another.
void require_slices_of_stage(const Plan& p, const Experiment& e, const StageLayout& layout, int stage,
                             std::size_t& next) {
  const std::vector<std::int64_t> elements = dense_elements(e, layout);
  const std::span<const int> layers = layout.layers_of(stage);
  const auto after = [&](int layer) {  // in the stage
    std::int64_t sum = 0;
    for (int later : layers) sum += later > layer ? elements[static_cast<std::size_t>(later)] : 0;
    return sum;
  };
  const std::int64_t all = after(-1);
  std::int64_t sum = 0;
  for (; next < p.gradient_slices.size() && layout.stage_of(p.gradient_slices[next].layer) == stage; ++next) {
    const GradientSlice& s = p.gradient_slices[next];
    require_slice(s, layers.front());
    if (s.elements > all - sum) refuse("gradient_slices", fmt::format("slices exceed the {} dense gradients", all));
    sum += s.elements;
    // Backward order: when layer s.layer runs, the gradients of the layers after it exist.
    const std::int64_t ready = after(s.layer);
    if (s.window != Window::Tail && sum > ready)
      refuse("gradient_slices",
             fmt::format("the slice beside layer {} ends at element {}, but only {} gradients exist by then", s.layer,
                         sum, ready));
  }
  if (sum != all && e.workload.phases == Phases::Training)
    refuse("gradient_slices", fmt::format("slices add up to {} elements, expected all {} dense gradients", sum, all));
}

void require_slices(const RuledPlan& r) {
  const Plan& p = r.plan;
  const Experiment& e = r.experiment;
  if (static_cast<double>(p.gradient_chunk_bytes) < size_of(e.workload.gradient_dtype()).value())
    refuse("gradient_chunk_bytes", fmt::format("{}, expected at least one element", p.gradient_chunk_bytes));
  if (p.grad_sync != GradSync::Partitioned) {
    if (!p.gradient_slices.empty()) refuse("gradient_slices", "given, but plan.grad_sync is not partitioned");
    return;
  }
  const StageLayout layout = stage_layout(p, e);
  std::array<int, 3> last_window{-e.parallelism.pp, 0, 0};
  for (const GradientSlice& s : p.gradient_slices) {
    if (s.layer < 0 || s.layer >= e.workload.all_layers())
      refuse("gradient_slices", fmt::format("layer {}, expected 0 to {}", s.layer, e.workload.all_layers() - 1));
    const std::array<int, 3> window = window_order(s, layout);
    if (window < last_window) refuse("gradient_slices", "windows are not in backward order");
    last_window = window;
  }
  std::size_t next = 0;
  for (int stage = e.parallelism.pp - 1; stage >= 0; --stage) require_slices_of_stage(p, e, layout, stage, next);
}

void require_micro_batches(const Plan& p, const Experiment& e) {
  constexpr int most = 32767;  // they are 16-bit in ops
  const int batch = e.workload.batch;
  if (p.micro_batches < 1 || p.micro_batches > most)
    refuse("micro_batches", fmt::format("{}, expected 1 to {}", p.micro_batches, most));
  if (batch % p.micro_batches != 0)
    refuse("micro_batches", fmt::format("{} do not divide the batch of {} samples", p.micro_batches, batch));
  const std::int64_t tokens = std::int64_t{batch / p.micro_batches} * e.workload.sequence;
  if (tokens % e.parallelism.token_shares() != 0)
    refuse("micro_batches", fmt::format("{} leave {} tokens each, which do not divide over mp {} ranks",
                                        p.micro_batches, tokens, e.parallelism.mp));
}

void require_zero(const RuledPlan& r) {
  if (r.plan.zero == 0 && r.plan.parameter_gather != ParameterGather::AfterUpdate)
    refuse("parameter_gather", "ahead contradicts plan.zero 0, where nothing is gathered; expected zero 1");
}

void require_scores(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (p.scores_at == ScoresAt::Decode) return;
  if (p.encoding == Encoding::Dense)
    refuse("scores_at",
           "experts contradicts plan.encoding dense, whose decoding is a product with the scores; expected decode");
  if (p.combine_wire != Wire::Same)
    refuse("scores_at", fmt::format("experts is not built yet with plan.combine_wire {}; built: decode",
                                    name_in(wire_names, p.combine_wire)));
  if (!p.shadowed_experts.empty())
    refuse("scores_at", "experts is not built yet with plan.shadowed_experts; built: decode");
  if (r.experiment.parallelism.repeats_tokens() && r.experiment.parallelism.esp > 1)
    refuse("scores_at",
           fmt::format("experts is not built yet without parallelism.sequence_parallel, where {} ranks sum what the "
                       "shards of an expert make of the same tokens; built: decode",
                       r.experiment.parallelism.esp));
}

// A graph is launched again and again as it was captured: no host waits inside, and sizes stay.
void require_graphs(const RuledPlan& r) {
  if (r.plan.graphs != Graphs::All) return;
  const Workload& w = r.experiment.workload;
  if (r.plan.host_sync)
    refuse("graphs",
           "all contradicts plan.host_sync: a host cannot wait inside a captured graph; expected none, "
           "attention or router");
  if (w.capacity_factor <= 0 || sends_routed(r.plan, w))
    refuse(
        "graphs",
        fmt::format("all contradicts workload.{}, with which sizes follow the routing of each step; a captured graph "
                    "has the same sizes in each; expected none, attention or router",
                    w.capacity_factor <= 0 ? fmt::format("capacity_factor {}", w.capacity_factor)
                                           : std::string("message_sizes routed")));
}

// A part that no layer of the model has, or that is never kept, could not be honoured.
void require_recomputed_parts(const RuledPlan& r) {
  const Experiment& e = r.experiment;
  const auto refuse_if = [&](Recompute part, bool condition, const std::string& reason) {
    if (r.plan.recompute.has(part) && condition)
      refuse("recompute", fmt::format("{} {}", name_in(recompute_names, part), reason));
  };
  const std::string extent(name_in(extent_names, e.workload.extent));
  const bool whole = e.workload.whole_layers();
  refuse_if(Recompute::UpProjections, e.model.attention.kind != AttentionKind::Latent,
            fmt::format("needs latent attention, which {} has not", e.model.name));
  refuse_if(Recompute::MpGather, e.parallelism.mp == 1, "needs mp ranks that gather tokens, but parallelism.mp is 1");
  refuse_if(Recompute::MpGather, e.parallelism.repeats_tokens(),
            "needs mp ranks that gather tokens, but without parallelism.sequence_parallel each has all of them");
  refuse_if(Recompute::Norms, !whole,
            fmt::format("contradicts workload.extent {}, which has no norms; expected whole_layers or model", extent));
  refuse_if(Recompute::Activation, !whole,
            fmt::format("contradicts workload.extent {}, where activated rows are never kept; expected whole_layers or "
                        "model",
                        extent));
  refuse_if(Recompute::Activation, e.model.expert_kind != ExpertKind::Gated,
            "needs gated experts: without a gate the activated rows are the hidden rows");
  refuse_if(Recompute::Activation, r.plan.restore != Restore::Keep,
            fmt::format("contradicts plan.restore {}, which never keeps activated rows; expected restore keep",
                        name_in(restore_names, r.plan.restore)));
  refuse_if(Recompute::DenseFfn, e.model.dense_hidden == 0,
            fmt::format("needs dense layers, which {} has not", e.model.name));
  refuse_if(Recompute::SharedExperts, e.model.shared_experts.count == 0,
            fmt::format("needs shared experts, which {} has not", e.model.name));
}

void require_recompute(const RuledPlan& r) {
  const Plan& p = r.plan;
  if (p.recompute.has(Recompute::Full) && p.recompute != EnumSet{Recompute::Full})
    refuse("recompute", "full has every other part in it; expected full alone");
  require_recomputed_parts(r);
  const bool experts = p.recompute.has(Recompute::Full) || p.recompute.has(Recompute::Moe);
  if (experts && p.restore != Restore::Keep)
    refuse("recompute",
           fmt::format("{} contradicts plan.restore {}, which keeps the experts' rows in its own way; "
                       "expected restore keep",
                       p.recompute.has(Recompute::Full) ? "full" : "moe", name_in(restore_names, p.restore)));
}

constexpr std::array rules{
    PlanRule{"micro_batches", "micro_batches",
             "Micro-batches divide the batch, and the tokens of each divide over the mp ranks.",
             [](const RuledPlan& r) { require_micro_batches(r.plan, r.experiment); }},
    PlanRule{
        "stages", "pipeline_schedule program virtual_stages micro_batches",
        "The pipeline_schedule interleaved, and others of its shape, go with virtual_stages of 2 or more, pp of 2 or "
        "more and micro-batches that divide over pp; zb_v, dualpipe_v and dualpipe with virtual_stages 2, and the "
        "latter two with 2 micro-batches or more for each of the pp ranks. A listed schedule has the ranks, stages and "
        "micro-batches of its program, which goes with it alone. Other schedules have one stage on each rank. There "
        "are no more stages than layers, and as many as parallelism.pipeline_layout has.",
        [](const RuledPlan& r) { require_stages(r.plan, r.experiment); }},
    PlanRule{
        "two_pipelines", "pipeline_schedule program micro_batches grad_sync parameter_gather",
        "Two pipelines against each other (dualpipe) have even numbers of ranks and of micro-batches. They go with "
        "grad_sync after and parameter_gather after_update, because gradients are complete once both pipelines "
        "are done.",
        [](const RuledPlan& r) { require_two_pipelines(r.plan, r.experiment); }},
    PlanRule{
        "halves", "pipeline_schedule program delay_weight_gradient grad_sync order restore buffers",
        "Schedules that make gradients of weights later (zb_h1 and others) go with pp of 2 or more; "
        "they and delay_weight_gradient go with restore keep, buffers per_chunk and experts that are known by "
        "their sizes. With delay_weight_gradient fill the order is not ready_first. A listed program that has such "
        "passes goes with grad_sync after, or ends on each stage with those of the last pass and, with several stages "
        "on a rank, has with_dense.",
        [](const RuledPlan& r) { require_halves(r.plan, r.experiment); }},
    PlanRule{"pairs", "scope pair_order host_sync",
             "With scope batch trainings of 2 or more micro-batches run 1f1b, interleaved, dualpipe_v or dualpipe with "
             "ep above 1 and without host_sync; pair_order goes with it alone.",
             [](const RuledPlan& r) { require_pairs(r.plan, r.experiment); }},
    PlanRule{
        "scores", "scores_at",
        "Experts apply scores with sparse encoding and combine_wire same, without shadowed experts and where the ranks "
        "of mp have tokens of their own.",
        require_scores},
    PlanRule{"zero", "zero parameter_gather", "Weights are gathered ahead with zero 1 alone.", require_zero},
    PlanRule{"sharding", "sharding_repeats row_tile",
             "Tokens are repeated with expert_sharding ep_mp alone, to a number of shards that divides esp.",
             [](const RuledPlan& r) { require_sharding(r.plan, r.micro_batch); }},
    PlanRule{
        "shadowing", "shadowed_experts",
        "Shadowed experts are experts of the model in ascending order, not all of them, with ep above 1 and esp 1.",
        [](const RuledPlan& r) { require_shadowed(r.plan, r.micro_batch); }},
    PlanRule{"shared_experts", "shared_experts", "Shared experts run beside exchanges in models that have them.",
             [](const RuledPlan& r) {
               if (r.plan.shared_experts == SharedExperts::Overlapped && r.experiment.model.shared_experts.count == 0)
                 refuse("shared_experts", fmt::format("overlapped needs shared experts, which {} has not; expected "
                                                      "serial",
                                                      r.experiment.model.name));
             }},
    PlanRule{
        "peers", "peer_group forward_degree backward_degree backward_degrees split all_to_all",
        "With split peers the degrees stay 1, the all-to-all is linear, and several groups need a scope above layer.",
        [](const RuledPlan& r) { require_peers(r.plan, r.micro_batch); }},
    PlanRule{"built_together",
             "dispatch_wire combine_wire encoding restore buffers shadowed_experts expert_sharding layout row_tile",
             "With split peers, shadowed experts, repeated tokens or the model's expert_profile, knobs of rows and "
             "weights keep their defaults.",
             [](const RuledPlan& r) { require_built_together(r.plan, r.micro_batch); }},
    PlanRule{
        "extensions", "scores_at expert_sharding shadowed_experts encoding all_to_all split",
        "Sub-modules of a program's own (models/extend) take the place of batched kernels, of sparse encoding or of "
        "a linear all-to-all, where scores are applied at decode.",
        [](const RuledPlan& r) { require_extensions(r.plan, r.micro_batch); }},
    PlanRule{"all_to_all", "all_to_all all_to_all_levels all_to_all_implementation scores_at protocol comm_sms",
             "An all-to-all that is linear or node_deduplicated has neither levels nor steps to fuse; the levels of "
             "others multiply up to the ranks and fit the nodes. With node_deduplicated tokens choose, messages are "
             "routed (workload.message_sizes), experts apply the scores, and protocol keeps its "
             "default; comm_sms goes with it alone.",
             require_all_to_all},
    PlanRule{
        "message_sizes", "pad_messages scope split all_to_all expert_sharding shadowed_experts",
        "Routed messages (workload.message_sizes, without pad_messages) go with all-to-alls of chunks of rows that "
        "are linear or node_deduplicated, and with ranks that have tokens of their own.",
        require_message_sizes},
    PlanRule{"grouped", "expert_kernel layout",
             "A grouped kernel of routed rows needs layout expert_major and no expert_profile of the model.",
             require_grouped},
    PlanRule{"slots", "encoding", "The gate soft_moe needs encoding dense, whose weights must be countable.",
             require_slots},
    PlanRule{"degrees", "forward_degree backward_degree backward_degrees",
             "Degrees are from 1 to the rows that an expert takes of each rank, and stay 1 with the scopes layer and "
             "batch.",
             require_degrees},
    PlanRule{
        "block", "scope split forward_degree backward_degree backward_degrees",
        "With scope block both passes have the same chunks of tokens, the split is capacity, and the gate looks at "
        "each token alone.",
        require_block},
    PlanRule{"rings", "buffers",
             "In training single and double buffers need a restore, an order that sends chunks back in between, and "
             "backward chunks within forward ones.",
             require_rings},
    PlanRule{"recompute", "recompute",
             "Full stands alone. Other parts exist in the step and would be kept otherwise: norms and activation with "
             "whole layers, activation with gated experts, mla_up_proj with latent attention, mp_gather with mp above "
             "1. Full, moe and activation go with restore keep.",
             require_recompute},
    PlanRule{"gradients", "gradient_chunk_bytes gradient_slices",
             "Slices are for grad_sync partitioned alone, in backward order, and add up to all dense gradients that "
             "exist by then.",
             require_slices},
    PlanRule{"graphs", "graphs",
             "A captured step (graphs all) has no host_sync, a capacity_factor above 0 and padded messages, because a "
             "graph has the same sizes in each step.",
             require_graphs},
};

}  // namespace

std::span<const PlanRule> plan_rules() {
  return rules;
}

void for_each_rule(const Plan& p, const Experiment& e,
                   const std::function<void(const PlanRule&, const RuledPlan&)>& use) {
  require_built(p);
  require_micro_batches(p, e);  // before there can be one
  const std::optional<Experiment> part =
      p.micro_batches > 1 ? std::optional(one_micro_batch(e, p.micro_batches)) : std::nullopt;
  const Experiment& micro_batch = part ? *part : e;
  const LayerVolumes volumes = layer_volumes(micro_batch);
  for (const PlanRule& rule : rules) use(rule, {p, e, micro_batch, volumes});
}

void validate(const Plan& p, const Experiment& e) {
  for_each_rule(p, e, [](const PlanRule& rule, const RuledPlan& plan) { rule.require(plan); });
}

}  // namespace dovetail
