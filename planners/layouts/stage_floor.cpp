// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/stage_floor.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "models/base/errors.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/blocks.hpp"
#include "planners/closed_form/layer_times.hpp"
#include "planners/contest.hpp"
#include "planners/layouts/one_stage.hpp"
#include "planners/refusal.hpp"

namespace dovetail::planners {
namespace {

constexpr std::size_t tensor_kinds = static_cast<std::size_t>(TensorKind::FrameworkBuffers) + 1;
constexpr std::size_t dense_layer = 0, moe_layer = 1, layer_kinds = 2, passes = 2;
constexpr int usual_degrees = 8;  // that are tried, more where the user has set them

using OfTensors = std::array<Bytes, tensor_kinds>;
using OfOps = std::array<Seconds, op_kinds>;

// What the ops of a layer take in one pass.
struct PassSums {
  Seconds other;                  // computing, but for routing and the experts
  Seconds routing;                // computing
  Seconds outside;                // model-parallel collectives of the chain
  Seconds gathers;                // of these: of gradients, beside which other ops may be computed again
  Seconds border;                 // of these: of what comes from another stage
  std::vector<Seconds> in, out;    // by chunk: exchanges of its rows before and after the experts
  std::array<Seconds, 2> links{};  // that exchanges use: between nodes, inside
  Seconds copied;
  std::optional<OpId> expert;
};

// What a schedule says of its last layer of each kind.
struct LayerLook {
  PricedSchedule priced;
  LayerVolumes volumes;
  std::array<std::array<PassSums, passes>, layer_kinds> sums{};
  std::array<OfOps, layer_kinds> again{};  // recomputed ops
  std::array<OfTensors, layer_kinds> held{};
};

class LayerLooking {
 public:
  LayerLooking(const Experiment& stage, Layers layers, Extent most = Extent::WholeLayers)
      : e_(of_layers(stage, layers)), at_{layers.dense - 1, layers.dense + layers.moe - 1} {
    if (layers.moe == 0) at_[moe_layer] = -1;
    e_.workload.extent = std::min(e_.workload.extent, most);
  }

  const Experiment& experiment() const { return e_; }

  LayerLook at(const Plan& plan) const {
    LayerLook look{price_plan(e_, plan), layer_volumes(e_, plan)};
    const Schedule& s = *look.priced.schedule;
    for (const OpId i : s.ops.ids())
      if (const auto kind = kind_of(s.ops[i].layer)) note(look, i, *kind);
    note_held(look);
    return look;
  }

 private:
  std::optional<std::size_t> kind_of(int layer) const {
    for (std::size_t kind = 0; kind < layer_kinds; ++kind)
      if (at_[kind] >= 0 && at_[kind] == layer) return kind;
    return std::nullopt;
  }

  void note(LayerLook& look, OpId id, std::size_t kind) const {
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

  void note_sent(const LayerLook& look, OpId id, std::size_t kind, PassSums& sums) const {
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

  // Of a chunk's scores others may be on their way at the same time.
  static void note_exchange(const Op& op, Seconds duration, PassSums& sums) {
    if (op.kind == OpKind::DispatchScores || op.kind == OpKind::GatherScores) return;
    const bool forward = op.phase == Phase::Forward, sums_up = op.kind == OpKind::EspAllReduce;
    const bool to_experts = op.kind == OpKind::Dispatch || op.kind == OpKind::EspAllGather;
    const auto chunk = static_cast<std::size_t>(std::max<int>(op.chunk, 0));
    for (std::vector<Seconds>* chunks : {&sums.in, &sums.out}) chunks->resize(std::max(chunks->size(), chunk + 1));
    (to_experts == forward && !sums_up ? sums.in : sums.out)[chunk] += duration;
  }

  // Without norms a pass begins and ends with such a collective, which may run beside another unit.
  void note_outside(const LayerLook& look, const Op& op, Seconds duration, std::size_t kind, PassSums& sums) const {
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

  void note_held(LayerLook& look) const {
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

  Experiment e_;
  std::array<int, layer_kinds> at_;  // the layer of each kind; -1: none
};

// Exchanges of rows that are cut into so many chunks.
struct CutExchange {
  Seconds in = no_time, out = no_time;  // of the chunk that takes least
  Seconds link = no_time;               // the busiest one, for all chunks
};

// The least of several looks.
struct Least {
  std::array<std::array<PassSums, passes>, layer_kinds> sums{};
  std::array<std::vector<CutExchange>, passes> exchange;  // by degree
  std::array<std::optional<ExpertTimes>, passes> experts;
  Seconds block = no_time;  // computing but for the experts in both passes, if attention is cut
  std::array<OfTensors, layer_kinds> held{};
  bool any = false;

  // Of rows in one chunk.
  void take(const LayerLook& look) {
    const auto less = [&](auto& mine, const auto& other) { mine = any ? std::min(mine, other) : other; };
    for (std::size_t kind = 0; kind < layer_kinds; ++kind) {
      for (std::size_t pass = 0; pass < passes; ++pass) {
        PassSums& mine = sums[kind][pass];
        const PassSums& other = look.sums[kind][pass];
        less(mine.other, other.other);
        less(mine.routing, other.routing);
        less(mine.outside, other.outside);
        mine.gathers = std::max(mine.gathers, other.gathers);
        mine.border = std::max(mine.border, other.border);
      }
      for (std::size_t t = 0; t < tensor_kinds; ++t) less(held[kind][t], look.held[kind][t]);
    }
    any = true;
    take_exchange(look, 1);
  }

  void take_exchange(const LayerLook& look, int degree) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      const PassSums& s = look.sums[moe_layer][pass];
      if (!s.expert) continue;
      exchange[pass].resize(std::max(exchange[pass].size(), static_cast<std::size_t>(degree)));
      CutExchange& mine = exchange[pass][static_cast<std::size_t>(degree) - 1];
      mine.in = std::min(mine.in, s.in.empty() ? Seconds(0) : std::ranges::min(s.in));
      mine.out = std::min(mine.out, s.out.empty() ? Seconds(0) : std::ranges::min(s.out));
      mine.link = std::min(mine.link, std::max(s.links[0], s.links[1]));
    }
  }

  void take(const ExpertTimes& times, std::size_t pass) {
    if (!experts[pass]) experts[pass] = times;
    ExpertTimes& mine = *experts[pass];
    for (std::size_t d = 0; d < mine.by_degree.size(); ++d)
      mine.by_degree[d] = std::min(mine.by_degree[d], times.by_degree[d]);
    mine.by_peers = std::min(mine.by_peers, times.by_peers);
    mine.memory = std::min(mine.memory, times.memory);
  }

  // Forgets what depends on how rows are exchanged.
  void without_exchanges() {
    for (PassSums& s : sums[moe_layer]) s.routing = Seconds(0);
    for (auto& of_pass : exchange) of_pass.clear();
  }

  // Forgets what links take.
  void without_links() {
    for (auto& of_kind : sums)
      for (PassSums& s : of_kind) s.outside = s.gathers = s.border = Seconds(0);
    for (auto& of_pass : exchange)
      for (CutExchange& e : of_pass) e = {Seconds(0), Seconds(0), Seconds(0)};
  }

  CutExchange exchange_of(std::size_t pass, std::size_t degree) const {
    const bool known = degree < exchange[pass].size() && exchange[pass][degree].link < no_time;
    return known ? exchange[pass][degree] : CutExchange{Seconds(0), Seconds(0), Seconds(0)};
  }

  // Experts and exchanges, between the ops of routing before and after them. `more`: that is computed beside them.
  // Chunks of peers are exchanged with as many bytes.
  Seconds of_experts(std::size_t pass, Seconds more) const {
    if (!experts[pass]) return {};
    Seconds least = experts[pass]->by_peers + more;
    for (std::size_t d = 0; d < experts[pass]->by_degree.size(); ++d) {
      const CutExchange e = exchange_of(pass, d);
      least = std::min(least, std::max(experts[pass]->by_degree[d] + more + e.in + e.out, e.link));
    }
    return least;
  }
  // The forward experts once more, whose results need not come back.
  Seconds experts_again() const {
    if (!experts[0]) return {};
    Seconds least = experts[0]->by_peers;
    for (std::size_t d = 0; d < experts[0]->by_degree.size(); ++d)
      least = std::min(least, experts[0]->by_degree[d] + exchange_of(0, d).in);
    return least;
  }
  Seconds of(std::size_t kind, std::size_t pass, Seconds more = Seconds(0)) const {
    const PassSums& s = sums[kind][pass];
    const Seconds all = s.other + s.routing + s.outside;
    return kind == moe_layer ? all + of_experts(pass, more) : all;
  }
  // Of both passes, with nothing computed again.
  Seconds of(std::size_t kind) const {
    const Seconds chain = of(kind, 0) + of(kind, 1);
    if (kind != moe_layer || block >= no_time) return chain;
    Seconds computed = block;
    for (const auto& times : experts)
      if (times) computed += times->least();
    return std::min(chain, computed);
  }
};

// The plans that move rows in other ways, with all that the user holds.
class Variants {
 public:
  Variants(const Experiment& stage, const Plan& base, const StageFloors::Hold& hold)
      : stage_(stage), base_(of_one_stage(base)), hold_(hold) {
    for (const KnobClass group : {KnobClass::Degrees, KnobClass::Arrangement}) copy_knobs(group, Plan{}, base_);
    Plan dense = base_;
    dense.encoding = Encoding::Dense;
    if (!legal(base_) && legal(dense)) base_ = dense;
    Plan by_size = base_;
    by_size.protocol = Protocol::BySize;
    if (legal(by_size)) base_.protocol = Protocol::BySize;
  }

  // With what the user holds, but for how it is arranged. Empty: it cannot be built.
  std::optional<Plan> legal(const Plan& plan) const {
    Plan held = plan;
    if (hold_) hold_(held);
    held = of_one_stage(held);
    for (const KnobClass group : {KnobClass::Degrees, KnobClass::Arrangement}) copy_knobs(group, plan, held);
    if (refusal(held, stage_)) return std::nullopt;
    return held;
  }

  // Of each sharding, with its exchanges or one of these.
  std::vector<std::vector<Plan>> sharded(bool all_exchanges) const {
    std::vector<std::vector<Plan>> found;
    for (const Plan& plan : shardings())
      for (const Plan& sent : all_exchanges ? exchanges(plan) : std::vector<Plan>{plan}) {
        const bool first = found.empty() || found.back().front().expert_sharding != sent.expert_sharding ||
                           found.back().front().sharding_repeats != sent.sharding_repeats;
        std::vector<Plan> none;
        std::vector<Plan>& here = first ? none : found.back();
        add(sent, here);
        if (!none.empty()) found.push_back(std::move(none));
      }
    return found;
  }

  // Rows get to their experts and back in another way, by the same exchanges.
  std::vector<Plan> encoded() const {
    std::vector<Plan> found;
    Plan plan = base_;
    plan.encoding = Encoding::Dense;
    add(plan, found);
    add(lean(), found);
    add(base_, found);
    return found;
  }

  // The plan with its rows in chunks.
  std::vector<Plan> in_chunks(Plan plan, int most_degree) const {
    std::vector<Plan> found;
    plan.scope = Scope::Moe;
    for (plan.forward_degree = 2; plan.forward_degree <= most_degree; ++plan.forward_degree) {
      plan.backward_degree = plan.forward_degree;
      add(plan, found);
    }
    return found;
  }

  // Those that cut attention.
  std::vector<Plan> blocks(int most_degree) const {
    std::vector<Plan> found;
    for (int degree = 2; degree <= most_degree; ++degree) {
      Plan plan = base_;
      plan.scope = Scope::Block;
      plan.forward_degree = plan.backward_degree = degree;
      Plan held = plan;
      if (hold_) hold_(held);
      if (held.scope == Scope::Block) add(plan, found);
    }
    return found;
  }

  // Of these the one that holds least.
  Plan lean() const {
    Plan plan = base_;
    for (const auto& change : std::vector<std::function<void(Plan&)>>{
             [](Plan& p) { p.scores_at = ScoresAt::Experts; },
             [](Plan& p) { p.expert_kernel = ExpertKernel::Grouped; }}) {
      Plan other = plan;
      change(other);
      if (legal(other)) plan = other;
    }
    return plan;
  }

 private:
  void add(const Plan& plan, std::vector<Plan>& found) const {
    if (const std::optional<Plan> built = legal(plan); built && std::ranges::count(found, *built) == 0)
      found.push_back(*built);
  }

  // With the kernel that tells the rows of experts apart, if there is one: it knows of the other one too.
  Plan in_own_rows(const Plan& plan) const {
    Plan grouped = plan;
    grouped.expert_kernel = ExpertKernel::Grouped;
    return legal(grouped) ? grouped : plan;
  }

  std::vector<Plan> shardings() const {
    std::vector<Plan> found{in_own_rows(base_)};
    const int esp = stage_.parallelism.esp;
    if (esp == 1) return found;
    Plan plan = found.front();
    plan.expert_sharding = ExpertSharding::EpDp;
    found.push_back(plan);
    plan.expert_sharding = ExpertSharding::EpMp;
    for (plan.sharding_repeats = 1; plan.sharding_repeats <= esp; ++plan.sharding_repeats)
      if (esp % plan.sharding_repeats == 0) found.push_back(plan);
    return found;
  }

  static std::vector<Plan> exchanges(const Plan& base) {
    std::vector<Plan> found{base};
    for (const auto& [name, algorithm] : all_to_all_names)
      for (const auto& [how, implementation] : all_to_all_implementation_names) {
        Plan& plan = found.emplace_back(base);
        plan.all_to_all = algorithm;
        plan.all_to_all_implementation = implementation;
        if (algorithm != AllToAll::NodeDeduplicated) continue;
        plan.scores_at = ScoresAt::Experts;
        plan.protocol = Protocol::Simple;
      }
    return found;
  }

  const Experiment& stage_;
  Plan base_;
  const StageFloors::Hold& hold_;
};

// What each part frees and computes again, and the ways that follow.
class Ways {
 public:
  Ways(const Least& least, const LayerLooking& looking, const Variants& variants, bool dense, bool moe)
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

  std::optional<LayerLook> look(Plan plan) const {
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
    LayerLeast& layer = kind == dense_layer ? floor.dense : floor.moe;
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

  const Least& least_;
  const LayerLooking& looking_;
  const Variants& variants_;
  const std::array<bool, layer_kinds> has_;
  const Plan lean_;
  std::vector<Part> parts_;
};

// Whether collectives of the stage take in the whole cluster what they take by themselves.
bool lies_alike(const Experiment& e) {
  const int ranks = e.parallelism.stage_ranks(), node = e.cluster.gpus_per_node;
  return ranks % node == 0 || node % ranks == 0;
}

// The smallest stage whose layers are the same: replicas of its groups change nothing there.
Experiment smallest_stage(Experiment e) {
  Parallelism& p = e.parallelism;
  const int ranks = p.stage_ranks(), node = e.cluster.gpus_per_node;
  if (ranks > node && ranks % node == 0) {
    const int least = std::lcm(std::lcm(node, p.mp), p.ep * p.esp);
    p.dp = least / p.mp;
    p.edp = least / (p.ep * p.esp);
  }
  return stage_alone(e);
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
  const Variants variants(looking.experiment(), base_, hold_);
  Least least;
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
    LayerLeast& layer = kind == dense_layer ? floor.dense : floor.moe;
    layer.passes = least.of(kind);
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
