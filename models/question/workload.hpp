// SPDX-License-Identifier: Apache-2.0
// The work of one training step on a model: how many tokens, which capacity, which number format.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/question/gate.hpp"
#include "models/question/routing_model.hpp"

namespace dovetail {

enum class Phases { Training, ForwardOnly };
inline constexpr std::array<std::pair<std::string_view, Phases>, 2> phases_names{
    {{"training", Phases::Training}, {"forward_only", Phases::ForwardOnly}}};

// Padded: every message has room for the whole capacity. Routed: messages and experts' rows are as many as are chosen.
enum class MessageSizes { Padded, Routed };
inline constexpr std::array<std::pair<std::string_view, MessageSizes>, 2> message_sizes_names{
    {{"padded", MessageSizes::Padded}, {"routed", MessageSizes::Routed}}};

// Flash: one kernel, which keeps no scores; its backward pass computes them again. Eager: scores go through device
// memory between products, mask and softmax, and their probabilities are kept for the backward pass.
enum class AttentionKernel { Flash, Eager };
inline constexpr std::array<std::pair<std::string_view, AttentionKernel>, 2> attention_kernel_names{
    {{"flash", AttentionKernel::Flash}, {"eager", AttentionKernel::Eager}}};

// The parts of a training step that are modelled. Layers: the products, attention and exchanges of the layers, as
// papers model them. WholeLayers: with their norms, rotary positions and activations too. Model: with the embedding,
// the final norm and the output head with its loss as well.
enum class Extent { Layers, WholeLayers, Model };
inline constexpr std::array<std::pair<std::string_view, Extent>, 3> extent_names{
    {{"layers", Extent::Layers}, {"whole_layers", Extent::WholeLayers}, {"model", Extent::Model}}};

// The largest load of one rank in one expert, over all layers and micro-batches of a step in so many of them.
struct RouterLoad {
  int micro_batches = 1;
  std::int64_t largest = 0;
};

struct Workload {
  int batch = 1;        // samples per model-parallel group
  int sequence = 1024;  // tokens per sample
  int layers = 0;       // layers of the model that are trained (the first ones)
  int top_k = 0;
  // f > 0: an expert takes at most ceil(k f T / E) tokens of each rank. f = 0: as many as drops nothing this step.
  // f < 0: the same, capped at |f|.
  double capacity_factor = 1.2;
  DType dtype = DType::Bf16;
  Phases phases = Phases::Training;
  std::int64_t capacity_rows = 0;  // C where f <= 0: one number for all layers of the step, see resolve_capacity
  Gate gate = {};
  RoutingModel routing = {};
  int step = 0;  // of the routing trace
  MessageSizes message_sizes = MessageSizes::Padded;
  AttentionKernel attention = AttentionKernel::Flash;
  bool causal = true;                         // a position sees itself and those before it; else all
  std::optional<DType> products = {};         // of attention's projections, dense layers and experts; none: dtype
  std::vector<RouterLoad> router_loads = {};  // where a router has really run; else its loads are modelled
  Extent extent = Extent::Layers;
  std::optional<DType> gradients = {};        // of weights, as they add up and are reduced; none: dtype
  std::optional<double> clip_gradients = {};  // the largest norm of all gradients together; none: see clip()
  int mtp_layers = 0;                         // layers of multi-token prediction that are trained, after the others

  int all_layers() const { return layers + mtp_layers; }

  bool whole_layers() const { return extent != Extent::Layers; }
  // A flash kernel leaves out the scores that the mask hides; products of whole matrices compute all of them.
  bool skips_masked() const { return causal && attention == AttentionKernel::Flash; }
  // Gradients whose norm is larger are scaled down to this norm before the update; 0: none are. Whole models are
  // trained with 1, Megatron-LM's default.
  double clip() const { return clip_gradients.value_or(extent == Extent::Model ? 1 : 0); }
  bool clips() const { return phases == Phases::Training && clip() > 0; }
  DType gradient_dtype() const { return gradients.value_or(dtype); }
  bool widens_gradients() const { return size_of(gradient_dtype()) > size_of(dtype); }
  // The format of products, where it is another than that of everything else.
  std::optional<DType> other_products() const { return products == dtype ? std::nullopt : products; }
};

}  // namespace dovetail
