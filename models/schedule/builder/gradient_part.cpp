// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/gradient_part.hpp"

#include <algorithm>
#include <array>

#include "models/base/errors.hpp"
#include "models/schedule/builder/gather_part.hpp"
#include "models/schedule/builder/shared_gradients.hpp"

namespace dovetail::builder {
namespace {

// FSMoE's slices are of dense gradients; what is planned beside them leaves the experts' to the end, as `after` does.
bool experts_in_windows(const Plan& plan) {
  return plan.grad_sync == GradSync::WithDense || plan.grad_sync == GradSync::FixedChunks;
}

}  // namespace

GradientPart::GradientPart(StepContext& c)
    : c_(c), slices_(c.gradient_slices()), passes_(static_cast<std::size_t>(c.plan().virtual_stages)) {}

// With zero 1 over the ranks that share the optimizer's work: these are the replicas of data-parallel groups.
ExchangeWork GradientPart::reduction(int layer, GroupKind group, std::int64_t elements) const {
  const bool scatter = c_.plan().zero > 0 && group != GroupKind::Mp;
  return c_.work(layer).reduce_gradients(scatter ? Collective::ReduceScatter : Collective::AllReduce, group, elements);
}

void GradientPart::begin_pass(int lap) {
  lap_ = static_cast<std::size_t>(lap);
  ++passes_[lap_];
}

void GradientPart::add_slices(Window window, int layer) {
  if (!last_pass()) return;
  reduce_dense(window, layer);
  // The experts' gradients of the layer that has just been worked on.
  if (window == Window::Dense && experts_in_windows(c_.plan())) reduce_experts(layer);
}

void GradientPart::reduce_dense(Window window, int layer) {
  for (; next_ < slices_.size(); ++next_) {
    const GradientSlice& slice = slices_[next_];
    if (slice.window != window || slice.layer != layer) return;
    const RowRange elements{reduced_, reduced_ + slice.elements};
    reduced_ = elements.last;
    if (c_.groups().dp == 1) continue;
    Op o = c_.op(OpKind::DenseGradientAllReduce, Phase::Backward, layer, c_.streams().gradients,
                 reduction(layer, GroupKind::Dp, slice.elements));
    o.gradients = elements;
    c_.add(o, {c_.dense_gradients()}, {c_.dense_gradients()});
  }
}

void GradientPart::reduce_experts(int layer) {
  if (c_.groups().edp == 1 || !c_.volumes(layer).moe) return;
  const TensorId gradient = c_.weights(layer).expert_gradient;
  c_.add(c_.op(OpKind::ExpertGradientAllReduce, Phase::Backward, layer, c_.streams().expert_gradients,
               reduction(layer, GroupKind::Edp, c_.volumes(layer).expert_parameters)),
         {gradient}, {gradient});
}

// Projections to low ranks work on the tokens of a rank too, but are reduced with the dense gradients over dp.
void GradientPart::reduce_low_ranks() {
  if (!c_.mp_gathers()) return;
  for (const int layer : c_.layers_of_stage()) {
    const std::int64_t elements = c_.volumes(layer).low_rank_parameters();
    if (elements == 0) continue;
    Op o = c_.op(OpKind::ReplicatedGradientAllReduce, Phase::Backward, layer, c_.streams().gradients,
                 reduction(layer, GroupKind::Mp, elements));
    o.gradients.first = c_.dense_gradients_of(layer).first;
    o.gradients.last = o.gradients.first + elements;
    c_.add(o, {c_.dense_gradients()}, {c_.dense_gradients()});
  }
}

// Norms and routers work on the tokens of a rank, so that ranks of both groups have parts of the sum. Model-parallel
// ranks that repeat tokens have parts only where they norm their own heads, as those of latent attention do not.
void GradientPart::reduce_replicated() {
  if (!c_.has_norms()) return;
  const RowRange all{0, c_.elements_of(c_.replicated_gradients())};
  if (c_.mp_gathers()) reduce_replicated(GroupKind::Mp, all);
  if (c_.groups().repeats_tokens() && c_.experiment().model.attention.kind != AttentionKind::Latent)
    for (int layer : c_.layers_of_stage()) reduce_replicated(GroupKind::Mp, c_.query_key_norm_gradients_of(layer));
  if (c_.groups().dp > 1) reduce_replicated(GroupKind::Dp, all);
}

void GradientPart::reduce_replicated(GroupKind group, RowRange elements) {
  if (elements.size() == 0) return;
  const TensorId gradients = c_.replicated_gradients();
  const int layer = c_.layers_of_stage().front();
  Op o = c_.op(OpKind::ReplicatedGradientAllReduce, Phase::Backward, layer, c_.streams().gradients,
               reduction(layer, group, elements.size()));
  if (elements.size() < c_.elements_of(gradients)) o.gradients = elements;
  c_.add(o, {gradients}, {gradients});
}

void GradientPart::end_pass() {
  if (++ended_ < passes_of_lap() * std::ssize(passes_)) return;
  c_.enter(c_.stage(), 0);  // what follows belongs to no micro-batch
  const std::span<const int> layers = c_.layers_of_stage();
  if (!experts_in_windows(c_.plan())) std::for_each(layers.rbegin(), layers.rend(), [&](int l) { reduce_experts(l); });
  add_slices(Window::Tail, layers.front());
  reduce_low_ranks();
  reduce_replicated();
  check(next_ == slices_.size(), "a gradient slice was not placed");
  if (!shares_gradients(c_)) settle();
}

void GradientPart::settle() {
  c_.clips() ? add_norm() : update();
}

// Every rank counts what it updates.
void GradientPart::add_norm() {
  const int layer = c_.layers_of_stage().front();
  c_.add(c_.op(OpKind::GradientNorm, Phase::Update, layer, c_.streams().compute,
               c_.work(layer).gradient_norm(c_.updated_parameters())),
         c_.all_gradients(), std::array{c_.gradient_squares()});
}

void GradientPart::finish(std::span<const TensorId> norms) {
  const int layer = c_.layers_of_stage().front();
  if (c_.squares_of_all() != c_.gradient_squares())
    c_.add(c_.op(OpKind::GradientNormAllReduce, Phase::Update, layer, c_.streams().gradients,
                 c_.work(layer).reduce_gradient_norm()),
           norms, std::array{c_.squares_of_all()});
  if (c_.experiment().framework.waits_for_norm) c_.wait_for(Phase::Update, layer, c_.squares_of_all());
  update();
}

void GradientPart::update() {
  add_update();
  if (c_.plan().zero > 0 && c_.plan().parameter_gather == ParameterGather::AfterUpdate) GatherPart(c_).gather_all();
}

void GradientPart::add_update() {
  const auto add_existing = [this](TensorIds& to, TensorId LayerWeightIds::*kind) {
    for (int layer : c_.layers_of_stage())
      if (const TensorId id = c_.weights(layer).*kind; id >= 0) to.push_back(id);
  };
  TensorIds writes;
  for (TensorId LayerWeightIds::*kind : {&LayerWeightIds::dense, &LayerWeightIds::router, &LayerWeightIds::expert})
    add_existing(writes, kind);
  for (TensorId id : {c_.holds_embedding() ? c_.embedding_weights() : TensorId(),
                      c_.has_head() && !c_.ends().share_weights() ? c_.end_weights().head : TensorId()})
    if (id.exists()) writes.push_back(id);
  add_existing(writes, &LayerWeightIds::norm);
  if (c_.has_head()) writes.push_back(c_.end_weights().norm);
  TensorIds reads = writes;
  reads.push_back(c_.dense_gradients());
  for (TensorId LayerWeightIds::*kind : {&LayerWeightIds::router_gradient, &LayerWeightIds::expert_gradient})
    add_existing(reads, kind);
  if (c_.has_norms()) reads.push_back(c_.replicated_gradients());
  if (c_.clips()) reads.push_back(c_.squares_of_all());
  reads.push_back(c_.optimizer_state());
  writes.push_back(c_.optimizer_state());
  const int layer = c_.layers_of_stage().front();
  c_.add(c_.op(OpKind::Update, Phase::Update, layer, c_.streams().compute,
               c_.work(layer).update(c_.updated_parameters(), c_.held_parameters())),
         reads, writes);
}

}  // namespace dovetail::builder
