// SPDX-License-Identifier: Apache-2.0
#include "models/network/token_copies.hpp"

#include <algorithm>
#include <numeric>

#include "models/question/drawn_choices.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail {
namespace {

void take_mean(std::vector<double>& counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::ranges::fill(counts, sum / static_cast<double>(counts.size()));
}

}  // namespace

Bytes relayed_bytes(double rows, Bytes row, bool to_owners, int top_k, int sources) {
  const double numbers = to_owners ? 1 + top_k : 1;
  return rows * (row + numbers * size_of(DType::Fp32)) + sources * size_of(DType::Fp32);
}

Bytes row_bytes(const Schedule& schedule, const Op& op, int experts) {
  const Tensor& sent = schedule.tensors[schedule.reads_of(op).front()];
  const std::int64_t width = sent.elements / (experts * op.rows.size());
  return static_cast<double>(width) * size_of(sent.dtype);
}

TokenCopies::TokenCopies(const Experiment& experiment, const Schedule& schedule, std::int64_t capacity)
    : s_(schedule),
      e_(experiment),
      group_(group_comb(schedule.groups, GroupKind::Ep)),
      node_(schedule.node_ranks),
      capacity_(capacity),
      uniform_(e_.workload.routing.kind == RoutingKind::Router || e_.workload.routing.kind == RoutingKind::Uniform),
      alike_(e_.workload.routing.kind != RoutingKind::Trace) {}

int TokenCopies::member(int rank, int place) const {
  const int block = group_.stride * group_.size;
  return rank / block * block + rank % group_.stride + place * group_.stride;
}

// Ranks and nodes with equal loads are not told apart: each counts as their mean.
TokenCopies::Tokens TokenCopies::count(const StepPlace& place, int rank) const {
  const std::vector<std::int32_t> experts = drawn_choices(e_, place.layer, rank);
  const std::vector<std::int32_t> slots = slots_of(experts, e_.workload.top_k, e_.model.experts, capacity_);
  const RowRange rows = place.rows.size() == 0 ? RowRange{0, capacity_} : place.rows;
  const int local = e_.model.experts / group_.size;
  const auto top_k = static_cast<std::size_t>(e_.workload.top_k);
  Tokens counts;
  std::vector<std::size_t> last_of_rank(static_cast<std::size_t>(group_.size)),
      last_of_node(static_cast<std::size_t>(nodes()));  // the token, from 1, that was counted last
  counts.to_rank.resize(last_of_rank.size());
  counts.to_node.resize(last_of_node.size());
  const auto once = [](std::vector<std::size_t>& last, std::vector<double>& count, int at, std::size_t token) {
    std::size_t& before = last[static_cast<std::size_t>(at)];
    if (before != token) count[static_cast<std::size_t>(at)] += 1;
    before = token;
  };
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (slots[i] < rows.first || slots[i] >= rows.last) continue;
    const int owner = experts[i] / local;
    once(last_of_rank, counts.to_rank, owner, i / top_k + 1);
    once(last_of_node, counts.to_node, owner / node_, i / top_k + 1);
    counts.choices += 1;
  }
  if (uniform_) {
    take_mean(counts.to_rank);
    take_mean(counts.to_node);
  }
  return counts;
}

TokenCopies::Key TokenCopies::key(const StepPlace& place, int rank) const {
  return {alike_ ? 0 : place.layer, rank, place.rows.first, place.rows.last};
}

const TokenCopies::Tokens& TokenCopies::tokens(const StepPlace& place, int rank) const {
  const auto [at, fresh] = tokens_.try_emplace(key(place, alike_ ? 0 : rank));
  if (fresh) at->second = count(place, rank);
  return at->second;
}

// To the experts a rank relays rows of the ranks at its own place on all nodes; on the way back, their sums.
Bytes TokenCopies::bytes(const Op& op, int from, int to) const {
  const bool to_experts = to_owners(op);
  const int source = to_experts ? from : to, target = to_experts ? to : from;
  const Bytes row = row_bytes(s_, op, e_.model.experts);
  const int node = place(target) / node_;
  if (node != place(source) / node_)
    return relayed_bytes(tokens(op, source).to_node[static_cast<std::size_t>(node)], row, to_experts, e_.workload.top_k,
                         1);
  double rows = 0;
  for (int i = 0; i < nodes(); ++i)
    rows +=
        tokens(op, member(source, i * node_ + place(source) % node_)).to_rank[static_cast<std::size_t>(place(target))];
  return relayed_bytes(rows, row, to_experts, e_.workload.top_k, nodes());
}

const TokenCopies::Load& TokenCopies::load(const Op& op, int rank) const {
  const auto [at, fresh] = loads_.try_emplace({to_owners(op), key(op, uniform_ ? 0 : rank)});
  if (fresh) at->second = load_of(op, rank);
  return at->second;
}

TokenCopies::Load TokenCopies::load_of(const Op& op, int rank) const {
  const int own = place(rank);
  Load sent, received;
  const auto add = [&](int place, Bytes Load::*part) {
    sent.*part += bytes(op, rank, member(rank, place));
    received.*part += bytes(op, member(rank, place), rank);
  };
  for (int i = 0; i < nodes(); ++i)
    if (const int place = i * node_ + own % node_; place != own) add(place, &Load::network);
  for (int i = 0; i < node_; ++i)
    if (const int place = own / node_ * node_ + i; place != own) add(place, &Load::inside);
  const Tokens& chosen = tokens(op, rank);
  double arriving = 0;
  for (int i = 0; i < group_.size; ++i) arriving += tokens(op, member(rank, i)).to_rank[static_cast<std::size_t>(own)];
  const double copies = std::max(arriving, std::accumulate(chosen.to_rank.begin(), chosen.to_rank.end(), 0.0));
  return {std::max(sent.network, received.network), std::max(sent.inside, received.inside),
          copies * row_bytes(s_, op, e_.model.experts)};
}

double TokenCopies::to_nodes(const StepPlace& place, int rank) const {
  const Tokens& chosen = tokens(place, rank);
  return chosen.choices > 0 ? std::accumulate(chosen.to_node.begin(), chosen.to_node.end(), 0.0) / chosen.choices : 1;
}

}  // namespace dovetail
