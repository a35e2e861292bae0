#include "models/schedule/builder/pipeline_order.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail::builder {

std::vector<StageUnit> stage_order(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  std::vector<StageUnit> order;
  if (schedule == PipelineSchedule::OneForwardOneBackward) {
    const int ahead = std::min(stages - 1 - stage, micro_batches);
    for (int i = 0; i < micro_batches + ahead; ++i) {
      if (i < micro_batches) order.push_back({stage, Phase::Forward, i});
      if (i >= ahead) order.push_back({stage, Phase::Backward, i - ahead});
    }
    return order;
  }
  for (int i = 0; i < micro_batches; ++i) order.push_back({stage, Phase::Forward, i});
  for (int i = micro_batches - 1; i >= 0; --i) order.push_back({stage, Phase::Backward, i});
  return order;
}

std::vector<StageUnit> pipeline_order(PipelineSchedule schedule, int stages, int micro_batches, bool training) {
  std::vector<std::vector<StageUnit>> left;  // by stage
  for (int stage = 0; stage < stages; ++stage) {
    left.push_back(stage_order(schedule, stage, stages, micro_batches));
    if (!training) std::erase_if(left.back(), [](const StageUnit& unit) { return unit.phase == Phase::Backward; });
  }
  const std::size_t all = static_cast<std::size_t>(stages) * left.front().size();
  std::vector<StageUnit> order;
  std::vector<bool> done(2 * all);
  const auto index = [&](Phase phase, int stage, int micro_batch) {
    const auto row = static_cast<std::size_t>(phase == Phase::Forward ? stage : stages + stage);
    return row * static_cast<std::size_t>(micro_batches) + static_cast<std::size_t>(micro_batch);
  };
  const auto has_data = [&](const StageUnit& unit) {
    const int from = unit.phase == Phase::Forward ? unit.stage - 1 : unit.stage + 1;
    return from < 0 || from == stages || done[index(unit.phase, from, unit.micro_batch)];
  };
  std::vector<std::size_t> next(left.size());
  for (std::size_t before = 0; order.size() < all; before = order.size()) {
    for (std::size_t stage = 0; stage < left.size(); ++stage)
      if (next[stage] < left[stage].size() && has_data(left[stage][next[stage]])) {
        const StageUnit& unit = order.emplace_back(left[stage][next[stage]++]);
        done[index(unit.phase, unit.stage, unit.micro_batch)] = true;
      }
    check(order.size() > before, "stages wait for each other");
  }
  return order;
}

}  // namespace dovetail::builder
