// SPDX-License-Identifier: Apache-2.0
// Rings of native collectives, through all groups of a kind at once.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "models/base/errors.hpp"
#include "models/network/folded_network.hpp"
#include "models/network/ring_hops.hpp"

namespace dovetail {
namespace {

// Bytes on links, each told from others by tier, number and direction.
class Loads {
 public:
  explicit Loads(const Topology& topology) : topology_(topology) {}

  // class_of(tier, rank, up) of the link that a rank uses.
  template <class ClassOf>
  void add(int from, int to, double share, ClassOf class_of) {
    if (to < 0) return;
    const TierMask mask = topology_.between(from, to);
    for (std::size_t t = 0; t < topology_.tiers().size(); ++t)
      if ((mask >> t & 1) != 0) {
        add(t, from, true, share, class_of(t, from, true));
        add(t, to, false, share, class_of(t, to, false));
      }
  }

  void add(std::size_t tier, int rank, bool up, double share, int link_class) {
    const auto key =
        (static_cast<std::uint64_t>(topology_.tiers()[tier].link_of(rank)) << 8) | (tier << 1) | (up ? 1 : 0);
    Load& load = loads_[key];
    load.link_class = link_class;
    load.bytes += share;
  }

  void finish(RingClass& ring) const {
    std::map<int, std::pair<double, double>> of_class;  // busiest, all
    for (const auto& [key, load] : loads_) {
      auto& [busiest, all] = of_class[load.link_class];
      busiest = std::max(busiest, load.bytes);
      all += load.bytes;
    }
    for (const auto& [link_class, bytes] : of_class) {
      ring.uses.push_back({link_class, bytes.first});
      ring.all.push_back({link_class, bytes.second});
    }
  }

 private:
  struct Load {
    int link_class = 0;
    double bytes = 0;
  };
  const Topology& topology_;
  std::map<std::uint64_t, Load> loads_;
};

}  // namespace

RingHops ring_hops(Subgroup group, int rank, int node) {
  const int block = group.stride * group.size, first = rank / block * block + rank % group.stride;
  const auto member = [&](int i) { return first + i % group.size * group.stride; };
  // Group ranks on the node of a member: [begin, end).
  const auto begin = [&](int r) { return std::max(0, (r / node * node - first + group.stride - 1) / group.stride); };
  const auto end = [&](int r) {
    return std::min(group.size, ((r / node + 1) * node - first + group.stride - 1) / group.stride);
  };
  const int low = begin(rank), high = end(rank), place = (rank - first) / group.stride - low, here = high - low;
  RingHops hops;
  const bool leaves = here < group.size;
  if (here > 1) {
    hops.inside = member(low + (place + 1) % here);
    hops.share_inside = leaves ? (here - 1.0) / here : 1;
  }
  if (leaves) {
    const int next = member(high), there = end(next) - begin(next);
    hops.outside = member(high % group.size + place % there);
    hops.share_outside = 1.0 / here;
  }
  return hops;
}

std::vector<RingClass> FoldedNetwork::ring(Subgroup group, double between) const {
  if (group.size < 2) return {};
  if (class_of_.empty()) return {even_ring(group, between)};
  std::vector<RingClass> rings;
  std::vector<std::size_t> ring_of(ranks_.size());
  for (int c = 0; c < classes(); ++c) {
    std::vector<int> members;
    const int block = group.stride * group.size, rank = representative(c);
    for (int i = 0; i < group.size; ++i)
      members.push_back(class_of(rank / block * block + rank % group.stride + i * group.stride));
    std::ranges::sort(members);
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const auto same = std::ranges::find(rings, members, &RingClass::members);
    ring_of[static_cast<std::size_t>(c)] = static_cast<std::size_t>(same - rings.begin());
    if (same == rings.end()) rings.push_back({std::move(members), {}, {}});
  }
  std::vector<Loads> loads(rings.size(), Loads(topology_));
  const auto class_of_link = [&](std::size_t tier, int rank, bool up) { return link(tier, class_of(rank), up); };
  for (int rank = 0; rank < topology_.gpus(); ++rank) {
    const RingHops hops = ring_hops(group, rank, topology_.gpus_per_node());
    Loads& load = loads[ring_of[static_cast<std::size_t>(class_of(rank))]];
    load.add(rank, hops.inside, hops.share_inside, class_of_link);
    load.add(rank, hops.outside, hops.share_outside * between, class_of_link);
  }
  for (std::size_t i = 0; i < rings.size(); ++i) loads[i].finish(rings[i]);
  return rings;
}

// One node stands for all: it receives from the node before as much as it sends to the next. A larger block of P ranks
// holds P / members groups, and each of them crosses the block's border once.
RingClass FoldedNetwork::even_ring(Subgroup group, double between) const {
  RingClass ring{{0}, {}, {}};
  Loads node(topology_);
  const auto class_of_link = [&](std::size_t tier, int, bool up) { return link(tier, 0, up); };
  const int per_node = topology_.gpus_per_node();
  const auto& tiers = topology_.tiers();
  for (int rank = 0; rank < per_node; ++rank) {
    const RingHops hops = ring_hops(group, rank, per_node);
    node.add(rank, hops.inside, hops.share_inside, class_of_link);
    if (hops.outside < 0) continue;
    const TierMask mask = topology_.between(rank, hops.outside);
    for (std::size_t t = 0; t < tiers.size(); ++t)
      for (bool up : {true, false})
        if ((mask >> t & 1) != 0 && tiers[t].kind != TierKind::Fabric)
          node.add(t, rank, up, hops.share_outside * between, link(t, 0, up));
  }
  node.finish(ring);
  for (LinkAmount& use : ring.all) use.amount *= static_cast<double>(topology_.gpus()) / per_node;
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    const int members = members_per_node(group, tiers[t].block);
    if (tiers[t].kind != TierKind::Fabric || members >= group.size) continue;
    const int groups = tiers[t].block / members;
    const double bytes = between * groups / tiers[t].links_per_block();
    for (bool up : {true, false}) {
      ring.uses.push_back({link(t, 0, up), bytes});
      ring.all.push_back({link(t, 0, up), bytes * links_[static_cast<std::size_t>(link(t, 0, up))].links});
    }
  }
  return ring;
}

}  // namespace dovetail
