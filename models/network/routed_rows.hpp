// SPDX-License-Identifier: Apache-2.0
// Messages as large as what is routed: which share of the capacity's rows is really taken, by the routing model. The
// rows of a chunk are those slots of each expert; tokens fill slots from the first on.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "models/network/token_copies.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

class RoutedRows {
 public:
  // Experts [j E / ep, (j + 1) E / ep) are on member j of their group.
  RoutedRows(const Experiment& experiment, const Schedule& schedule);

  // Equal for ranks that choose alike, and that the others choose alike, in all layers.
  std::uint64_t colour(int rank) const;
  // The share that is taken of a block of rows that `op` sends from one rank to another of its group.
  double share(const Op& op, int from, int to) const;
  // Bytes of the messages of an exchange that sends a token to a node once.
  const TokenCopies& copies() const { return *copies_; }
  // Whether `op` moves rows, as messages of routed sizes.
  static bool moves(const Op& op);
  // The real work of an op on a rank; the op itself has room for the whole capacity. Its exchange is as long as the
  // larger of what it sends and receives. Gathers in the expert's group work on the rows that have arrived. Experts,
  // and ops that restore their tensors, do so with a grouped kernel, which rounds the rows of each expert up to a tile;
  // batched ones pad them to the whole capacity.
  Work work(const Op& op, int rank) const;
  // The same for the rank that has most to do: each member of a group waits for it.
  Work largest(const Op& op) const;
  // The share of a tensor's rows that the rank which has most holds. Rows that batched experts work on are padded, and
  // compressed ones count as such.
  double held(const Tensor& tensor) const;

 private:
  using Loads = std::vector<std::int64_t>;  // by expert, capped at the capacity
  // Shares of the rows at a place: Chosen by a rank's tokens, Sent (the same, or one for each token and node),
  // Exchanged (the larger of what is chosen and what arrives), Arrived, and Computed by a grouped kernel.
  enum class Share : std::uint8_t { All, Chosen, Sent, Exchanged, Arrived, Computed };

  Share share_of(const Op& op) const;
  Share share_of_passes(const Op& op) const;
  Share share_of(const Tensor& tensor) const;
  double of_rank(Share share, const StepPlace& place, int rank) const;
  double of_largest(Share share, const StepPlace& place) const;
  template <class Visit>
  void for_each_unlike(Visit visit) const;
  static Work shared(const Op& op, double share);  // that share of its work
  static Work relayed(const Op& op, const TokenCopies::Load& load);

  const Loads& loads(int layer, int rank) const;
  double taken(int layer, RowRange rows, int source, int owner) const;
  double chosen(const StepPlace& place, int rank) const;
  double arrived(const StepPlace& place, int owner) const;
  double computed(const StepPlace& place, int owner) const;
  int place(int rank) const { return rank / group_.stride % group_.size; }
  int member(int rank, int place) const;

  const Schedule& s_;
  Experiment e_;  // of one micro-batch
  std::int64_t capacity_;
  Subgroup group_, shards_;  // that rows are exchanged in; whose rows an expert's shards have together
  int ranks_;                // that choose: of a stage
  int experts_;              // of each member
  bool alike_;               // all ranks and layers choose alike
  bool grouped_;             // the experts' kernel
  std::int64_t tile_;
  std::optional<TokenCopies> copies_;
  mutable std::map<std::pair<int, int>, Loads> loads_;                                    // by layer and rank
  mutable std::map<std::tuple<Share, int, std::int64_t, std::int64_t>, double> largest_;  // by layer and rows
};

// Says of each tensor of the rows' schedule how many of its rows are there (Tensor::held). All of them with padded
// messages.
void set_held_rows(const RoutedRows& rows, Schedule& schedule);

}  // namespace dovetail
