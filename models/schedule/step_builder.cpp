// SPDX-License-Identifier: Apache-2.0
// One training step: each micro-batch forward and backward through the layers of each pipeline stage; after a stage's
// last backward pass what is left of its gradients' reduction, and its update. Updates of clipped gradients wait for
// all stages.
// The ops of each part of a layer are in builder/, operands in operands.md.
#include "models/schedule/step_builder.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "models/base/names.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/program.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/schedule/builder/ends_part.hpp"
#include "models/schedule/builder/framework_buffers.hpp"
#include "models/schedule/builder/gather_part.hpp"
#include "models/schedule/builder/gradient_part.hpp"
#include "models/schedule/builder/layer_part.hpp"
#include "models/schedule/builder/mtp_part.hpp"
#include "models/schedule/builder/norm_part.hpp"
#include "models/schedule/builder/part_by_part.hpp"
#include "models/schedule/builder/shared_gradients.hpp"
#include "models/schedule/builder/stage_part.hpp"
#include "models/schedule/builder/unit_replay.hpp"

namespace dovetail {
namespace {

using namespace builder;

// By part: tensors that add up to the gradient of a layer's output (backward: input).
using Gradient = std::vector<TensorIds>;

// Gradients that fill gaps are first delayed as all are.
bool delays_attention(const Plan& plan) {
  return plan.delay_weight_gradient == DelayedWeights::All || plan.delay_weight_gradient == DelayedWeights::Fill;
}

// From the gradient of the attention's sum, which `d_sum_of` makes part by part.
Gradient attention_layer_backward(StepContext& c, int layer, SavedLayer& saved, GradientPart& gradients,
                                  const std::function<TensorId(const TokenPart&)>& d_sum_of) {
  Gradient result;
  AttentionGradients d_attention;
  // Chunks need the projections' input after their last one only, unless these run again.
  const bool input_last = c.parts(layer).front().chunk >= 0 && !c.recomputes(Recompute::UpProjections);
  for (const TokenPart& part : c.parts(layer)) {
    const TensorId d_sum = d_sum_of(part);
    const TensorId gathered = attention_backward_gather(c, layer, part, d_sum);
    if (result.empty()) gradients.add_slices(Window::Dense, layer);
    if (delays_attention(c.plan())) c.begin_delay();
    const OpId begin = c.last_writer(d_sum);
    if (!input_last && result.empty()) recompute_attention_input(c, layer, begin, saved.attention);
    recompute_up_projections(c, layer, begin, saved.attention);
    recompute_core_attention(c, layer, part, begin, saved.attention);
    attention_backward(c, layer, part, gathered, saved.attention, d_attention);
    result.push_back({d_sum});
  }
  if (input_last) recompute_attention_input(c, layer, c.last_writer(d_attention.query_key_value), saved.attention);
  const TensorId sum = attention_backward_finish(c, layer, saved.attention, d_attention);
  c.end_delay();
  if (c.has_norms()) {
    TensorIds past;
    for (const TensorIds& of_part : result) past.push_back(of_part.front());
    return Gradient(result.size(), {norm_backward(c, layer, saved.attention.before_norm, sum, past)});
  }
  for (TensorIds& of_part : result) of_part.push_back(sum);
  return result;
}

// Adds up the gradient of a layer that has a dense feed-forward part, which is not in parts.
TensorId gradient_sum(StepContext& c, int layer, const Gradient& gradient) {
  const TensorIds& parts = gradient.front();
  if (parts.size() == 1) return parts.front();
  const LayerVolumes& v = c.volumes(layer);
  const TensorId sum = c.activation(TensorKind::LayerInput, layer + 1, v.tokens * v.hidden, /*gradient=*/true);
  add_up(c, Phase::Backward, layer, parts, sum);
  return sum;
}

// The op that the backward pass of a layer waits for: the last to write the gradient or, where that was there from the
// start, the layer's output.
OpId begin_of(const StepContext& c, const Gradient& gradient, TensorId output) {
  OpId last;
  for (const TensorIds& part : gradient)
    for (const TensorId t : part) last = std::max(last, c.last_writer(t));
  return last.exists() ? last : c.last_writer(output);
}

Gradient dense_layer_backward(StepContext& c, int layer, const Gradient& gradient, SavedLayer& saved,
                              GradientPart& gradients) {
  const LayerVolumes& v = c.volumes(layer);
  c.add_delayed();
  const OpId begin = begin_of(c, gradient, saved.output);
  const TensorId sum = gradient_sum(c, layer, gradient);
  recompute_dense_part(c, layer, begin, saved);
  const TensorId through_ffn =
      dense_ffn_backward(c, layer, sum, saved.ffn, [&] { gradients.add_slices(Window::Moe, layer); });
  if (c.has_norms()) {
    const TensorId d_input = norm_backward(c, layer, c.parts(layer).front(), saved.ffn.before_norm, through_ffn, sum);
    return attention_layer_backward(c, layer, saved, gradients, [&](const TokenPart&) { return d_input; });
  }
  const TensorId d_input = c.activation(TensorKind::MoeInput, layer, v.tokens * v.hidden, /*gradient=*/true);
  add_up(c, Phase::Backward, layer, {sum, through_ffn}, d_input);
  return attention_layer_backward(c, layer, saved, gradients, [&](const TokenPart&) { return d_input; });
}

// `shared`: the shared experts, whose gradient it returns; empty without.
Gradient moe_layer_backward(StepContext& c, int layer, const Gradient& gradient, SavedLayer& saved,
                            const std::function<TensorId()>& shared, GradientPart& gradients) {
  const std::vector<TokenPart>& parts = c.parts(layer);
  const bool overlapped = c.plan().shared_experts == SharedExperts::Overlapped;
  TensorId through_shared;
  if (shared && !overlapped) through_shared = shared();
  recompute_experts(c, layer, begin_of(c, gradient, saved.output), saved.moe);
  const bool chunked = parts.front().chunk >= 0;
  std::vector<DecodeGradients> decoded;
  TensorIds d_shadows, shadow_gradients;
  PartByPart d_combined(parts, [&](const TokenPart& part) {
    decoded.push_back(decode_backward(c, layer, part, gradient[decoded.size()], saved.moe));
    if (!chunked) c.host_sync(Phase::Backward, layer);
    d_shadows = shadows_backward(c, layer, decoded.back().shadows, saved.moe.shadows, shadow_gradients);
    return decoded.back().combined;
  });
  const BroughtRows d_encoded = experts_backward(c, layer, std::ref(d_combined), saved.moe.experts, [&] {
    if (chunked) c.host_sync(Phase::Backward, layer);
    c.add_delayed();
    gradients.add_slices(Window::Moe, layer);
    if (shared && overlapped) through_shared = shared();
    if (c.plan().delay_weight_gradient != DelayedWeights::None) c.begin_delay();
  });
  c.end_delay();
  c.add_delayed();
  return_shadow_gradients(c, layer, shadow_gradients);
  c.host_sync(Phase::Backward, layer);
  std::size_t done = 0;
  return attention_layer_backward(c, layer, saved, gradients, [&](const TokenPart& part) {
    const DecodeGradients& d = decoded[done];
    const BroughtRows of_chunks{of_part(part, d_encoded.rows), of_part(part, d_encoded.d_scores)};
    recompute_normed(c, layer, part, c.last_writer(of_chunks.rows.front()), saved.moe);
    const TensorId d_input = encode_backward(c, layer, part, d, of_chunks, d_shadows, saved.moe);
    if (through_shared >= 0) add_up(c, Phase::Backward, layer, {d_input, through_shared}, d_input);
    const TensorId input = saved.moe.input[done++];
    return c.has_norms() ? norm_backward(c, layer, part, input, d_input, d.output) : d_input;
  });
}

Gradient backward(StepContext& c, int layer, const Gradient& gradient, SavedLayer saved, GradientPart& gradients) {
  const LayerVolumes& v = c.volumes(layer);
  recompute_layer(c, layer, begin_of(c, gradient, saved.output), saved);
  if (!v.moe) return dense_layer_backward(c, layer, gradient, saved, gradients);
  if (v.ffn_hidden == 0) return moe_layer_backward(c, layer, gradient, saved, {}, gradients);
  const OpId begin = begin_of(c, gradient, saved.output);
  const TensorId sum = gradient_sum(c, layer, gradient);
  const auto shared = [&] {
    recompute_dense_part(c, layer, begin, saved);
    return dense_ffn_backward(c, layer, sum, saved.ffn, [] {});
  };
  return moe_layer_backward(c, layer, {{sum}}, saved, shared, gradients);
}

// The parts' own tensors, then what they have in common.
TensorIds all_parts(const StepContext& c, const Gradient& gradient) {
  if (c.has_norms()) return gradient.front();  // a norm's gradient covers all parts
  TensorIds all;
  for (const TensorIds& part : gradient) all.push_back(part.front());
  all.insert(all.end(), gradient.front().begin() + 1, gradient.front().end());
  return all;
}

class Step {
 public:
  // example_of: see UnitReplay.
  Step(StepContext& c, std::vector<int> example_of)
      : c_(c),
        replay_(c.writer(), std::move(example_of)),
        tokens_(c.volumes(0).tokens * c.volumes(0).hidden),
        saved_(static_cast<std::size_t>(c.plan().micro_batches)),
        ends_(static_cast<std::size_t>(c.plan().micro_batches)),
        predictions_(static_cast<std::size_t>(c.plan().micro_batches),
                     std::vector<SavedPrediction>(static_cast<std::size_t>(c.layers() - c.main_layers()))),
        arriving_(static_cast<std::size_t>(c.plan().micro_batches)),
        handed_on_(static_cast<std::size_t>(c.plan().micro_batches)) {
    for (int stage = 0; stage < c.stages(); ++stage) {
      c.enter(stage, 0);
      add_framework_buffers(c);
      if (!c.training()) continue;
      gradients_.emplace_back(c);
      if (c.plan().parameter_gather == ParameterGather::Ahead) gathers_.emplace_back(c);
    }
  }

  void add(const Slot& slot) {
    record(slot.unit);
    if (slot.beside) record(*slot.beside);
    if (!slot.beside) return replay_.play(slot.unit);
    const bool paired = c_.plan().turns() == Turns::Paired, first = slot.unit.kind == UnitKind::Forward;
    if (paired) return replay_.play(first ? slot.unit : *slot.beside, first ? *slot.beside : slot.unit);
    replay_.play(slot.unit);
    replay_.play(*slot.beside);
  }

  // After all units.
  void finish() {
    if (c_.training())
      for (const int stage : exchange_shared_gradients(c_)) {
        c_.enter(stage, 0);
        gradients_[static_cast<std::size_t>(stage)].settle();
      }
    if (c_.clips()) clip();
    replay_.keep_loose();
  }

  ScheduleWriter replayed() {
    if (replay_.is_as_recorded()) return std::move(c_.writer());
    return replay_.step(c_.expected_ops(), {c_.layout(), c_.plan().pair_order});
  }

 private:
  // Does the unit once for all that are alike.
  void record(const Unit& unit) {
    replay_.keep_loose();
    c_.enter(c_.layout().stage_of_virtual(unit.stage), unit.micro_batch);
    const bool inputs = unit.kind == UnitKind::Backward || unit.kind == UnitKind::InputGradient,
               weights = unit.kind == UnitKind::Backward || unit.kind == UnitKind::WeightGradient;
    if (inputs) gradients().begin_pass(lap_of(unit.stage));
    if (replay_.is_recorded(unit)) {
      build(unit);
      replay_.keep(unit);
    }
    if (weights) gradients().end_pass();
  }

  void clip() {
    TensorIds norms;
    for (int stage = 0; stage < c_.stages(); ++stage) {
      c_.enter(stage, 0);
      norms.push_back(c_.gradient_squares());
    }
    for (int stage = 0; stage < c_.stages(); ++stage) {
      c_.enter(stage, 0);
      gradients_[static_cast<std::size_t>(stage)].finish(norms);
    }
  }

  void build(const Unit& unit) {
    switch (unit.kind) {
      case UnitKind::Forward:
        return add_forward(unit.stage);
      case UnitKind::Backward:
        return add_backward(unit.stage);
      case UnitKind::InputGradient:
        c_.begin_halves(unit.stage);
        add_backward(unit.stage);
        return c_.end_halves();
      case UnitKind::WeightGradient:
        return c_.add_weights(unit.stage);
    }
  }

  GradientPart& gradients() { return gradients_[static_cast<std::size_t>(c_.stage())]; }

  void add_forward(int here) {
    const LayerRun run = c_.layout().run(here);
    GatherPart* const gathers = gathers_.empty() ? nullptr : &gathers_[static_cast<std::size_t>(c_.stage())];
    if (gathers != nullptr) gathers->gather(c_.layers_of_stage().front(), Phase::Forward);
    TensorId x = c_.layout().is_first(here) ? input() : received(Phase::Forward, here - 1, run.first);
    const auto through = [&](int layer, TensorId input) {
      if (gathers != nullptr) gathers->gather_ahead(layer);
      return layer_forward(c_, layer, input, saved(layer));
    };
    for (int layer = run.first; layer < std::min(run.last, c_.main_layers()); ++layer) x = through(layer, x);
    if (!c_.layout().is_last(here))
      send_on(here + 1, Phase::Forward, run.last, {x});
    else if (c_.has_head())
      head_forward(c_, x, ends());
    for (int layer = c_.main_layers(); layer < run.last; ++layer) {
      SavedPrediction& p = prediction(layer);
      x = through(layer, mtp_input_forward(c_, layer, output_before(layer), ends().tokens_last, p));
      predict_forward(c_, layer, x, ends().tokens_last, p.head);
    }
  }

  void add_backward(int here) {
    const LayerRun run = c_.layout().run(here);
    const bool first = c_.layout().is_first(here), last = c_.layout().is_last(here);
    Gradient gradient;
    if (!last && is_here(here + 1))
      gradient = std::move(handed_on());
    else
      gradient = {{last ? output_gradient(run) : received(Phase::Backward, here + 1, run.last)}};
    if (gradient.size() == 1 && !run.empty()) {  // all parts of the last layer have it
      const TensorIds of_all = gradient.front();
      gradient.assign(c_.parts(run.last - 1).size(), of_all);
    }
    for (int layer = std::min(run.last, c_.main_layers()) - 1; layer >= run.first; --layer)
      gradient = backward(c_, layer, gradient, std::move(saved(layer)), gradients());
    if (!first && is_here(here - 1))
      handed_on() = std::move(gradient);
    else if (!first)
      send_on(here - 1, Phase::Backward, run.first, all_parts(c_, gradient));
    else if (c_.has_embedding())
      embedding_backward(c_, gradient.front().front(), ends());
    c_.add_delayed();
  }

  // Returns the gradient of the model's output, which layers of multi-token prediction read too. All that adds to the
  // output head's gradient comes before these layers, beside which it may be reduced. (Megatron-LM's order: it makes
  // all logits after these layers.)
  TensorId predictions_backward(LayerRun run) {
    const TensorId d_normed = logits_backward(c_, c_.layers(), ends().head);
    TensorIds further;  // by layer
    for (int layer = c_.main_layers(); layer < run.last; ++layer)
      further.push_back(logits_backward(c_, layer, prediction(layer).head));
    TensorId d_before;
    for (int layer = run.last - 1; layer >= c_.main_layers(); --layer) {
      const SavedPrediction& p = prediction(layer);
      const TensorId d_output = output_backward(c_, layer, p.head, further.back(), d_before);
      further.pop_back();
      const Gradient gradient =
          backward(c_, layer, Gradient(c_.parts(layer).size(), {d_output}), std::move(saved(layer)), gradients());
      d_before = mtp_input_backward(c_, layer, gradient.front().front(), ends().tokens_last, p);
    }
    return output_backward(c_, c_.layers(), ends().head, d_normed, d_before);
  }
  TensorId output_before(int layer) {
    return layer == c_.main_layers() ? ends().head.own_input : prediction(layer - 1).head.own_input;
  }

  int lap_of(int virtual_stage) const { return virtual_stage / c_.stages(); }  // its place among those of its stage
  bool is_here(int virtual_stage) const { return c_.layout().stage_of_virtual(virtual_stage) == c_.stage(); }
  // Rows stay as they are where the next virtual stage is on this one.
  void send_on(int virtual_stage, Phase phase, int layer, const TensorIds& parts) {
    arriving() = is_here(virtual_stage)
                     ? parts.front()
                     : send_to_stage(c_, c_.layout().stage_of_virtual(virtual_stage), phase, layer, parts);
  }

  // A step without an embedding begins with its output, one without a head with the gradient of its input.
  TensorId input() {
    return c_.has_embedding() ? embedding_forward(c_, ends()) : c_.persistent(TensorKind::LayerInput, 0, tokens_);
  }
  TensorId output_gradient(LayerRun run) {
    return c_.has_head() ? predictions_backward(run)
                         : c_.persistent(TensorKind::LayerInput, c_.layers(), tokens_, true);
  }

  TensorId received(Phase phase, int from, int layer) {
    if (!is_here(from)) receive_from_stage(c_, phase, layer, arriving());
    return arriving();
  }
  SavedLayer& saved(int layer) {
    std::vector<SavedLayer>& layers = saved_[static_cast<std::size_t>(c_.micro_batch())];
    layers.resize(static_cast<std::size_t>(c_.layers()));
    return layers[static_cast<std::size_t>(layer)];
  }
  SavedPrediction& prediction(int layer) {
    return predictions_[static_cast<std::size_t>(c_.micro_batch())][static_cast<std::size_t>(layer - c_.main_layers())];
  }
  SavedEnds& ends() { return ends_[static_cast<std::size_t>(c_.micro_batch())]; }
  TensorId& arriving() { return arriving_[static_cast<std::size_t>(c_.micro_batch())]; }
  Gradient& handed_on() { return handed_on_[static_cast<std::size_t>(c_.micro_batch())]; }

  StepContext& c_;
  UnitReplay replay_;
  std::int64_t tokens_;
  std::vector<std::vector<SavedLayer>> saved_;             // by micro-batch and layer; empty for those that are copied
  std::vector<SavedEnds> ends_;                            // by micro-batch
  std::vector<std::vector<SavedPrediction>> predictions_;  // by micro-batch and layer of multi-token prediction
  std::vector<TensorId> arriving_;                         // by micro-batch: on its way to the next stage
  std::vector<Gradient> handed_on_;                        // by micro-batch: to a virtual stage of the same stage
  std::vector<GradientPart> gradients_;                    // by stage
  std::vector<GatherPart> gathers_;                        // by stage; empty: not before the forward pass
};

}  // namespace

Schedule build_step(const Experiment& experiment, const Plan& plan, Units units, Backward backward) {
  validate(experiment);
  validate(plan, experiment);
  StepContext c(experiment, plan);
  Program program = program_of(plan, c.stages());
  if (!c.training()) program = forward_only(std::move(program));
  if (backward == Backward::Halves) program = in_halves(std::move(program));
  const std::vector<Slot> order = in_order(program);
  std::vector<int> example_of(static_cast<std::size_t>(plan.micro_batches));
  std::iota(example_of.begin(), example_of.end(), 0);
  if (units == Units::Copied) example_of = examples(units_of(order), plan.micro_batches);
  Step step(c, std::move(example_of));
  for (const Slot& slot : order) step.add(slot);
  step.finish();
  return c.finish(step.replayed());
}

}  // namespace dovetail
