// SPDX-License-Identifier: Apache-2.0
#include "models/network/folded_network.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "models/base/draws.hpp"
#include "models/base/errors.hpp"

namespace dovetail {
namespace {

std::uint64_t joined(std::uint64_t a, std::uint64_t b) {
  return mixed(a ^ mixed(b));
}

std::uint64_t comb_of(Subgroup comb, int rank) {
  const int block = comb.stride * comb.size;
  return static_cast<std::uint64_t>(rank / block) * static_cast<std::uint64_t>(comb.stride) +
         static_cast<std::uint64_t>(rank % comb.stride);
}

int first_of(Subgroup comb, int rank) {
  const int block = comb.stride * comb.size;
  return rank / block * block + rank % comb.stride;
}

// Sizes of aligned blocks of ranks within which all tiers look alike from everywhere, from inside to outside.
std::vector<int> blocks_of(const Topology& topology, const Cluster& cluster) {
  std::vector<int> blocks;
  if (cluster.node_link == NodeLink::NvLinkPairs) blocks.push_back(2);
  for (const LinkTier& tier : topology.tiers()) {
    if (tier.inner > 1) blocks.push_back(tier.inner);
    blocks.push_back(tier.block);
  }
  std::ranges::sort(blocks);
  return blocks;
}

// Whether every rank sees the same: blocks are nested in each other, and in combs or combs in them.
bool even(const std::vector<int>& blocks, std::span<const Subgroup> combs) {
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i] % blocks[i - 1] != 0) return false;
  const auto nested = [](Subgroup comb, int block) {
    const int extent = comb.stride * comb.size;
    if (comb.stride % block == 0) return true;
    return block % comb.stride == 0 && (block % extent == 0 || extent % block == 0);
  };
  return std::ranges::all_of(combs, [&](Subgroup comb) {
    return std::ranges::all_of(blocks, [&](int block) { return nested(comb, block); });
  });
}

std::size_t distinct(std::vector<std::uint64_t> colours) {
  std::ranges::sort(colours);
  return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

}  // namespace

struct FoldedNetwork::Peers {
  int to = 0;  // class
  TierMask tiers = 0;
  double count = 0;
};

FoldedNetwork::FoldedNetwork(const Cluster& cluster, std::vector<std::uint64_t> colours,
                             std::span<const Subgroup> combs)
    : topology_(cluster), speeds_(gpu_speeds(cluster)) {
  if (colours.empty() && speeds_.empty() && even(blocks_of(topology_, cluster), combs)) {
    one_class();
    return;
  }
  colours.resize(static_cast<std::size_t>(cluster.gpus()));
  std::map<GpuSpeed, std::uint64_t> known;
  for (std::size_t i = 0; i < speeds_.size(); ++i)
    colours[i] = joined(colours[i], known.emplace(speeds_[i], known.size()).first->second);
  std::vector<Subgroup> sets(combs.begin(), combs.end());
  if (cluster.node_link == NodeLink::NvLinkPairs) sets.push_back({1, 2});
  sets.push_back({1, cluster.gpus_per_node});
  refine(colours, sets);
}

void FoldedNetwork::one_class() {
  ranks_ = {topology_.gpus()};
  representative_ = {0};
  for (std::size_t t = 0; t < topology_.tiers().size(); ++t) {
    const LinkTier& tier = topology_.tiers()[t];
    link_of_.push_back({static_cast<int>(links_.size())});
    add_links(t, static_cast<double>(topology_.gpus()) / tier.gpus_per_link(), 1);
    members_.push_back({static_cast<double>(tier.gpus_per_link())});
  }
}

void FoldedNetwork::add_links(std::size_t t, double links, double speed) {
  const LinkTier& tier = topology_.tiers()[t];
  for (bool up : {true, false})
    links_.push_back({tier.name + (up ? " up" : " down"), static_cast<int>(t), up, links, tier.bandwidth * speed});
}

void FoldedNetwork::refine(const std::vector<std::uint64_t>& colours, std::span<const Subgroup> combs) {
  // Planners fold the same network for plan after plan.
  struct Refined {
    std::vector<int> shape;
    std::vector<std::uint64_t> from, to;
  };
  thread_local Refined last;
  std::vector<int> shape{topology_.gpus_per_node()};
  for (const LinkTier& tier : topology_.tiers()) shape.insert(shape.end(), {tier.block, tier.inner, tier.node});
  for (const Subgroup& comb : combs) shape.insert(shape.end(), {comb.stride, comb.size});
  if (last.shape != shape || last.from != colours) last = {std::move(shape), colours, refined(colours, combs)};
  number_classes(last.to);
  number_links(last.to);
}

// Colour refinement: ranks part when some set that they are in (a link's users, a group, what of it lies below one
// link) holds other colours, until nothing parts any more.
std::vector<std::uint64_t> FoldedNetwork::refined(std::vector<std::uint64_t> colours,
                                                  std::span<const Subgroup> combs) const {
  const auto gpus = static_cast<std::size_t>(topology_.gpus());
  std::vector<std::uint64_t> next(gpus), key(gpus);
  std::unordered_map<std::uint64_t, std::uint64_t> sums;
  const auto part_by = [&](auto set_of) {
    sums.clear();
    for (std::size_t i = 0; i < gpus; ++i) sums[key[i] = set_of(static_cast<int>(i))] += mixed(colours[i]);
    for (std::size_t i = 0; i < gpus; ++i) next[i] = joined(next[i], sums[key[i]]);
  };
  for (std::size_t before = 0, now = distinct(colours); now > before; before = now, now = distinct(colours)) {
    next = colours;
    for (const LinkTier& tier : topology_.tiers())
      part_by([&](int rank) { return static_cast<std::uint64_t>(tier.link_of(rank)); });
    for (const Subgroup& comb : combs) {
      part_by([&](int rank) { return comb_of(comb, rank); });
      for (const LinkTier& tier : topology_.tiers())
        part_by([&](int rank) { return joined(comb_of(comb, rank), static_cast<std::uint64_t>(tier.link_of(rank))); });
      part_by([&](int rank) {
        return joined(comb_of(comb, rank), static_cast<std::uint64_t>(rank / topology_.gpus_per_node()));
      });
    }
    colours = next;
  }
  return colours;
}

// Numbers the classes in the order of their first ranks.
void FoldedNetwork::number_classes(const std::vector<std::uint64_t>& colours) {
  std::unordered_map<std::uint64_t, int> known;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const auto [at, fresh] = known.emplace(colours[i], classes());
    if (fresh) {
      ranks_.push_back(0);
      representative_.push_back(static_cast<int>(i));
    }
    ++ranks_[static_cast<std::size_t>(at->second)];
    class_of_.push_back(at->second);
  }
}

void FoldedNetwork::number_links(const std::vector<std::uint64_t>& colours) {
  for (std::size_t t = 0; t < topology_.tiers().size(); ++t) {
    const LinkTier& tier = topology_.tiers()[t];
    std::vector<std::vector<double>> users(static_cast<std::size_t>(topology_.gpus() / tier.gpus_per_link()));
    for (std::size_t i = 0; i < colours.size(); ++i) {
      auto& counts = users[static_cast<std::size_t>(tier.link_of(static_cast<int>(i)))];
      counts.resize(ranks_.size());
      ++counts[static_cast<std::size_t>(class_of_[i])];
    }
    std::map<std::vector<double>, int> known;  // users -> the class's first link
    for (const std::vector<double>& counts : users) {
      const auto [at, fresh] = known.emplace(counts, static_cast<int>(links_.size()));
      if (fresh) {
        const auto some = std::ranges::find_if(counts, [](double n) { return n > 0; });
        add_links(t, 0, speed_of(tier, speed(static_cast<int>(some - counts.begin()))));
        members_.push_back(counts);
      }
      const auto up = links_.begin() + at->second;
      ++up->links;
      ++(up + 1)->links;
    }
    auto& of_class = link_of_.emplace_back();
    for (int rank : representative_) of_class.push_back(known.at(users[static_cast<std::size_t>(tier.link_of(rank))]));
  }
}

GpuSpeed FoldedNetwork::speed(int rank_class) const {
  return speeds_.empty() ? GpuSpeed{} : speeds_[static_cast<std::size_t>(representative(rank_class))];
}

int FoldedNetwork::link(std::size_t tier, int rank_class, bool up) const {
  return link_of_[tier][static_cast<std::size_t>(rank_class)] + (up ? 0 : 1);
}

FlowClass FoldedNetwork::flow_class(int from, int to, TierMask tiers, double of_sender) const {
  FlowClass flow{from, to, tiers, of_sender, of_sender * ranks(from) / ranks(to), {}};
  for (std::size_t t = 0; t < topology_.tiers().size(); ++t) {
    if ((tiers >> t & 1) == 0) continue;
    const auto add = [&](int rank_class, bool up, double each) {
      const int l = link(t, rank_class, up);
      flow.uses.push_back({l, each * members_[static_cast<std::size_t>(l / 2)][static_cast<std::size_t>(rank_class)]});
    };
    add(from, true, flow.of_sender);
    add(to, false, flow.of_receiver);
  }
  return flow;
}

std::vector<FlowClass> FoldedNetwork::flows(const ExchangePattern& pattern) const {
  std::vector<FlowClass> all;
  for (int from = 0; from < classes(); ++from)
    for (const Peers& peers : peers(from, pattern)) all.push_back(flow_class(from, peers.to, peers.tiers, peers.count));
  return all;
}

FlowClass FoldedNetwork::send(int from, int offset) const {
  const int rank = representative(from);
  return flow_class(from, class_of(rank + offset), topology_.between(rank, rank + offset), 1);
}

std::vector<FoldedNetwork::Peers> FoldedNetwork::peers(int rank_class, const ExchangePattern& p) const {
  const Subgroup comb{p.group.stride * p.step.stride, p.step.size};
  if (class_of_.empty() && p.kind == StepKind::Exchange && p.every == 1) return exchange_peers(comb);
  check(!class_of_.empty(), "leaders that are not told apart");
  const int rank = representative(rank_class), first = first_of(comb, rank);
  if (rank / p.group.stride % p.group.size % p.every != 0) return {};
  std::map<std::pair<int, TierMask>, double> counts;
  for (int i = 0; i < comb.size; ++i) {
    const int peer = first + i * comb.stride;
    const bool sends = p.kind == StepKind::Exchange || (p.kind == StepKind::Gather ? peer : rank) == first;
    if (peer != rank && sends) ++counts[{class_of(peer), topology_.between(rank, peer)}];
  }
  std::vector<Peers> list;
  for (const auto& [key, count] : counts) list.push_back({key.first, key.second, count});
  return list;
}

// The peers of rank 0, which stands for all ranks. Members ascend, so the members of ever larger blocks follow one
// another. Every further node of a block has equally many members, at the same places.
std::vector<FoldedNetwork::Peers> FoldedNetwork::exchange_peers(Subgroup comb) const {
  std::map<TierMask, double> counts;
  const int node = topology_.gpus_per_node(), on_node = std::min(comb.size, members_per_node(comb, node));
  for (int i = 1; i < on_node; ++i) ++counts[topology_.between(0, i * comb.stride)];
  int inside = on_node;
  const auto widen = [&](int block) {
    const int members = members_per_node(comb, block);
    const int more = (members - inside) / on_node;  // for each place on a node
    for (int i = 0; more > 0 && i < on_node; ++i) counts[topology_.between(0, (inside + i) * comb.stride)] += more;
    inside = std::max(inside, members);
  };
  for (const LinkTier& tier : topology_.tiers())
    if (tier.block > node) widen(tier.block);
  widen(topology_.gpus());
  std::vector<Peers> list;
  for (const auto& [tiers, count] : counts) list.push_back({0, tiers, count});
  return list;
}

}  // namespace dovetail
