// SPDX-License-Identifier: Apache-2.0
#include "models/network/token_copies.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/last_ones.hpp"
#include "models/question/drawn_choices.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail {
namespace {

constexpr std::size_t remembered = 256;  // chunks of draws: planners ask for the same ones for plan after plan

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
  const std::int64_t rows = experts * op.rows.size();
  const std::int64_t width = rows > 0 ? sent.elements / rows : 0;
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

namespace {

// An expert is on a rank of a node.
struct Owner {
  std::size_t rank, node;
};

}  // namespace

// Counts for each of these chunks, in one pass over the choices.
std::vector<TokenCopies::Tokens> TokenCopies::count_all(const Draw& draw, const std::vector<RowRange>& chunks) {
  using Slots = std::tuple<Choices, int, int, std::int64_t>;
  thread_local LastOnes<Slots, std::vector<std::int32_t>, 4> found;
  const std::vector<std::int32_t>& experts = *draw.choices;
  const std::vector<std::int32_t>& slots =
      found.find_or({draw.choices, draw.top_k, draw.experts, draw.capacity},
                    [&](const Slots&) { return slots_of(experts, draw.top_k, draw.experts, draw.capacity); });
  const auto ranks = static_cast<std::size_t>(draw.group), node_ranks = static_cast<std::size_t>(draw.node);
  const std::size_t nodes = ranks / node_ranks, top_k = static_cast<std::size_t>(draw.top_k);
  const std::size_t local = static_cast<std::size_t>(draw.experts) / ranks;
  std::vector<Owner> owners;  // by expert
  for (std::size_t i = 0; i < static_cast<std::size_t>(draw.experts); ++i)
    owners.push_back({i / local, i / local / node_ranks});
  std::vector<std::size_t> chunk_of(static_cast<std::size_t>(draw.capacity), chunks.size());  // by slot
  const auto slot = [&](std::int64_t row) { return chunk_of.begin() + std::min(row, draw.capacity); };
  for (std::size_t i = 0; i < chunks.size(); ++i) std::fill(slot(chunks[i].first), slot(chunks[i].last), i);
  std::vector<Tokens> counts(chunks.size(), {std::vector<double>(ranks), std::vector<double>(nodes), 0});
  // The token, from 1, that was counted last.
  std::vector<std::size_t> last_of_rank(chunks.size() * ranks), last_of_node(chunks.size() * nodes);
  const auto once = [](std::size_t& before, double& count, std::size_t token) {
    if (before != token) count += 1;
    before = token;
  };
  for (std::size_t first = 0, token = 1; first < experts.size(); first += top_k, ++token)
    for (std::size_t i = first; i < std::min(first + top_k, experts.size()); ++i) {
      if (slots[i] < 0) continue;
      const std::size_t chunk = chunk_of[static_cast<std::size_t>(slots[i])];
      if (chunk == chunks.size()) continue;
      const auto [rank, node] = owners[static_cast<std::size_t>(experts[i])];
      once(last_of_rank[chunk * ranks + rank], counts[chunk].to_rank[rank], token);
      once(last_of_node[chunk * nodes + node], counts[chunk].to_node[node], token);
      counts[chunk].choices += 1;
    }
  return counts;
}

namespace {

constexpr int most_chunks = 64;  // that are counted together

// All chunks of the capacity of which `rows` are one; else these alone.
std::vector<RowRange> with_other_chunks(RowRange rows, std::int64_t capacity) {
  for (int degree = 1; degree <= std::min<std::int64_t>(most_chunks, capacity); ++degree) {
    const auto at = static_cast<int>((rows.first * degree + capacity - 1) / capacity);
    if (at >= degree || chunk_rows(capacity, degree, at) != rows) continue;
    std::vector<RowRange> chunks;
    for (int i = 0; i < degree; ++i) chunks.push_back(chunk_rows(capacity, degree, i));
    return chunks;
  }
  return {rows};
}

}  // namespace

// A plan that asks for one chunk asks for the others too. Ranks and nodes with equal loads are not told apart: each
// counts as their mean.
TokenCopies::Tokens TokenCopies::count(const Draw& draw) {
  const std::vector<RowRange> chunks = with_other_chunks(draw.rows, draw.capacity);
  Draw first = draw;
  first.rows = chunks.front();
  thread_local LastOnes<std::pair<Draw, std::size_t>, std::vector<Tokens>, 32> counted;  // by first chunk and number
  const std::vector<Tokens>& of_chunks =
      counted.find_or({first, chunks.size()}, [&](const auto&) { return count_all(draw, chunks); });
  Tokens counts = of_chunks[static_cast<std::size_t>(std::ranges::find(chunks, draw.rows) - chunks.begin())];
  if (draw.uniform) {
    take_mean(counts.to_rank);
    take_mean(counts.to_node);
  }
  return counts;
}

TokenCopies::Key TokenCopies::key(const StepPlace& place, int rank) const {
  return {alike_ ? 0 : place.layer, rank, place.rows.first, place.rows.last};
}

TokenCopies::Choices TokenCopies::choices(const StepPlace& place, int rank) const {
  if (!alike_) return drawn_choices(e_, place.layer, rank);
  if (!choices_) choices_ = drawn_choices(e_, place.layer, rank);
  return choices_;
}

TokenCopies::Draw TokenCopies::draw_of(const StepPlace& place, int rank) const {
  const RowRange all{0, capacity_};
  return {choices(place, rank),
          e_.workload.top_k,
          e_.model.experts,
          group_.size,
          node_,
          capacity_,
          place.rows.size() == 0 ? all : RowRange(place.rows),
          uniform_};
}

const TokenCopies::Tokens& TokenCopies::tokens(const StepPlace& place, int rank) const {
  const auto [at, fresh] = tokens_.try_emplace(key(place, alike_ ? 0 : rank));
  if (!fresh) return at->second;
  if (!alike_) return at->second = count(draw_of(place, rank));
  thread_local LastOnes<Draw, Tokens, remembered> counted;
  return at->second = counted.find_or(draw_of(place, rank), count);
}

// The choices of the ranks of one op.
class TokenCopies::Chosen {
 public:
  Chosen(const TokenCopies& copies, const Op& op)
      : copies_(copies), op_(op), all_(copies.alike_ ? &copies.tokens(op, 0) : nullptr) {}
  const Tokens& operator()(int rank) const { return all_ != nullptr ? *all_ : copies_.tokens(op_, rank); }

 private:
  const TokenCopies& copies_;
  const Op& op_;
  const Tokens* all_;  // where all choose alike
};

Bytes TokenCopies::bytes(const Op& op, int from, int to) const {
  return bytes(op, Chosen(*this, op), from, to);
}

// To the experts a rank relays rows of the ranks at its own place on all nodes; on the way back, their sums.
Bytes TokenCopies::bytes(const Op& op, const Chosen& chosen, int from, int to) const {
  const bool to_experts = to_owners(op);
  const int source = to_experts ? from : to, target = to_experts ? to : from;
  const Bytes row = row_bytes(s_, op, e_.model.experts);
  const int node = place(target) / node_;
  if (node != place(source) / node_)
    return relayed_bytes(chosen(source).to_node[static_cast<std::size_t>(node)], row, to_experts, e_.workload.top_k, 1);
  double rows = 0;
  for (int i = 0; i < nodes(); ++i)
    rows += chosen(member(source, i * node_ + place(source) % node_)).to_rank[static_cast<std::size_t>(place(target))];
  return relayed_bytes(rows, row, to_experts, e_.workload.top_k, nodes());
}

const TokenCopies::Load& TokenCopies::load(const Op& op, int rank) const {
  const auto [at, fresh] = loads_.try_emplace({to_owners(op), key(op, uniform_ ? 0 : rank)});
  if (fresh) at->second = load_of(op, rank);
  return at->second;
}

const TokenCopies::Load& TokenCopies::largest_load(const Op& op) const {
  const auto [at, fresh] = largest_loads_.try_emplace({to_owners(op), key(op, 0)});
  if (!fresh) return at->second;
  if (!alike_) return at->second = largest_of_all(op);
  using Exchange = std::tuple<Draw, bool, double>;
  thread_local LastOnes<Exchange, Load, remembered> found;
  Exchange exchange{draw_of(op, 0), to_owners(op), row_bytes(s_, op, e_.model.experts).value()};
  return at->second = found.find_or(std::move(exchange), [&](const Exchange&) { return largest_of_all(op); });
}

// Ranks at one place have the same load if all choose alike.
TokenCopies::Load TokenCopies::largest_of_all(const Op& op) const {
  const int step = alike_ ? group_.stride : 1,
            ranks = alike_ ? group_.stride * group_.size : e_.parallelism.stage_ranks();
  Load most;
  for (int rank = 0; rank < ranks; rank += step) {
    const Load& each = load(op, rank);
    most = {std::max(most.network, each.network), std::max(most.inside, each.inside), std::max(most.rows, each.rows)};
  }
  return most;
}

TokenCopies::Load TokenCopies::load_of(const Op& op, int rank) const {
  const Chosen chosen(*this, op);
  const int own = place(rank);
  Load sent, received;
  const auto add = [&](int place, Bytes Load::*part) {
    sent.*part += bytes(op, chosen, rank, member(rank, place));
    received.*part += bytes(op, chosen, member(rank, place), rank);
  };
  for (int i = 0; i < nodes(); ++i)
    if (const int place = i * node_ + own % node_; place != own) add(place, &Load::network);
  for (int i = 0; i < node_; ++i)
    if (const int place = own / node_ * node_ + i; place != own) add(place, &Load::inside);
  double arriving = 0;
  for (int i = 0; i < group_.size; ++i) arriving += chosen(member(rank, i)).to_rank[static_cast<std::size_t>(own)];
  const std::vector<double>& to_rank = chosen(rank).to_rank;
  const double copies = std::max(arriving, std::accumulate(to_rank.begin(), to_rank.end(), 0.0));
  return {std::max(sent.network, received.network), std::max(sent.inside, received.inside),
          copies * row_bytes(s_, op, e_.model.experts)};
}

double TokenCopies::to_nodes(const StepPlace& place, int rank) const {
  const Tokens& chosen = tokens(place, rank);
  return chosen.choices > 0 ? std::accumulate(chosen.to_node.begin(), chosen.to_node.end(), 0.0) / chosen.choices : 1;
}

}  // namespace dovetail
