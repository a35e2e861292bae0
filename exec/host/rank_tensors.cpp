// SPDX-License-Identifier: Apache-2.0
#include "exec/host/rank_tensors.hpp"

#include <algorithm>
#include <limits>

namespace dovetail::exec {

template <class Scalar>
RankTensors<Scalar>::RankTensors(const Experiment& experiment, const Schedule& schedule, const ModelData& data,
                                 int rank)
    : schedule_(schedule), rank_(rank), uses_left_(schedule.tensors.size()) {
  const int rank_class = schedule.class_of_rank(rank);
  const Blocks blocks = memory_blocks(schedule);
  for (const Block& block : blocks.all) {
    const bool here = schedule.tensors[block.first].rank_class == rank_class;
    blocks_.push_back(std::vector<Scalar>(static_cast<std::size_t>(here ? block.elements : 0)));
  }
  first_.resize(schedule.tensors.size());
  initial_.resize(schedule.tensors.size());
  for (const TensorId i : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[i];
    if (t.rank_class != rank_class) continue;
    if (const Numbers initial = initial_values(experiment, t, data, rank)) {
      Values values(static_cast<std::size_t>(t.elements));
      initial(0, values);
      initial_[i].assign(values.begin(), values.end());
    }
    first_[i] = blocks_[blocks.of_tensor[i]].data();
  }
  for (const std::vector<OpId>& users : users_until_release(experiment, schedule, rank_class))
    uses_.add(static_cast<int>(users.size()));
}

template <class Scalar>
void RankTensors<Scalar>::prepare(bool poison) {
  for (const TensorId i : first_.ids()) {
    if (first_[i] == nullptr) continue;
    const std::span<Scalar> all = values(i);
    if (!initial_[i].empty())
      std::ranges::copy(initial_[i], all.begin());
    else if (poison)
      std::ranges::fill(all, std::numeric_limits<Scalar>::quiet_NaN());
    uses_left_[static_cast<std::size_t>(i)].store(uses_[i], std::memory_order_relaxed);
  }
}

template <class Scalar>
void RankTensors<Scalar>::prepare_training(const Experiment& experiment, const ModelData& batch, bool first) {
  for (const TensorId i : first_.ids()) {
    const Tensor& t = schedule_.tensors[i];
    if (first_[i] == nullptr || initial_[i].empty() || (is_trained(t) && !first)) continue;
    if (t.kind == TensorKind::Tokens) {
      Values words(static_cast<std::size_t>(t.elements));
      initial_values(experiment, t, batch, rank_)(0, words);
      std::ranges::copy(words, first_[i]);
    } else {
      std::ranges::copy(initial_[i], first_[i]);
    }
  }
}

template <class Scalar>
void RankTensors<Scalar>::release(const Op& op) {
  for (TensorId id : schedule_.reads_of(op)) release(id);
  for (TensorId id : schedule_.writes_of(op)) release(id);
}

template <class Scalar>
void RankTensors<Scalar>::release(TensorId id) {
  std::atomic<int>& left = uses_left_[static_cast<std::size_t>(id)];
  if (uses_[id] > 0 && left.fetch_sub(1, std::memory_order_acq_rel) == 1)
    std::ranges::fill(values(id), std::numeric_limits<Scalar>::quiet_NaN());
}

template class RankTensors<float>;
template class RankTensors<double>;

}  // namespace dovetail::exec
