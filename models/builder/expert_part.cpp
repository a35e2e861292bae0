#include "models/builder/expert_part.hpp"

#include "models/builder/chunk_order.hpp"
#include "models/builder/exchange.hpp"

namespace dovetail::builder {
namespace {

// The chunks of one pass over one layer. The backward pass is the forward one on gradients: it sends with the mirrored
// combine and brings back with the mirrored dispatch.
class ExpertPass {
 public:
  ExpertPass(StepContext& c, Phase phase, int layer, int degree, const ChunkSource& inputs)
      : c_(c),
        v_(c.volumes(layer)),
        work_(c.work(layer)),
        phase_(phase),
        layer_(layer),
        degree_(degree),
        inputs_(inputs),
        tensors_(static_cast<std::size_t>(degree), -1),
        brought_(static_cast<std::size_t>(degree)) {}

  void send(int i) {
    const bool forward = phase_ == Phase::Forward;
    TensorId& t = tensor(i) = inputs_(i);
    if (exchanges())
      t = exchange(c_, op(sending(), c_.streams().inter, i), t,
                   forward ? TensorKind::Dispatched : TensorKind::ExpertOutput);
    if (gathers()) t = gather(i, t);
  }

  void bring(int i) {
    if (brought_[static_cast<std::size_t>(i)]) return;
    brought_[static_cast<std::size_t>(i)] = true;
    const bool forward = phase_ == Phase::Forward;
    TensorId& t = tensor(i);
    if (gathers())
      t = c_.pass(op(forward ? OpKind::EspReduceScatter : OpKind::EspAllGather, c_.streams().intra, i,
                     work_.esp(Collective::ReduceScatter, rows(i).size())),
                  t, forward ? TensorKind::ExpertOutput : TensorKind::Dispatched,
                  v_.all_to_all_elements(rows(i).size()));
    if (!exchanges()) return;
    const Op bringing = op(forward ? OpKind::Combine : OpKind::Dispatch, c_.streams().combine, i);
    t = exchange(c_, bringing, compress(c_, bringing, t), forward ? TensorKind::Combined : TensorKind::Encoded);
  }

  void work_forward(int i, SavedExperts& saved) {
    const Op o = op(OpKind::Expert, c_.streams().compute, i, work_.expert(Phase::Forward, rows(i).size()));
    saved.input.push_back(unpacked(i));
    saved.hidden.push_back(
        c_.chunked(TensorKind::Hidden, o, v_.expert_rows(rows(i).size()) * (v_.expert_gemms - 1) * v_.hidden_shard));
    tensor(i) = c_.chunked(TensorKind::ExpertPartial, o, v_.gathered_elements(rows(i).size()));
    c_.add(o, {saved.input.back(), c_.weights(layer_).expert}, {saved.hidden.back(), tensor(i)});
    bring_early(i);
  }

  void work_backward(int j, const SavedExperts& saved) {
    const Op o = op(OpKind::Expert, c_.streams().compute, j, work_.expert(Phase::Backward, rows(j).size()));
    const LayerWeightIds& weights = c_.weights(layer_);
    TensorIds reads{unpacked(j), weights.expert, weights.expert_gradient};
    const int forward_degree = c_.plan().forward_degree;
    for (const TensorIds* kept : {&saved.input, &saved.hidden})
      for (int i = 0; i < forward_degree; ++i) {
        const RowRange forward = chunk_rows(v_.capacity, forward_degree, i);
        if (forward.first < o.rows.last && o.rows.first < forward.last)
          reads.push_back((*kept)[static_cast<std::size_t>(i)]);
      }
    tensor(j) = c_.chunked(TensorKind::ExpertInput, o, v_.gathered_elements(o.rows.size()));
    const std::array writes{weights.expert_gradient, tensor(j)};
    c_.add(o, reads, writes);
    bring_early(j);
  }

  TensorIds finish() { return std::move(tensors_); }

 private:
  bool exchanges() const { return c_.experiment().parallelism.ep > 1; }
  bool gathers() const { return c_.experiment().parallelism.esp > 1; }
  OpKind sending() const { return phase_ == Phase::Forward ? OpKind::Dispatch : OpKind::Combine; }

  TensorId gather(int i, TensorId t) {
    const bool forward = phase_ == Phase::Forward;
    const Wire wire = c_.is_compressed(t) ? c_.wire(sending()) : Wire::Same;
    const Op o = op(forward ? OpKind::EspAllGather : OpKind::EspReduceScatter, c_.streams().intra, i,
                    work_.esp(Collective::AllGather, rows(i).size(), wire));
    if (wire == Wire::Same)
      return c_.pass(o, t, forward ? TensorKind::ExpertInput : TensorKind::ExpertPartial,
                     v_.gathered_elements(rows(i).size()));
    const TensorId gathered = c_.compressed(o, wire, v_.esp);
    c_.add(o, {t}, {gathered});
    return gathered;
  }

  TensorId unpacked(int i) {
    const TensorKind kind = phase_ == Phase::Forward ? TensorKind::ExpertInput : TensorKind::ExpertPartial;
    return decompress(c_, op(sending(), c_.streams().compute, i), tensor(i), kind, v_.esp);
  }

  // Rows are compressed on the compute stream. There a chunk must not wait behind the work of all later ones, nor the
  // next chunk's work behind this one's reduction over shards.
  void bring_early(int i) {
    if (c_.wire(phase_ == Phase::Forward ? OpKind::Combine : OpKind::Dispatch) == Wire::Same) return;
    const int ready = gathers() ? i - 1 : i;
    if (ready >= 0) bring(ready);
  }

  RowRange rows(int i) const { return chunk_rows(v_.capacity, degree_, i); }
  TensorId& tensor(int i) { return tensors_[static_cast<std::size_t>(i)]; }
  Op op(OpKind kind, StreamId stream, int i, const Work& work = {}) const {
    return c_.chunk_op(kind, phase_, layer_, stream, i, rows(i), work);
  }

  StepContext& c_;
  const LayerVolumes& v_;
  OpWork work_;
  Phase phase_;
  int layer_, degree_;
  const ChunkSource& inputs_;
  TensorIds tensors_;  // by chunk: what has become of it so far
  std::vector<bool> brought_;
};

}  // namespace

TensorIds experts_forward(StepContext& c, int layer, const ChunkSource& encoded, SavedExperts& saved,
                          const std::function<void()>& after_sends) {
  const int degree = c.plan().forward_degree;
  ExpertPass pass(c, Phase::Forward, layer, degree, encoded);
  for (const auto [turn, i] : chunk_order(c.plan().order, degree)) {
    if (turn == Turn::Send) pass.send(i);
    if (turn == Turn::Work) pass.work_forward(i, saved);
    if (turn == Turn::Bring) pass.bring(i);
    if (turn == Turn::Send && i == degree - 1) after_sends();
  }
  return pass.finish();
}

TensorIds experts_backward(StepContext& c, int layer, const ChunkSource& d_combined, const SavedExperts& saved,
                           const std::function<void()>& after_sends) {
  const int degree = c.plan().backward_degree_of(layer);
  ExpertPass pass(c, Phase::Backward, layer, degree, d_combined);
  for (const auto [turn, j] : chunk_order(c.plan().order, degree)) {
    if (turn == Turn::Send) pass.send(j);
    if (turn == Turn::Work) pass.work_backward(j, saved);
    if (turn == Turn::Bring) pass.bring(j);
    if (turn == Turn::Send && j == degree - 1) after_sends();
  }
  return pass.finish();
}

}  // namespace dovetail::builder
