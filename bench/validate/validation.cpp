#include "bench/validate/validation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/validate/considered_plans.hpp"
#include "bench/validate/grid_device.hpp"
#include "bench/validate/kernel_fit.hpp"
#include "bench/validate/measured_plan.hpp"
#include "bench/validate/measurements.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/build_info.hpp"
#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

// Links as they are held: `slowdown` times their modelled time.
void slow_links(Calibration& calibration, double slowdown) {
  for (CollectiveCost& cost : calibration.collectives) {
    cost.alpha = cost.alpha * slowdown;
    cost.beta = cost.beta * slowdown;
  }
  for (MessageCost& cost : calibration.messages) {
    cost.per_message = cost.per_message * slowdown;
    cost.bandwidth = cost.bandwidth / slowdown;
    cost.peer_bandwidth = cost.peer_bandwidth / slowdown;
  }
  if (calibration.copy) {
    calibration.copy->alpha = calibration.copy->alpha * slowdown;
    calibration.copy->beta = calibration.copy->beta * slowdown;
  }
}

// The grid's cluster and model at full size, with links as they are held.
Experiment full_size(const ValidationGrid& grid, FilesRead& files) {
  std::vector<std::string> notes;  // they are about the full size
  Experiment e = load_experiment(grid.request, files, notes);
  slow_links(e.calibration.edit(), grid.link_slowdown);
  e.overlap = Overlap::Ideal;  // held ops last their own time whatever runs beside them
  return e;
}

// A note for readers on how the grid is measured.
std::vector<std::string> conditions(const ValidationGrid& grid, const Experiment& e, const FilesRead& files) {
  std::vector<std::string> notes;
  add_assumptions(e, notes);
  add_run_differences(e, notes);
  add_hardware(e, {grid.request, files, ""}, notes);
  const bool held = grid.kernels == KernelTimes::Held;
  notes.push_back(
      held ? fmt::format("links and kernels are held to a multiple of their modelled times on {}; measured times are "
                         "divided by it",
                         e.cluster.name)
           : fmt::format("kernels really run; links are held to {:.4g} times their modelled times on {}",
                         grid.link_slowdown, e.cluster.name));
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
        "scores pass through memory, which modelled work leaves out and fitted costs have only from their own sizes");
  else if (!held && grid.predict.front().ranks > exec::free_cores())
    notes.push_back(fmt::format("{} ranks on {} free cores: real kernels were disturbed", grid.predict.front().ranks,
                                exec::free_cores()));
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

// Steps whose ops tell what kernels take: in one chunk and in two, and where a system brings back what it did not keep
// by doing it again.
std::vector<Plan> calibration_plans(const std::vector<System>& systems) {
  std::vector<Plan> plans;
  for (const int degree : {1, 2}) {
    Plan& plan = plans.emplace_back();
    plan.scope = Scope::Moe;
    plan.forward_degree = plan.backward_degree = degree;
  }
  const auto restores = [](const System& s) { return s.plan.restore != Restore::Keep; };
  if (const auto again = std::ranges::find_if(systems, restores); again != systems.end()) {
    Plan& plan = plans.emplace_back(again->plan);
    plan.restore = Restore::S4;
    plan.forward_degree = plan.backward_degree = 2;
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
          const FilesRead& files)
      : grid_(grid), settings_(settings), device_(grid, settings, full, measurements_) {
    result_.notes = conditions(grid, full, files);
    result_.kernels_held = grid.kernels == KernelTimes::Held;
    if (!settings.journal.empty()) measurements_.keep_in(settings.journal, work_json(grid, settings, files));
  }

  // None: time ran out before any plan was measured.
  std::optional<Validation> run() {
    if (!result_.kernels_held && !calibrate()) return {};
    result_.experiment = device_.experiment_of(grid_.predict.front(), result_.kernels);
    std::vector<CellRun> cells = considered();
    measure(cells);
    for (CellRun& cell : cells)
      if (keep_measured(cell.cell, settings_.seed)) result_.cells.push_back(std::move(cell.cell));
    if (result_.cells.empty()) return {};
    if (!device_.described().empty()) result_.notes.insert(result_.notes.begin(), device_.described());
    result_.measurements = measurements_.progression();
    const Progression& p = result_.measurements;
    if (p.partial())
      result_.notes.push_back(
          fmt::format("partial: time ran out after {} of {} measurements; what was not measured in any round is left "
                      "out, and the same command goes on",
                      p.made, p.all));
    return std::move(result_);
  }

  void remove_journal() { measurements_.remove_journal(); }

 private:
  struct CellRun {
    Experiment experiment;
    ValidationCell cell;
    std::vector<std::size_t> order;  // of its plans, another in each round
    std::mt19937_64 random;
  };

  // In one chunk and in several, so that costs cover smaller ones too, and with every kind of op. False: time ran out
  // in the first round.
  bool calibrate() {
    ProgressLine progress("calibrate", static_cast<int>(grid_.calibrate.size()) * settings_.rounds, settings_.talk);
    KernelFit fit(form_of(device_.experiment_of(grid_.calibrate.front(), {})));
    const std::vector<Plan> plans = calibration_plans(grid_.systems);
    for (const exec::HostScale& size : grid_.calibrate) result_.calibrated.push_back(size_name(size));
    for (int round = 0; round < settings_.rounds; ++round)
      for (const exec::HostScale& size : grid_.calibrate) {
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
    result_.kernels = fit.costs(fmt::format("validation grid {}: ops of executed steps", grid_.name));
    return true;
  }

  std::vector<CellRun> considered() {
    std::vector<CellRun> cells;
    for (const exec::HostScale& size : grid_.predict) {
      const Experiment e = device_.experiment_of(size, result_.kernels);
      cells.push_back(
          {e, considered_plans(grid_, size_name(size), e, result_.notes), {}, std::mt19937_64(settings_.seed)});
      if (!result_.kernels_held) add_unfitted(e, cells.back().cell, result_.notes);
      std::vector<std::size_t>& order = cells.back().order;
      order.resize(cells.back().cell.plans.size());
      std::iota(order.begin(), order.end(), 0);
    }
    return cells;
  }

  // Round by round over all cells, so that each has something where time runs out.
  void measure(std::vector<CellRun>& cells) {
    std::size_t plans = 0;
    for (const CellRun& run : cells) plans += run.cell.plans.size();
    ProgressLine progress("measure", static_cast<int>(plans) * settings_.rounds, settings_.talk);
    for (int round = 0; round < settings_.rounds; ++round)
      for (CellRun& run : cells) {
        std::shuffle(run.order.begin(), run.order.end(), run.random);
        for (std::size_t i : run.order) {
          ValidationCell& cell = run.cell;
          progress.begin(fmt::format("{}, {}", cell.plans[i].system, cell.name));
          const bool chosen = std::ranges::any_of(cell.choices, [&](const ChoiceOutcome& c) { return c.plan == i; });
          device_.measure_plan(run.experiment, cell.name, round, chosen && round == 0 && settings_.check_numerics,
                               cell.plans[i]);
          progress.done();
        }
      }
  }

  const ValidationGrid& grid_;
  const ValidationSettings& settings_;
  Measurements measurements_{settings_.time_limit};
  GridDevice device_;
  Validation result_;
};

}  // namespace

bool validate_grid(const ValidationGrid& grid, const ValidationSettings& settings, FilesRead& files,
                   const std::function<void(Validation&)>& keep) {
  const Experiment full = full_size(grid, files);
  GridRun run(grid, settings, full, files);
  std::optional<Validation> result = run.run();
  if (!result) return false;
  const bool whole = !result->measurements.partial();
  keep(*result);
  if (whole) run.remove_journal();
  return true;
}

}  // namespace dovetail::bench
