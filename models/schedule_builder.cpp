// One training step: each micro-batch forward and backward through the layers of each pipeline stage; after a stage's
// last backward pass what is left of its gradients' reduction, and its update.
// What each part of a layer consists of is in builder/, operands in operands.md.
#include "models/schedule_builder.hpp"

#include "models/builder/attention_part.hpp"
#include "models/builder/gradient_part.hpp"
#include "models/builder/moe_part.hpp"
#include "models/builder/pipeline_order.hpp"
#include "models/builder/stage_part.hpp"

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

class Step {
 public:
  explicit Step(StepContext& c)
      : c_(c),
        tokens_(c.volumes(0).tokens * c.volumes(0).hidden),
        saved_(static_cast<std::size_t>(c.layers() * c.plan().micro_batches)),
        arriving_(static_cast<std::size_t>(c.plan().micro_batches)) {
    for (int stage = 0; stage < c.stages() && c.training(); ++stage) {
      c.enter(stage, 0);
      gradients_.emplace_back(c);
    }
  }

  void add(const StageUnit& unit) {
    c_.enter(unit.stage, unit.micro_batch);
    unit.phase == Phase::Forward ? add_forward() : add_backward();
  }

 private:
  void add_forward() {
    const LayerRun run = c_.layers_of_stage();
    TensorId x =
        c_.stage() == 0 ? c_.persistent(TensorKind::LayerInput, 0, tokens_) : received(Phase::Forward, run.first);
    for (int layer = run.first; layer < run.last; ++layer) x = forward(c_, layer, x, saved(layer));
    if (c_.stage() + 1 < c_.stages()) arriving() = send_to_stage(c_, c_.stage() + 1, Phase::Forward, run.last, {x});
  }

  void add_backward() {
    const LayerRun run = c_.layers_of_stage();
    GradientPart& gradients = gradients_[static_cast<std::size_t>(c_.stage())];
    gradients.begin_pass();
    TensorIds gradient{c_.stage() + 1 == c_.stages() ? c_.persistent(TensorKind::LayerInput, run.last, tokens_, true)
                                                     : received(Phase::Backward, run.last)};
    for (int layer = run.last - 1; layer >= run.first; --layer)
      gradient = backward(c_, layer, gradient, saved(layer), gradients);
    if (c_.stage() > 0) arriving() = send_to_stage(c_, c_.stage() - 1, Phase::Backward, run.first, gradient);
    gradients.end_pass();
  }

  TensorId received(Phase phase, int layer) {
    receive_from_stage(c_, phase, layer, arriving());
    return arriving();
  }
  SavedLayer& saved(int layer) { return saved_[static_cast<std::size_t>(c_.micro_batch() * c_.layers() + layer)]; }
  TensorId& arriving() { return arriving_[static_cast<std::size_t>(c_.micro_batch())]; }

  StepContext& c_;
  std::int64_t tokens_;
  std::vector<SavedLayer> saved_;        // by micro-batch and layer
  std::vector<TensorId> arriving_;       // by micro-batch: on its way to the next stage
  std::vector<GradientPart> gradients_;  // by stage
};

}  // namespace

Schedule build_schedule(const Experiment& experiment, const Plan& plan) {
  validate(experiment);
  validate(plan, experiment);
  StepContext c(experiment, plan);
  Step step(c);
  for (const StageUnit& unit : pipeline_order(plan.pipeline_schedule, c.stages(), plan.micro_batches, c.training()))
    step.add(unit);
  return c.finish();
}

}  // namespace dovetail
