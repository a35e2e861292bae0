// SPDX-License-Identifier: Apache-2.0
#include "exec/host/rank_tensors.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/time/blocks.hpp"

namespace dovetail::exec {

template <class Scalar>
RankTensors<Scalar>::RankTensors(const Experiment& experiment, const Schedule& schedule, const ModelData& data,
                                 int rank, std::shared_ptr<RankMemory<Scalar>> memory, std::size_t number)
    : schedule_(schedule), rank_(rank), memory_(std::move(memory)), uses_left_(schedule.tensors.size()) {
  const int rank_class = schedule.class_of_rank(rank);
  const Blocks blocks = memory_blocks(schedule);
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
    first_[i] = memory_->block(number, blocks.of_tensor[i]);
  }
  for (const std::vector<OpId>& users : users_until_release(experiment, schedule, rank_class))
    uses_.add(static_cast<int>(users.size()));
}

template <class Scalar>
void RankTensors<Scalar>::prepare(bool poison) {
  for (const TensorId i : first_.ids()) {
    if (first_[i] == nullptr) continue;
    if (!initial_[i].empty()) std::ranges::copy(initial_[i], first_[i]);
    if (poison) poison_uses(i);
  }
}

template <class Scalar>
void RankTensors<Scalar>::prepare_training(const Experiment& experiment, const ModelData& batch, bool first,
                                           bool poison) {
  for (const TensorId i : first_.ids()) {
    const Tensor& t = schedule_.tensors[i];
    if (first_[i] == nullptr) continue;
    if (poison) poison_uses(i);
    if (initial_[i].empty() || (is_trained(t) && !first)) continue;
    if (t.kind == TensorKind::Tokens) {
      Values words(static_cast<std::size_t>(t.elements));
      initial_values(experiment, t, batch, rank_)(0, words);
      std::ranges::copy(words, first_[i]);
    } else {
      std::ranges::copy(initial_[i], first_[i]);
    }
  }
}

// Counts the uses of a step from its start, and puts NaN where nothing is known yet.
template <class Scalar>
void RankTensors<Scalar>::poison_uses(TensorId id) {
  if (initial_[id].empty()) std::ranges::fill(values(id), std::numeric_limits<Scalar>::quiet_NaN());
  uses_left_[static_cast<std::size_t>(id)].store(uses_[id], std::memory_order_relaxed);
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
