// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/stage_floor.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/op_table.hpp"
#include "planners/layouts/layer_least.hpp"
#include "planners/layouts/row_variants.hpp"
#include "planners/steps/one_stage.hpp"

namespace dovetail::planners {
namespace {

constexpr int usual_degrees = 8;  // that are tried, more where the user has set them

// The ways that follow from what each part frees and computes again.
class Ways {
 public:
  Ways(const LayerLeast& least, const LayerLooking& looking, const RowVariants& variants, bool dense, bool moe)
      : least_(least), looking_(looking), variants_(variants), has_{dense, moe}, lean_(variants.lean()) {
    for (const auto& [name, part] : recompute_names)
      if (part != Recompute::Full) look_at(part);
  }

  void add_to(StageFloor& floor) {
    const std::uint32_t all = std::uint32_t{1} << parts_.size();
    for (std::uint32_t chosen = 0; chosen < all; ++chosen) add(floor, chosen, nullptr);
    add_full(floor);
    for (const auto& [name, restore] : restore_names)
      if (restore != Restore::Keep) add_restored(floor, restore);
  }

 private:
  struct Part {
    Recompute part;
    std::array<OfOps, layer_kinds> again;
    std::array<OfTensors, layer_kinds> saved;
  };

  std::optional<LayerLook> look(const Plan& plan) const {
    const std::optional<Plan> built = variants_.legal(plan);
    if (!built || built->recompute != plan.recompute || built->restore != plan.restore) return std::nullopt;
    return looking_.at(*built);
  }

  std::array<OfTensors, layer_kinds> saved(const LayerLook& other) const {
    std::array<OfTensors, layer_kinds> saved{};
    for (std::size_t kind = 0; kind < layer_kinds; ++kind)
      for (std::size_t t = 0; t < tensor_kinds; ++t)
        saved[kind][t] = std::max(Bytes(0), least_.held[kind][t] - other.held[kind][t]);
    return saved;
  }

  void look_at(Recompute part) {
    Plan plan = lean_;
    plan.recompute = EnumSet{part};
    const std::optional<LayerLook> found = look(plan);
    if (found) parts_.push_back({part, found->again, saved(*found)});
  }

  // Norms may run again beside exchanges, and what routing takes depends on the plan.
  Seconds again(std::size_t kind, std::uint32_t chosen) const {
    Seconds all;
    for (std::size_t op = 0; op < op_kinds; ++op) {
      Seconds most;
      for (std::size_t p = 0; p < parts_.size(); ++p)
        if ((chosen >> p & 1U) != 0) most = std::max(most, parts_[p].again[kind][op]);
      if (most <= Seconds(0)) continue;
      const auto which = static_cast<OpKind>(op);
      if (which == OpKind::Expert)
        all += least_.experts_again();
      else if (entry_of(which).part != OpPart::Routing)
        all += most;
    }
    return all;
  }

  Bytes held(std::size_t kind, std::uint32_t chosen, const std::array<OfTensors, layer_kinds>* restored) const {
    Bytes all;
    for (std::size_t t = 0; t < tensor_kinds; ++t) {
      Bytes left = least_.held[kind][t];
      if (left <= Bytes(0)) continue;
      for (std::size_t p = 0; p < parts_.size(); ++p)
        if ((chosen >> p & 1U) != 0) left = left - parts_[p].saved[kind][t];
      if (restored != nullptr) left = left - (*restored)[kind][t];
      all += std::max(left, Bytes(0));
    }
    return all;
  }

  // With `experts` or `all` of a layer made again, that is there before anything of it is freed.
  Bytes made_again(std::size_t kind, const EnumSet<Recompute>& parts, Bytes held) const {
    if (parts.has(Recompute::Full)) return this->held(kind, 0, nullptr) - held;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].part == Recompute::Moe && parts.has(Recompute::Moe))
        return this->held(kind, 0, nullptr) - this->held(kind, std::uint32_t{1} << p, nullptr);
    return {};
  }

  void push(StageFloor& floor, std::size_t kind, Seconds again, Seconds copied, Bytes held) const {
    PassesLeast& layer = kind == dense_layer ? floor.dense : floor.moe;
    layer.made_again.push_back(made_again(kind, floor.ways.back().parts, held));
    const Seconds hidden = least_.sums[kind][1].gathers;
    layer.again.push_back(std::max(Seconds(0), again - hidden));
    layer.copied.push_back(copied);
    layer.held.push_back(held);
  }

  struct Restored {
    Restore restore;
    std::array<OfTensors, layer_kinds> saved;
    Seconds copied, again;
  };

  void add(StageFloor& floor, std::uint32_t chosen, const Restored* restored) {
    KeepingWay& way = floor.ways.emplace_back();
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if ((chosen >> p & 1U) != 0) way.parts = way.parts | EnumSet{parts_[p].part};
    if (restored != nullptr) way.restore = restored->restore;
    for (std::size_t kind = 0; kind < layer_kinds; ++kind) {
      const bool here = restored != nullptr && kind == moe_layer;
      push(floor, kind, again(kind, chosen) + (here ? restored->again : Seconds(0)),
           here ? restored->copied : Seconds(0), held(kind, chosen, restored != nullptr ? &restored->saved : nullptr));
    }
  }

  void add_full(StageFloor& floor) {
    Plan plan = lean_;
    plan.recompute = EnumSet{Recompute::Full};
    const std::optional<LayerLook> found = look(plan);
    if (!found) return;
    floor.ways.push_back({plan.recompute, Restore::Keep});
    for (std::size_t kind = 0; kind < layer_kinds; ++kind) {
      Bytes held;
      for (std::size_t t = 0; t < tensor_kinds; ++t) held += std::min(least_.held[kind][t], found->held[kind][t]);
      push(floor, kind, has_[kind] ? least_.of(kind, 0) : Seconds(0), Seconds(0), held);
    }
  }

  void add_restored(StageFloor& floor, Restore restore) {
    Plan plan = lean_;
    plan.restore = restore;
    const std::optional<LayerLook> found = look(plan);
    if (!found || !least_.experts[0]) return;
    const auto& sums = found->sums[moe_layer];
    const auto products = static_cast<double>(found->volumes.expert_gemms);  // but the last one run again
    const Seconds hidden = (products - 1) / products * (least_.experts[0]->least() - least_.experts[0]->memory);
    const Seconds beside = offloads_hidden(restore) ? Seconds(0) : std::max(hidden, Seconds(0));
    const Restored restored{restore, saved(*found), sums[0].copied + sums[1].copied,
                            least_.of(moe_layer, 1, beside) - least_.of(moe_layer, 1)};
    const std::uint32_t all = std::uint32_t{1} << parts_.size();
    for (std::uint32_t chosen = 0; chosen < all; ++chosen) {
      bool goes = true;
      for (std::size_t p = 0; p < parts_.size(); ++p)
        if ((chosen >> p & 1U) != 0)
          goes = goes && parts_[p].part != Recompute::Activation && parts_[p].part != Recompute::Moe;
      if (goes) add(floor, chosen, &restored);
    }
  }

  const LayerLeast& least_;
  const LayerLooking& looking_;
  const RowVariants& variants_;
  const std::array<bool, layer_kinds> has_;
  const Plan lean_;
  std::vector<Part> parts_;
};

// Whether collectives of the stage take in the whole cluster what they take by themselves.
bool lies_alike(const Experiment& e) {
  const int ranks = e.parallelism.stage_ranks(), node = e.cluster.gpus_per_node;
  return ranks % node == 0 || node % ranks == 0;
}

// Parts whose work no schedule of one layer tells.
bool is_known(const Experiment& e, const Plan& base) {
  return e.extensions.empty() && !e.cluster.network && !e.model.gate_profile.given() &&
         !e.model.expert_profile.given() && e.workload.routing.kind != RoutingKind::Trace && base.row_tile <= 1 &&
         base.shadowed_experts.empty();
}

// Notes what the last stage has beside layers.
void look_at_head(const Experiment& stage, const Plan& plan, StageFloor& floor) {
  if (stage.workload.extent != Extent::Model) return;
  const Layers one = stage.model.dense() ? Layers{1, 0, 0} : Layers{0, 1, stage.workload.mtp_layers};
  const PricedSchedule priced = price_plan(of_layers(stage, one), plan);
  const Schedule& s = *priced.schedule;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    const bool computes = s.streams[op.stream].kind == StreamKind::Compute && !op.recomputed;
    if (!computes || entry_of(op.kind).part != OpPart::Ends || op.kind == OpKind::Embedding) continue;
    floor.head += priced.duration[i];
    if (op.kind == OpKind::MtpProjection) continue;
    std::vector<TensorId> rows;
    for (const auto& ids : {s.reads_of(op), s.writes_of(op)})
      for (const TensorId t : ids)
        if (const Tensor& tensor = s.tensors[t]; !tensor.persistent && tensor.place == Place::Device &&
                                                 !tensor.buffer.exists() && std::ranges::count(rows, t) == 0)
          rows.push_back(t);
    Bytes all;
    for (const TensorId t : rows) all += s.tensors[t].bytes();
    floor.head_rows = std::max(floor.head_rows, all);
  }
}

}  // namespace

StageFloors::StageFloors(const Experiment& experiment, const Plan& base, const Hold& hold)
    : experiment_(experiment),
      base_(base),
      hold_(hold),
      most_degree_(std::max({usual_degrees, base.forward_degree, base.backward_degree})),
      experts_(experiment, most_degree_) {}

const StageFloor* StageFloors::of(const Experiment& micro_batch, FloorDetail detail) {
  if (detail == FloorDetail::Rates || !is_known(micro_batch, base_)) return nullptr;
  const Experiment stage = smallest_stage(micro_batch);
  const auto [place, added] = known_.try_emplace(std::pair(layout_key(stage), detail));
  if (added) try {
      place->second = look_at(stage, lies_alike(micro_batch), detail);
    } catch (const InputError&) {  // a cost is missing
    }
  return place->second.ways.empty() ? nullptr : &place->second;
}

StageFloor StageFloors::look_at(const Experiment& stage, bool alike, FloorDetail detail) const {
  const Model& model = stage.model;
  const bool moe = !model.dense(), dense = model.dense() || model.first_moe() > 0 || model.moe_every > 1;
  const LayerLooking looking(stage, {dense ? 2 : 0, moe ? (dense ? 1 : 2) : 0, 0});
  const RowVariants variants(looking.experiment(), base_, hold_);
  LayerLeast least;
  const auto take_experts = [&](const LayerLook& look) {
    for (std::size_t pass = 0; pass < passes; ++pass)
      if (const auto& id = look.sums[moe_layer][pass].expert)
        least.take(experts_.of(look.priced, *id, looking.experiment(), look.volumes), pass);
  };
  const bool exchanged = detail != FloorDetail::Shapes;
  const LayerLooking in_chunks(stage, {0, 1, 0}, Extent::Layers);
  for (const std::vector<Plan>& exchanges : variants.sharded(exchanged))
    for (const Plan& plan : exchanges) {
      const LayerLook look = looking.at(plan);
      if (&plan == &exchanges.front()) take_experts(look);
      least.take(look);
      if (!exchanged || !moe) continue;
      for (Plan cut : variants.in_chunks(plan, most_degree_)) {
        cut.recompute = {};
        least.take_exchange(in_chunks.at(cut), cut.forward_degree);
      }
    }
  if (exchanged)
    for (const Plan& plan : variants.encoded()) least.take(looking.at(plan));
  StageFloor floor;
  if (!least.any) return floor;
  for (const Plan& plan : variants.blocks(most_degree_)) {
    const LayerLook look = looking.at(plan);
    least.block = std::min(least.block, look.sums[moe_layer][0].other + look.sums[moe_layer][1].other);
  }
  if (!exchanged) least.without_exchanges();
  if (!alike) least.without_links();
  for (const std::size_t kind : {dense_layer, moe_layer}) {
    PassesLeast& layer = kind == dense_layer ? floor.dense : floor.moe;
    layer.passes = least.of(kind);
    layer.paired = least.in_pairs(kind);
    layer.at_border = least.sums[kind][1].border;
  }
  look_at_head(stage, variants.lean(), floor);
  if (detail == FloorDetail::Whole)
    Ways(least, looking, variants, dense, moe).add_to(floor);
  else
    floor.ways.emplace_back();
  return floor;
}

}  // namespace dovetail::planners
