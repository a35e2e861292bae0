#include "exec/host/rank_tensors.hpp"

#include <algorithm>
#include <limits>

#include "models/question/volumes.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::exec {

Numbers initial_values(const Experiment& e, const Tensor& t, const ModelData& data, int rank) {
  if (starts_at_zero(t)) return [](std::int64_t, std::span<double> to) { std::ranges::fill(to, 0); };
  switch (t.kind) {
    case TensorKind::LayerInput: {
      if (!t.persistent) return {};
      const int ranks = e.parallelism.stage_ranks();
      return [all = input_numbers(data, t.gradient), skipped = (t.micro_batch * ranks + rank % ranks) * t.elements](
                 std::int64_t first, std::span<double> to) { all(skipped + first, to); };
    }
    case TensorKind::DenseWeights:
      return dense_numbers(e, data, t.layer, rank);
    case TensorKind::RouterWeights:
      return router_numbers(e, data, t.layer);
    case TensorKind::ExpertWeights:
      return expert_numbers(e, data, t.layer, rank);
    default:
      return {};
  }
}

bool starts_at_zero(const Tensor& t) {
  return t.kind == TensorKind::DenseGradients || t.kind == TensorKind::RouterGradient ||
         t.kind == TensorKind::ExpertGradient || t.kind == TensorKind::OptimizerState;
}

bool is_result(const Experiment& e, const Tensor& t) {
  return t.kind == TensorKind::Routing || (t.kind == TensorKind::LayerInput && t.layer == e.workload.layers) ||
         (t.gradient && t.kind == TensorKind::MoeInput && t.layer == 0);
}

template <class Scalar>
RankTensors<Scalar>::RankTensors(const Experiment& experiment, const Schedule& schedule, const ModelData& data,
                                 int rank)
    : schedule_(schedule), uses_(schedule.tensors.size()), uses_left_(schedule.tensors.size()) {
  const int rank_class = schedule.class_of_rank(rank);
  std::vector<bool> is_read(schedule.tensors.size());
  for (const Op& op : schedule.ops) {
    if (schedule.class_of(op) != rank_class) continue;
    for (TensorId id : schedule.reads_of(op)) is_read[static_cast<std::size_t>(id)] = true;
    for (const auto& ids : {schedule.reads_of(op), schedule.writes_of(op)})
      for (TensorId id : ids) ++uses_[static_cast<std::size_t>(id)];
  }
  const Blocks blocks = memory_blocks(schedule);
  for (const Block& block : blocks.all) {
    const bool here = schedule.tensors[block.first].rank_class == rank_class;
    blocks_.emplace_back(static_cast<std::size_t>(here ? block.elements : 0));
  }
  initial_.resize(schedule.tensors.size());
  first_.resize(schedule.tensors.size());
  for (const TensorId i : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[i];
    if (t.rank_class != rank_class) continue;
    if (const Numbers initial = initial_values(experiment, t, data, rank)) {
      Values values(static_cast<std::size_t>(t.elements));
      initial(0, values);
      initial_[i].assign(values.begin(), values.end());
    }
    first_[i] = blocks_[static_cast<std::size_t>(blocks.of_tensor[i])].data();
    if (t.persistent || is_result(experiment, t) || !is_read[i]) uses_[i] = 0;
  }
}

template <class Scalar>
void RankTensors<Scalar>::prepare(bool poison) {
  for (std::size_t i = 0; i < first_.size(); ++i) {
    if (first_[i] == nullptr) continue;
    const std::span<Scalar> all = values(static_cast<TensorId>(i));
    if (!initial_[i].empty())
      std::ranges::copy(initial_[i], all.begin());
    else if (poison)
      std::ranges::fill(all, std::numeric_limits<Scalar>::quiet_NaN());
    uses_left_[i].store(uses_[i], std::memory_order_relaxed);
  }
}

template <class Scalar>
void RankTensors<Scalar>::release(const Op& op) {
  for (TensorId id : schedule_.reads_of(op)) release(id);
  for (TensorId id : schedule_.writes_of(op)) release(id);
}

template <class Scalar>
void RankTensors<Scalar>::release(TensorId id) {
  const auto i = static_cast<std::size_t>(id);
  if (uses_[i] > 0 && uses_left_[i].fetch_sub(1, std::memory_order_acq_rel) == 1)
    std::ranges::fill(values(id), std::numeric_limits<Scalar>::quiet_NaN());
}

template class RankTensors<float>;
template class RankTensors<double>;

}  // namespace dovetail::exec
