// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/routing.hpp"

#include <algorithm>
#include <numeric>

#include "models/question/drawn_choices.hpp"

namespace dovetail::exec {
namespace {

// The `count` best of `size` candidates, ties to the lower index. score(i) orders.
template <class Score>
std::vector<std::int32_t> best(std::size_t size, std::int64_t count, Score score) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
    return score(a) > score(b) || (score(a) == score(b) && a < b);
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

Routing experts_choose(const LayerShape& s, const std::vector<double>& scores) {
  const auto n = static_cast<std::size_t>(s.experts);
  Routing routing;
  for (std::int32_t e = 0; e < s.experts; ++e) {
    auto slot = static_cast<std::int32_t>(s.first_slot);
    for (std::int32_t t : best(scores.size() / n, s.capacity, [&](std::int32_t i) {
           return scores[static_cast<std::size_t>(i) * n + static_cast<std::size_t>(e)];
         }))
      routing.push_back({t, e, slot++});
  }
  return routing;
}

std::vector<std::int32_t> token_order(const LayerShape& s, const std::vector<double>& scores) {
  const auto n = static_cast<std::size_t>(s.experts);
  std::vector<std::int32_t> order(scores.size() / n);
  std::iota(order.begin(), order.end(), 0);
  if (!s.gate.batch_prioritised) return order;
  const auto best_score = [&](std::int32_t t) {
    const auto first = scores.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(t) * n);
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(n));
  };
  std::ranges::stable_sort(order, std::greater(), best_score);
  return order;
}

}  // namespace

Routing choose(const LayerShape& s, const std::vector<double>& scores) {
  if (s.gate.kind == GateKind::ExpertChoice) return experts_choose(s, scores);
  const auto n = static_cast<std::size_t>(s.experts);
  Routing routing;
  for (std::size_t t = 0; t * n < scores.size(); ++t)
    for (std::int32_t e : best(n, s.top_k, [&](std::int32_t i) { return scores[t * n + static_cast<std::size_t>(i)]; }))
      routing.push_back({static_cast<std::int32_t>(t), e});
  return routing;
}

void assign_slots(const LayerShape& s, const std::vector<double>& scores, Routing& routing) {
  if (routing.empty() || routing.front().slot != Choice::no_slot_yet) return;
  const std::vector<std::int32_t> order = token_order(s, scores);
  std::vector<std::int32_t> taken(static_cast<std::size_t>(s.experts));
  for (std::int64_t j = 0; j < s.top_k; ++j)
    for (std::int32_t t : order) {
      Choice& choice = routing[static_cast<std::size_t>(t * s.top_k + j)];
      std::int32_t& next = taken[static_cast<std::size_t>(choice.expert)];
      choice.slot = next < s.capacity ? static_cast<std::int32_t>(s.first_slot) + next++ : Choice::dropped;
    }
}

Routing route(const LayerShape& s, const std::vector<double>& scores) {
  Routing routing = choose(s, scores);
  assign_slots(s, scores, routing);
  return routing;
}

Routing modelled_choices(const Experiment& e, int layer, int rank) {
  if (e.workload.routing.kind == RoutingKind::Router || !e.workload.gate.token_choice()) return {};
  Routing routing;
  const auto choices = drawn_choices(e, layer, rank);
  for (const std::int32_t expert : *choices)
    routing.push_back({static_cast<std::int32_t>(routing.size()) / e.workload.top_k, expert});
  return routing;
}

std::int64_t slot_place(const LayerShape& s, const Choice& choice) {
  return choice.expert * s.capacity + choice.slot - s.first_slot;
}

Routing routing_of_part(const LayerShape& s, RowRange tokens, const Routing& of_rank) {
  Routing part(of_rank.begin() + tokens.first * s.top_k, of_rank.begin() + tokens.last * s.top_k);
  for (Choice& choice : part) choice.token -= static_cast<std::int32_t>(tokens.first);
  return part;
}

std::int64_t drop_count(const Routing& routing) {
  return std::ranges::count(routing, Choice::dropped, &Choice::slot);
}

std::int64_t largest_load(const Routing& routing, std::int64_t experts) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(experts));
  for (const Choice& choice : routing) ++loads[static_cast<std::size_t>(choice.expert)];
  return std::ranges::max(loads);
}

}  // namespace dovetail::exec
