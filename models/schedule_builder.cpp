// One training step: the layers forward, then backward, then what is left of the gradients' reduction, and the update.
// What each part of a layer consists of is in builder/, operands in operands.md.
#include "models/schedule_builder.hpp"

#include "models/builder/attention_part.hpp"
#include "models/builder/dense_ffn_part.hpp"
#include "models/builder/gradient_part.hpp"
#include "models/builder/moe_part.hpp"

namespace dovetail {
namespace {

using namespace builder;

struct SavedLayer {
  SavedAttention attention;
  SavedMoe moe;
  SavedFfn ffn;
};

TensorId dense_layer_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedFfn& saved) {
  const std::int64_t tokens = c.volumes(layer).tokens * c.volumes(layer).hidden;
  const TensorId input = c.activation(TensorKind::MoeInput, layer, tokens);
  add_up(c, Phase::Forward, layer, {x, attended}, input);
  const TensorId ffn_output = dense_ffn_forward(c, layer, input, saved);
  const TensorId output = c.activation(TensorKind::LayerInput, layer + 1, tokens);
  add_up(c, Phase::Forward, layer, {input, ffn_output}, output);
  return output;
}

TensorId forward(StepContext& c, int layer, TensorId x, SavedLayer& saved) {
  const LayerVolumes& v = c.volumes(layer);
  const TensorId attended = attention_forward(c, layer, x, saved.attention);
  if (!v.moe) return dense_layer_forward(c, layer, x, attended, saved.ffn);
  const TensorId output = moe_forward(c, layer, x, attended, saved.moe);
  if (v.ffn_hidden > 0)  // shared experts
    add_up(c, Phase::Forward, layer, {output, dense_ffn_forward(c, layer, saved.moe.input, saved.ffn)}, output);
  return output;
}

// From the parts of the output's gradient to that of the attention's sum.
TensorId feed_forward_backward(StepContext& c, int layer, const TensorIds& gradient, const SavedLayer& saved,
                               GradientPart& gradients) {
  const LayerVolumes& v = c.volumes(layer);
  const auto add_slices = [&] { gradients.add_slices(Window::Moe, layer); };
  if (v.ffn_hidden == 0) return moe_backward(c, layer, gradient, saved.moe, add_slices);
  TensorId sum = gradient.front();
  if (gradient.size() > 1) {
    sum = c.activation(TensorKind::LayerInput, layer + 1, v.tokens * v.hidden, /*gradient=*/true);
    add_up(c, Phase::Backward, layer, gradient, sum);
  }
  if (v.moe) {
    const TensorId through_shared = dense_ffn_backward(c, layer, sum, saved.ffn, [] {});
    const TensorId d_input = moe_backward(c, layer, {sum}, saved.moe, add_slices);
    add_up(c, Phase::Backward, layer, {d_input, through_shared}, d_input);
    return d_input;
  }
  const TensorId through_ffn = dense_ffn_backward(c, layer, sum, saved.ffn, add_slices);
  const TensorId d_input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, true);
  add_up(c, Phase::Backward, layer, {sum, through_ffn}, d_input);
  return d_input;
}

// From the parts of the output's gradient to those of the input's.
TensorIds backward(StepContext& c, int layer, const TensorIds& gradient, const SavedLayer& saved,
                   GradientPart& gradients) {
  const TensorId d_moe_input = feed_forward_backward(c, layer, gradient, saved, gradients);
  const TensorId gathered = attention_backward_gather(c, layer, d_moe_input);
  gradients.add_slices(Window::Dense, layer);
  return {d_moe_input, attention_backward(c, layer, gathered, saved.attention)};
}

Schedule build(const Experiment& experiment, const Plan& plan) {
  StepContext c(experiment, plan);
  const int layers = c.layers();
  const std::int64_t tokens = c.volumes(0).tokens * c.volumes(0).hidden;
  TensorId x = c.persistent(TensorKind::LayerInput, 0, tokens);
  std::vector<SavedLayer> saved(static_cast<std::size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) x = forward(c, layer, x, saved[static_cast<std::size_t>(layer)]);
  if (c.training()) {
    GradientPart gradients(c);
    TensorIds gradient{c.persistent(TensorKind::LayerInput, layers, tokens, /*gradient=*/true)};
    for (int layer = layers - 1; layer >= 0; --layer)
      gradient = backward(c, layer, gradient, saved[static_cast<std::size_t>(layer)], gradients);
    gradients.finish_step();
  }
  return c.finish();
}

}  // namespace

Schedule build_schedule(const Experiment& experiment, const Plan& plan) {
  validate(experiment);
  validate(plan, experiment);
  return build(experiment, plan);
}

}  // namespace dovetail
