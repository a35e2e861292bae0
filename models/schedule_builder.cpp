// One training step: the layers forward, then backward, then what is left of the gradients' reduction, and the update.
// What each part of a layer consists of is in builder/, operands in operands.md.
#include "models/schedule_builder.hpp"

#include "models/builder/attention_part.hpp"
#include "models/builder/gradient_part.hpp"
#include "models/builder/moe_part.hpp"

namespace dovetail {
namespace {

using namespace builder;

struct SavedLayer {
  SavedAttention attention;
  SavedMoe moe;
};

TensorId forward(StepContext& c, int layer, TensorId x, SavedLayer& saved) {
  const TensorId attended = attention_forward(c, layer, x, saved.attention);
  return moe_forward(c, layer, x, attended, saved.moe);
}

// From the parts of the output's gradient to those of the input's.
TensorIds backward(StepContext& c, int layer, const TensorIds& gradient, const SavedLayer& saved,
                   GradientPart& gradients) {
  const TensorId d_moe_input =
      moe_backward(c, layer, gradient, saved.moe, [&] { gradients.add_slices(Window::Moe, layer); });
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
