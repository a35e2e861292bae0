// SPDX-License-Identifier: Apache-2.0
// Tutel's comparison of linear and 2DH all-to-alls on up to 4,096 GPUs.
#include <fmt/format.h>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/price/step_cost.hpp"

namespace dovetail::bench {
namespace {

constexpr double mebibyte = 1 << 20;

class AllToAlls {
 public:
  explicit AllToAlls(const Experiment& experiment)
      : calibration_(*experiment.calibration), per_node_(experiment.cluster.gpus_per_node) {}

  // `bytes`: of each GPU.
  Seconds time(std::span<const CollectiveStep> steps, int gpus, double bytes) const {
    ExchangeWork work;
    work.message = Bytes(bytes * static_cast<double>(exchanged_blocks(steps)) / gpus);
    work.copy_traffic = Bytes(2 * bytes * static_cast<double>(copied_blocks(steps)) / gpus);
    return duration_of(step_cost(calibration_, steps, work, {{gpus, gpus / per_node_}, per_node_, per_node_}));
  }
  std::vector<CollectiveStep> steps(AllToAll algorithm, int gpus) const {
    return all_to_all_steps(algorithm, std::vector{per_node_, gpus / per_node_});
  }
  Seconds one_by_one(AllToAll algorithm, int gpus, double bytes) const {
    Seconds sum;
    for (const CollectiveStep& step : steps(algorithm, gpus)) sum += time({&step, 1}, gpus, bytes);
    return sum;
  }
  double gain(int gpus, double bytes) const {
    return one_by_one(AllToAll::Linear, gpus, bytes) / one_by_one(AllToAll::TwoDimensional, gpus, bytes);
  }
  double fused_gain(int gpus, double bytes) const {
    return one_by_one(AllToAll::Linear, gpus, bytes) / time(steps(AllToAll::TwoDimensional, gpus), gpus, bytes);
  }

 private:
  const Calibration& calibration_;
  int per_node_;
};

}  // namespace

Recomputed tutel_2dh(const JsonReader& settings, FilesRead& files) {
  const Experiment experiment = read_experiment(settings.at("experiment"), files);
  const AllToAlls all_to_alls(experiment);
  const std::vector<int> scales = read_integer_axis(settings.at("gpus"));
  Recomputed result;
  std::vector<std::pair<std::string, double>> crossings;
  for (int size : read_integer_axis(settings.at("mebibytes"))) {
    int from = 0;  // the smallest scale from which on 2DH wins at all larger ones
    for (int gpus : scales) {
      const double gain = all_to_alls.gain(gpus, size * mebibyte);
      result.values[fmt::format("{} MiB, {} GPUs: linear / 2DH", size, gpus)] = gain;
      from = gain <= 1 ? 0 : from == 0 ? gpus : from;
    }
    result.values[fmt::format("{} MiB: 2DH wins from", size)] = static_cast<double>(from);
    crossings.emplace_back(fmt::format("{} MiB", size), from == 0 ? 1e9 : from);
  }
  result.values["scale from which 2DH wins"] = in_order(crossings);
  result.values["256 MiB, 64 GPUs: linear / 2DH in one launch"] = all_to_alls.fused_gain(64, 256 * mebibyte);
  for (int gpus : {8, 2048}) {
    const CollectiveStep inside = all_to_alls.steps(AllToAll::NaiveLocal, gpus).front();
    result.values[fmt::format("128 MiB, {} GPUs: exchange inside nodes, pieces not copied together", gpus)] =
        milliseconds(all_to_alls.time({&inside, 1}, gpus, 128 * mebibyte));
  }
  return result;
}

}  // namespace dovetail::bench
