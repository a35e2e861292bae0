// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layer_look.hpp"

#include <algorithm>

#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/blocks.hpp"
#include "planners/closed_form/layer_times.hpp"

namespace dovetail::planners {
namespace {

// Scores of a chunk may be on their way beside other rows.
void note_exchange(const Op& op, Seconds duration, PassSums& sums) {
  if (op.kind == OpKind::DispatchScores || op.kind == OpKind::GatherScores) return;
  const bool forward = op.phase == Phase::Forward, sums_up = op.kind == OpKind::EspAllReduce;
  const bool to_experts = op.kind == OpKind::Dispatch || op.kind == OpKind::EspAllGather;
  const auto chunk = static_cast<std::size_t>(std::max<int>(op.chunk, 0));
  for (std::vector<Seconds>* chunks : {&sums.in, &sums.out}) chunks->resize(std::max(chunks->size(), chunk + 1));
  (to_experts == forward && !sums_up ? sums.in : sums.out)[chunk] += duration;
}

}  // namespace

LayerLooking::LayerLooking(const Experiment& stage, Layers layers, Extent most)
    : e_(of_layers(stage, layers)), at_{layers.dense - 1, layers.dense + layers.moe - 1} {
  if (layers.moe == 0) at_[moe_layer] = -1;
  e_.workload.extent = std::min(e_.workload.extent, most);
}

LayerLook LayerLooking::at(const Plan& plan) const {
  LayerLook look{price_plan(e_, plan), layer_volumes(e_, plan)};
  const Schedule& s = *look.priced.schedule;
  for (const OpId i : s.ops.ids())
    if (const auto kind = kind_of(s.ops[i].layer)) note(look, i, *kind);
  note_held(look);
  return look;
}

std::optional<std::size_t> LayerLooking::kind_of(int layer) const {
  for (std::size_t kind = 0; kind < layer_kinds; ++kind)
    if (at_[kind] >= 0 && at_[kind] == layer) return kind;
  return std::nullopt;
}

void LayerLooking::note(LayerLook& look, OpId id, std::size_t kind) const {
  const Schedule& s = *look.priced.schedule;
  const Op& op = s.ops[id];
  const OpEntry& entry = entry_of(op.kind);
  const bool converts = op.kind == OpKind::Compress || op.kind == OpKind::Decompress;
  if (op.phase == Phase::Update || entry.part == OpPart::StepEnd || entry.part == OpPart::Host || converts) return;
  PassSums& sums = look.sums[kind][op.pass() == Phase::Forward ? 0 : 1];
  const Seconds duration = look.priced.duration[id];
  const StreamKind stream = s.streams[op.stream].kind;
  if (stream == StreamKind::Copy) {
    sums.copied += duration;
  } else if (stream == StreamKind::Compute) {
    if (op.recomputed)
      look.again[kind][static_cast<std::size_t>(op.kind)] += duration;
    else if (op.kind == OpKind::Expert)
      sums.expert = id;
    else if (!entry.restores)
      (entry.part == OpPart::Routing ? sums.routing : sums.other) += duration;
  } else if (entry.communicates && !entry.floats && !op.recomputed) {
    note_sent(look, id, kind, sums);
  }
}

void LayerLooking::note_sent(const LayerLook& look, OpId id, std::size_t kind, PassSums& sums) const {
  const Op& op = look.priced.schedule->ops[id];
  const Seconds duration = look.priced.duration[id];
  if (entry_of(op.kind).part == OpPart::Experts) {
    note_exchange(op, duration, sums);
    look.priced.for_each_demand(id, [&](const Demand& demand) {
      const int link = demand.resource - 1;  // after computation
      if (link == 0 || link == 1) sums.links[static_cast<std::size_t>(link)] += demand.seconds;
    });
  } else if (entry_of(op.kind).part == OpPart::Attention) {
    note_outside(look, op, duration, kind, sums);
  }
}

// Without norms a pass begins and ends with such a collective, which may run beside another unit.
void LayerLooking::note_outside(const LayerLook& look, const Op& op, Seconds duration, std::size_t kind,
                                PassSums& sums) const {
  const Schedule& s = *look.priced.schedule;
  const bool ffn = touches_ffn(s, op), latent = e_.model.attention.kind == AttentionKind::Latent;
  if (!e_.workload.whole_layers() || (ffn && kind == moe_layer)) return;
  const auto writes = s.writes_of(op);
  if (latent && op.kind == OpKind::MpAllGather && op.phase == Phase::Forward &&
      s.tensors[writes.front()].kind == TensorKind::AttentionInput)
    return;  // beside the projections to low ranks
  sums.outside += duration;
  if (op.kind != OpKind::MpReduceScatter || op.phase != Phase::Backward) return;
  sums.gathers += duration;
  if (ffn) sums.border += duration;
}

void LayerLooking::note_held(LayerLook& look) const {
  const Schedule& s = *look.priced.schedule;
  const Blocks blocks = memory_blocks(s);
  IdVector<BlockId, char> made(blocks.all.size()), needed(blocks.all.size());
  for (const Op& op : s.ops)
    if (op.pass() == Phase::Forward)
      for (const TensorId t : s.writes_of(op)) made[blocks.of_tensor[t]] = 1;
    else
      for (const TensorId t : s.reads_of(op)) needed[blocks.of_tensor[t]] = 1;
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    if (t.persistent || t.place != Place::Device || made[b] == 0 || needed[b] == 0) continue;
    if (const auto kind = kind_of(t.layer)) look.held[*kind][static_cast<std::size_t>(t.kind)] += blocks.all[b].bytes;
  }
}

}  // namespace dovetail::planners
