#include "models/builder/exchange.hpp"

namespace dovetail::builder {
namespace {

// The all-to-all of one chunk in steps: tensors between them are staging.
class SteppedExchange {
 public:
  SteppedExchange(StepContext& c, const Op& op, TensorKind output)
      : c_(c),
        op_(op),
        steps_(c.all_to_all_steps()),
        output_(output),
        elements_(c.volumes(op.layer).all_to_all_elements(op.rows.size())) {}

  TensorId one_by_one(TensorId input) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Op o = with_steps(i, 1);
      o.step = static_cast<std::int16_t>(i);
      o.stream = stream_of(i);
      const TensorId output = target(i);
      c_.add(o, {input}, {output});
      input = output;
    }
    return input;
  }

  TensorId fused(TensorId input) {
    TensorIds writes{target(steps_.size() - 1)};
    for (std::size_t i = 0; i + 1 < steps_.size(); ++i) writes.push_back(target(i));
    c_.add(with_steps(0, steps_.size()), {&input, 1}, writes);
    return writes.front();
  }

 private:
  Op with_steps(std::size_t first, std::size_t count) const {
    Op o = op_;
    o.work = c_.work(op_.layer).all_to_all(op_.rows.size(), steps_.subspan(first, count));
    o.work.protocol = c_.plan().protocol;
    o.work.steps = {static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + count)};
    return o;
  }

  // Steps inside nodes go beside those between them where the plan keeps these streams apart; a copy stands before
  // the exchange it is for.
  StreamId stream_of(std::size_t i) const {
    if (c_.plan().comm_streams != CommStreams::InterIntra) return op_.stream;
    const Experiment& e = c_.experiment();
    const CollectiveStep& exchange = steps_[steps_[i].kind == StepKind::Copy ? i + 1 : i];
    return crosses_nodes(exchange, ranks_per_node(e.parallelism, GroupKind::Ep, e.cluster)) ? op_.stream
                                                                                            : c_.streams().intra;
  }

  TensorId target(std::size_t i) {
    if (i + 1 == steps_.size()) return c_.chunked(output_, op_, elements_);
    Op o = op_;
    o.step = static_cast<std::int16_t>(i);
    return c_.chunked(TensorKind::Staging, o, elements_ / c_.experiment().parallelism.ep * steps_[i].target_blocks());
  }

  StepContext& c_;
  const Op& op_;
  std::span<const CollectiveStep> steps_;
  TensorKind output_;
  std::int64_t elements_;
};

}  // namespace

TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind) {
  if (!c.all_to_all_steps().empty()) {
    SteppedExchange exchange(c, op, kind);
    return c.plan().all_to_all_implementation == AllToAllImplementation::Fused ? exchange.fused(input)
                                                                               : exchange.one_by_one(input);
  }
  Op o = op;
  o.work = c.work(op.layer).all_to_all(op.rows.size());
  o.work.protocol = c.plan().protocol;
  return c.pass(o, input, kind, c.volumes(op.layer).all_to_all_elements(op.rows.size()));
}

}  // namespace dovetail::builder
