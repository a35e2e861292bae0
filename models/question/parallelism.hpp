// SPDX-License-Identifier: Apache-2.0
// How ranks form groups. The dense part and the experts are grouped independently:
//   dense:   pp * dp * mp = GPUs, mp innermost     experts: pp * edp * ep * esp = GPUs, esp innermost
// Whether a group's traffic stays in a node follows from where its ranks are, never assumed.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/question/cluster.hpp"
#include "models/question/model.hpp"

namespace dovetail {

struct Parallelism {
  int dp = 1;   // data parallel: replicas of the dense part
  int mp = 1;   // model (tensor) parallel attention
  int ep = 1;   // expert parallel: all-to-all group
  int esp = 1;  // expert sharding: one expert's hidden size over esp ranks
  int pp = 1;   // pipeline stages
  int edp = 1;  // replicas of the experts
  std::string pipeline_layout =
      {};  // what each (virtual) stage holds (pipeline_layout.hpp); empty: equal runs of layers
  // Between the parts that mp ranks share, each has a share of their tokens. Without it all repeat the work on all
  // tokens, as Megatron-LM without its option of this name does. Not given: as the system does it, with it by default.
  std::optional<bool> sequence_parallel = {};

  int stage_ranks() const { return dp * mp; }  // stage s holds ranks [s stage_ranks, (s + 1) stage_ranks)
  bool repeats_tokens() const { return mp > 1 && !sequence_parallel.value_or(true); }
  int token_repeats() const { return repeats_tokens() ? mp : 1; }      // ranks that have the same tokens: neighbours
  int token_shares() const { return mp / token_repeats(); }            // of the tokens of a model-parallel group
  int token_ranks() const { return stage_ranks() / token_repeats(); }  // of a stage, with tokens of their own
};

// Pp: the ranks with the same place in each pipeline stage. World: all ranks of all stages.
enum class GroupKind { Dp, Mp, Ep, Esp, Edp, Pp, World };
inline constexpr std::array<std::pair<std::string_view, GroupKind>, 7> group_kind_names{{{"dp", GroupKind::Dp},
                                                                                         {"mp", GroupKind::Mp},
                                                                                         {"ep", GroupKind::Ep},
                                                                                         {"esp", GroupKind::Esp},
                                                                                         {"edp", GroupKind::Edp},
                                                                                         {"pp", GroupKind::Pp},
                                                                                         {"world", GroupKind::World}}};

// The place of one group of a kind (all groups of a kind lie alike).
struct GroupShape {
  int ranks = 1;  // members
  int nodes = 1;  // nodes they are on
  bool crosses_nodes() const { return nodes > 1; }
};

// Members of a group whose place in it differs in one digit only: those at r, r + stride, ..., size of them. `stride`
// consecutive members form a part, size parts a larger one.
struct Subgroup {
  int stride = 1, size = 1;
  friend bool operator==(const Subgroup&, const Subgroup&) = default;
};

// The largest ep that the model's experts and so many groups of `esp` ranks of a pipeline stage allow, and that fills
// nodes or divides them, if there is one: 1 of a dense model.
int usual_ep(const Model& model, const Cluster& cluster, int groups, int esp);

// As FSMoE's testbeds have it: mp = esp = GPUs per node. If the model's sizes do not allow so many, mp is a power of
// two that fits, and esp is a number of GPUs that divides the expert hidden size. ep = gcd(experts, GPUs / esp); edp
// and dp take the rest. A dense model has esp 1 and ep 1.
Parallelism default_parallelism(const Cluster& cluster, const Model& model);

// Sizes that somebody gave; 0: left open.
struct GivenGroups {
  int pp = 1, esp = 0, ep = 0;
};

// As large models are trained: the least esp, and then the least mp, inside a node with which weights, gradients and
// Adam's states of the whole model (18 bytes a parameter) take at most two thirds of a rank's memory, or with which
// they take least where that is never so. The others follow as above. Each stage has its share of the layers.
Parallelism trained_parallelism(const Cluster& cluster, const Model& model, const GivenGroups& given = {});

// Throws InputError naming the numbers that do not divide or multiply up.
void validate(const Parallelism& parallelism, const Cluster& cluster, const Model& model);

// The members of `rank`'s group, in group order (so that member i has group rank i).
std::vector<int> group_members(const Parallelism& parallelism, GroupKind kind, int rank);
int group_size(const Parallelism& parallelism, GroupKind kind);
// The groups of a kind as a subgroup of all ranks of the cluster.
Subgroup group_comb(const Parallelism& parallelism, GroupKind kind);
GroupShape group_shape(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster);

// How many consecutive members of each group of the kind are on one node; 0: not the same number on every node.
int ranks_per_node(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster);
// The same for a subgroup, if its group has `ranks_per_node`; 0: the number differs between nodes.
int members_per_node(Subgroup subgroup, int ranks_per_node);

}  // namespace dovetail
