// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/restore_part.hpp"

#include <algorithm>

#include "models/schedule/builder/chunks.hpp"
#include "models/schedule/builder/exchange.hpp"
#include "models/schedule/builder/row_counts.hpp"

namespace dovetail::builder {
namespace {

bool restores(const StepContext& c) {
  return c.training() && c.plan().restore != Restore::Keep;
}

std::size_t at(int chunk) {
  return static_cast<std::size_t>(chunk);
}

}  // namespace

void save_chunk(StepContext& c, const Op& chunk, TensorId encoded, TensorId input, TensorId hidden,
                SavedExperts& saved) {
  const Restore restore = c.plan().restore;
  const auto offload = [&](TensorId t) {
    const TensorId copy = c.copy_of(t, Place::Host);
    Op o = chunk;
    o.kind = OpKind::Offload;
    o.stream = c.streams().copy;
    o.work = c.work(chunk.layer).copy(c.bytes_of(t));
    c.add(o, {t}, {copy});
    return copy;
  };
  if (restores(c)) {
    input = offloads_input(restore) ? offload(input) : encoded;
    hidden = offloads_hidden(restore) ? offload(hidden) : TensorId();
  }
  saved.input.push_back(input);
  saved.hidden.push_back(hidden);
}

Restoration::Restoration(StepContext& c, int layer, const SavedExperts& saved, OpId begin)
    : c_(c),
      v_(c.volumes(layer)),
      saved_(saved),
      now_(saved),
      sent_{Ring(ring_depth(c.plan().buffers)), Ring(ring_depth(c.plan().buffers))},
      input_(ring_depth(c.plan().buffers)),
      unpacked_(ring_depth(c.plan().buffers)),
      hidden_(hidden_ring_depth(c.plan().buffers)),
      layer_(layer),
      forward_(chunks_of(c, Phase::Forward, layer)),
      backward_(chunks_of(c, Phase::Backward, layer)),
      latest_(begin) {
  if (!restores(c)) return;
  std::ranges::fill(now_.input, TensorId());
  std::ranges::fill(now_.hidden, TensorId());
}

void Restoration::sent(int j) {
  if (!restores(c_) || offloads_input(c_.plan().restore)) return;
  const ChunkSpan chunks = forward_chunks(j);
  for (int i = chunks.first; i < chunks.last; ++i) {
    TensorId& input = now_.input[at(i)];
    if (input < 0)
      input =
          send_rows(c_, op(OpKind::RestoreDispatch, c_.streams().inter, i), restoring_send, saved_.input[at(i)], sent_);
  }
}

// Copies run one chunk ahead, unless the only buffer is still in use. The chunk at hand comes first.
void Restoration::before_work(int j) {
  if (!restores(c_)) return;
  unpack(j);
  const Restore restore = c_.plan().restore;
  const int depth = ring_depth(c_.plan().buffers);
  const bool second_input = depth != 1, second_hidden = depth == 0;
  for (int ahead = 0; ahead < 2 && at(j + ahead) < backward_.size(); ++ahead) {
    if (offloads_hidden(restore) && (ahead == 0 || second_hidden)) prefetch(&SavedExperts::hidden, hidden_, j + ahead);
    if (offloads_input(restore) && (ahead == 0 || second_input)) prefetch(&SavedExperts::input, input_, j + ahead);
  }
  if (!offloads_hidden(restore)) compute_hidden(j);
}

TensorIds Restoration::needed(int j) const {
  const ChunkSpan chunks = forward_chunks(j);
  TensorIds tensors;
  for (const TensorIds* part : {&now_.input, &now_.hidden, &now_.activated, &now_.scores})
    if (!part->empty()) tensors.insert(tensors.end(), part->begin() + chunks.first, part->begin() + chunks.last);
  return tensors;
}

ChunkSpan Restoration::forward_chunks(int j) const {
  const auto shares = [&](const ChunkRange& chunk) { return chunk.overlaps(backward_[at(j)]); };
  const auto first = std::ranges::find_if(forward_, shares), last = std::find_if_not(first, forward_.end(), shares);
  return {static_cast<int>(first - forward_.begin()), static_cast<int>(last - forward_.begin())};
}

Op Restoration::op(OpKind kind, StreamId stream, int i, const Work& work) const {
  return c_.chunk_op(kind, Phase::Backward, layer_, stream, i, forward_[at(i)], work);
}

// Without rings nothing but `latest_` would keep the copies from running far ahead, and memory from filling.
void Restoration::prefetch(TensorIds SavedExperts::*part, Ring& ring, int j) {
  const ChunkSpan chunks = forward_chunks(j);
  for (int i = chunks.first; i < chunks.last; ++i) {
    const TensorId copy = (saved_.*part)[at(i)];
    TensorId& now = (now_.*part)[at(i)];
    if (now >= 0) continue;
    now = ring.add(c_.copy_of(copy, Place::Device, ring.next()));
    c_.add(op(OpKind::Prefetch, c_.streams().copy, i, c_.work(layer_).copy(c_.bytes_of(copy))), {copy}, {now}, latest_);
  }
}

// Rows that were sent again compressed.
void Restoration::unpack(int j) {
  const ChunkSpan chunks = forward_chunks(j);
  for (int i = chunks.first; i < chunks.last; ++i)
    if (TensorId& input = now_.input[at(i)]; input >= 0 && c_.is_compressed(input))
      input = unpacked_.add(decompress(c_, op(OpKind::RestoreDispatch, c_.streams().compute, i), input,
                                       TensorKind::ExpertInput, v_.esp, unpacked_.next()));
}

void Restoration::compute_hidden(int j) {
  const ChunkSpan chunks = forward_chunks(j);
  for (int i = chunks.first; i < chunks.last; ++i) {
    TensorId& hidden = now_.hidden[at(i)];
    if (hidden >= 0) continue;
    Op o = op(OpKind::RestoreHidden, c_.streams().compute, i);
    o.work = c_.work(layer_).restore_hidden(chunk_of(o));
    hidden = hidden_.add(c_.expert_hidden(o, v_.expert_rows(chunk_of(o)), hidden_.next()));
    TensorIds reads{now_.input[at(i)], saved_.weights};
    append_counts(c_, layer_, reads);
    c_.add(o, reads, {&hidden, 1});
  }
}

}  // namespace dovetail::builder
