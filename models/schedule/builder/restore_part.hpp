// SPDX-License-Identifier: Apache-2.0
// Tensors of the forward pass that the experts' backward pass needs, T_DI and T_M of MPipeMoE: kept, or dropped and got
// back from the host, by another exchange or by computing it again (its Table II).
#pragma once
#include "models/schedule/builder/send.hpp"

namespace dovetail::builder {

// By forward chunk: the tensor itself, or what it comes back from: its copy on the host; for the input encoded.i; for
// the hidden rows -1, since they follow from the input.
struct SavedExperts {
  TensorIds input, hidden;
  TensorIds activated;  // empty: the backward pass computes it again
  TensorIds scores;     // empty: they are not applied here
  TensorId weights;     // of the layer: what the experts worked with
};

// After `chunk`, the expert op of a forward chunk.
void save_chunk(StepContext& c, const Op& chunk, TensorId encoded, TensorId input, TensorId hidden,
                SavedExperts& saved);

class Restoration {
 public:
  // `begin`: the op before which nothing is fetched from the host.
  Restoration(StepContext& c, int layer, const SavedExperts& saved, OpId begin);

  // Around the turns of backward chunk j: once its gradient has been sent, before and after its expert op.
  void sent(int j);
  void before_work(int j);
  void worked(OpId op) { latest_ = op; }
  // The inputs of the forward chunks that share rows with backward chunk j; then their hidden rows, their activated
  // ones if these are kept, and their scores if these are applied here.
  TensorIds needed(int j) const;

 private:
  ChunkSpan forward_chunks(int j) const;
  Op op(OpKind kind, StreamId stream, int i, const Work& work = {}) const;
  void prefetch(TensorIds SavedExperts::*part, Ring& ring, int j);
  void unpack(int j);
  void compute_hidden(int j);

  StepContext& c_;
  const LayerVolumes& v_;
  const SavedExperts& saved_;
  SavedExperts now_;  // by forward chunk; -1: not brought back yet
  SendRings sent_;
  Ring input_, unpacked_, hidden_;
  int layer_;
  std::vector<ChunkRange> forward_, backward_;  // chunks of the passes
  OpId latest_;
};

}  // namespace dovetail::builder
