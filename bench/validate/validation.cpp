// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/validation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <utility>

#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/validate/considered_plans.hpp"
#include "bench/validate/grid_device.hpp"
#include "bench/validate/grid_size.hpp"
#include "bench/validate/kernel_fit.hpp"
#include "bench/validate/measured_plan.hpp"
#include "bench/validate/measurements.hpp"
#include "bench/validate/online_replay.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/build_info.hpp"
#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

// "4 times", "0.5 to 4 times"
std::string slowdowns(const ValidationGrid& grid) {
  const auto [least, most] = std::ranges::minmax(grid.predict | std::views::transform(&GridSize::link_slowdown));
  return least == most ? fmt::format("{:.3g} times", least) : fmt::format("{:.3g} to {:.3g} times", least, most);
}

// A note on the links and kernels of a run.
std::string holding(const ValidationGrid& grid, const std::string& cluster) {
  if (grid.kernels == KernelTimes::Held)
    return fmt::format(
        "links and kernels are held to a multiple of their modelled times on {}; measured times are divided by it",
        cluster);
  return fmt::format("kernels really run; links are held to {} their modelled times on {}", slowdowns(grid), cluster);
}

// A note for readers on how the grid is measured.
std::vector<std::string> conditions(const ValidationGrid& grid, const Experiment& e, const FilesRead& files) {
  std::vector<std::string> notes;
  add_assumptions(e, notes);
  add_run_differences(e, notes);
  add_hardware(e, {grid.request, files, ""}, notes);
  const bool held = grid.kernels == KernelTimes::Held;
  if (grid.device == exec::RunDevice::Host)
    notes.emplace_back("held ops do not slow each other, and predictions leave that out too");
  if (!held && grid.device == exec::RunDevice::Host)
    notes.emplace_back(
        "each rank has cores of its own where there are enough, and links wake before kernels where the system allows "
        "it");
  if (!grid.planners.empty())
    notes.emplace_back(
        "regret is against the fastest measured plan of the system, whichever planner looked at it: one that varies "
        "degrees only is charged for the rest");
  if (grid.device == exec::RunDevice::Cuda)
    notes.emplace_back(
        "one GPU stands for one rank; numerics are checked with all ranks on it; its attention is not fused, so that "
        "scores pass through memory, which modelled work leaves out and fitted costs have only from their own sizes; "
        "products are made for the multiprocessors that an exchange leaves, while costs without a fit are of whole "
        "GPUs");
  else if (grid.one_rank)
    notes.push_back(
        fmt::format("one rank stands for each of {}: what it sends comes back to it; numerics are checked "
                    "with all ranks as threads",
                    grid.predict.front().scale.ranks));
  else if (!held && grid.predict.front().scale.ranks > exec::free_cores())
    notes.push_back(fmt::format("{} ranks on {} free cores: real kernels were disturbed",
                                grid.predict.front().scale.ranks, exec::free_cores()));
  return notes;
}

// The facts that tell this work from any other, for its journal.
Json work_json(const ValidationGrid& grid, const ValidationSettings& settings, const FilesRead& files) {
  Json inputs = Json::object();
  for (const auto& [name, text] : files) inputs[name] = text;
  const BuildInfo build = build_info();
  return {{"version", build.version},  {"git_revision", build.git_revision},
          {"grid", grid.name},         {"files", inputs},
          {"seed", settings.seed},     {"measure_s", settings.measure_time.value()},
          {"rounds", settings.rounds}, {"check_numerics", settings.check_numerics}};
}

Plan in_chunks(Scope scope, int degree) {
  Plan plan;
  plan.scope = scope;
  plan.forward_degree = plan.backward_degree = degree;
  return plan;
}

// Steps whose ops tell what kernels take. On a host in one chunk, in two and in the most, with attention in chunks and
// with dense encoding where a system may have them, and where a system brings back what it did not keep by doing it
// again. On a GPU in one chunk, where next to nothing overlaps and slows kernels, and also with copies to the host and
// back, which are real there.
std::vector<Plan> calibration_plans(const ValidationGrid& grid) {
  const std::vector<GridSystem>& systems = grid.systems;
  const bool gpu = grid.device == exec::RunDevice::Cuda;
  const int most = std::ranges::max(grid.degrees);
  const auto open = [](const GridSystem& s) { return s.system.planner.space == SearchSpace::Plans; };
  const auto chunks_attention = [&](const GridSystem& s) { return open(s) || s.system.plan.scope == Scope::Block; };
  std::vector<Plan> plans{in_chunks(Scope::Moe, 1)};
  std::vector<int> degrees;  // beside one
  if (!gpu) degrees = {2};
  if (!gpu && most > 2) degrees.push_back(most);
  for (const int degree : degrees) {
    plans.push_back(in_chunks(Scope::Moe, degree));
    if (std::ranges::any_of(systems, chunks_attention)) plans.push_back(in_chunks(Scope::Block, degree));
  }
  if (!gpu && std::ranges::any_of(systems, open)) plans.emplace_back(plans.front()).encoding = Encoding::Dense;
  const auto restores = [](const GridSystem& s) { return s.system.plan.restore != Restore::Keep; };
  const auto again = std::ranges::find_if(systems, restores);
  if (again == systems.end()) return plans;
  for (const Restore restore : gpu ? std::vector{Restore::S4, Restore::S1} : std::vector{Restore::S4}) {
    Plan& plan = plans.emplace_back(again->system.plan);
    plan.restore = restore;
    plan.forward_degree = plan.backward_degree = gpu ? 1 : 2;
  }
  return plans;
}

CostForm form_of(const Experiment& e) {
  return find_table(e.calibration->tables, KernelKind::Gemm, e.workload.dtype) == nullptr ? CostForm::ByWork
                                                                                          : CostForm::ByPrice;
}

// A note on the kinds of op, if any, that plans compute and no cost was fitted to.
void add_unfitted(const Experiment& e, const ValidationCell& cell, std::vector<std::string>& notes) {
  std::set<std::string> kinds;
  for (const PlanOutcome& p : cell.plans) {
    const PricedSchedule priced = price_plan(e, p.plan);
    for (const OpId i : priced.schedule->ops.ids())
      if (const Op& op = priced.schedule->ops[i];
          op.kernel() != nullptr && priced.duration[i] > Seconds(0) && !find_kernel(*e.calibration, op.kind, op.phase))
        kinds.insert(fmt::format("{} {}", name_in(op_kind_names, op.kind), name_in(phase_names, op.phase)));
  }
  if (!kinds.empty())
    notes.push_back(fmt::format("{}: {} were not measured and take what the calibration of {} says", cell.name,
                                fmt::join(kinds, ", "), e.cluster.name));
}

// The first of the plans that are equal to this one: systems may have the same plan, which is measured once.
std::size_t first_equal(const ValidationCell& cell, std::size_t plan) {
  return static_cast<std::size_t>(std::ranges::find(cell.plans, cell.plans[plan].plan, &PlanOutcome::plan) -
                                  cell.plans.begin());
}

void share_measurements(ValidationCell& cell) {
  for (std::size_t i = 0; i < cell.plans.size(); ++i) {
    const std::size_t first = first_equal(cell, i);
    if (first == i) continue;
    const std::string system = cell.plans[i].system;
    cell.plans[i] = cell.plans[first];
    cell.plans[i].system = system;
  }
}

// Leaves out plans without a sample, and choices of them. False: nothing is left.
bool keep_measured(ValidationCell& cell, std::uint64_t seed) {
  std::vector<PlanOutcome> measured;
  std::vector<std::optional<std::size_t>> place(cell.plans.size());
  for (std::size_t i = 0; i < cell.plans.size(); ++i) {
    if (cell.plans[i].samples.empty()) continue;
    finish_measured(cell.plans[i], seed);
    place[i] = measured.size();
    measured.push_back(std::move(cell.plans[i]));
  }
  std::erase_if(cell.choices, [&](const ChoiceOutcome& c) { return !place[c.plan]; });
  for (ChoiceOutcome& choice : cell.choices) choice.plan = *place[choice.plan];
  cell.plans = std::move(measured);
  return !cell.plans.empty();
}

// Says in which order a grid is measured, and puts the result together.
class GridRun {
 public:
  // `full`: the experiment at full size; `files`: what it and the grid were read from.
  GridRun(const ValidationGrid& grid, const ValidationSettings& settings, const Experiment& full,
          std::optional<Calibration> given, FilesRead& files)
      : grid_(grid),
        settings_(settings),
        unfitted_by_(given ? given->name : full.calibration->name),
        device_(grid_, settings, std::move(given), files, measurements_) {
    result_.notes = conditions(grid, full, files);
    cluster_ = full.cluster.name;
    result_.kernels_held = grid.kernels == KernelTimes::Held;
    result_.largest_degree = std::ranges::max(grid.degrees);
    if (!settings.journal.empty()) measurements_.keep_in(settings.journal, work_json(grid, settings, files));
  }

  // None: time ran out before any plan was measured.
  std::optional<Validation> run() {
    if (!result_.kernels_held && !calibrate()) return {};
    for (GridSize& size : grid_.predict)
      if (size.links_to_computation > 0) size.link_slowdown = device_.slowdown_of(size, fitted());
    result_.notes.push_back(holding(grid_, cluster_));
    result_.experiment = device_.experiment_of(grid_.predict.front(), fitted());
    if (on_gpu()) note_kept_speeds();
    std::vector<CellRun> cells = considered();
    measure(cells);
    std::vector<const GridSize*> sizes;  // of the cells that are kept
    for (CellRun& cell : cells) {
      if (!keep_measured(cell.cell, settings_.seed)) continue;
      sizes.push_back(cell.size);
      result_.cells.push_back(std::move(cell.cell));
    }
    if (result_.cells.empty()) return {};
    std::vector<MeasuredSize> measured;
    for (std::size_t i = 0; i < sizes.size(); ++i) measured.push_back({sizes[i], &result_.cells[i]});
    result_.online = replay_online(grid_, measured, settings_.seed);
    if (const std::string clocks = device_.clocks(); !clocks.empty())
      result_.notes.insert(result_.notes.begin(), clocks);
    if (!device_.described().empty()) result_.notes.insert(result_.notes.begin(), device_.described());
    if (const std::string pace = device_.pace(); !pace.empty()) result_.notes.push_back(pace);
    result_.measurements = measurements_.progression();
    const Progression& p = result_.measurements;
    if (p.partial())
      result_.notes.push_back(
          fmt::format("partial: time ran out after {} of {} measurements; what was not measured in any round is left "
                      "out, and the same command goes on",
                      p.made, p.all));
    return std::move(result_);
  }

  const Progression& progression() const { return measurements_.progression(); }
  void remove_journal() { measurements_.remove_journal(); }

 private:
  struct CellRun {
    const GridSize* size = nullptr;
    Experiment experiment;
    ValidationCell cell;
    std::vector<std::size_t> order;  // of its plans, another in each round; those of several systems stand once
    std::mt19937_64 random;
  };

  bool on_gpu() const { return grid_.device == exec::RunDevice::Cuda; }
  FittedCosts fitted() const { return {result_.kernels, result_.copy}; }

  // The speeds that predictions count with.
  void note_kept_speeds() {
    result_.unfitted_by = unfitted_by_;
    std::vector<std::string> speeds;
    for (const Interference& entry : result_.experiment.calibration->interference)
      speeds.push_back(fmt::format("{} {:.3g}/{:.3g}", name_of(entry), entry.a_speed, entry.b_speed));
    result_.notes.push_back(
        speeds.empty()
            ? fmt::format("{} knows no kept speeds: predictions leave out that kernels slow beside exchanges",
                          unfitted_by_)
            : fmt::format(
                  "held exchanges last their own time; kernels and copies are predicted to keep, beside them and "
                  "each other, the speeds of {}: {}",
                  unfitted_by_, fmt::join(speeds, ", ")));
  }

  // Smaller chunks count by what the calibration says of their shapes, where costs go by price. False: time ran out in
  // the first round.
  bool calibrate() {
    ProgressLine progress("calibrate", static_cast<int>(grid_.calibrate.size()) * settings_.rounds, settings_.talk);
    KernelFit fit(form_of(device_.experiment_of(grid_.calibrate.front(), {})));
    const std::vector<Plan> plans = calibration_plans(grid_);
    for (const GridSize& size : grid_.calibrate) result_.calibrated.push_back(size_name(size));
    for (int round = 0; round < settings_.rounds; ++round)
      for (const GridSize& size : grid_.calibrate) {
        progress.begin(size_name(size));
        for (const Plan& plan : plans) device_.measure_kernels(size, plan, round, fit);
        progress.done();
      }
    if (measurements_.progression().made < std::ssize(grid_.calibrate) * std::ssize(plans)) return false;
    if (const double share = device_.held_work(); share > 0 && grid_.device == exec::RunDevice::Host)
      result_.notes.push_back(fmt::format(
          "the copies behind held links took cores {:.0f} % of the links' time; predictions leave out that kernels "
          "which run beside them are slowed by this",
          100 * share));
    const std::string source = fmt::format("validation grid {}: ops of executed steps", grid_.name);
    result_.kernels = fit.costs(source);
    result_.copy = fit.copy(source);
    if (const std::vector<std::string> disturbed = fit.disturbed(); !disturbed.empty())
      result_.notes.push_back(
          fmt::format("no step had these ops alone, so that their costs were fitted to times beside "
                      "others: {}",
                      fmt::join(disturbed, ", ")));
    return true;
  }

  std::vector<CellRun> considered() {
    std::vector<CellRun> cells;
    std::vector<SizeParts> parts;
    for (const GridSize& size : grid_.predict) parts.push_back(size_parts(size));
    const SizeParts of_all = parts.size() > 1 ? shared_parts(parts) : SizeParts();
    if (!of_all.empty()) result_.notes.push_back(fmt::format("all sizes: {}", fmt::join(of_all, ", ")));
    for (const GridSize& size : grid_.predict) {
      const Experiment e = device_.experiment_of(size, fitted());
      const std::string name = name_without(size_parts(size), of_all);
      cells.push_back(
          {&size, e, considered_plans(grid_, size, name, e, result_.notes), {}, std::mt19937_64(settings_.seed)});
      if (!result_.kernels_held) add_unfitted(e, cells.back().cell, result_.notes);
      if (on_gpu()) predict_unfitted(device_.unfitted_experiment_of(size), cells.back().cell);
      const ValidationCell& cell = cells.back().cell;
      for (std::size_t i = 0; i < cell.plans.size(); ++i)
        if (first_equal(cell, i) == i) cells.back().order.push_back(i);
    }
    note_measured_plans(cells);
    return cells;
  }

  void note_measured_plans(const std::vector<CellRun>& cells) {
    std::size_t measured = 0, looked_at = 0, once = 0;
    for (const CellRun& run : cells) {
      measured += run.cell.plans.size();
      once += run.order.size();
      looked_at += run.cell.looked_at;
    }
    if (once < measured)
      result_.notes.push_back(
          fmt::format("plans that several systems have are measured once: {} of {}", once, measured));
    if (measured == looked_at) return;
    result_.notes.push_back(fmt::format(
        "{} of the {} plans that planners looked at are measured: of each system at each size the {} predicted "
        "fastest, {}{}and every choice",
        measured, looked_at, grid_.measured_plans, grid_.strategies ? "each way to restore in the same chunks, " : "",
        grid_.online.empty() ? "" : "all strategies of planners that learn, "));
  }

  // Round by round over all cells, so that each has something where time runs out.
  void measure(std::vector<CellRun>& cells) {
    std::size_t plans = 0;
    for (const CellRun& run : cells) plans += run.order.size();
    ProgressLine progress("measure", static_cast<int>(plans) * settings_.rounds, settings_.talk);
    for (int round = 0; round < settings_.rounds; ++round)
      for (CellRun& run : cells) {
        std::shuffle(run.order.begin(), run.order.end(), run.random);
        for (std::size_t i : run.order) {
          ValidationCell& cell = run.cell;
          progress.begin(fmt::format("{}, {}", cell.plans[i].system, cell.name));
          const bool chosen =
              std::ranges::any_of(cell.choices, [&](const ChoiceOutcome& c) { return first_equal(cell, c.plan) == i; });
          device_.measure_plan(run.experiment, cell.name, round, chosen && round == 0 && settings_.check_numerics,
                               cell.plans[i]);
          progress.done();
        }
      }
    for (CellRun& run : cells) share_measurements(run.cell);
  }

  ValidationGrid grid_;  // with the slowdowns that follow from fitted costs
  const ValidationSettings& settings_;
  std::string cluster_;      // by name
  std::string unfitted_by_;  // name of a calibration
  Measurements measurements_{settings_.time_limit};
  GridDevice device_;
  Validation result_;
};

}  // namespace

std::optional<Progression> validate_grid(const ValidationGrid& grid, const ValidationSettings& settings,
                                         FilesRead& files, const std::function<void(Validation&)>& keep) {
  const Experiment full = full_size(grid, grid.predict.front(), files);
  std::optional<Calibration> given;
  if (!settings.calibration.empty()) given = load_calibration(settings.calibration, files);
  GridRun run(grid, settings, full, std::move(given), files);
  std::optional<Validation> result = run.run();
  if (!result) return run.progression();
  const bool whole = !result->measurements.partial();
  keep(*result);
  if (whole) run.remove_journal();
  return {};
}

}  // namespace dovetail::bench
