// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "models/question/fields.hpp"

namespace dovetail {
namespace {

using enum FieldGiver;

constexpr int most_seed = std::numeric_limits<int>::max();

std::vector<Field> sizes() {
  return {
      field::whole<&Workload::batch>("batch", 1, 1'000'000, "Samples per model-parallel group.")
          .in("samples")
          .from({Trace, Cluster},
                "enough to give every GPU 4,096 tokens, and 4 samples for each pipeline stage; a note says so"),
      field::described("global_batch", WholeField{1, 1'000'000'000},
                       "Samples of all model-parallel groups together, in place of `batch`: it is divided by dp.")
          .in("samples")
          .only_in(FieldPlace::Inputs)
          .else_taken("batch times dp"),
      field::described("micro_batch", WholeField{1, 1'000'000},
                       "Samples of a model-parallel group that go through the layers together, in place of "
                       "`plan.micro_batches`: `batch` / `micro_batch` of them.")
          .in("samples")
          .only_in(FieldPlace::Inputs)
          .else_taken("as the plan's micro_batches give it"),
      field::whole<&Workload::sequence>("sequence", 1, 100'000'000, "Tokens per sample.")
          .in("tokens")
          .from({Trace, Cluster, Model}, "4096"),
      field::whole<&Workload::layers>("layers", 1, 32'767, "Layers of the model that are trained, the first ones.")
          .from({Cluster}, "all"),
      field::whole<&Workload::top_k>("top_k", 0, most_experts, "Experts that each token goes to.")
          .from({Trace}, "the model's")
          .for_experts(),
      field::number<&Workload::capacity_factor>(
          "capacity_factor", {},
          "f > 0: an expert takes at most ceil(top_k f tokens / experts) tokens of each rank. f = 0: as many as are "
          "needed to drop nothing in this step (one number for all layers). f < 0: the same, but at most what |f| "
          "allows.")
          .in("ratio")
          .from({Trace, Cluster}, "0 for a `dropless` model and 1.2 for others")
          .for_experts(),
  };
}

std::vector<Field> formats() {
  return {
      field::choice<&Workload::dtype>(
          "dtype", dtype_names, "Number format of tensors and messages. `fp8` is none of them, but one of `products`.")
          .from({Cluster}),
      field::choice<&Workload::products>(
          "products", dtype_names,
          "Number format of matrix products: that of `dtype` (such as `bf16`), or `fp8` where the costs know it. It is "
          "that of attention's projections, dense layers and experts (shared ones too). Scores of attention, gates and "
          "dense encoding are computed in `dtype`, and tensors and messages stay in it. Casts are kernels of their own "
          "(`models/README.md`). `fp8` is simulated, not executed.")
          .else_taken("that of `dtype`")
          .shown_as<Workload>([](const Workload& w) -> FieldValue {
            return std::string(name_in(dtype_names, w.products.value_or(w.dtype)));
          }),
      field::choice<&Workload::attention>(
          "attention", attention_kernel_names,
          "`flash`: one kernel, which keeps no scores. `eager`: products of whole squares, and kernels for scale, mask "
          "and softmax that read and write all scores in device memory; probabilities are kept for the backward pass. "
          "Real runs execute `flash` in its place, and say so.")
          .from({Cluster}),
      field::flag<&Workload::causal>(
          "causal",
          "Whether a position sees only itself and those before it, which halves the work of `flash` and adds a pass "
          "over the scores to `eager`. `false` is simulated, not executed.")
          .from({Cluster}),
      field::choice<&Workload::phases>("phases", phases_names, "Forward, backward and update; or forward alone."),
  };
}

std::vector<Field> routes() {
  return {
      field::whole<&Workload::capacity_rows>(
          "capacity_rows", 0, std::int64_t{1} << 53,
          "Tokens of one rank that an expert takes at most, where the factor leaves it open.")
          .only_in(FieldPlace::Results)
          .for_experts(),
      field::part<&Workload::gate>("gate", "How tokens choose experts.").for_experts(),
      field::part<&Workload::routing>("routing", "How many tokens choose each expert.").for_experts(),
      field::whole<&Workload::step>("step", 0, 1'000'000'000, "Step of the trace, from 0."),
      field::parts<&Workload::router_loads>("router_loads", "The largest loads, where a router has really run.")
          .only_in(FieldPlace::Results)
          .written_where<Workload>([](const Workload& w) { return !w.router_loads.empty(); }),
  };
}

std::vector<Field> the_step() {
  return {
      field::choice<&Workload::gradients>(
          "gradients", dtype_names,
          "Number format in which the gradients of weights are kept, add up over micro-batches and are reduced: that "
          "of `dtype` (such as `bf16`), or `fp32` (Megatron-LM's main gradients). Real runs keep them in `dtype`, and "
          "say so.")
          .else_taken("`fp32` with `extent` `model` and a `dtype` of 16 bits, else `dtype`")
          .written_where<Workload>([](const Workload& w) { return w.gradient_dtype() != w.dtype; }),
      field::number<&Workload::clip_gradients>(
          "clip_gradients", {.least = 0},
          "Gradients whose norm over all weights is larger than this are scaled down to it before the update "
          "(Megatron-LM's `clip-grad`). All ranks of all pipeline stages wait for that norm. 0: none. It needs "
          "`extent` "
          "`whole_layers` or `model`.")
          .else_taken("1 with `model`, else 0")
          .written_where<Workload>([](const Workload& w) { return w.clip_gradients.has_value(); }),
      field::whole<&Workload::mtp_layers>(
          "mtp_layers", 0, 32'767,
          "Layers of multi-token prediction that are trained, after the others: each has the next words' embeddings, a "
          "projection of these and of the output before, a layer with experts, and the output head and a loss once "
          "more. On several pipeline stages the last one has the embedding too, and exchanges its gradient with the "
          "first. Executed, each of their losses has the weight 1 beside the model's own, and after the last word of a "
          "sample comes its first.")
          .else_taken("the model's with `extent` `model` and all its layers, else 0")
          .written_where<Workload>([](const Workload& w) { return w.extent == Extent::Model; }),
      field::choice<&Workload::extent>(
          "extent", extent_names,
          "Parts of a step. `layers`: products, attention and exchanges of the layers, as papers model them. "
          "`whole_layers`: their two norms, rotary positions and activations too, with gradients of norms and routers "
          "reduced. `model`: also embedding, final norm, output head and the fused cross-entropy over the ranks' "
          "shares of the vocabulary.")
          .from({Cluster}, "`model`, or `whole_layers` for a model without a `vocabulary`")
          .written_where<Workload>([](const Workload& w) { return w.extent != Extent::Layers; }),
      field::choice<&Workload::message_sizes>(
          "message_sizes", message_sizes_names,
          "`padded`: exchanges have room for the whole capacity. `routed`: exchanges of rows are as large as `routing` "
          "says or, in real runs, as the gates choose. Ranks first exchange the counts of their rows, and their hosts "
          "wait for them. Experts compute their own rows with `plan.expert_kernel` `grouped`, else as many as have "
          "room. Where the cluster has a `network`, each class of ranks has its own sizes; else every rank takes the "
          "time of the largest ones. Memory counts the rows that the rank with most of them holds; real runs have room "
          "for the whole capacity. With `capacity_factor` 0 this is the dropless MoE of Megatron-LM. "
          "`plan.pad_messages` sends padded ones all the same, and drops nothing by it: so do systems that know no "
          "others.")
          .else_taken("`routed` for a `dropless` model with `capacity_factor` 0, else `padded`")
          .for_experts()
          .written_where<Workload>([](const Workload& w) { return w.message_sizes != MessageSizes::Padded; }),
  };
}

}  // namespace

template <>
const FieldTable& fields_of<Workload>() {
  static const FieldTable table = [] {
    std::vector<Field> fields = sizes();
    for (std::vector<Field> more : {formats(), routes(), the_step()})
      std::ranges::move(more, std::back_inserter(fields));
    return FieldTable::of<Workload>("Workload", "The work of one training step on a model.", std::move(fields));
  }();
  return table;
}

template <>
const FieldTable& fields_of<Gate>() {
  static const FieldTable table = FieldTable::of<Gate>(
      "Gate", "How tokens choose experts. Formulas: `models/schedule/operands.md`.",
      {
          field::choice<&Gate::kind>(
              "kind", gate_kind_names,
              "`softmax` (top-k), `gshard` (noisy top-k), `sigmoid`, `x_moe` and `cosine` (cosines "
              "with expert embeddings), `expert_choice` (experts take tokens) or `soft_moe` (slots mix "
              "tokens; needs `plan.encoding` dense)."),
          field::whole<&Gate::projection>(
              "projection", 0, most_experts,
              "Size of the projection of `x_moe` and `cosine`. 0: 16 or 256 as published, at most "
              "`hidden`.")
              .in("elements"),
          field::whole<&Gate::noise_seed>("noise_seed", 0, most_seed, "Seed of gshard's noise."),
          field::flag<&Gate::renormalise>("renormalise",
                                          "Whether a token's scores are divided by their sum (Mixtral)."),
          field::flag<&Gate::batch_prioritised>(
              "batch_prioritised",
              "Whether capacity goes to the tokens with the best scores instead of the first tokens."),
      });
  return table;
}

namespace {

template <RoutingKind Kind>
bool is(const RoutingModel& r) {
  return r.kind == Kind;
}

}  // namespace

template <>
const FieldTable& fields_of<RoutingModel>() {
  static const FieldTable table = FieldTable::of<RoutingModel>(
      "Routing", "How many tokens choose each expert.",
      {
          field::choice<&RoutingModel::kind>(
              "kind", routing_kind_names,
              "`router` (what the gate does; simulated as uniform), `uniform`, `zipf`, `hot` "
              "or `trace`. It decides the "
              "capacity for f <= 0, drops and imbalance, and a real run routes by it.")
              .must(),
          field::number<&RoutingModel::exponent>("exponent", {.least = 0},
                                                 "`zipf`: expert e is chosen in proportion to 1 / (e + 1)^exponent.")
              .written_where(is<RoutingKind::Zipf>),
          field::whole<&RoutingModel::hot_expert>("expert", 0, most_experts, "`hot`: the number of the hot expert.")
              .written_where(is<RoutingKind::Hot>),
          field::number<&RoutingModel::hot_share>("share", {.least = 0, .most = 1},
                                                  "`hot`: the share of all choices that are the hot expert's.")
              .in("share")
              .written_where(is<RoutingKind::Hot>),
          field::text<&RoutingModel::trace>("trace", {},
                                            "`trace`: a name in `traces/`, or the path of a .json or .csv file.")
              .else_taken("`layers`")
              .written_where<RoutingModel>(
                  [](const RoutingModel& r) { return r.kind == RoutingKind::Trace && !r.trace.empty(); }),
          field::described("layers", OtherField{"trace.schema.json#/definitions/tables", "array"},
                           "`trace`: the tables of one step themselves, in place of a file's.")
              .else_taken("those of `trace`"),
          field::whole<&RoutingModel::seed>("seed", 0, most_seed, "Decides which tokens make up a load in a real run.")
              .written_where<RoutingModel>([](const RoutingModel& r) { return r.kind != RoutingKind::Router; }),
      });
  return table;
}

template <>
const FieldTable& fields_of<RouterLoad>() {
  static const FieldTable table = FieldTable::of<RouterLoad>(
      "Load", "The largest load of one rank in one expert, in a step of so many micro-batches.",
      {
          field::whole<&RouterLoad::micro_batches>("micro_batches", 1, 32'767, "Micro-batches of that step.").must(),
          field::whole<&RouterLoad::largest>("largest", 0, std::int64_t{1} << 53,
                                             "Tokens of one rank that choose one expert.")
              .must(),
      });
  return table;
}

}  // namespace dovetail
