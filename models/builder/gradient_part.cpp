#include "models/builder/gradient_part.hpp"

#include "models/errors.hpp"

namespace dovetail::builder {

namespace {

// Windows in the order in which a stage's backward pass reaches them.
std::pair<int, int> order_of(Window window, int layer) {
  return {-layer, static_cast<int>(window)};
}

}  // namespace

GradientPart::GradientPart(StepContext& c) : c_(c), slices_(gradient_slices(c.plan(), c.experiment())) {
  std::erase_if(slices_, [run = c.layers_of_stage()](const GradientSlice& s) { return !run.contains(s.layer); });
}

void GradientPart::add_slices(Window window, int layer) {
  if (!last_pass()) return;
  for (; next_ < slices_.size() && order_of(slices_[next_].window, slices_[next_].layer) <= order_of(window, layer);
       ++next_)
    reduce_dense(slices_[next_], layer);
  if (window == Window::Dense && c_.plan().grad_sync != GradSync::After) reduce_experts(layer);
}

void GradientPart::reduce_dense(const GradientSlice& slice, int layer) {
  const RowRange elements{reduced_, reduced_ + slice.elements};
  reduced_ = elements.last;
  if (c_.experiment().parallelism.dp == 1) return;
  Op o = c_.op(OpKind::DenseGradientAllReduce, Phase::Backward, layer, c_.streams().inter,
               c_.work(layer).all_reduce(GroupKind::Dp, slice.elements));
  o.rows = elements;
  c_.add(o, {c_.dense_gradients()}, {c_.dense_gradients()});
}

void GradientPart::reduce_experts(int layer) {
  if (c_.experiment().parallelism.edp == 1) return;
  const TensorId gradient = c_.weights(layer).expert_gradient;
  c_.add(c_.op(OpKind::ExpertGradientAllReduce, Phase::Backward, layer, c_.streams().inter,
               c_.work(layer).all_reduce(GroupKind::Edp, c_.volumes(layer).expert_parameters)),
         {gradient}, {gradient});
}

void GradientPart::end_pass() {
  if (!last_pass()) return;
  c_.enter(c_.stage(), 0);  // what follows belongs to no micro-batch
  const LayerRun run = c_.layers_of_stage();
  if (c_.plan().grad_sync == GradSync::After)
    for (int layer = run.last - 1; layer >= run.first; --layer) reduce_experts(layer);
  add_slices(Window::Tail, run.first);
  check(next_ == slices_.size(), "a gradient slice was not placed");
  add_update();
}

void GradientPart::add_update() {
  TensorIds writes;
  for (TensorId LayerWeightIds::*kind : {&LayerWeightIds::dense, &LayerWeightIds::router, &LayerWeightIds::expert})
    for (const LayerWeightIds& layer : c_.weights_of_stage()) writes.push_back(layer.*kind);
  TensorIds reads = writes;
  reads.push_back(c_.dense_gradients());
  for (TensorId LayerWeightIds::*kind : {&LayerWeightIds::router_gradient, &LayerWeightIds::expert_gradient})
    for (const LayerWeightIds& layer : c_.weights_of_stage()) reads.push_back(layer.*kind);
  reads.push_back(c_.optimizer_state());
  writes.push_back(c_.optimizer_state());
  const int layer = c_.layers_of_stage().first;
  c_.add(c_.op(OpKind::Update, Phase::Update, layer, c_.streams().compute, c_.work(layer).update(c_.parameters())),
         reads, writes);
}

}  // namespace dovetail::builder
