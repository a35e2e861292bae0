// SPDX-License-Identifier: Apache-2.0
// The least of what several schedules of a layer say, and the floors of its passes that follow.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "planners/layouts/layer_look.hpp"
#include "planners/layouts/least_experts.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {

// Exchanges of rows that are cut into so many chunks.
struct CutExchange {
  Seconds in = no_time, out = no_time;  // of the chunk that takes least
  Seconds link = no_time;               // the busiest one, for all chunks
};

// The least of several looks.
struct LayerLeast {
  std::array<std::array<PassSums, passes>, layer_kinds> sums{};
  std::array<std::vector<CutExchange>, passes> exchange;  // by degree
  std::array<std::optional<ExpertTimes>, passes> experts;
  Seconds block = no_time;  // computing but for the experts in both passes, if attention is cut
  std::array<OfTensors, layer_kinds> held{};
  bool any = false;

  // Takes a look at rows in one chunk.
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
  // Both passes, where all that links do may run beside other work.
  Seconds in_pairs(std::size_t kind) const {
    Seconds computed, link;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      computed += sums[kind][pass].other + sums[kind][pass].routing;
      if (kind != moe_layer) continue;
      if (experts[pass]) computed += experts[pass]->least();
      link += exchange_of(pass, 0).link;
    }
    return std::max(computed, link);
  }
  // Both passes, with nothing computed again.
  Seconds of(std::size_t kind) const {
    const Seconds chain = of(kind, 0) + of(kind, 1);
    if (kind != moe_layer || block >= no_time) return chain;
    Seconds computed = block;
    for (const auto& times : experts)
      if (times) computed += times->least();
    return std::min(chain, computed);
  }
};

}  // namespace dovetail::planners
