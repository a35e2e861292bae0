// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/pairing.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace dovetail::builder {
namespace {

// The parts of a layer, in the order of the forward pass; the backward pass has the reverse order. Exchanges begin and
// end the parts: attention has the gate and all that makes rows ready to be sent, and experts all between exchanges.
// The host waits for the counts of rows when it sends them, thus after it has issued what is beside the gate. A layer
// without exchanges is attention.
enum class LayerPart { Attention, Dispatch, Experts, Combine, Decode };
constexpr std::size_t layer_parts = 5;

struct PairStep {
  Phase side;
  LayerPart part;
};
using Rule = std::array<PairStep, 2 * layer_parts - 1>;  // decode and combine of the backward pass are one step

using enum LayerPart;
constexpr PairStep f(LayerPart part) {
  return {Phase::Forward, part};
}
constexpr PairStep b(LayerPart part) {
  return {Phase::Backward, part};
}

// Each step takes all up to the end of that part.
constexpr Rule rule_of(PairOrder order) {
  switch (order) {
    case PairOrder::Alternate:
      break;
    case PairOrder::AttentionEarly:
      return {b(Combine),   f(Attention), b(Experts), f(Dispatch), b(Dispatch),
              b(Attention), f(Experts),   f(Combine), f(Decode)};
    case PairOrder::ExpertsFirst:
      return {b(Combine),   b(Experts), b(Dispatch), f(Attention), f(Dispatch),
              b(Attention), f(Experts), f(Combine),  f(Decode)};
  }
  return {b(Combine), f(Attention), b(Experts),   f(Dispatch), b(Dispatch),
          f(Experts), f(Combine),   b(Attention), f(Decode)};
}

// The op after the last one of each part of a layer, by part; none where the pass has nothing of it.
using PartEnds = std::array<OpId, layer_parts>;

class Side {
 public:
  Side(const Schedule& s, const UnitOps& unit, Phase phase, LayerRun run)
      : next_(unit.first),
        end_(unit.end),
        first_layer_(run.first),
        ends_(static_cast<std::size_t>(run.last - run.first)) {
    for (OpId id = unit.first; id < unit.end; ++id) note(s, id, phase);
    if (phase == Phase::Forward)
      for (PartEnds& ends : ends_)
        if (OpId& attention = ends[static_cast<std::size_t>(Attention)]; !attention.exists())
          attention = ends[static_cast<std::size_t>(Decode)];
  }

  void take_through(int layer, LayerPart part, std::vector<OpId>& to) {
    take_until(ends_of(layer)[static_cast<std::size_t>(part)], to);
  }
  void take_rest(std::vector<OpId>& to) { take_until(end_, to); }

 private:
  PartEnds& ends_of(int layer) { return ends_[static_cast<std::size_t>(layer - first_layer_)]; }
  void take_until(OpId end, std::vector<OpId>& to) {
    for (; next_ < end; ++next_) to.push_back(next_);
  }

  void note(const Schedule& s, OpId id, Phase phase) {
    const Op& op = s.ops[id];
    if (op.phase != phase || op.recomputed) return;
    if (op.layer < first_layer_ || op.layer >= first_layer_ + static_cast<int>(ends_.size())) return;
    PartEnds& ends = ends_of(op.layer);
    const bool forward = phase == Phase::Forward;
    const auto begin_of_exchange = [&](LayerPart before) {
      OpId& end = ends[static_cast<std::size_t>(before)];
      if (!end.exists()) end = id;
    };
    const auto set_end = [&](LayerPart part) { ends[static_cast<std::size_t>(part)] = OpId(id + 1); };
    if (op.half == Half::Weights) return set_end(op.kind == OpKind::Expert ? Dispatch : Attention);  // cover exchanges
    if (forward && op.kind == OpKind::HostSync) begin_of_exchange(Attention);
    if (op.kind == OpKind::Dispatch || op.kind == OpKind::DispatchScores) {
      begin_of_exchange(forward ? Attention : Experts);
      set_end(Dispatch);
    } else if (op.kind == OpKind::Combine) {
      begin_of_exchange(forward ? Experts : Decode);
      set_end(Combine);
    }
    set_end(forward ? Decode : Attention);
  }

  OpId next_, end_;
  int first_layer_;
  std::vector<PartEnds> ends_;  // by layer
};

}  // namespace

std::vector<OpId> Pairing::merged(const Schedule& schedule, const UnitOps& forward, const UnitOps& backward) const {
  const LayerRun ahead = layout_.run(forward.stage), back = layout_.run(backward.stage);
  Side f(schedule, forward, Phase::Forward, ahead), b(schedule, backward, Phase::Backward, back);
  std::vector<OpId> ops;
  const int pairs = std::min(ahead.last - ahead.first, back.last - back.first);
  for (int i = 0; i < pairs; ++i)
    for (const PairStep step : rule_of(order_))
      if (step.side == Phase::Forward)
        f.take_through(ahead.first + i, step.part, ops);
      else
        b.take_through(back.last - 1 - i, step.part, ops);
  b.take_rest(ops);
  f.take_rest(ops);
  return ops;
}

}  // namespace dovetail::builder
