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
    : e_(one_micro_batch(experiment, schedule.micro_batches)),
      capacity_(layer_volumes(e_).capacity),
      group_(group_comb(schedule.groups, GroupKind::Ep)),
      experts_(e_.model.experts / group_.size),
      alike_(e_.workload.routing.kind != RoutingKind::Trace) {}

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

// The share that is taken of the rows from all members.
double RoutedRows::arrived(const Op& op, int owner) const {
  if (alike_) return taken(op.layer, op.rows, owner, owner);
  double sum = 0;
  for (int i = 0; i < group_.size; ++i) sum += taken(op.layer, op.rows, member(owner, i), owner);
  return sum / group_.size;
}

double RoutedRows::exchanged(const Op& op, int rank) const {
  double sent = 0;
  for (int i = 0; i < group_.size; ++i) sent += taken(op.layer, op.rows, rank, member(rank, i));
  return std::max(sent / group_.size, arrived(op, rank));
}

Work RoutedRows::work(const Op& op, int rank) const {
  Work work = op.work;
  const OpEntry& entry = entry_of(op.kind);
  if (!entry.exchanges_rows && !entry.on_arrived) return work;
  const double share = entry.exchanges_rows ? exchanged(op, rank) : arrived(op, rank);
  if (auto* exchange = std::get_if<ExchangeWork>(&work)) exchange->message = exchange->message * share;
  if (auto* kernel = std::get_if<KernelWork>(&work)) {
    kernel->flops = kernel->flops * share;
    kernel->row_share *= share;
    kernel->gemm_traffic = kernel->gemm_traffic * share;
    kernel->memory_traffic = kernel->memory_traffic * share;
  }
  return work;
}

}  // namespace dovetail
