// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/layer_part.hpp"

#include <functional>
#include <utility>

#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/builder/part_by_part.hpp"
#include "models/schedule/builder/row_counts.hpp"

namespace dovetail::builder {
namespace {

TensorId dense_layer_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedFfn& saved) {
  const std::int64_t tokens = c.volumes(layer).tokens * c.volumes(layer).hidden;
  const TensorId input = c.activation(TensorKind::MoeInput, layer, tokens);
  c.hold_mask(input);
  add_up(c, Phase::Forward, layer, {x, attended}, input);
  saved.before_norm = input;
  const TensorId normed = c.has_norms() ? norm_forward(c, layer, c.parts(layer).front(), input) : input;
  const TensorId ffn_output = dense_ffn_forward(c, layer, normed, saved);
  const TensorId output = c.activation(TensorKind::LayerInput, layer + 1, tokens);
  c.hold_mask(output);
  add_up(c, Phase::Forward, layer, {input, ffn_output}, output);
  return output;
}

// Phases, between which a host_sync waits: all that is before the experts, the experts, decode. If attention is
// chunked, the first takes the chunks' sends with it. `encode` makes the chunks of a part's tokens, and `beside` what
// runs while they are on their way. Returns combined.i.
template <class Encode>
TensorIds moe_forward(StepContext& c, int layer, Encode encode, SavedMoe& saved, const std::function<void()>& beside) {
  const std::vector<TokenPart>& parts = c.parts(layer);
  const bool chunked = parts.front().chunk >= 0;
  PartByPart encoded(parts, [&](const TokenPart& part) {
    TensorIds chunks = encode(part);
    if (!chunked) c.host_sync(Phase::Forward, layer);
    wait_for_counts(c, layer);
    shadows_forward(c, layer, saved.shadows);
    return chunks;
  });
  TensorIds combined = experts_forward(c, layer, std::ref(encoded), saved.experts, [&] {
    if (chunked) c.host_sync(Phase::Forward, layer);
    beside();
  });
  c.host_sync(Phase::Forward, layer);
  return combined;
}

TensorId moe_layer_forward(StepContext& c, int layer, TensorId x, SavedLayer& saved) {
  const auto encode = [&](const TokenPart& part) {
    const TensorId attended = attention_forward(c, layer, part, saved.attention);
    return encode_forward(c, layer, part, x, attended, saved.moe);
  };
  const bool shares = c.volumes(layer).ffn_hidden > 0,
             overlapped = c.plan().shared_experts == SharedExperts::Overlapped;
  TensorId through_shared;
  const auto shared = [&] {
    through_shared =
        dense_ffn_forward(c, layer, (c.has_norms() ? saved.moe.normed : saved.moe.input).front(), saved.ffn);
  };
  const TensorIds combined = moe_forward(c, layer, encode, saved.moe, [&] {
    if (shares && overlapped) shared();
  });
  const TensorId output =
      c.activation(TensorKind::LayerInput, layer + 1, c.volumes(layer).tokens * c.volumes(layer).hidden);
  c.hold_mask(output);
  for (const TokenPart& part : c.parts(layer)) {
    receive_rows(c, layer, part, of_part(part, combined), saved.moe);
    decode_forward(c, layer, part, output, saved.moe);
  }
  if (!shares) return output;
  if (!overlapped) shared();
  add_up(c, Phase::Forward, layer, {output, through_shared}, output);
  return output;
}

}  // namespace

TensorId layer_forward(StepContext& c, int layer, TensorId x, SavedLayer& saved) {
  attention_start(c, layer, x, saved.attention);
  if (c.volumes(layer).moe) return saved.output = moe_layer_forward(c, layer, x, saved);
  const TensorId attended = attention_forward(c, layer, c.parts(layer).front(), saved.attention);
  return saved.output = dense_layer_forward(c, layer, x, attended, saved.ffn);
}

void recompute_layer(StepContext& c, int layer, OpId begin, SavedLayer& saved) {
  if (!c.recomputes(Recompute::Full)) return;
  const Recomputation again(c, begin);
  const TensorId input = saved.attention.before_norm;
  saved = {};
  layer_forward(c, layer, input, saved);
}

void recompute_dense_part(StepContext& c, int layer, OpId begin, SavedLayer& saved) {
  const bool moe = c.volumes(layer).moe;
  const TokenPart& all = c.parts(layer).front();
  if (moe) {
    recompute_normed(c, layer, all, begin, saved.moe);
    if (c.has_norms()) saved.ffn.own_input = saved.moe.normed.front();
  } else if (c.has_norms() && c.recomputes(Recompute::Norms)) {
    const Recomputation again(c, begin);
    saved.ffn.own_input = norm_forward(c, layer, all, saved.ffn.before_norm);
  }
  const bool whole =
      moe ? c.recomputes(Recompute::SharedExperts) || c.recomputes(Recompute::Moe) : c.recomputes(Recompute::DenseFfn);
  recompute_ffn(c, layer, whole, begin, saved.ffn);
}

void recompute_experts(StepContext& c, int layer, OpId begin, SavedMoe& saved) {
  if (!c.recomputes(Recompute::Moe)) return;
  for (const TokenPart& part : c.parts(layer)) recompute_normed(c, layer, part, begin, saved);
  const Recomputation again(c, begin);
  SavedMoe made;
  made.input = saved.input;
  made.normed = saved.normed;
  const auto encode = [&](const TokenPart& part) { return encode_again(c, layer, part, made); };
  const TensorIds combined = moe_forward(c, layer, encode, made, [] {});
  for (const TokenPart& part : c.parts(layer)) receive_rows(c, layer, part, of_part(part, combined), made);
  saved = std::move(made);
}

}  // namespace dovetail::builder
