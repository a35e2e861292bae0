// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/pipeline_order.hpp"

#include <algorithm>
#include <array>

#include "models/base/errors.hpp"

namespace dovetail::builder {
namespace {

std::vector<StageUnit> all_then_back(int stage, int micro_batches) {
  std::vector<StageUnit> order;
  for (int i = 0; i < micro_batches; ++i) order.push_back({stage, Phase::Forward, i});
  for (int i = micro_batches - 1; i >= 0; --i) order.push_back({stage, Phase::Backward, i});
  return order;
}

// With one lap the groups are of no importance.
std::vector<StageUnit> in_turn(int stage, int stages, int micro_batches, int laps) {
  const int units = micro_batches * laps, group = stages * laps;
  const auto unit = [=](Phase phase, int i) {
    if (laps == 1) return StageUnit{stage, phase, i};
    const int lap = i % group / stages, micro_batch = i / group * stages + i % stages;
    return StageUnit{stage, phase, micro_batch, phase == Phase::Forward ? lap : laps - 1 - lap};
  };
  const int later = stages - 1 - stage;
  const int ahead = std::min(laps == 1 ? later : 2 * later + (laps - 1) * stages, units);
  std::vector<StageUnit> order;
  for (int i = 0; i < units + ahead; ++i) {
    if (i < units) order.push_back(unit(Phase::Forward, i));
    if (i >= ahead) order.push_back(unit(Phase::Backward, i - ahead));
  }
  return order;
}

// All micro-batches through all virtual stages, of which a unit needs what the one before it made.
class DoneUnits {
 public:
  DoneUnits(int stages, int micro_batches, int laps)
      : stages_(stages), virtual_stages_(stages * laps), micro_batches_(micro_batches) {
    for (std::vector<bool>& phase : done_) phase.resize(static_cast<std::size_t>(virtual_stages_ * micro_batches));
  }

  void add(const StageUnit& unit) { done_[phase(unit)][index(unit, 0)] = true; }
  bool has_data(const StageUnit& unit) const {
    const int step = unit.phase == Phase::Forward ? -1 : 1, from = virtual_stage(unit) + step;
    return from < 0 || from == virtual_stages_ || done_[phase(unit)][index(unit, step)];
  }

 private:
  static std::size_t phase(const StageUnit& unit) { return unit.phase == Phase::Forward ? 0 : 1; }
  int virtual_stage(const StageUnit& unit) const { return unit.lap * stages_ + unit.stage; }
  std::size_t index(const StageUnit& unit, int step) const {
    return static_cast<std::size_t>((virtual_stage(unit) + step) * micro_batches_ + unit.micro_batch);
  }

  int stages_, virtual_stages_, micro_batches_;
  std::array<std::vector<bool>, 2> done_;  // forward, backward
};

}  // namespace

std::vector<StageUnit> stage_order(PipelineSchedule schedule, int stage, int stages, int micro_batches, int laps) {
  check(laps == 1 || schedule == PipelineSchedule::Interleaved, "one schedule alone has laps");
  return schedule == PipelineSchedule::Gpipe ? all_then_back(stage, micro_batches)
                                             : in_turn(stage, stages, micro_batches, laps);
}

std::vector<StageUnit> pipeline_order(PipelineSchedule schedule, int stages, int micro_batches, bool training,
                                      int laps) {
  std::vector<std::vector<StageUnit>> left;  // by stage
  for (int stage = 0; stage < stages; ++stage) {
    left.push_back(stage_order(schedule, stage, stages, micro_batches, laps));
    if (!training) std::erase_if(left.back(), [](const StageUnit& unit) { return unit.phase == Phase::Backward; });
  }
  const std::size_t all = static_cast<std::size_t>(stages) * left.front().size();
  std::vector<StageUnit> order;
  DoneUnits done(stages, micro_batches, laps);
  std::vector<std::size_t> next(left.size());
  for (std::size_t before = 0; order.size() < all; before = order.size()) {
    for (std::size_t stage = 0; stage < left.size(); ++stage)
      if (next[stage] < left[stage].size() && done.has_data(left[stage][next[stage]]))
        done.add(order.emplace_back(left[stage][next[stage]++]));
    check(order.size() > before, "stages wait for each other");
  }
  return order;
}

}  // namespace dovetail::builder
