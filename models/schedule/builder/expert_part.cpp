// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/expert_part.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "models/schedule/builder/chunk_order.hpp"
#include "models/schedule/builder/chunks.hpp"
#include "models/schedule/builder/exchange.hpp"
#include "models/schedule/builder/expert_weights.hpp"
#include "models/schedule/builder/row_counts.hpp"

namespace dovetail::builder {
namespace {

// The chunks of one pass over one layer. The backward pass is the forward one on gradients: it sends with the mirrored
// combine and brings back with the mirrored dispatch. With rings, chunks take over the buffers of earlier ones, except
// for what the pass begins and ends with.
class ExpertPass {
 public:
  ExpertPass(StepContext& c, Phase phase, int layer, const ChunkSource& inputs)
      : c_(c),
        v_(c.volumes(layer)),
        work_(c.work(layer)),
        phase_(phase),
        layer_(layer),
        chunks_(chunks_of(c, phase, layer)),
        inputs_(inputs),
        sources_(chunks_.size()),
        tensors_(chunks_.size()),
        d_scores_(chunks_.size()),
        brought_(chunks_.size()),
        sent_{ring(true), ring(true)},
        worked_(ring(exchanges(c) || gathers(c) || sums(c))),
        unpacked_(ring(exchanges(c))),
        scattered_(ring(exchanges(c))),
        packed_(ring(exchanges(c))),
        hidden_(hidden_ring_depth(c.plan().buffers)) {}

  int degree() const { return static_cast<int>(chunks_.size()); }

  void send(int i) {
    const TensorId source = sources_[static_cast<std::size_t>(i)] = inputs_(i);
    tensor(i) = send_rows(c_, op({}, {}, i), phase_ == Phase::Forward ? forward_send : backward_send, source, sent_);
  }
  void send_scores(int i, SavedExperts& saved) {
    if (saved.scores.empty()) return;
    TensorId& scores = saved.scores[static_cast<std::size_t>(i)];
    const Op sending = op({}, c_.streams().inter, i);
    scores = share_scores(c_, sending, exchange_scores(c_, sending, scores, TensorKind::DispatchedScores));
  }
  TensorId source(int i) const { return sources_[static_cast<std::size_t>(i)]; }

  void bring(int i) {
    if (brought_[static_cast<std::size_t>(i)]) return;
    brought_[static_cast<std::size_t>(i)] = true;
    const bool forward = phase_ == Phase::Forward;
    const StreamIds& streams = c_.streams();
    const StreamId stream = forward ? streams.combine : streams.inter;
    TensorId& t = tensor(i);
    if (gathers(c_) || sums(c_)) {
      const OpKind kind = sums(c_) ? OpKind::EspAllReduce : forward ? OpKind::EspReduceScatter : OpKind::EspAllGather;
      const Op scatter = op(kind, streams.intra == streams.inter ? stream : streams.intra, i,
                            work_.esp(sums(c_) ? Collective::AllReduce : Collective::ReduceScatter, chunk(i)));
      t = scattered_.add(c_.pass(scatter, with_counts(c_, scatter, t),
                                 forward ? TensorKind::ExpertOutput : TensorKind::Dispatched,
                                 v_.all_to_all_elements(chunk(i)), scattered_.next()));
    }
    if (TensorId& scores = d_scores(i); scores.exists()) scores = share_scores(c_, op({}, stream, i), scores);
    if (!exchanges(c_)) return;
    const Op bringing = op(forward ? OpKind::Combine : OpKind::Dispatch, stream, i);
    t = exchange(c_, bringing, packed_.add(compress(c_, bringing, t, packed_.next())),
                 forward ? TensorKind::Combined : TensorKind::Encoded);
    if (TensorId& scores = d_scores(i); scores.exists())
      scores = exchange_scores(c_, bringing, scores, TensorKind::EncodedScores);
  }

  void work_forward(int i, SavedExperts& saved) {
    const bool keeps = keeps_activated();
    const Op o = op(OpKind::Expert, c_.streams().compute, i, work_.expert(Phase::Forward, chunk(i), keeps));
    const TensorId input = unpacked(i), hidden = add_hidden(o);
    TensorIds writes{hidden};
    if (keeps) {
      saved.activated.push_back(add_activated(c_, o, v_.expert_rows(chunk(i))));
      writes.push_back(saved.activated.back());
    }
    writes.push_back(tensor(i) = add_result(TensorKind::ExpertPartial, o));
    if (c_.deduplicates() && c_.experiment().framework.waits_for_rows) c_.wait_for(Phase::Forward, layer_, input);
    TensorIds reads{input, saved.weights};
    if (!saved.scores.empty()) reads.push_back(saved.scores[static_cast<std::size_t>(i)]);
    append_counts(c_, layer_, reads);
    c_.add(o, reads, writes);
    save_chunk(c_, o, source(i), input, hidden, saved);
    bring_early(i);
  }

  // `needed`: of the forward pass.
  OpId work_backward(int j, TensorId weights, const TensorIds& needed, WorkedGradient& gradient) {
    const Op o = op(OpKind::Expert, c_.streams().compute, j);
    TensorIds reads{unpacked(j), weights};
    if (gradient.has_value) reads.push_back(gradient.tensor);
    gradient.has_value = true;
    reads.insert(reads.end(), needed.begin(), needed.end());
    append_counts(c_, layer_, reads);
    tensor(j) = add_result(TensorKind::ExpertInput, o);
    TensorIds writes{gradient.tensor, tensor(j), add_hidden(o)};
    if (c_.plan().scores_at == ScoresAt::Experts)
      writes.push_back(d_scores(j) = gathers(c_) ? c_.row_scores(TensorKind::GatheredScores, o, v_.esp)
                                                 : c_.row_scores(TensorKind::DispatchedScores, o));
    const auto make = [&](const OpWork& w) { return w.expert(Phase::Backward, chunk(j), keeps_activated()); };
    const OpId worked = c_.add_backward(o, work_, make, reads, writes);
    bring_early(j);
    return worked;
  }

  BroughtRows finish() { return {std::move(tensors_), std::move(d_scores_)}; }

 private:
  // Experts of the user's own keep what they like.
  bool keeps_activated() const { return c_.keeps_activated() && c_.experiment().extensions.expert == nullptr; }

  Ring ring(bool of_chunks) const { return Ring(of_chunks ? ring_depth(c_.plan().buffers) : 0); }

  TensorId unpacked(int i) {
    const bool forward = phase_ == Phase::Forward;
    return unpacked_.add(decompress(c_, op(forward ? OpKind::Dispatch : OpKind::Combine, c_.streams().compute, i),
                                    tensor(i), forward ? TensorKind::ExpertInput : TensorKind::ExpertPartial, v_.esp,
                                    unpacked_.next()));
  }

  // Rows are compressed on the compute stream. There a chunk must not wait behind the work of all later ones, nor the
  // next chunk's work behind this one's reduction over shards.
  void bring_early(int i) {
    if (c_.wire(phase_ == Phase::Forward ? OpKind::Combine : OpKind::Dispatch, phase_) == Wire::Same) return;
    const int ready = gathers(c_) || sums(c_) ? i - 1 : i;
    if (ready >= 0) bring(ready);
  }

  const ChunkRange& chunk(int i) const { return chunks_[static_cast<std::size_t>(i)]; }
  TensorId& tensor(int i) { return tensors_[static_cast<std::size_t>(i)]; }
  TensorId& d_scores(int i) { return d_scores_[static_cast<std::size_t>(i)]; }
  Op op(OpKind kind, StreamId stream, int i, const Work& work = {}) const {
    return c_.chunk_op(kind, phase_, layer_, stream, i, chunk(i), work);
  }
  TensorId add_result(TensorKind kind, const Op& o) {
    return worked_.add(c_.chunked(kind, o, v_.gathered_elements(chunk_of(o)), Wire::Same, worked_.next()));
  }
  TensorId add_hidden(const Op& o) {
    return hidden_.add(c_.expert_hidden(o, v_.expert_rows(chunk_of(o)), hidden_.next()));
  }

  StepContext& c_;
  const LayerVolumes& v_;
  OpWork work_;
  Phase phase_;
  int layer_;
  std::vector<ChunkRange> chunks_;
  const ChunkSource& inputs_;
  TensorIds sources_, tensors_;  // by chunk: what was sent; what has become of it so far
  TensorIds d_scores_;           // by chunk, of the backward pass; -1: scores are not applied here
  std::vector<bool> brought_;
  SendRings sent_;
  Ring worked_, unpacked_, scattered_, packed_, hidden_;
};

}  // namespace

TensorIds experts_forward(StepContext& c, int layer, const ChunkSource& encoded, SavedExperts& saved,
                          const std::function<void()>& after_sends) {
  ExpertPass pass(c, Phase::Forward, layer, encoded);
  saved.weights = worked_weights(c, layer);
  for (const auto [turn, i] : chunk_order(c.plan().order, pass.degree(), ring_depth(c.plan().buffers))) {
    if (turn == Turn::Send) {
      pass.send(i);
      pass.send_scores(i, saved);
    }
    if (turn == Turn::Work) pass.work_forward(i, saved);
    if (turn == Turn::Bring) pass.bring(i);
    if (turn == Turn::Send && i == pass.degree() - 1) after_sends();
  }
  return pass.finish().rows;
}

BroughtRows experts_backward(StepContext& c, int layer, const ChunkSource& d_combined, const SavedExperts& saved,
                             const std::function<void()>& after_sends) {
  ExpertPass pass(c, Phase::Backward, layer, d_combined);
  WorkedGradient gradient = worked_gradient(c, layer);
  std::optional<Restoration> kept;
  for (const auto [turn, j] : chunk_order(c.plan().order, pass.degree(), ring_depth(c.plan().buffers))) {
    if (turn == Turn::Send) {
      pass.send(j);
      if (!kept) kept.emplace(c, layer, saved, c.last_writer(pass.source(j)));
      kept->sent(j);
      if (j == pass.degree() - 1) after_sends();
    }
    if (turn == Turn::Work) {
      kept->before_work(j);
      kept->worked(pass.work_backward(j, saved.weights, kept->needed(j), gradient));
    }
    if (turn == Turn::Bring) pass.bring(j);
  }
  return_gradient(c, layer, gradient);
  return pass.finish();
}

}  // namespace dovetail::builder
