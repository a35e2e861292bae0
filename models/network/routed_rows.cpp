// SPDX-License-Identifier: Apache-2.0
#include "models/network/routed_rows.hpp"

#include <algorithm>
#include <span>

#include "models/base/errors.hpp"
#include "models/question/capacity.hpp"
#include "models/question/expert_loads.hpp"
#include "models/schedule/lowering.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {

RoutedRows::RoutedRows(const Experiment& experiment, const Schedule& schedule)
    : s_(schedule),
      e_(one_micro_batch(experiment, schedule.micro_batches)),
      capacity_(layer_volumes(e_).capacity),
      group_(group_comb(schedule.groups, GroupKind::Ep)),
      shards_(group_comb(schedule.groups, GroupKind::Esp)),
      ranks_(e_.parallelism.stage_ranks()),
      experts_(e_.model.experts / group_.size),
      alike_(e_.workload.routing.kind != RoutingKind::Trace),
      grouped_(schedule.expert_kernel == ExpertKernel::Grouped),
      tile_(std::max(1, schedule.row_tile)) {
  if (schedule.node_ranks > 0) copies_.emplace(e_, schedule, capacity_);
}

bool RoutedRows::moves(const Op& op) {
  const OpEntry& entry = entry_of(op.kind);
  return op.exchange() != nullptr && (entry.exchanges_rows || entry.on_arrived);
}

const RoutedRows::Loads& RoutedRows::loads(int layer, int rank) const {
  const auto [at, fresh] = loads_.try_emplace(alike_ ? std::pair{0, 0} : std::pair{layer, rank});
  if (fresh) {
    at->second = expert_loads(e_, at->first.first, at->first.second);
    for (std::int64_t& load : at->second) load = std::min(load, capacity_);
  }
  return at->second;
}

int RoutedRows::member(int rank, int place) const {
  const int block = group_.stride * group_.size;
  return rank / block * block + rank % group_.stride + place * group_.stride;
}

std::uint64_t RoutedRows::colour(int rank) const {
  std::uint64_t colour = 0;
  const auto add = [&](std::int64_t number) {
    colour = colour * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(number) + 1;
  };
  if (alike_) {
    const Loads& all = loads(0, 0);
    const auto first = all.begin() + std::ptrdiff_t{place(rank)} * experts_;
    Loads own(first, first + experts_);
    std::ranges::sort(own);
    for (std::int64_t load : own) add(load);
    return colour;
  }
  add(place(rank));
  const int tables = static_cast<int>(e_.workload.routing.layers.size());
  for (int layer = 0; layer < std::min(tables, e_.workload.all_layers()); ++layer)
    for (std::int64_t load : loads(layer, rank)) add(load);
  return colour;
}

double RoutedRows::taken(int layer, RowRange rows, int source, int owner) const {
  const Loads& all = loads(layer, source);
  if (rows.size() == 0) rows = {0, capacity_};
  std::int64_t sum = 0;
  const auto experts = static_cast<std::size_t>(experts_), first = static_cast<std::size_t>(place(owner)) * experts;
  for (std::int64_t load : std::span(all).subspan(first, experts))
    sum += std::clamp<std::int64_t>(load - rows.first, 0, rows.size());
  return static_cast<double>(sum) / static_cast<double>(rows.size() * experts_);
}

double RoutedRows::share(const Op& op, int from, int to) const {
  return to_owners(op) ? taken(op.layer, op.rows, from, to) : taken(op.layer, op.rows, to, from);
}

double RoutedRows::chosen(const StepPlace& place, int rank) const {
  double sum = 0;
  for (int i = 0; i < group_.size; ++i) sum += taken(place.layer, place.rows, rank, member(rank, i));
  return sum / group_.size;
}

// The share that is taken of the rows from all members.
double RoutedRows::arrived(const StepPlace& place, int owner) const {
  if (alike_) return taken(place.layer, place.rows, owner, owner);
  double sum = 0;
  for (int i = 0; i < group_.size; ++i) sum += taken(place.layer, place.rows, member(owner, i), owner);
  return sum / group_.size;
}

// The share of the capacity's rows that a grouped kernel computes: each expert's own ones from all ranks that share it,
// in whole tiles.
double RoutedRows::computed(const StepPlace& at, int owner) const {
  const RowRange rows = at.rows.size() == 0 ? RowRange{0, capacity_} : RowRange(at.rows);
  const auto tiles = [&](std::int64_t count) { return (count + tile_ - 1) / tile_ * tile_; };
  Loads own(static_cast<std::size_t>(experts_));
  const auto add = [&](int source, std::int64_t times) {
    const Loads& all = loads(at.layer, source);
    for (std::size_t i = 0; i < own.size(); ++i)
      own[i] += times * std::clamp<std::int64_t>(
                            all[static_cast<std::size_t>(place(owner)) * own.size() + i] - rows.first, 0, rows.size());
  };
  const std::int64_t copies = std::int64_t{group_.size} * shards_.size;
  if (alike_) {
    add(owner, copies);
  } else {
    for (int shard = 0; shard < shards_.size; ++shard)
      for (int source = 0; source < group_.size; ++source)
        add(member(owner / shards_.size * shards_.size + shard, source), 1);
  }
  std::int64_t sum = 0;
  for (std::int64_t count : own) sum += tiles(count);
  return static_cast<double>(sum) / static_cast<double>(experts_ * tiles(copies * rows.size()));
}

// The rows that a kernel passes over: those that tokens send or get back, or those that are at their experts.
RoutedRows::Share RoutedRows::share_of_passes(const Op& op) const {
  constexpr Role of_tokens = TensorKind::Encoded | TensorKind::Combined;
  const bool converts = op.kind == OpKind::Compress || op.kind == OpKind::Decompress;
  const TensorId rows = op.kind == OpKind::Compress ? s_.reads_of(op).front() : s_.writes_of(op).front();
  return !converts || of_tokens.covers(s_.tensors[rows].kind, false) ? Share::Sent : Share::Arrived;
}

RoutedRows::Share RoutedRows::share_of(const Op& op) const {
  const OpEntry& entry = entry_of(op.kind);
  if (op.kernel() != nullptr && op.kernel()->row_traffic > Bytes(0)) return share_of_passes(op);
  if (entry.exchanges_rows) return Share::Exchanged;
  if (!entry.on_arrived) return Share::All;
  if (op.exchange() != nullptr) return Share::Arrived;
  return grouped_ ? Share::Computed : Share::All;
}

RoutedRows::Share RoutedRows::share_of(const Tensor& tensor) const {
  using enum TensorKind;
  if (constexpr Role tokens = Encoded | Combined; tokens.covers(tensor.kind, false)) return Share::Sent;
  if (tensor.kind == EncodedScores) return Share::Chosen;
  if (!grouped_) return Share::All;
  if (constexpr Role rows = Dispatched | DispatchedScores | ExpertOutput; rows.covers(tensor.kind, false))
    return Share::Arrived;
  constexpr Role worked = ExpertInput | GatheredScores | Hidden | Activated | ExpertPartial;
  return worked.covers(tensor.kind, false) ? Share::Computed : Share::All;
}

double RoutedRows::of_rank(Share share, const StepPlace& place, int rank) const {
  switch (share) {
    case Share::Chosen:
      return chosen(place, rank);
    case Share::Sent:
      return chosen(place, rank) * (copies_ ? copies_->to_nodes(place, rank) : 1);
    case Share::Exchanged:
      return std::max(chosen(place, rank), arrived(place, rank));
    case Share::Arrived:
      return arrived(place, rank);
    case Share::Computed:
      return computed(place, rank);
    case Share::All:
      break;
  }
  return 1;
}

// visit(rank). Ranks at one place have the same rows if all choose alike.
template <class Visit>
void RoutedRows::for_each_unlike(Visit visit) const {
  const int step = alike_ ? group_.stride : 1, ranks = alike_ ? group_.stride * group_.size : ranks_;
  for (int rank = 0; rank < ranks; rank += step) visit(rank);
}

double RoutedRows::of_largest(Share share, const StepPlace& place) const {
  if (share == Share::All) return 1;
  if (share == Share::Exchanged) return std::max(of_largest(Share::Chosen, place), of_largest(Share::Arrived, place));
  const auto [at, fresh] =
      largest_.try_emplace({share, alike_ ? 0 : place.layer, place.rows.first, place.rows.last}, 0.0);
  if (!fresh) return at->second;
  const bool by_source = share == Share::Chosen || share == Share::Sent;
  if (alike_ && by_source) return at->second = of_rank(share, place, 0);
  for_each_unlike([&](int rank) { at->second = std::max(at->second, of_rank(share, place, rank)); });
  return at->second;
}

Work RoutedRows::work(const Op& op, int rank) const {
  if (s_.relays(op)) return relayed(op, copies_->load(op, rank));
  return shared(op, of_rank(share_of(op), op, rank));
}

Work RoutedRows::largest(const Op& op) const {
  if (!s_.relays(op)) return shared(op, of_largest(share_of(op), op));
  return relayed(op, copies_->largest_load(op));
}

double RoutedRows::held(const Tensor& tensor) const {
  return std::min(1.0, of_largest(share_of(tensor), tensor));
}

Work RoutedRows::shared(const Op& op, double share) {
  Work work = *op.work;
  if (share == 1) return work;
  if (auto* exchange = std::get_if<ExchangeWork>(&work)) exchange->message = exchange->message * share;
  if (auto* kernel = std::get_if<KernelWork>(&work)) {
    kernel->flops = kernel->flops * share;
    kernel->row_share *= share;
    kernel->gemm_traffic = kernel->gemm_traffic * share;
    const Bytes rows = kernel->row_traffic > Bytes(0) ? kernel->row_traffic : kernel->memory_traffic;
    kernel->memory_traffic = kernel->memory_traffic - rows * (1 - share);
  }
  return work;
}

Work RoutedRows::relayed(const Op& op, const TokenCopies::Load& load) {
  Work work = *op.work;
  auto& exchange = std::get<ExchangeWork>(work);
  exchange.message = load.rows;
  exchange.to_nodes = load.network;
  exchange.in_node = load.inside;
  return work;
}

void set_held_rows(const RoutedRows& rows, Schedule& schedule) {
  for (Tensor& tensor : schedule.tensors) tensor.held *= rows.held(tensor);
}

}  // namespace dovetail
