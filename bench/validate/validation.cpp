#include "bench/validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>

#include "bench/cli/interrupt.hpp"
#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/journal.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/validate/kernel_fit.hpp"
#include "bench/validate/measured_plan.hpp"
#include "exec/host/host_run.hpp"
#include "exec/launch/mpi_launch.hpp"
#include "exec/run/dilation.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/contest.hpp"
#include "planners/registry.hpp"

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

// Held ops last their own time whatever runs beside them.
Seconds predict(const PricedSchedule& priced) {
  std::vector<double> scratch;
  return analytic_makespan(exec::with_durations(priced, priced.duration), scratch);
}

Bytes predicted_peak(const PricedSchedule& priced) {
  const Timeline timeline = AnalyticBackend().run(exec::with_durations(priced, priced.duration));
  return memory_use(*priced.schedule, timeline, Arenas::LeftOut).peak;
}

// Whether two plans differ in nothing but how they bring back what they did not keep.
bool restores_differ_only(const Plan& a, Plan b) {
  b.restore = a.restore;
  b.buffers = a.buffers;
  return a == b;
}

class GridRun {
 public:
  GridRun(const ValidationGrid& grid, const ValidationSettings& settings, FilesRead& files)
      : grid_(grid), settings_(settings), big_(load_experiment(grid.request, files, result_.notes)) {
    result_.notes.clear();  // of the big cluster
    slow_links(big_.calibration.edit(), grid.link_slowdown);
    add_assumptions(*big_.calibration, result_.notes);
    add_hardware(big_, {grid.request, files, ""}, result_.notes);
    result_.kernels_held = grid.kernels == KernelTimes::Held;
    result_.notes.push_back(
        result_.kernels_held
            ? fmt::format("links and kernels are held to a multiple of their modelled times on {}; measured times are "
                          "divided by it",
                          big_.cluster.name)
            : fmt::format("kernels really run; links are held to {:.4g} times their modelled times on {}",
                          grid.link_slowdown, big_.cluster.name));
    result_.notes.push_back("held ops do not slow each other, and predictions leave that out too");
    if (!grid.planners.empty())
      result_.notes.push_back(
          "regret is against the fastest measured plan of the system, whichever planner looked at it: one that varies "
          "degrees only is charged for the rest");
    if (grid.device == exec::RunDevice::Cuda)
      result_.notes.push_back(
          "one GPU stands for one rank; numerics are checked with all ranks on it; its attention is not fused, so that "
          "scores pass through memory, which modelled work leaves out and fitted costs have only from their own sizes");
    else if (!result_.kernels_held && grid.predict.front().ranks > exec::free_cores())
      result_.notes.push_back(fmt::format("{} ranks on {} free cores: real kernels were disturbed",
                                          grid.predict.front().ranks, exec::free_cores()));
    if (!settings.journal.empty()) open_journal(files);
  }

  // None: time ran out before any plan was measured.
  std::optional<Validation> run() {
    if (!result_.kernels_held && !calibrate()) return {};
    result_.experiment = experiment_of(grid_.predict.front());
    for (const exec::HostScale& size : grid_.predict) {
      cells_.push_back({experiment_of(size), considered(size), {}, std::mt19937_64(settings_.seed)});
      std::vector<std::size_t>& order = cells_.back().order;
      order.resize(cells_.back().cell.plans.size());
      std::iota(order.begin(), order.end(), 0);
    }
    measure_cells();
    for (CellRun& cell : cells_)
      if (keep_measured(cell.cell)) result_.cells.push_back(std::move(cell.cell));
    if (result_.cells.empty()) return {};
    if (!device_.empty()) result_.notes.insert(result_.notes.begin(), device_);
    const Progression& p = result_.measurements;
    if (p.partial())
      result_.notes.push_back(
          fmt::format("partial: time ran out after {} of {} measurements; what was not measured in any round is left "
                      "out, and the same command goes on",
                      p.made, p.all));
    return std::move(result_);
  }

  void remove_journal() {
    if (journal_) journal_->remove();
  }

 private:
  void open_journal(const FilesRead& files) {
    Json inputs = Json::object();
    for (const auto& [name, text] : files) inputs[name] = text;
    const BuildInfo build = build_info();
    journal_.emplace(settings_.journal, Json{{"version", build.version},
                                             {"git_revision", build.git_revision},
                                             {"grid", grid_.name},
                                             {"files", inputs},
                                             {"seed", settings_.seed},
                                             {"measure_s", settings_.measure_time.value()},
                                             {"rounds", settings_.rounds},
                                             {"check_numerics", settings_.check_numerics}});
    for (const JsonLine& part : journal_->finished())
      part.read([&](const JsonReader& json) {
        if (!done_.emplace(json.string("key"), &part).second) json.fail("key", "given twice, expected once");
      });
  }

  Experiment experiment_of(const exec::HostScale& size) const {
    Experiment e = exec::scaled_for_host(big_, size);
    if (grid_.device == exec::RunDevice::Cuda) e.workload.dtype = big_.workload.dtype;  // hosts compute in fp32
    e.calibration.edit().kernels = result_.kernels;
    exec::resolve_routed_capacity(e, settings_.seed);
    return e;
  }

  exec::HostRunResult execute(const ScheduleFile& file, bool check_numerics) const {
    exec::HostRunOptions how;
    how.hold_compute = result_.kernels_held ? exec::HoldCompute::Always : exec::HoldCompute::Never;
    how.dilation = result_.kernels_held ? 0 : 1;
    how.check_numerics = check_numerics;
    how.measure.limit = settings_.measure_time / settings_.rounds;
    how.seed = settings_.seed;
    if (grid_.device == exec::RunDevice::Cuda) {
      const Writing writing;
      return exec::run_on_gpu(file, how, false, Writing::poll);
    }
    return exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
  }

  // Nothing overlaps, in one chunk and in two: so that costs cover chunks that are half as large. False: time ran out
  // in the first round.
  bool calibrate() {
    Progress progress("calibrate", static_cast<int>(grid_.calibrate.size()) * settings_.rounds, settings_.talk);
    KernelFit fit;
    constexpr std::array degrees{1, 2};
    for (const exec::HostScale& size : grid_.calibrate) result_.calibrated.push_back(size_name(size));
    for (int round = 0; round < settings_.rounds; ++round)
      for (const exec::HostScale& size : grid_.calibrate) {
        progress.begin(size_name(size));
        for (int degree : degrees) calibrate(size, degree, round, fit);
        progress.done();
      }
    if (result_.measurements.made < std::ssize(grid_.calibrate) * std::ssize(degrees)) return false;
    result_.kernels = fit.costs(fmt::format("validation grid {}: ops of executed steps", grid_.name));
    return true;
  }

  void calibrate(const exec::HostScale& size, int degree, int round, KernelFit& fit) {
    const Experiment e = experiment_of(size);
    Plan plan;
    plan.scope = Scope::Moe;
    plan.forward_degree = plan.backward_degree = degree;
    const PricedSchedule priced = price_plan(e, plan);
    const auto work = [&] {
      const exec::HostRunResult run = execute({e, plan, priced}, false);
      Json times = Json::array(), held = Json::array();
      for (std::size_t i = 0; i < priced.duration.size(); ++i) {
        times.push_back(run.predicted->duration[i].value());
        held.push_back(run.timeline.emulated[i]);
      }
      return Json{{"times", times}, {"held", held}};
    };
    finished(fmt::format("calibrate {} {} round {}", size_name(size), degree, round), work,
             [&](const JsonReader& json) {
               std::vector<Seconds> times;
               std::vector<bool> held;
               for (const JsonReader& time : json.at("times").elements()) times.emplace_back(time.number(0));
               for (const JsonReader& each : json.at("held").elements()) held.push_back(each.boolean());
               if (times.size() != priced.duration.size() || held.size() != times.size())
                 json.fail(fmt::format("{} times and {} times held, expected {}", times.size(), held.size(),
                                       priced.duration.size()));
               fit.add(priced, times, held);
             });
  }

  ValidationCell considered(const exec::HostScale& size) {
    ValidationCell cell;
    cell.name = size_name(size);
    const Experiment e = experiment_of(size);
    for (const System& system : grid_.systems) consider(e, system, cell);
    return cell;
  }

  // Every plan that the planners' search over a system looks at, then their choices.
  void consider(const Experiment& e, const System& system, ValidationCell& cell) {
    std::vector<Plan> plans;
    const planners::Evaluator analytic = [&](const Plan& plan) { return predict(price_plan(e, plan)); };
    const planners::Evaluator recording = [&](const Plan& plan) {
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
      return analytic(plan);
    };
    std::vector<std::string> names{system.planner.name};
    for (const std::string& name : grid_.planners)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    const std::size_t first = cell.plans.size();
    std::vector<std::pair<std::string, Plan>> choices;
    for (const std::string& name : names) try {
        choices.emplace_back(name,
                             planners::find_planner(name).choose({e, system.plan, system.planner}, recording).plan);
        recording(choices.back().second);
      } catch (const InputError& error) {
        result_.notes.push_back(fmt::format("{}, {} by {}: left out, {}", cell.name, system.name, name, error.what()));
      }
    for (const Plan& plan : plans) {
      cell.plans.push_back({});
      cell.plans.back().system = system.name;
      cell.plans.back().plan = plan;
      cell.plans.back().predicted = analytic(plan);
    }
    keep_fastest(cell, first, system, choices);
    for (const auto& [name, plan] : choices)
      cell.choices.push_back({system.name, name, static_cast<std::size_t>(plan_at(cell, first, plan))});
  }

  static std::ptrdiff_t plan_at(const ValidationCell& cell, std::size_t first, const Plan& plan) {
    return std::ranges::find(cell.plans.begin() + static_cast<std::ptrdiff_t>(first), cell.plans.end(), plan,
                             &PlanOutcome::plan) -
           cell.plans.begin();
  }

  // Of the plans from `first` on.
  void keep_fastest(ValidationCell& cell, std::size_t first, const System& system,
                    const std::vector<std::pair<std::string, Plan>>& choices) {
    const auto most = static_cast<std::size_t>(grid_.measured_plans), count = cell.plans.size() - first;
    if (most == 0 || count <= most) return;
    std::vector<PlanOutcome> rest(cell.plans.begin() + static_cast<std::ptrdiff_t>(first), cell.plans.end());
    std::ranges::stable_sort(rest, {}, &PlanOutcome::predicted);
    const auto reusing = grid_.strategies ? std::ranges::find_if(rest, reuses_memory) : rest.end();
    const std::optional<Plan> fastest = reusing == rest.end() ? std::nullopt : std::optional(reusing->plan);
    const auto slow =
        std::stable_partition(rest.begin() + static_cast<std::ptrdiff_t>(most), rest.end(), [&](const PlanOutcome& p) {
          return std::ranges::find(choices, p.plan, &std::pair<std::string, Plan>::second) != choices.end() ||
                 (fastest && restores_differ_only(*fastest, p.plan));
        });
    rest.erase(slow, rest.end());
    cell.plans.resize(first);
    cell.plans.insert(cell.plans.end(), rest.begin(), rest.end());
    result_.notes.push_back(
        fmt::format("{}, {}: {} of the {} plans that planners looked at are measured: the {} "
                    "predicted fastest, {}",
                    cell.name, system.name, rest.size(), count, most,
                    fastest ? "every choice, and each way to restore in the same chunks" : "and every choice"));
  }

  struct CellRun {
    Experiment experiment;
    ValidationCell cell;
    std::vector<std::size_t> order;
    std::mt19937_64 random;
  };

  // Round by round over all cells, so that each has something where time runs out.
  void measure_cells() {
    std::size_t plans = 0;
    for (const CellRun& run : cells_) plans += run.cell.plans.size();
    Progress progress("measure", static_cast<int>(plans) * settings_.rounds, settings_.talk);
    for (int round = 0; round < settings_.rounds; ++round)
      for (CellRun& run : cells_) {
        std::shuffle(run.order.begin(), run.order.end(), run.random);
        for (std::size_t i : run.order) {
          ValidationCell& cell = run.cell;
          progress.begin(fmt::format("{}, {}", cell.plans[i].system, cell.name));
          const bool chosen = std::ranges::any_of(cell.choices, [&](const ChoiceOutcome& c) { return c.plan == i; });
          measure_plan(run.experiment, cell.name, cell.plans[i], round,
                       chosen && round == 0 && settings_.check_numerics);
          progress.done();
        }
      }
  }

  // Leaves out plans without a sample, and choices of them. False: nothing is left.
  bool keep_measured(ValidationCell& cell) const {
    std::vector<PlanOutcome> measured;
    std::vector<std::optional<std::size_t>> place(cell.plans.size());
    for (std::size_t i = 0; i < cell.plans.size(); ++i) {
      if (cell.plans[i].samples.empty()) continue;
      finish_measured(cell.plans[i], settings_.seed);
      place[i] = measured.size();
      measured.push_back(std::move(cell.plans[i]));
    }
    std::erase_if(cell.choices, [&](const ChoiceOutcome& c) { return !place[c.plan]; });
    for (ChoiceOutcome& choice : cell.choices) choice.plan = *place[choice.plan];
    cell.plans = std::move(measured);
    return !cell.plans.empty();
  }

  void measure_plan(const Experiment& e, const std::string& cell, PlanOutcome& p, int round, bool check_numerics) {
    const PricedSchedule priced = price_plan(e, p.plan);
    if (p.ops.empty()) {
      p.ops = predicted_times(priced);
      p.memory.predicted_peak = predicted_peak(priced);
    }
    finished(
        fmt::format("{} {} {} round {}", cell, p.system, to_json(p.plan).dump(), round),
        [&] {
          const exec::HostRunResult run = execute({e, p.plan, priced}, check_numerics);
          Json part = measured_json(priced, run, check_numerics);
          if (grid_.device == exec::RunDevice::Cuda && !run.notes.empty()) part["device"] = run.notes.front();
          return part;
        },
        [&](const JsonReader& json) {
          add_measured(json, p);
          device_ = json.string_or("device", device_);
        });
  }

  // Gives `use` what an earlier run found out under this key, else what `work` does now; nothing where it is too late.
  void finished(const std::string& key, const std::function<Json()>& work,
                const std::function<void(const JsonReader&)>& use) {
    Progression& measurements = result_.measurements;
    ++measurements.all;
    const auto earlier = done_.find(key);
    if (earlier == done_.end() && too_late()) return;
    ++measurements.made;
    if (earlier != done_.end()) return earlier->second->read(use);
    Json part = work();
    part["key"] = key;
    if (journal_) journal_->add(part);
    JsonLine("this measurement", 1, part.dump()).read(use);
  }

  bool too_late() const {
    return settings_.time_limit > Seconds(0) && exec::steady_time() - start_ >= settings_.time_limit;
  }
  // In one chunk nothing takes over another's memory.
  static bool reuses_memory(const PlanOutcome& p) {
    return p.plan.restore != Restore::Keep && p.plan.forward_degree > 1;
  }

  const ValidationGrid& grid_;
  const ValidationSettings& settings_;
  Seconds start_ = exec::steady_time();
  Validation result_;
  std::vector<CellRun> cells_;
  std::string device_;  // as it describes itself
  Experiment big_;
  std::optional<Journal> journal_;
  std::map<std::string, const JsonLine*> done_;  // in the journal
};

}  // namespace

bool validate_grid(const ValidationGrid& grid, const ValidationSettings& settings, FilesRead& files,
                   const std::function<void(Validation&)>& keep) {
  GridRun run(grid, settings, files);
  std::optional<Validation> result = run.run();
  if (!result) return false;
  const bool whole = !result->measurements.partial();
  keep(*result);
  if (whole) run.remove_journal();
  return true;
}

}  // namespace dovetail::bench
