// Messages as large as what is routed: which share of the capacity's rows is really taken, by the routing model. The
// rows of a chunk are those slots of each expert; tokens fill slots from the first on.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

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
  // Whether `op` moves rows, as messages of routed sizes.
  static bool moves(const Op& op);
  // The real work of an op on a rank; the op itself has room for the whole capacity. Its exchange is as long as the
  // larger of what it sends and receives. Gathers in the expert's group work on the rows that have arrived. Experts, and
  // ops that restore their tensors, do so with a grouped kernel, which rounds the rows of each expert up to a tile;
  // batched ones pad them to the whole capacity.
  Work work(const Op& op, int rank) const;
  // The same for the rank that has most to do: each member of a group waits for it.
  Work largest(const Op& op) const;

 private:
  using Loads = std::vector<std::int64_t>;  // by expert, capped at the capacity
  const Loads& loads(int layer, int rank) const;
  double taken(int layer, RowRange rows, int source, int owner) const;
  double arrived(const Op& op, int owner) const;
  double computed(const Op& op, int owner) const;
  double share_of(const Op& op, int rank) const;
  static Work shared(const Op& op, double share);  // that share of its work
  double exchanged(const Op& op, int rank) const;
  int place(int rank) const { return rank / group_.stride % group_.size; }
  int member(int rank, int place) const;

  Experiment e_;  // of one micro-batch
  std::int64_t capacity_;
  Subgroup group_;
  int experts_ = 1;                                     // of each member
  bool alike_ = true;                                   // all ranks and layers choose alike
  bool grouped_ = false;                                // the experts' kernel
  std::int64_t tile_ = 1;
  Subgroup shards_;  // ranks whose rows an expert's shards have together; of one where rows are not gathered
  int ranks_ = 1;    // that choose: of a stage
  mutable std::map<std::pair<int, int>, Loads> loads_;  // by layer and rank
};

}  // namespace dovetail
