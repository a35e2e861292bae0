// SPDX-License-Identifier: Apache-2.0
#include "models/files/nccl_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"

namespace dovetail {
namespace {

constexpr double by_rounding = 1e-6;  // of numbers that have all their digits

// Bus bandwidth over algorithm bandwidth, as nccl-tests define both.
double bus_share(Collective collective, int ranks) {
  const double others = (ranks - 1.0) / ranks;
  switch (collective) {
    case Collective::AllReduce:
      return 2 * others;
    case Collective::AllToAll:
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return others;
    default:
      return 1;
  }
}

// Whether the size is that of all ranks' elements, and the count that of one.
bool counts_one_rank(Collective collective) {
  return collective == Collective::AllToAll || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter;
}

void require_bandwidth(const NcclTestsRow& row) {
  if (!row.algorithm_bandwidth) return;
  const auto& [shown, half] = *row.algorithm_bandwidth;
  const double told = row.size / row.us.value * 1e-3;  // bytes in a us are MB/s
  if (std::abs(told - shown) <= half + told * (row.us.half_digit / row.us.value + by_rounding)) return;
  throw InputError(row.place,
                   fmt::format("{:.6g} us for {:.0f} bytes are {:.4g} GB/s, but the output says {:.4g} GB/s: "
                               "is the time in microseconds?",
                               row.us.value, row.size, told, shown));
}

bool has_share(const NcclTestsRow& row, double share) {
  const auto& [algorithm, half_algorithm] = *row.algorithm_bandwidth;
  const auto& [bus, half_bus] = *row.bus_bandwidth;
  return std::abs(bus - share * algorithm) <= half_bus + share * half_algorithm + by_rounding * bus;
}

bool fits_share(const NcclTestsRun& run, double share) {
  return std::ranges::all_of(run.rows, [&](const NcclTestsRow& r) { return !r.bus_bandwidth || has_share(r, share); });
}

void require_share(const NcclTestsRun& run, Collective collective, int ranks) {
  const double share = bus_share(collective, ranks);
  for (const NcclTestsRow& row : run.rows)
    if (row.bus_bandwidth && !has_share(row, share))
      throw InputError(row.place,
                       fmt::format("bus bandwidth {:.4g} of {:.4g} GB/s, but that of {} among {} ranks is {:.4g} "
                                   "times the algorithm's",
                                   row.bus_bandwidth->value, row.algorithm_bandwidth->value,
                                   name_in(collective_names, collective), ranks, share));
}

// 0: the output has no counts, or they are the same for any number of ranks.
int ranks_by_counts(const NcclTestsRun& run, Collective collective) {
  int ranks = 0;
  for (const NcclTestsRow& row : run.rows) {
    const double counted = row.count * row.element;
    if (counted <= 0) continue;
    const double times = row.size / counted;
    const bool right = counts_one_rank(collective) ? times >= 1 && times == std::floor(times) : times == 1;
    if (!right || (ranks > 0 && times != ranks))
      throw InputError(
          row.place, fmt::format("{:.0f} elements of {} bytes do not make {:.0f} bytes of {}{}", row.count, row.element,
                                 row.size, name_in(collective_names, collective),
                                 ranks > 0 ? fmt::format(" among {} ranks, as in the lines before", ranks) : ""));
    if (counts_one_rank(collective)) ranks = static_cast<int>(times);
  }
  return ranks;
}

// Ranks in the order of the nodes, so many on each, with devices from 0 on.
bool lie_in_blocks(std::span<const ListedRank> listed, int of_each) {
  std::map<int, std::string_view> hosts;
  std::map<std::string_view, int> nodes;
  return std::ranges::all_of(listed, [&](const ListedRank& r) {
    const int node = r.rank / of_each;
    return r.rank % of_each == r.device && hosts.emplace(node, r.host).first->second == r.host &&
           nodes.emplace(r.host, node).first->second == node;
  });
}

// How many ranks each node has, where the devices that are listed leave one answer; else 0.
int members_by_devices(std::span<const ListedRank> listed, int ranks) {
  int found = 0;
  for (int of_each = 1; of_each <= ranks; ++of_each)
    if (ranks % of_each == 0 && lie_in_blocks(listed, of_each)) {
      if (found > 0) return 0;
      found = of_each;
    }
  return found;
}

// The first place where a rank is missing.
const ListedRank& after_gap(const std::vector<ListedRank>& listed) {
  for (std::size_t i = 1; i < listed.size(); ++i)
    if (listed[i].rank != listed[i - 1].rank + 1) return listed[i];
  return listed.back();
}

void set_by_whole_list(NcclTestsRun& run) {
  std::map<std::string_view, int> hosts;
  for (const ListedRank& r : run.listed)
    if (r.group == run.listed.front().group) {  // groups that run at once are alike
      ++run.ranks;
      ++hosts[r.host];
    }
  run.nodes = static_cast<int>(hosts.size());
  const auto same = [&](const auto& host) { return host.second == hosts.begin()->second; };
  run.members_per_node = std::ranges::all_of(hosts, same) ? hosts.begin()->second : 0;
}

// The ratio of the bandwidths must leave one number of ranks where no counts say it.
bool confirmed(const NcclTestsRun& run, Collective collective, int ranks) {
  return bus_share(collective, ranks) != bus_share(collective, ranks + 1) &&
         fits_share(run, bus_share(collective, ranks)) && !fits_share(run, bus_share(collective, ranks + 1));
}

void set_by_shortened_list(NcclTestsRun& run, Collective collective, int counted, int highest) {
  const ListedRank& gap = after_gap(run.listed);
  const auto one_group = [&](const ListedRank& r) { return r.group == run.listed.front().group; };
  const bool known = std::ranges::all_of(run.listed, one_group) &&
                     (counted > 0 ? highest < counted : confirmed(run, collective, highest + 1));
  const int ranks = counted > 0 ? counted : highest + 1;
  const int members = known ? members_by_devices(run.listed, ranks) : 0;
  if (members == 0)
    throw InputError(gap.place, fmt::format("the list of devices has {} of {} ranks and leaves open how many each node "
                                            "has, expected all of them",
                                            run.listed.size(), std::max(ranks, highest + 1)));
  run.ranks = ranks;
  run.nodes = ranks / members;
  run.members_per_node = members;
}

}  // namespace

void set_ranks(NcclTestsRun& run, std::optional<Collective> collective) {
  for (const NcclTestsRow& row : run.rows) require_bandwidth(row);
  run.ranks = run.nodes = run.members_per_node = 0;
  const int counted = collective ? ranks_by_counts(run, *collective) : 0;
  std::ranges::stable_sort(run.listed, {}, &ListedRank::rank);
  if (const auto twice = std::ranges::adjacent_find(run.listed, {}, &ListedRank::rank); twice != run.listed.end())
    throw InputError(std::next(twice)->place, fmt::format("rank {} is listed twice", twice->rank));
  const int last = run.listed.empty() ? -1 : run.listed.back().rank;
  if (const bool whole = std::cmp_equal(run.listed.size(), last + 1); whole && last >= 0)
    set_by_whole_list(run);
  else if (!whole && collective)
    set_by_shortened_list(run, *collective, counted, last);
  if (counted > 0 && run.ranks > 0 && run.ranks != counted)
    throw InputError(run.listed.front().place,
                     fmt::format("{} ranks in the list of devices, but the counts of elements "
                                 "are those of {}",
                                 run.ranks, counted));
  if (const int ranks = std::max(run.ranks, counted); collective && ranks > 0) require_share(run, *collective, ranks);
}

}  // namespace dovetail
