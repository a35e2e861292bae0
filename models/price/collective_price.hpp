// SPDX-License-Identifier: Apache-2.0
// The cost of a native collective where its group lies: of two groups of as many ranks, the one with more members on
// each node sends less of the same buffer through the network cards. How much follows from the algorithms that there
// are (network/node_traffic.hpp).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/price/calibration.hpp"
#include "models/price/resource_time.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// The place of a group. Parallel groups use the node's other GPUs at the same time.
struct GroupPlace {
  GroupShape shape;
  int ranks_per_node = 0;  // 0: not the same number on every node
  int gpus_per_node = 0;
  BytesPerSecond cards = {};  // a GPU's share of its node's network cards; 0: not described, or flows know better
  double least_of_trees = 2;  // see node_traffic.hpp; 2: trees are never faster than a ring
};
GroupPlace place_of(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster);
BytesPerSecond card_share(const Cluster& cluster);  // nics_per_node * nic_bandwidth / gpus_per_node

// Bytes through a GPU's share of the cards for each byte of n (as CollectiveCost counts n), of a group with `members`
// on each of `nodes` nodes (infinite: the limit of many).
double card_bytes(Collective collective, double nodes, double members, double least_of_trees);
// The fewest that any algorithm could send.
double least_card_bytes(Collective collective, double nodes, double members);

struct CollectivePrice : CollectiveCost {
  bool held_by_cards = false;  // the calibration says less than what the described cards can carry
  // Inside a node, where groups were measured by their sizes: it has the times, and alpha and beta are those of its
  // launch and of a large buffer. Null: alpha + n beta.
  const KernelTable* by_size = nullptr;
  std::int64_t by_size_ranks = 0;
  ResourceTime of(Bytes n) const;
};
// The collective of a table's kernels.
Collective collective_of(KernelKind kind);

// The price of a collective over a group that lies there. The calibration must live as long.
// - Inside a node, a table of that collective counts before entries.
// - Entries of a calibration for different numbers of GPUs: alpha and beta are interpolated linearly between neighbours
//   and held beyond the ends.
// - Entries that say how many members they had on each node: of those with the most similar number, beta changes from
//   their place to this one as the bytes through the cards do; inside the nodes the op meanwhile takes at least what
//   the intra entry says of the bytes there. The longer of the two is the price.
// - No beta is below what the cards carry, where these are known: by the algorithm, or at the measured place by any.
// A broadcast or reduce without entries costs as all-gather or reduce-scatter of the same buffer, as `assumed`:
// pipelined, every rank receives or sends the buffer once. A send without entries costs as an all-to-all of as many
// bytes, as `assumed`. Throws InputError (naming what the calibration has) when there is none for that link.
CollectivePrice find_cost(const Calibration& calibration, Collective collective, const GroupPlace& place);

// The collectives between nodes, of the experiment's groups, that are held by the cards.
std::vector<Collective> held_by_cards(const Experiment& experiment);

// A sentence for each all-reduce of a kind of group that goes by trees.
std::vector<std::string> trees_taken(const Experiment& experiment);

// A sentence for each collective among more GPUs of a node than its table has measured.
std::vector<std::string> extrapolated_groups(const Experiment& experiment);

}  // namespace dovetail
