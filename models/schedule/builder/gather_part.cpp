// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/gather_part.hpp"

#include "models/schedule/shards.hpp"

namespace dovetail::builder {

GatherPart::GatherPart(StepContext& c)
    : c_(c), left_(c.gradient_slices().size()), elements_(c.elements_of(c.dense_gradients())) {}

void GatherPart::gather(int layer, Phase phase) {
  const std::span<const int> layers = c_.layers_of_stage();
  for (; next_ < std::ssize(layers) && layers[static_cast<std::size_t>(next_)] <= layer; ++next_) {
    const int own = layers[static_cast<std::size_t>(next_)];
    if (next_ == 0) gather_replicated(own, phase);
    while (left_ > 0 && covers(own)) gather_slice(own, phase);
    gather_experts(own, phase);
  }
}

void GatherPart::gather_ahead(int layer) {
  for (int own : c_.layers_of_stage()) {
    gather(own, Phase::Forward);
    if (own > layer && own < c_.main_layers()) return;
  }
}

void GatherPart::gather_all() {
  const GatherPart begin = *this;
  gather(c_.layers_of_stage().back(), Phase::Update);
  if (!c_.experiment().framework.gathers_twice || c_.experiment().model.dense()) return;
  GatherPart again(begin);
  again.gather(c_.layers_of_stage().back(), Phase::Update);
}

// In the order of gradients the output head comes before the last layer, and the embedding after the first.
bool GatherPart::covers(int layer) const {
  return elements_ > (layer == c_.layers_of_stage().back() ? 0 : c_.dense_gradients_of(layer).first);
}

void GatherPart::gather_slice(int layer, Phase phase) {
  const std::int64_t size = c_.gradient_slices()[--left_].elements;
  const RowRange slice{elements_ - size, elements_};
  elements_ = slice.first;
  TensorIds weights;
  std::int64_t begin = 0;  // of the first of these
  const auto add_part = [&](TensorId id, RowRange place) {
    if (!place.overlaps(slice)) return;
    if (weights.empty()) begin = place.first;
    weights.push_back(id);
  };
  if (c_.has_head()) add_part(c_.end_weights().head, c_.head_gradients());
  const std::span<const int> layers = c_.layers_of_stage();
  for (std::size_t i = layers.size(); i-- > 0;) add_part(c_.weights(layers[i]).dense, c_.dense_gradients_of(layers[i]));
  if (c_.holds_embedding()) add_part(c_.embedding_weights(), c_.embedding_gradients());
  add(GroupKind::Dp, layer, phase, weights, {slice.first - begin, slice.last - begin});
}

void GatherPart::gather_experts(int layer, Phase phase) {
  const LayerVolumes& v = c_.volumes(layer);
  if (v.moe) add(GroupKind::Edp, layer, phase, {c_.weights(layer).expert}, {0, v.expert_parameters});
}

void GatherPart::gather_replicated(int layer, Phase phase) {
  if (!c_.has_norms()) return;
  TensorIds weights;
  for (int own : c_.layers_of_stage()) {
    weights.push_back(c_.weights(own).norm);
    if (c_.volumes(own).moe) weights.push_back(c_.weights(own).router);
  }
  if (c_.has_head()) weights.push_back(c_.end_weights().norm);
  add(GroupKind::Dp, layer, phase, weights, {0, c_.elements_of(c_.replicated_gradients())});
}

void GatherPart::add(GroupKind group, int layer, Phase phase, const TensorIds& weights, RowRange range) {
  const int ranks = group_size(c_.groups(), group);
  if (ranks == 1 || Shards(range, ranks).size() == 0) return;
  const StreamIds& streams = c_.streams();
  Op op = c_.op(OpKind::ParameterAllGather, phase, layer,
                group == GroupKind::Edp ? streams.expert_gradients : streams.gradients,
                c_.work(layer).gather_weights(group, range.size()));
  op.gradients = range;
  c_.add(op, weights, weights);
}

}  // namespace dovetail::builder
