#include "bench/validate/grid_device.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/cli/interrupt.hpp"
#include "bench/pipeline/gpu_service.hpp"
#include "bench/validate/measured_plan.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/files/plan_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/price/transforms.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

Bytes predicted_peak(const PricedSchedule& priced) {
  const Timeline timeline = AnalyticBackend().run(with_durations(priced, priced.duration));
  return memory_use(*priced.schedule, timeline, Arenas::LeftOut).peak;
}

Json kernels_json(const exec::RunResult& run) {
  Json times = Json::array(), held = Json::array();
  for (const Seconds time : run.work) times.push_back(time.value());
  for (const bool each : run.timeline.emulated) held.push_back(each);
  return Json{{"times", times}, {"held", held}};
}

struct OpWork {
  IdVector<OpId, Seconds> times;
  IdVector<OpId, bool> held;
};

OpWork read_work(const JsonReader& json, const PricedSchedule& priced) {
  OpWork work;
  auto& [times, held] = work;
  for (const JsonReader& time : json.at("times").elements()) times.push_back(Seconds(time.number(0)));
  for (const JsonReader& each : json.at("held").elements()) held.push_back(each.boolean());
  if (times.size() != priced.duration.size() || held.size() != times.size())
    json.fail(
        fmt::format("{} times and {} times held, expected {}", times.size(), held.size(), priced.duration.size()));
  return work;
}

}  // namespace

GridDevice::GridDevice(const ValidationGrid& grid, const ValidationSettings& settings, Experiment cluster,
                       Measurements& measurements)
    : grid_(grid), settings_(settings), cluster_(std::move(cluster)), measurements_(measurements) {}

Experiment GridDevice::experiment_of(const exec::HostScale& size, const std::vector<KernelCost>& kernels) const {
  Experiment e = exec::scaled_for_host(cluster_, size);
  if (grid_.device == exec::RunDevice::Cuda) e.workload.dtype = cluster_.workload.dtype;  // hosts compute in fp32
  e.calibration.edit().kernels = kernels;
  exec::resolve_routed_capacity(e, settings_.seed);
  return e;
}

exec::RunResult GridDevice::execute(const ScheduleFile& file, bool check_numerics) const {
  const bool held = grid_.kernels == KernelTimes::Held;
  exec::RunOptions how;
  how.hold_compute = held ? exec::HoldCompute::Always : exec::HoldCompute::Never;
  how.dilation = held ? 0 : 1;
  how.check_numerics = check_numerics;
  how.measure.limit = settings_.measure_time / settings_.rounds;
  how.seed = settings_.seed;
  if (grid_.device == exec::RunDevice::Cuda) {
    const Writing writing;
    return gpu_service().run(file, how);
  }
  return exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
}

void GridDevice::measure_kernels(const exec::HostScale& size, const Plan& plan, int round, KernelFit& fit) {
  const Experiment e = experiment_of(size, {});
  const PricedSchedule priced = price_plan(e, plan);
  measurements_.make(
      fmt::format("calibrate {} {} round {}", size_name(size), to_json(plan).dump(), round),
      [&] {
        return kernels_json(execute({e, plan, priced}, false));
      },
      [&](const JsonReader& json) {
        const OpWork work = read_work(json, priced);
        fit.add(priced, work.times, work.held, size_of(e.workload.dtype));
        for (const OpId i : work.held.ids()) {
          if (!work.held[i]) continue;
          held_time_ += priced.duration[i];
          held_work_ += work.times[i];
        }
      });
}

void GridDevice::measure_plan(const Experiment& e, const std::string& where, int round, bool check_numerics,
                              PlanOutcome& p) {
  const PricedSchedule priced = price_plan(e, p.plan);
  if (p.ops.empty()) {
    p.ops = predicted_times(priced);
    p.memory.predicted_peak = predicted_peak(priced);
  }
  measurements_.make(
      fmt::format("{} {} {} round {}", where, p.system, to_json(p.plan).dump(), round),
      [&] {
        const exec::RunResult run = execute({e, p.plan, priced}, check_numerics);
        Json part = measured_json(priced, run, check_numerics);
        if (grid_.device == exec::RunDevice::Cuda && !run.notes.empty()) part["device"] = run.notes.front();
        return part;
      },
      [&](const JsonReader& json) {
        add_measured(json, p);
        described_ = json.string_or("device", described_);
      });
}

}  // namespace dovetail::bench
