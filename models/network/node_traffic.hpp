// SPDX-License-Identifier: Apache-2.0
// The bytes that a collective sends out of each node of its group, by the algorithms that NCCL has for large buffers
// (src/graph/tuning.cc, commit 5067397). All-to-alls and sends are not among them: their messages are known.
#pragma once
#include "models/plan/communication.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail {

// Ring:  each rank passes data on to the next, so that what one rank passes on leaves each node.
// Trees: of an all-reduce, up and down two trees of nodes, each with half of the buffer. A node is inside one of them
//        and a leaf of the other. Two bytes leave it for each byte of the buffer; in a group on two nodes one, on three
//        1.5.
enum class Algorithm { Ring, Trees };

struct NodeTraffic {
  Algorithm algorithm = Algorithm::Ring;
  double bytes = 1;  // out of each node for each byte of n, as CollectiveCost counts n
};

// By a ring of so many ranks, which may be infinite.
double ring_traffic(Collective collective, double ranks);

// The least that trees take of a node's cards, for each byte of the buffer: 0 where NVSwitch adds up (NVLS trees).
// Elsewhere a tree sends two bytes for each byte of the buffer through one channel, and a channel carries at most
// 23.6 GB/s. Without described cards trees count as a ring.
double least_of_trees(const Cluster& cluster);

// By the algorithm that keeps the cards busy for the shortest time. `nodes` may be infinite.
NodeTraffic node_traffic(Collective collective, double nodes, double members, double least_of_trees);

// The same of a group in a cluster, over what a ring sends: the ring stands for the trees on described links.
double share_of_ring(Collective collective, const Parallelism& parallelism, GroupKind kind, const Cluster& cluster);

}  // namespace dovetail
