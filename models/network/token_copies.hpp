// SPDX-License-Identifier: Apache-2.0
// An all-to-all that sends a token once to each node, however many of its experts are there (plan.all_to_all
// node_deduplicated): over the network to the rank of the same place on that node, which passes it on once to each rank
// that has one of its experts. Sums of the experts' results go the same way back. The tokens that have experts together
// are those of drawn_choices(); a router's choices are taken as uniform.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Bytes of one message: a row for each token, and beside it fp32 numbers. To the experts these say which token it is
// and which of the capacity's rows it takes; back they say which token. Each message begins with the number of rows
// that it has of each rank it brings rows of.
Bytes relayed_bytes(double rows, Bytes row, bool to_owners, int top_k, int sources);

// A row of the op in the format that it is sent in.
Bytes row_bytes(const Schedule& schedule, const Op& op, int experts);

class TokenCopies {
 public:
  // `experiment`: of one micro-batch. `capacity`: rows that an expert takes of a rank.
  TokenCopies(const Experiment& experiment, const Schedule& schedule, std::int64_t capacity);

  // Bytes from one rank to another of its group, two that an exchange has a message between: on one node, or at the
  // same place of two nodes.
  Bytes bytes(const Op& op, int from, int to) const;
  // The largest sums of what a rank sends or receives in one exchange: to other nodes, to other ranks of its node, and
  // a row for each token and rank that has one of its experts.
  struct Load {
    Bytes network, inside, rows;
  };
  const Load& load(const Op& op, int rank) const;
  // The largest one of all ranks, part by part.
  const Load& largest_load(const Op& op) const;
  // The share of all its choices' rows that a rank keeps if it has one for each token and node.
  double to_nodes(const StepPlace& place, int rank) const;

 private:
  struct Tokens {
    std::vector<double> to_rank, to_node;  // by place in the group, and by node
    double choices = 0;
  };
  using Key = std::tuple<int, int, std::int64_t, std::int64_t>;  // layer, rank and rows, as far as they matter
  Key key(const StepPlace& place, int rank) const;
  class Chosen;
  Bytes bytes(const Op& op, const Chosen& chosen, int from, int to) const;
  Load load_of(const Op& op, int rank) const;
  const Tokens& tokens(const StepPlace& place, int rank) const;
  using Choices = std::shared_ptr<const std::vector<std::int32_t>>;
  Choices choices(const StepPlace& place, int rank) const;
  struct Draw {  // all that decides a count
    Choices choices;
    int top_k = 0, experts = 0, group = 0, node = 0;
    std::int64_t capacity = 0;
    RowRange rows;
    bool uniform = false;
    friend bool operator==(const Draw&, const Draw&) = default;
  };
  Draw draw_of(const StepPlace& place, int rank) const;
  static Tokens count(const Draw& draw);
  static std::vector<Tokens> count_all(const Draw& draw, const std::vector<RowRange>& chunks);
  Load largest_of_all(const Op& op) const;
  int place(int rank) const { return rank / group_.stride % group_.size; }
  int member(int rank, int place) const;
  int nodes() const { return group_.size / node_; }

  const Schedule& s_;
  Experiment e_;
  Subgroup group_;
  int node_;  // members of the group on each node
  std::int64_t capacity_;
  bool uniform_, alike_;     // all experts have the same load; all ranks and layers choose alike
  mutable Choices choices_;  // where all choose alike
  mutable std::map<Key, Tokens> tokens_;
  mutable std::map<std::pair<bool, Key>, Load> loads_, largest_loads_;  // whether to the experts
};

}  // namespace dovetail
