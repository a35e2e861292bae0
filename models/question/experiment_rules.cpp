// SPDX-License-Identifier: Apache-2.0
#include "models/question/experiment_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/question/extension_sizes.hpp"
#include "models/question/pipeline_layout.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

// The message is only put together where it is thrown: building a schedule asks for all of these.
template <class... Args>
void require(bool condition, std::string_view pointer, fmt::format_string<const Args&...> message,
             const Args&... args) {
  if (!condition) throw InputError(Location{"", 0, 0, std::string(pointer)}, fmt::format(message, args...));
}

// Every count of elements stays exact in a double and clear of int64's ends.
void require_countable(const Experiment& e) {
  const auto countable = [](std::string_view pointer, std::string_view what, double count) {
    require(count <= 0x1p53, pointer, "{} {:.3g}, expected at most 2^53", what, count);
  };
  const Workload& w = e.workload;
  const Model& m = e.model;
  const double hidden = std::max(m.hidden, m.row_width()), experts = m.experts,
               tokens = static_cast<double>(w.batch) * w.sequence;
  // A factor above 0 sizes the rows; any other leaves an expert at most all tokens.
  const double rows = w.capacity_factor > 0
                          ? w.top_k * w.capacity_factor * tokens + experts
                          : experts * std::max(tokens, static_cast<double>(w.capacity_rows)) + experts;
  const auto width_of = [](const Attention& a) {
    return static_cast<double>(a.heads) * std::max(a.head_size, a.value_head_size());
  };
  const double width = std::max(width_of(m.attention), width_of(m.attention.in_windows()));
  const double shared = static_cast<double>(m.shared_experts.count) * m.shared_experts.hidden;
  const double ffn = std::max<double>(m.dense_hidden, shared);
  const double ranks = static_cast<double>(m.attention.q_rank) + m.attention.kv_rank;  // of latent attention
  const Recurrence& r = m.recurrence;
  const double state = static_cast<double>(r.heads) * r.value_size + static_cast<double>(r.key_heads) * r.key_size;
  const double weights = hidden * (m.expert_gemms() * (experts * m.expert_hidden + ffn) + 4 * width + 4 * state) +
                         ranks * (hidden + 2 * width) + state * (r.rank + r.key_size);
  countable("/workload/capacity_factor", "elements of the dispatched rows:", rows * hidden * e.parallelism.esp);
  countable("/workload/capacity_factor", "elements of the experts' hidden rows:", rows * m.expert_hidden);
  countable("/workload/top_k", "slots of tokens in experts:", w.top_k * tokens * experts);
  countable("/workload/sequence", "elements of the dense part:", tokens * (hidden + 3 * width + 2 * ffn + 8 * state));
  if (w.extent == Extent::Model) countable("/model/vocabulary", "logits:", tokens * (m.vocabulary + e.parallelism.mp));
  if (w.attention == AttentionKernel::Eager)
    countable("/workload/sequence", "scores of attention:", tokens * w.sequence * m.attention.heads);
  countable("/model", "parameters:", w.layers * weights);
}

void require_gate(const Experiment& e) {
  const Workload& w = e.workload;
  const Gate& g = w.gate;
  const std::string_view name = name_in(gate_kind_names, g.kind);
  require(g.projection == 0 || g.cosine(), "/workload/gate/projection", "{}, but the gate {} projects nothing",
          g.projection, name);
  require(g.projection >= 0, "/workload/gate/projection", "{}, expected at least 1", g.projection);
  if (g.token_choice()) return;
  require(!g.renormalise, "/workload/gate/renormalise", "true, but tokens of {} choose no experts", name);
  require(!g.batch_prioritised, "/workload/gate/batch_prioritised", "true, but {} gives slots itself", name);
  require(w.capacity_factor > 0, "/workload/capacity_factor",
          "{}: {} fills any capacity and drops nothing; expected a factor above 0", w.capacity_factor, name);
  require(w.routing.kind == RoutingKind::Router || w.routing.kind == RoutingKind::Uniform, "/workload/routing/kind",
          "{} contradicts the gate {}, which fills every expert alike", name_in(routing_kind_names, w.routing.kind),
          name);
}

void require_routing(const Experiment& e) {
  const RoutingModel& r = e.workload.routing;
  require(std::isfinite(r.exponent) && r.exponent >= 0, "/workload/routing/exponent", "{}, expected a number from 0 on",
          r.exponent);
  if (r.kind == RoutingKind::Hot) {
    require(r.hot_expert >= 0 && r.hot_expert < e.model.experts, "/workload/routing/expert", "{}, expected 0 to {}",
            r.hot_expert, e.model.experts - 1);
    require(r.hot_share >= 0 && r.hot_share <= 1, "/workload/routing/share", "{}, expected a number from 0 to 1",
            r.hot_share);
  }
  if (r.kind != RoutingKind::Trace) return;
  require(!r.layers.empty(), "/workload/routing", "a trace of no layers");
  for (const LoadTable& table : r.layers) {
    require(!table.empty(), "/workload/routing", "a trace of no ranks");
    for (const std::vector<double>& row : table)
      require(row.size() == static_cast<std::size_t>(e.model.experts), "/workload/routing",
              "the trace has {} experts, expected the {} of {}", row.size(), e.model.experts, e.model.name);
  }
}

void require_prediction(const Experiment& e) {
  constexpr auto at = "/workload/mtp_layers";
  const int layers = e.workload.mtp_layers;
  require(layers >= 0 && layers <= e.model.mtp_layers, at, "{}, expected 0 to {} (those of {})", layers,
          e.model.mtp_layers, e.model.name);
  if (layers == 0) return;
  require(e.workload.extent == Extent::Model, at,
          "{} layers need the embedding and the output head (workload.extent model)", layers);
  require(e.model.moe_every == 1 && !e.model.dense(), at, "{} is not built yet where some layers are dense ({})",
          layers, e.model.name);
  require(!e.parallelism.repeats_tokens(), at, "{} layers over {} ranks of mp are built with sequence_parallel alone",
          layers, e.parallelism.mp);
  require(e.model.hidden % e.parallelism.mp == 0, at,
          "{} layers have projections whose {} columns do not divide over mp {}", layers, e.model.hidden,
          e.parallelism.mp);
}

// Each stage needs a layer of its own in one of its laps, because it has gradients to reduce and weights to update.
void require_layout(const Experiment& e) {
  constexpr auto at = "/parallelism/pipeline_layout";
  if (e.parallelism.pipeline_layout.empty()) return;
  const std::vector<LayoutStage> stages = parse_pipeline_layout(e.parallelism.pipeline_layout);
  const int pp = e.parallelism.pp, count = static_cast<int>(stages.size());
  require(count % pp == 0, at, "{} stages do not divide over pp {}", count, pp);
  std::vector<int> layers(static_cast<std::size_t>(pp));
  int all = 0, predictions = 0;
  for (int i = 0; i < count; ++i) {
    const LayoutStage& stage = stages[static_cast<std::size_t>(i)];
    layers[static_cast<std::size_t>(i % pp)] += stage.layers;
    all += stage.layers;
    predictions += stage.predictions;
  }
  require(all == e.workload.layers, at, "{} layers (t), but workload.layers is {}", all, e.workload.layers);
  require(predictions == e.workload.mtp_layers, at,
          "{} layers of multi-token prediction (m), but workload.mtp_layers is {}", predictions, e.workload.mtp_layers);
  require(predictions == stages.back().predictions, at,
          "multi-token prediction (m) on another stage than the output head (L), which is not built yet");
  for (int stage = 0; stage < pp; ++stage)
    require(layers[static_cast<std::size_t>(stage)] > 0, at,
            "pipeline stage {} has no layer (t), which is not built yet", stage);
}

void require_capacity(const Experiment& e) {
  const Workload& w = e.workload;
  const LayerVolumes v = layer_volumes(e);
  const bool fits = v.capacity >= 1 && v.capacity <= w.top_k * v.tokens * e.model.experts;
  require(fits || w.capacity_factor <= 0, "/workload/capacity_factor",
          "{} gives each expert {} rows of the {} tokens of a rank", w.capacity_factor, v.capacity, v.tokens);
  require(fits, "/workload/capacity_factor", "{} leaves the capacity open; nothing has resolved it, got {} rows",
          w.capacity_factor, v.capacity);
  require(w.gate.kind != GateKind::ExpertChoice || v.capacity <= v.tokens, "/workload/capacity_factor",
          "{} lets each expert choose {} of only {} tokens", w.capacity_factor, v.capacity, v.tokens);
}

}  // namespace

void require_message_sizes(const Experiment& e) {
  if (e.workload.message_sizes == MessageSizes::Padded) return;
  constexpr auto at = "/workload/message_sizes";
  require(e.parallelism.pp == 1 || !e.cluster.network, at,
          "routed is not built yet with pipeline stages on a described network, which {} has", e.cluster.name);
  require(e.workload.gate.token_choice(), at, "routed contradicts the gate {}, which fills every expert alike",
          name_in(gate_kind_names, e.workload.gate.kind));
}

void validate(const Experiment& e) {
  const Workload& w = e.workload;
  validate(e.parallelism, e.cluster, e.model);
  require(w.batch >= 1, "/workload/batch", "{}, expected at least 1", w.batch);
  require(w.sequence >= 1, "/workload/sequence", "{}, expected at least 1", w.sequence);
  require(w.layers >= 1 && w.layers <= e.model.layers, "/workload/layers", "{}, expected 1 to {} (the layers of {})",
          w.layers, e.model.layers, e.model.name);
  require(w.layers > e.model.first_moe() || e.model.dense(), "/workload/layers",
          "{}, but the first MoE layer of {} is its number {}", w.layers, e.model.name, e.model.first_moe() + 1);
  require(e.parallelism.pp <= w.layers, "/parallelism", "pp {}: more pipeline stages than the {} layers",
          e.parallelism.pp, w.layers);
  require_prediction(e);
  require_layout(e);
  const int fewest = e.model.dense() ? 0 : 1;
  require(w.top_k >= fewest && w.top_k <= e.model.experts, "/workload/top_k",
          "{}, expected {} to {} (the experts of {})", w.top_k, fewest, e.model.experts, e.model.name);
  require(std::isfinite(w.capacity_factor), "/workload/capacity_factor", "{}, expected a finite number",
          w.capacity_factor);
  require(
      w.dtype != DType::Fp8, "/workload/dtype",
      "fp8 is a format of products (workload.products) and of messages (plan.dispatch_wire, plan.combine_wire), not "
      "of tensors");
  if (const auto products = w.other_products())
    require(*products == DType::Fp8, "/workload/products", "{}, expected fp8 or the {} of everything else",
            name_in(dtype_names, *products), name_in(dtype_names, w.dtype));
  require(
      w.gradient_dtype() == w.dtype || (w.gradient_dtype() == DType::Fp32 && size_of(w.dtype) < size_of(DType::Fp32)),
      "/workload/gradients", "{}, expected fp32 or the {} of everything else", name_in(dtype_names, w.gradient_dtype()),
      name_in(dtype_names, w.dtype));
  if (w.phases == Phases::Training)
    for (const auto& [pointer, profile] : {std::pair{"/model/expert_profile", &e.model.expert_profile},
                                           std::pair{"/model/gate_profile", &e.model.gate_profile}})
      require(!profile->given() || !profile->backward.empty(), pointer,
              "no backward times, which training needs (or set workload.phases to forward_only)");
  require(std::isfinite(w.clip()) && w.clip() >= 0, "/workload/clip_gradients", "{}, expected a number from 0 on",
          w.clip());
  require(w.clip() == 0 || w.whole_layers(), "/workload/clip_gradients",
          "{}, but gradients of routers are not summed with workload.extent {}, so that there is no norm of all",
          w.clip(), name_in(extent_names, w.extent));
  require(w.extent != Extent::Model || e.model.vocabulary > 0, "/workload/extent",
          "model needs the vocabulary of {}, which its file does not give", e.model.name);
  const std::int64_t tokens = std::int64_t{w.batch} * w.sequence;
  require(tokens <= (std::int64_t{1} << 40), "/workload/sequence", "batch {} x sequence {} is more than 2^40 tokens",
          w.batch, w.sequence);
  require_countable(e);
  require(tokens % e.parallelism.token_shares() == 0, "/workload/sequence",
          "batch {} x sequence {} = {} tokens do not divide over mp {} ranks", w.batch, w.sequence, tokens,
          e.parallelism.mp);
  require_gate(e);
  require_extensions(e);
  require_routing(e);
  require_message_sizes(e);
  if (!e.model.dense()) require_capacity(e);
}

}  // namespace dovetail
