// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/stage_part.hpp"

#include <algorithm>

namespace dovetail::builder {

// Sends and receives have streams of their own: on another, a send would keep the next micro-batch's all-to-alls
// waiting, and a receive whatever of this stage could still go on. On one stream for both, a receive would wait for the
// send before it.

// The head's stage may have no layer of its own.
namespace {

int layer_of_op(const StepContext& c, int layer) {
  return std::min(layer, c.layers() - 1);
}

}  // namespace

TensorId send_to_stage(StepContext& c, int to, Phase phase, int layer, const TensorIds& parts) {
  const int from = c.stage();
  const int of_op = layer_of_op(c, layer);
  const LayerVolumes& v = c.volumes(of_op);
  c.enter(to, c.micro_batch());
  const TensorId arriving =
      c.activation(TensorKind::LayerInput, layer, v.tokens * v.hidden, /*gradient=*/phase == Phase::Backward);
  c.enter(from, c.micro_batch());
  c.add(c.op(OpKind::StageSend, phase, of_op, c.streams().send, c.work(of_op).stage_send()), parts, {&arriving, 1});
  return arriving;
}

void receive_from_stage(StepContext& c, Phase phase, int layer, TensorId arriving) {
  const ExchangeWork end{Collective::None, GroupKind::Pp};
  c.add(c.op(OpKind::StageReceive, phase, layer_of_op(c, layer), c.streams().receive, end), {arriving}, {arriving});
}

}  // namespace dovetail::builder
