#include "models/builder/exchange.hpp"

namespace dovetail::builder {

TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind) {
  const ChunkRange chunk{op.rows, op.peers};
  const bool only_own = c.groups().ep == 1 || (op.peers.first == 0 && op.peers.last == 1);
  if (only_own) return input;
  Op o = op;
  o.work = c.work(op.layer).all_to_all(chunk);
  return c.pass(o, input, kind, c.volumes(op.layer).all_to_all_elements(chunk));
}

}  // namespace dovetail::builder
