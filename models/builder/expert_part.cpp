#include "models/builder/expert_part.hpp"

#include "models/builder/chunk_order.hpp"
#include "models/builder/chunks.hpp"
#include "models/builder/exchange.hpp"
#include "models/builder/expert_weights.hpp"

namespace dovetail::builder {
namespace {

// The chunks of one pass over one layer. The backward pass is the forward one on gradients: it sends with the mirrored
// combine and brings back with the mirrored dispatch.
class ExpertPass {
 public:
  ExpertPass(StepContext& c, Phase phase, int layer, TensorIds inputs)
      : c_(c),
        v_(c.volumes(layer)),
        work_(c.work(layer)),
        phase_(phase),
        layer_(layer),
        chunks_(chunks_of(c, phase, layer)),
        tensors_(std::move(inputs)) {}

  int degree() const { return static_cast<int>(chunks_.size()); }

  void send(int i) {
    const bool forward = phase_ == Phase::Forward;
    TensorId& t = tensor(i);
    t = exchange(c_, op(forward ? OpKind::Dispatch : OpKind::Combine, c_.streams().inter, i), t,
                 forward ? TensorKind::Dispatched : TensorKind::ExpertOutput);
    if (gathers())
      t = c_.pass(op(forward ? OpKind::EspAllGather : OpKind::EspReduceScatter, c_.streams().intra, i,
                     work_.esp(Collective::AllGather, chunk(i))),
                  t, forward ? TensorKind::ExpertInput : TensorKind::ExpertPartial, v_.gathered_elements(chunk(i)));
  }

  void bring(int i) {
    const bool forward = phase_ == Phase::Forward;
    TensorId& t = tensor(i);
    if (gathers())
      t = c_.pass(op(forward ? OpKind::EspReduceScatter : OpKind::EspAllGather, c_.streams().intra, i,
                     work_.esp(Collective::ReduceScatter, chunk(i))),
                  t, forward ? TensorKind::ExpertOutput : TensorKind::Dispatched, v_.all_to_all_elements(chunk(i)));
    t = exchange(c_, op(forward ? OpKind::Combine : OpKind::Dispatch, c_.streams().combine, i), t,
                 forward ? TensorKind::Combined : TensorKind::Encoded);
  }

  void work_forward(int i, SavedExperts& saved) {
    const Op o = op(OpKind::Expert, c_.streams().compute, i, work_.expert(Phase::Forward, chunk(i)));
    saved.input.push_back(tensor(i));
    saved.hidden.push_back(
        c_.chunked(TensorKind::Hidden, o, v_.expert_rows(chunk(i)) * (v_.expert_gemms - 1) * v_.worked_hidden()));
    tensor(i) = c_.chunked(TensorKind::ExpertPartial, o, v_.gathered_elements(chunk(i)));
    c_.add(o, {saved.input.back(), saved.weights}, {saved.hidden.back(), tensor(i)});
  }

  void work_backward(int j, const SavedExperts& saved, WorkedGradient& gradient) {
    const Op o = op(OpKind::Expert, c_.streams().compute, j, work_.expert(Phase::Backward, chunk(j)));
    TensorIds reads{tensor(j), saved.weights};
    if (gradient.has_value) reads.push_back(gradient.tensor);
    gradient.has_value = true;
    const std::vector<ChunkRange> forward = chunks_of(c_, Phase::Forward, layer_);
    for (const TensorIds* kept : {&saved.input, &saved.hidden})
      for (std::size_t i = 0; i < forward.size(); ++i)
        if (forward[i].overlaps(chunk(j))) reads.push_back((*kept)[i]);
    tensor(j) = c_.chunked(TensorKind::ExpertInput, o, v_.gathered_elements(chunk(j)));
    const std::array writes{gradient.tensor, tensor(j)};
    c_.add(o, reads, writes);
  }

  TensorIds finish() { return std::move(tensors_); }

 private:
  bool gathers() const { return v_.esp > 1; }
  const ChunkRange& chunk(int i) const { return chunks_[static_cast<std::size_t>(i)]; }
  TensorId& tensor(int i) { return tensors_[static_cast<std::size_t>(i)]; }
  Op op(OpKind kind, StreamId stream, int i, const Work& work = {}) const {
    return c_.chunk_op(kind, phase_, layer_, stream, i, chunk(i), work);
  }

  StepContext& c_;
  const LayerVolumes& v_;
  OpWork work_;
  Phase phase_;
  int layer_;
  std::vector<ChunkRange> chunks_;
  TensorIds tensors_;  // by chunk: what has become of it so far
};

}  // namespace

TensorIds experts_forward(StepContext& c, int layer, const TensorIds& encoded, SavedExperts& saved) {
  ExpertPass pass(c, Phase::Forward, layer, encoded);
  saved.weights = worked_weights(c, layer);
  for (const auto [turn, i] : chunk_order(c.plan().order, pass.degree())) {
    if (turn == Turn::Send) pass.send(i);
    if (turn == Turn::Work) pass.work_forward(i, saved);
    if (turn == Turn::Bring) pass.bring(i);
  }
  return pass.finish();
}

TensorIds experts_backward(StepContext& c, int layer, const TensorIds& d_combined, const SavedExperts& saved,
                           const std::function<void()>& after_sends) {
  ExpertPass pass(c, Phase::Backward, layer, d_combined);
  WorkedGradient gradient = worked_gradient(c, layer);
  for (const auto [turn, j] : chunk_order(c.plan().order, pass.degree())) {
    if (turn == Turn::Send) pass.send(j);
    if (turn == Turn::Work) pass.work_backward(j, saved, gradient);
    if (turn == Turn::Bring) pass.bring(j);
    if (turn == Turn::Send && j == pass.degree() - 1) after_sends();
  }
  return_gradient(c, layer, gradient);
  return pass.finish();
}

}  // namespace dovetail::builder
