#include "models/builder/exchange.hpp"

namespace dovetail::builder {
namespace {

Op convert(const StepContext& c, OpKind kind, const Op& of, std::int64_t copies) {
  Op o = of;
  o.kind = kind;
  o.stream = c.streams().compute;
  o.work = c.work(of.layer).convert(copies * of.rows.size(), c.wire(of.kind));
  return o;
}

}  // namespace

TensorId compress(StepContext& c, const Op& op, TensorId input) {
  const Wire wire = c.wire(op.kind);
  if (wire == Wire::Same) return input;
  const TensorId output = c.compressed(op, wire);
  c.add(convert(c, OpKind::Compress, op, 1), {input}, {output});
  return output;
}

TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind) {
  const Wire wire = c.is_compressed(input) ? c.wire(op.kind) : Wire::Same;
  Op o = op;
  o.work = c.work(op.layer).all_to_all(op.rows.size(), wire);
  if (wire == Wire::Same) return c.pass(o, input, kind, c.volumes(op.layer).all_to_all_elements(op.rows.size()));
  const TensorId output = c.compressed(op, wire);
  c.add(o, {input}, {output});
  return output;
}

TensorId decompress(StepContext& c, const Op& op, TensorId input, TensorKind kind, std::int64_t copies) {
  if (!c.is_compressed(input)) return input;
  return c.pass(convert(c, OpKind::Decompress, op, copies), input, kind,
                copies * c.volumes(op.layer).all_to_all_elements(op.rows.size()));
}

}  // namespace dovetail::builder
