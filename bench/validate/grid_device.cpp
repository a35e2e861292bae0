// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/grid_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/cli/interrupt.hpp"
#include "bench/pipeline/gpu_service.hpp"
#include "bench/validate/grid_size.hpp"
#include "bench/validate/held_exchanges.hpp"
#include "bench/validate/measured_plan.hpp"
#include "bench/validate/slow_links.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/files/plan_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

Json kernels_json(const Schedule& schedule, const exec::RunResult& run) {
  Json times = Json::array(), held = Json::array(), alone = Json::array();
  for (const Seconds time : run.work) times.push_back(time.value());
  for (const bool each : run.timeline.emulated) held.push_back(each);
  for (const bool each : ran_alone(schedule, run.timeline)) alone.push_back(each);
  return Json{{"times", times}, {"held", held}, {"alone", alone}};
}

// The device of a run, as it calls itself, and its clock.
void add_device(const exec::RunResult& run, Json& part) {
  if (!run.notes.empty()) part["device"] = run.notes.front();
  part["clock_mhz"] = run.report.clock.mhz;
}

OpWork read_work(const JsonReader& json, const PricedSchedule& priced) {
  OpWork work;
  auto& [times, held, alone] = work;
  for (const JsonReader& time : json.at("times").elements()) times.push_back(Seconds(time.number(0)));
  for (const JsonReader& each : json.at("held").elements()) held.push_back(each.boolean());
  for (const JsonReader& each : json.at("alone").elements()) alone.push_back(each.boolean());
  if (times.size() != priced.duration.size() || held.size() != times.size() || alone.size() != times.size())
    json.fail(fmt::format("{} times, {} times held and {} times alone, expected {}", times.size(), held.size(),
                          alone.size(), priced.duration.size()));
  return work;
}

// The costs of `from` for all that is not an exchange, as far as `from` knows them.
void take_computation(const Calibration& from, Calibration& to) {
  std::erase_if(to.tables, [](const KernelTable& table) { return !exchanges(table.kind()); });
  std::ranges::copy_if(from.tables, std::back_inserter(to.tables),
                       [](const KernelTable& table) { return !exchanges(table.kind()); });
  to.gemms = from.gemms;
  to.memory = from.memory;
  to.strided_copy = from.strided_copy;
  if (from.copy) to.copy = from.copy;
  to.kernels = from.kernels;
}

// The same schedule as executors get it: they hold exchanges to durations, and slow nothing by themselves.
ScheduleFile as_executed(Experiment e, const Plan& plan, const PricedSchedule& priced) {
  e.overlap = Overlap::Ideal;
  return {e, plan, price(priced.schedule, e)};
}

}  // namespace

GridDevice::GridDevice(const ValidationGrid& grid, const ValidationSettings& settings, std::optional<Calibration> given,
                       FilesRead& files, Measurements& measurements)
    : grid_(grid), settings_(settings), given_(std::move(given)), measurements_(measurements) {
  for (const auto* sizes : {&grid.calibrate, &grid.predict})
    for (const GridSize& size : *sizes)
      if (!full_.contains(size.set)) full_.emplace(size.set, full_size(grid, size, files));
  if (!on_gpu() && grid.kernels == KernelTimes::Real) undisturbed_.emplace(exec::Pace(exec::ReferenceProduct()));
}

Experiment GridDevice::experiment_of(const GridSize& size, const FittedCosts& fitted) const {
  const Experiment& full = full_size_of(size);
  Experiment e = exec::scaled_for_host(full, size.scale);
  Calibration& calibration = e.calibration.edit();
  slow_links(calibration, size.link_slowdown, on_gpu() ? Copies::Real : Copies::Slowed);
  calibration.kernels = fitted.kernels;
  if (fitted.copy) calibration.copy = fitted.copy;
  if (on_gpu()) {
    e.workload.dtype = full.workload.dtype;  // hosts compute in fp32
    e.overlap = Overlap::Interfering;
    calibration.interference = beside_held(given().interference);
  }
  exec::resolve_routed_capacity(e, settings_.seed);
  return e;
}

double GridDevice::slowdown_of(const GridSize& size, const FittedCosts& fitted) const {
  GridSize as_modelled = size;
  as_modelled.link_slowdown = 1;
  Plan one_chunk;
  one_chunk.scope = Scope::Moe;
  const PricedSchedule priced = price_plan(experiment_of(as_modelled, fitted), one_chunk);
  Seconds links, computation;
  for (const OpId i : priced.schedule->ops.ids())
    (priced.schedule->ops[i].kernel() == nullptr ? links : computation) += priced.duration[i];
  if (links <= Seconds(0))
    throw InputError(fmt::format("{}: no exchange takes time, so that links cannot be slowed", size_name(size)));
  return size.links_to_computation * (computation / links);
}

Experiment GridDevice::unfitted_experiment_of(const GridSize& size) const {
  Experiment e = experiment_of(size, {});
  take_computation(given(), e.calibration.edit());
  return e;
}

exec::RunResult GridDevice::execute(const ScheduleFile& file, bool check_numerics) const {
  const bool held = grid_.kernels == KernelTimes::Held;
  exec::RunOptions how;
  how.hold_compute = held ? exec::HoldCompute::Always : exec::HoldCompute::Never;
  how.dilation = held ? 0 : 1;
  how.one_rank = grid_.one_rank;
  how.check_numerics = check_numerics;
  how.measure.limit = settings_.measure_time / settings_.rounds;
  how.seed = settings_.seed;
  if (grid_.device == exec::RunDevice::Cuda) {
    const Writing writing;
    return gpu_service().run(file, how);
  }
  return exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
}

void GridDevice::make(const std::string& key, const std::function<Json()>& measure,
                      const std::function<void(const JsonReader&)>& use) {
  if (!undisturbed_) return measurements_.make(key, measure, use);
  measurements_.make(
      key, [&] { return undisturbed_->make(measure); },
      [&](const JsonReader& json) {
        undisturbed_->count(json);
        use(json);
      });
}

std::string GridDevice::pace() const {
  return undisturbed_ ? undisturbed_->note() : "";
}

void GridDevice::measure_kernels(const GridSize& size, const Plan& plan, int round, KernelFit& fit) {
  const Experiment e = experiment_of(size, {});
  const PricedSchedule priced = price_plan(e, plan);
  make(
      fmt::format("calibrate {} {} round {}", size_name(size), to_json(plan).dump(), round),
      [&] {
        const exec::RunResult run = execute(as_executed(e, plan, priced), false);
        Json part = kernels_json(*priced.schedule, run);
        if (on_gpu()) add_device(run, part);
        return part;
      },
      [&](const JsonReader& json) {
        note_device(json, fitted_at_);
        OpWork work = read_work(json, priced);
        if (!on_gpu()) work.alone = IdVector<OpId, bool>(work.held.size(), true);  // cores of their own
        fit.add(priced, work, size_of(e.workload.dtype));
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
    const Timeline predicted = AnalyticBackend().run(with_held_exchanges(e, p.plan, priced));
    p.ops = predicted_times(priced, predicted);
    p.memory.predicted_peak = memory_use(*priced.schedule, predicted, Arenas::LeftOut).peak;
  }
  make(
      fmt::format("{} {} {} round {}", where, p.system, to_json(p.plan).dump(), round),
      [&] {
        const exec::RunResult run = execute(as_executed(e, p.plan, priced), check_numerics);
        Json part = measured_json(priced, run, check_numerics);
        if (on_gpu()) add_device(run, part);
        return part;
      },
      [&](const JsonReader& json) {
        note_device(json, measured_at_);
        add_measured(json, p);
      });
}

// Times of two devices, or of one with two drivers, do not mix.
void GridDevice::note_device(const JsonReader& json, std::vector<ClockReading>& clocks) {
  if (!on_gpu()) return;
  const std::string device = json.string_or("device", described_);
  if (!described_.empty() && device != described_)
    json.fail("device", fmt::format("{}, but other measurements were made on {}; give another --output, or delete the "
                                    "journal beside it",
                                    device, described_));
  described_ = device;
  clocks.push_back({json.number_or("clock_mhz", 0, 0), 0});
}

std::string GridDevice::clocks() const {
  const ClockReading fitted = median(fitted_at_), measured = median(measured_at_);
  if (measured.mhz <= 0) return {};
  std::string text = fmt::format("clocks: {:.0f} MHz while plans were measured", measured.mhz);
  if (fitted.mhz > 0) text += fmt::format(", {:.0f} MHz while the steps were that costs are fitted to", fitted.mhz);
  if (!comparable(fitted, measured)) text += "; they differ by more than 2 %, so that predictions are off by as much";
  return text;
}

}  // namespace dovetail::bench
