#include "models/schedule/builder/layer_part.hpp"

#include <functional>

#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/builder/part_by_part.hpp"

namespace dovetail::builder {
namespace {

TensorId dense_layer_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedFfn& saved) {
  const std::int64_t tokens = c.volumes(layer).tokens * c.volumes(layer).hidden;
  const TensorId input = c.activation(TensorKind::MoeInput, layer, tokens);
  add_up(c, Phase::Forward, layer, {x, attended}, input);
  saved.before_norm = input;
  const TensorId normed = c.has_norms() ? norm_forward(c, layer, c.parts(layer).front(), input) : input;
  const TensorId ffn_output = dense_ffn_forward(c, layer, normed, saved);
  const TensorId output = c.activation(TensorKind::LayerInput, layer + 1, tokens);
  add_up(c, Phase::Forward, layer, {input, ffn_output}, output);
  return output;
}

// Phases, between which a host_sync waits: all that is before the experts, the experts, decode. If attention is
// chunked, the first takes the chunks' sends with it. `encode` makes the chunks of a part's tokens. Returns combined.i.
template <class Encode>
TensorIds moe_forward(StepContext& c, int layer, Encode encode, SavedMoe& saved) {
  const std::vector<TokenPart>& parts = c.parts(layer);
  const bool chunked = parts.front().chunk >= 0;
  PartByPart encoded(parts, [&](const TokenPart& part) {
    TensorIds chunks = encode(part);
    if (!chunked) c.host_sync(Phase::Forward, layer);
    shadows_forward(c, layer, saved.shadows);
    return chunks;
  });
  TensorIds combined = experts_forward(c, layer, std::ref(encoded), saved.experts, [&] {
    if (chunked) c.host_sync(Phase::Forward, layer);
  });
  c.host_sync(Phase::Forward, layer);
  return combined;
}

TensorId moe_layer_forward(StepContext& c, int layer, TensorId x, SavedLayer& saved) {
  const auto encode = [&](const TokenPart& part) {
    const TensorId attended = attention_forward(c, layer, part, saved.attention);
    return encode_forward(c, layer, part, x, attended, saved.moe);
  };
  const TensorIds combined = moe_forward(c, layer, encode, saved.moe);
  const TensorId output =
      c.activation(TensorKind::LayerInput, layer + 1, c.volumes(layer).tokens * c.volumes(layer).hidden);
  for (const TokenPart& part : c.parts(layer)) {
    receive_rows(c, layer, part, of_part(part, combined), saved.moe);
    decode_forward(c, layer, part, output, saved.moe);
  }
  if (c.volumes(layer).ffn_hidden > 0)  // shared experts
    add_up(
        c, Phase::Forward, layer,
        {output, dense_ffn_forward(c, layer, (c.has_norms() ? saved.moe.normed : saved.moe.input).front(), saved.ffn)},
        output);
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

}  // namespace dovetail::builder
