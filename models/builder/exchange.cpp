#include "models/builder/exchange.hpp"

namespace dovetail::builder {

TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind) {
  Op o = op;
  o.work = c.work(op.layer).all_to_all(op.rows.size());
  return c.pass(o, input, kind, c.volumes(op.layer).all_to_all_elements(op.rows.size()));
}

}  // namespace dovetail::builder
