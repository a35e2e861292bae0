// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/least_experts.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "models/network/routed_rows.hpp"
#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

// The experts' op of one layer, cut in any way.
class CutExperts {
 public:
  CutExperts(const Experiment& stage, const KernelPrices& prices, const Schedule& schedule, const Op& op,
             const LayerVolumes& volumes)
      : stage_(stage), prices_(prices), s_(schedule), op_(op), work_(*op.kernel()), v_(volumes) {
    if (s_.routed) routed_.emplace(stage, s_);
    grouped_ = s_.routed && s_.expert_kernel == ExpertKernel::Grouped;
    if (!prices_.tells_kernels_apart()) gemm_ = &find_gemm(*stage.calibration, stage.workload.dtype);
  }

  Seconds of_degree(int degree) const {
    if (grouped_) return std::min(chunks(degree, Layout::ExpertMajor, true), by_equal_rows(degree));
    return by_equal_rows(degree);
  }

  Seconds of_peers(std::int64_t group) const {
    Seconds all;
    for (std::int64_t first = 0; first < v_.peers; first += group)
      all += of({0, v_.capacity}, v_.esp * std::min(group, v_.peers - first), Layout::ExpertMajor, false);
    return all;
  }

  // Reads and writes of device memory, which all ways have in common.
  Seconds memory() const {
    const MemoryCost& cost = stage_.calibration->memory;
    Bytes traffic = work_.memory_traffic;
    if (routed_) traffic = std::min(traffic, std::get<KernelWork>(routed_->largest(op_)).memory_traffic);
    return traffic * std::min(cost.beta, cost.outside.beta.value_or(cost.beta));
  }

 private:
  Seconds by_equal_rows(int degree) const {
    return std::min(chunks(degree, Layout::ExpertMajor, false), chunks(degree, Layout::RankMajor, false));
  }

  Seconds chunks(int degree, Layout layout, bool grouped) const {
    Seconds all;
    for (int i = 0; i < degree; ++i) all += of(chunk_rows(v_.capacity, degree, i), v_.esp * v_.peers, layout, grouped);
    return all;
  }

  // The products of so many rows of each expert from so many ranks.
  Seconds of(RowRange rows, std::int64_t ranks, Layout layout, bool grouped) const {
    double share = 1;
    if (grouped) {
      Op chunk = op_;
      chunk.rows = rows;
      share = std::get<KernelWork>(routed_->largest(chunk)).row_share;
    }
    if (gemm_ != nullptr) {
      const auto all = static_cast<double>(v_.capacity * v_.esp * v_.peers);
      const ResourceTime time =
          time_of(*gemm_, share * (static_cast<double>(rows.size() * ranks) / all) * work_.flops, work_.gemms);
      return time.fixed + time.busy;
    }
    const bool major = layout == Layout::ExpertMajor;
    const std::int64_t runs = v_.dispatched_experts * (major ? 1 : ranks), each = rows.size() * (major ? ranks : 1);
    std::vector<KernelUse> kernels;
    for (KernelUse kernel : s_.kernels_of(work_)) {
      const KernelShape shape =
          experts_shape(runs * each, runs, kernel.shape.size[2], kernel.shape.size[3], runs * each);
      kernel.shape = as_kind(shape, kernel.shape.kind);
      kernel.readers = major ? 1 : ranks;
      kernels.push_back(kernel);
    }
    const ResourceTime time = prices_.of(kernels, share);
    return time.fixed + time.busy;
  }

  const Experiment& stage_;
  const KernelPrices& prices_;
  const Schedule& s_;
  const Op& op_;
  const KernelWork& work_;
  const LayerVolumes& v_;
  const GemmCost* gemm_ = nullptr;  // of all products, where no shape is known
  std::optional<RoutedRows> routed_;
  bool grouped_ = false;
};

}  // namespace

LeastExperts::LeastExperts(const Experiment& experiment, int most_degree)
    : experiment_(experiment),
      prices_(*experiment.calibration, experiment.workload.dtype, experiment.workload.other_products(),
              experiment.workload.phases == Phases::Training, experiment.cluster.device.l2_cache),
      most_degree_(most_degree) {}

ExpertTimes LeastExperts::of(const PricedSchedule& priced, OpId id, const Experiment& stage,
                             const LayerVolumes& volumes) const {
  const Op& op = priced.schedule->ops[id];
  const auto degrees = static_cast<int>(std::clamp<std::int64_t>(volumes.capacity, 1, most_degree_));
  ExpertTimes times{std::vector<Seconds>(static_cast<std::size_t>(degrees)), {}, {}};
  if (op.kernel() == nullptr || find_kernel(*experiment_.calibration, op.kind, op.phase) != nullptr) return times;
  const CutExperts experts(stage, prices_, *priced.schedule, op, volumes);
  times.memory = experts.memory();
  for (int degree = 1; degree <= degrees; ++degree)
    times.by_degree[static_cast<std::size_t>(degree) - 1] = times.memory + experts.of_degree(degree);
  times.by_peers = no_time;
  if (!priced.schedule->routed)
    for (std::int64_t group = 1; group < volumes.peers; group += group < 4 ? 1 : group)
      times.by_peers = std::min(times.by_peers, times.memory + experts.of_peers(group));
  return times;
}

}  // namespace dovetail::planners
