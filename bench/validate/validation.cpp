#include "bench/validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
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

void summarize_samples(PlanOutcome& p, std::uint64_t seed) {
  p.median = exec::median(p.samples);
  std::tie(p.ci95_low, p.ci95_high) = exec::bootstrap_median(p.samples, seed);
}

// Held ops last their own time whatever runs beside them.
Seconds predict(const PricedSchedule& priced) {
  std::vector<double> scratch;
  return analytic_makespan(exec::with_durations(priced, priced.duration), scratch);
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
    if (grid.device == GridDevice::Cuda)
      result_.notes.push_back("one GPU stands for one rank; numerics are checked with all ranks on it");
    else if (!result_.kernels_held && grid.predict.front().ranks > exec::free_cores())
      result_.notes.push_back(fmt::format("{} ranks on {} free cores: real kernels were disturbed",
                                          grid.predict.front().ranks, exec::free_cores()));
    if (!settings.journal.empty()) open_journal(files);
  }

  Validation run() {
    if (!result_.kernels_held) calibrate();
    result_.experiment = experiment_of(grid_.predict.front());
    for (const exec::HostScale& size : grid_.predict) result_.cells.push_back(measure_cell(size));
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
    if (grid_.device == GridDevice::Cuda) e.workload.dtype = big_.workload.dtype;  // hosts compute in fp32
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
    if (grid_.device == GridDevice::Cuda) {
      const Writing writing;
      return exec::run_on_gpu(file, how, false, Writing::poll);
    }
    return exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
  }

  // Nothing overlaps, in one chunk and in two: so that costs cover chunks that are half as large.
  void calibrate() {
    Progress progress("calibrate", static_cast<int>(grid_.calibrate.size()) * settings_.rounds, settings_.talk);
    KernelFit fit;
    for (const exec::HostScale& size : grid_.calibrate) result_.calibrated.push_back(size_name(size));
    for (int round = 0; round < settings_.rounds; ++round)
      for (const exec::HostScale& size : grid_.calibrate) {
        progress.begin(size_name(size));
        for (int degree : {1, 2}) calibrate(size, degree, round, fit);
        progress.done();
      }
    result_.kernels = fit.costs(fmt::format("validation grid {}: ops of executed steps", grid_.name));
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
    const auto slow =
        std::stable_partition(rest.begin() + static_cast<std::ptrdiff_t>(most), rest.end(), [&](const PlanOutcome& p) {
          return std::ranges::find(choices, p.plan, &std::pair<std::string, Plan>::second) != choices.end();
        });
    rest.erase(slow, rest.end());
    cell.plans.resize(first);
    cell.plans.insert(cell.plans.end(), rest.begin(), rest.end());
    result_.notes.push_back(
        fmt::format("{}, {}: {} of the {} plans that planners looked at are measured: the {} "
                    "predicted fastest, and every choice",
                    cell.name, system.name, rest.size(), count, most));
  }

  ValidationCell measure_cell(const exec::HostScale& size) {
    ValidationCell cell;
    cell.name = size_name(size);
    const Experiment e = experiment_of(size);
    for (const System& system : grid_.systems) consider(e, system, cell);
    std::vector<std::size_t> order(cell.plans.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(settings_.seed);
    Progress progress(cell.name, static_cast<int>(order.size()) * settings_.rounds, settings_.talk);
    for (int round = 0; round < settings_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i : order) {
        progress.begin(cell.plans[i].system);
        const bool chosen = std::ranges::any_of(cell.choices, [&](const ChoiceOutcome& c) { return c.plan == i; });
        measure_plan(e, cell.name, cell.plans[i], round, chosen && round == 0 && settings_.check_numerics);
        progress.done();
      }
    }
    for (PlanOutcome& plan : cell.plans) summarize_samples(plan, settings_.seed);
    return cell;
  }

  void measure_plan(const Experiment& e, const std::string& cell, PlanOutcome& p, int round, bool check_numerics) {
    const PricedSchedule priced = price_plan(e, p.plan);
    if (p.ops.empty()) p.ops = predicted_times(priced);
    finished(
        fmt::format("{} {} {} round {}", cell, p.system, to_json(p.plan).dump(), round),
        [&] {
          return measured_json(priced, execute({e, p.plan, priced}, check_numerics), check_numerics);
        },
        [&](const JsonReader& json) { add_measured(json, settings_.rounds, p); });
  }

  // Gives `use` what an earlier run found out under this key, else what `work` does now.
  void finished(const std::string& key, const std::function<Json()>& work,
                const std::function<void(const JsonReader&)>& use) {
    if (const auto earlier = done_.find(key); earlier != done_.end()) return earlier->second->read(use);
    Json part = work();
    part["key"] = key;
    if (journal_) journal_->add(part);
    JsonLine("this measurement", 1, part.dump()).read(use);
  }

  const ValidationGrid& grid_;
  const ValidationSettings& settings_;
  Validation result_;
  Experiment big_;
  std::optional<Journal> journal_;
  std::map<std::string, const JsonLine*> done_;  // in the journal
};

}  // namespace

void validate_grid(const ValidationGrid& grid, const ValidationSettings& settings, FilesRead& files,
                   const std::function<void(Validation&)>& keep) {
  GridRun run(grid, settings, files);
  Validation result = run.run();
  keep(result);
  run.remove_journal();
}

}  // namespace dovetail::bench
