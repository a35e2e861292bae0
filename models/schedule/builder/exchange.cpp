// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/exchange.hpp"

#include "models/schedule/builder/row_counts.hpp"

namespace dovetail::builder {
namespace {

Op convert(StepContext& c, OpKind kind, const Op& of, std::int64_t copies) {
  Op o = of;
  o.kind = kind;
  o.stream = c.streams().compute;
  o.work = c.work(of.layer).convert(chunk_of(of), copies, c.wire(of));
  return o;
}

// The all-to-all of one chunk in steps: tensors between them are staging.
class SteppedExchange {
 public:
  SteppedExchange(StepContext& c, const Op& op, TensorKind output, Wire wire, TensorId buffer)
      : c_(c),
        op_(op),
        steps_(c.all_to_all_steps()),
        output_(output),
        wire_(wire),
        buffer_(buffer),
        elements_(c.row_elements(op, wire)) {}

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
    ExchangeWork work = c_.work(op_.layer).all_to_all(chunk_of(op_), wire_, steps_.subspan(first, count));
    work.steps = {static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + count)};
    o.work = work;
    return o;
  }

  // Steps inside nodes go beside those between them where the plan keeps these streams apart; a copy stands before
  // the exchange it is for, if there is one.
  StreamId stream_of(std::size_t i) const {
    if (c_.plan().comm_streams != CommStreams::InterIntra) return op_.stream;
    const bool prepares = steps_[i].kind == StepKind::Copy && i + 1 < steps_.size();
    const CollectiveStep& exchange = steps_[prepares ? i + 1 : i];
    return crosses_nodes(exchange, ranks_per_node(c_.groups(), GroupKind::Ep, c_.experiment().cluster))
               ? op_.stream
               : c_.streams().intra;
  }

  TensorId target(std::size_t i) {
    if (i + 1 == steps_.size()) return c_.chunked(output_, op_, elements_, wire_, buffer_);
    Op o = op_;
    o.step = static_cast<std::int16_t>(i);
    return c_.chunked(TensorKind::Staging, o, elements_ / c_.groups().ep * steps_[i].target_blocks(), wire_);
  }

  StepContext& c_;
  const Op& op_;
  std::span<const CollectiveStep> steps_;
  TensorKind output_;
  Wire wire_;
  TensorId buffer_;
  std::int64_t elements_;
};

// Rows for the own rank alone cross no link.
bool only_own(const StepContext& c, const Op& op) {
  return c.groups().ep == 1 || (op.peers.first == 0 && op.peers.last == 1);
}

}  // namespace

TensorId compress(StepContext& c, const Op& op, TensorId input, TensorId buffer) {
  const Wire wire = c.wire(op);
  if (wire == Wire::Same) return input;
  const TensorId output = c.chunked(TensorKind::Compressed, op, c.row_elements(op, wire), wire, buffer);
  c.add(convert(c, OpKind::Compress, op, 1), {input}, {output});
  return output;
}

TensorId exchange(StepContext& c, const Op& op, TensorId input, TensorKind kind, TensorId buffer) {
  if (only_own(c, op)) return input;
  const Wire wire = c.is_compressed(input) ? c.wire(op) : Wire::Same;
  const TensorKind sent = wire == Wire::Same ? kind : TensorKind::Compressed;
  if (!c.all_to_all_steps().empty()) {
    SteppedExchange exchange(c, op, sent, wire, buffer);
    return c.plan().all_to_all_implementation == AllToAllImplementation::Fused ? exchange.fused(input)
                                                                               : exchange.one_by_one(input);
  }
  Op o = op;
  o.work = c.work(op.layer).all_to_all(chunk_of(op), wire);
  const TensorId output = c.chunked(sent, o, c.row_elements(op, wire), wire, buffer);
  c.add(o, with_counts(c, o, input), with_tokens(c, o, output));
  return output;
}

TensorId exchange_scores(StepContext& c, const Op& op, TensorId input, TensorKind kind) {
  if (only_own(c, op)) return input;
  Op o = op;
  o.kind = OpKind::DispatchScores;
  o.work = c.work(op.layer).score_exchange(chunk_of(op));
  const TensorId output = c.row_scores(kind, o);
  c.add(o, with_counts(c, o, input), std::array{output});
  return output;
}

TensorId share_scores(StepContext& c, const Op& op, TensorId input) {
  if (!gathers(c)) return input;
  const bool forward = op.phase == Phase::Forward;
  Op o = op;
  o.kind = OpKind::GatherScores;
  o.stream = c.streams().intra;
  o.work = c.work(op.layer).gather_scores(chunk_of(op), forward ? Collective::AllGather : Collective::ReduceScatter);
  const TensorId output = forward ? c.row_scores(TensorKind::GatheredScores, o, c.volumes(op.layer).esp)
                                  : c.row_scores(TensorKind::DispatchedScores, o);
  c.add(o, with_counts(c, o, input), std::array{output});
  return output;
}

TensorId decompress(StepContext& c, const Op& op, TensorId input, TensorKind kind, std::int64_t copies,
                    TensorId buffer) {
  if (!c.is_compressed(input)) return input;
  const TensorId output =
      c.chunked(kind, op, copies * c.volumes(op.layer).all_to_all_elements(chunk_of(op)), Wire::Same, buffer);
  c.add(convert(c, OpKind::Decompress, op, copies), {input}, {output});
  return output;
}

}  // namespace dovetail::builder
