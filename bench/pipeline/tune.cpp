#include "bench/pipeline/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/explain.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/price/calibration.hpp"
#include "models/results/ranking.hpp"
#include "planners/layouts/layout_search.hpp"

namespace dovetail::bench {
namespace {

using planners::LaidOutPlan;
using planners::LayoutSearch;
using planners::ParallelLayout;

constexpr std::array<std::string_view, 6> sizes{"pp", "mp", "dp", "ep", "esp", "edp"};

// The number that a setting gives to a key: 8 of "parallelism.pp=8". Nothing where it is of another key.
std::optional<int> number_of(const std::string& set, const std::string& key) {
  if (!set.starts_with(key + "=")) return std::nullopt;
  int value = 0;
  const char *first = set.data() + key.size() + 1, *last = set.data() + set.size();
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc() || end != last || value < 1)
    throw InputError(fmt::format("--set {}: expected a whole number of at least 1", set));
  return value;
}

// The batches of the workload by our names for them.
std::array<std::pair<const char*, int*>, 2> batches(TuneQuestion& asked) {
  return {{{"global_batch", &asked.global_batch}, {"micro_batch", &asked.micro_batch}}};
}

constexpr auto chosen_batch = "tune chooses it; give the samples of a step by --global-batch";
constexpr auto chosen_groups =
    "tune lays groups and stages out itself; expected one of pp, mp, dp, ep, esp, edp, "
    "sequence_parallel, cp";

// The groups of the experiment file: their sizes are fixed, and all else about them is set again.
void take_sizes_of_file(const std::string& file, TuneQuestion& asked, std::vector<std::string>& set) {
  if (file.empty()) return;
  const JsonFile json = JsonFile::read(file);
  if (const auto workload = JsonReader(json).find("workload")) {
    for (const char* key : {"batch", "global_batch"})
      if (workload->has(key)) workload->fail(key, chosen_batch);
    if (workload->has("micro_batch")) workload->fail("micro_batch", "tune chooses it, or takes it by --micro-batch");
  }
  const auto groups = JsonReader(json).find("parallelism");
  if (!groups) return;
  for (const auto& [key, value] : groups->value().items())
    if (std::ranges::count(sizes, key) > 0)
      asked.fixed[key] = groups->integer(key, 1);
    else if (key == "sequence_parallel" || key == "cp")
      set.push_back(fmt::format("parallelism.{}={}", key, value.dump()));
    else
      groups->fail(key, chosen_groups);
}

// The same of a setting. False: it is about something else.
bool take_sizes_of_setting(const std::string& setting, TuneQuestion& asked) {
  if (setting.starts_with("workload.batch=")) throw InputError(fmt::format("--set {}: {}", setting, chosen_batch));
  for (const auto& [name, batch] : batches(asked))
    if (const auto samples = number_of(setting, fmt::format("workload.{}", name))) {
      *batch = *samples;
      return true;
    }
  for (const std::string_view name : sizes)
    if (const auto size = number_of(setting, fmt::format("parallelism.{}", name))) {
      asked.fixed.insert_or_assign(std::string(name), *size);
      return true;
    }
  if (setting.starts_with("parallelism") && !setting.starts_with("parallelism.sequence_parallel=") &&
      !setting.starts_with("parallelism.cp="))
    throw InputError(fmt::format("--set {}: {}", setting, chosen_groups));
  return false;
}

std::optional<int> of(const std::map<std::string, int>& fixed, const std::string& name) {
  const auto found = fixed.find(name);
  return found == fixed.end() ? std::nullopt : std::optional(found->second);
}

// The share of each part of a search, in order; about what Qwen3-235B and DeepSeek-V3 take on 256 GPUs. Other questions
// have other shares, so that the time left is a guess at first.
constexpr std::array<std::pair<std::string_view, double>, 7> parts{{{planners::layout_search_parts[0], .1},
                                                                    {planners::layout_search_parts[1], .15},
                                                                    {planners::layout_search_parts[2], .1},
                                                                    {planners::layout_search_parts[3], .25},
                                                                    {"systems", .3},
                                                                    {"ranges", .05},
                                                                    {"reasons", .05}}};

// The share of a search that is done with so much of one of its parts.
double share_done(std::string_view part, double done) {
  double before = 0;
  for (const auto& [name, share] : parts) {
    if (name == part) return before + done * share;
    before += share;
  }
  return before;
}

class Tuner {
 public:
  Tuner(const TuneQuestion& asked, const TuneOptions& options, const planners::SearchProgress& say)
      : question_(asked.question),
        global_batch_(asked.global_batch),
        options_(options),
        say_(say),
        limit_((1 - options.memory_margin / 100) * asked.question.experiment.cluster.device.memory),
        search_({asked.question.experiment, request_of(asked), limit_, fixed_knobs(asked.question),
                 [this](std::string_view part, double done) { tell(part, done); }}) {}

  Tuning run() {
    const auto start = std::chrono::steady_clock::now();
    Tuning tuning;
    tuning.experiment = question_.experiment;
    tuning.global_batch = global_batch_;
    tuning.gpu_watts = options_.gpu_watts;
    tuning.limit = limit_;
    tuning.notes = question_.notes;
    std::vector<LaidOutPlan> best = search_.best(all_systems(), static_cast<std::size_t>(options_.count));
    require_plans();
    if (!best.empty()) compare_systems(tuning, best);
    best.resize(std::min(best.size(), static_cast<std::size_t>(options_.count)));
    for (const LaidOutPlan& plan : best) tuning.best.push_back(described(plan, "dovetail"));
    set_front(tuning);
    set_ranges(tuning, best);
    if (!best.empty() && is_explained(options_)) {
      tell("reasons", 0);
      tuning.explanation = explain(question_.experiment, limit_, best);
    }
    set_ties(tuning.best);
    if (tuning.explanation && tuning.explanation->next) tuning.explanation->next->tied = tuning.best[1].tied;
    set_proof(tuning, start);
    return tuning;
  }

 private:
  void tell(std::string_view part, double done) const {
    if (say_) say_(part, share_done(part, done));
  }

  static planners::LayoutRequest request_of(const TuneQuestion& asked) {
    const auto& fixed = asked.fixed;
    planners::LayoutRequest request{asked.global_batch, of(fixed, "pp"),  of(fixed, "mp"),  of(fixed, "dp"),
                                    of(fixed, "ep"),    of(fixed, "esp"), of(fixed, "edp"), {}};
    if (asked.micro_batch > 0) request.micro_batch = asked.micro_batch;
    return request;
  }

  // Throws InputError where nothing could be built at all, which memory has no part in.
  void require_plans() const {
    const planners::LayoutSearchReport r = search_.report();
    if (r.layouts == 0)
      throw InputError(fmt::format("no layout divides {} GPUs, {} samples and the model as asked; expected other sizes",
                                   question_.experiment.cluster.gpus(), global_batch_));
    if (r.estimated == 0 && r.too_large < r.layouts)
      throw InputError(fmt::format("the settings can be built on none of {} layouts{}", r.layouts,
                                   r.refusal.empty() ? "" : ": " + r.refusal));
  }

  // Plans that the search begins with: those of all shipped systems and of the candidates.
  std::vector<System> all_systems() const {
    std::vector<System> systems;
    for (const Candidate& candidate : question_.candidates) systems.push_back(candidate.system);
    FilesRead files;
    for (const std::string& name : known_names("systems"))
      if (std::ranges::count(systems, name, &System::name) == 0) systems.push_back(load_system(name, files));
    std::erase_if(systems, [](const System& system) { return system.planner.space == SearchSpace::Plans; });
    return systems;
  }

  // Whatever a system does better than the search is the search's answer too.
  void compare_systems(Tuning& tuning, std::vector<LaidOutPlan>& best) {
    const std::vector<Candidate>& all = question_.candidates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const System& system = all[i].system;
      if (system.planner.space == SearchSpace::Plans) continue;
      tell("systems", static_cast<double>(i) / static_cast<double>(all.size()));
      try {
        const std::optional<LaidOutPlan> plan = search_.best_of(system);
        if (plan) {
          tuning.systems.push_back({described(*plan, system.name), {}});
          take_if_faster(*plan, best);
        } else {
          tuning.refused.push_back({system.name, "fits on none of the most promising layouts"});
        }
      } catch (const InputError& error) {
        tuning.refused.push_back({system.name, error.message()});
      }
    }
    const ParallelLayout winner = best.front().layout;
    for (TunedSystem& system : tuning.systems) {
      const auto candidate = std::ranges::find_if(
          question_.candidates, [&](const Candidate& c) { return c.system.name == system.own.system; });
      const std::optional<LaidOutPlan> plan = search_.best_of(candidate->system, winner);
      if (!plan) continue;
      system.on_winners = plan->time;
      take_if_faster(*plan, best);
      if (plan->time < system.own.step) system.own = described(*plan, system.own.system);
    }
    std::ranges::stable_sort(tuning.systems, {}, [](const TunedSystem& system) { return system.own.step; });
  }

  static void take_if_faster(const LaidOutPlan& plan, std::vector<LaidOutPlan>& best) {
    const auto same = std::ranges::find(best, plan.layout, &LaidOutPlan::layout);
    if (same != best.end() && same->time <= plan.time) return;
    if (same != best.end()) best.erase(same);
    const auto place = std::ranges::upper_bound(best, plan.time, {}, &LaidOutPlan::time);
    best.insert(place, plan);
  }

  TunedPlan described(const LaidOutPlan& plan, const std::string& system) const {
    TunedPlan row;
    row.system = system;
    row.groups = plan.layout.groups;
    row.micro_batch = plan.layout.micro_batch;
    row.plan = plan.plan;
    row.step = plan.time;
    row.throughput = throughput(with_layout(question_.experiment, plan.layout), plan.metrics);
    row.launch_bound = plan.metrics.launch_bound;
    row.stage_peaks = plan.stage_peaks;
    return row;
  }

  // The fastest first.
  static void set_front(Tuning& tuning) {
    std::vector<TunedPlan> all = tuning.best;
    for (const TunedSystem& system : tuning.systems) all.push_back(system.own);
    std::ranges::stable_sort(all, {}, &TunedPlan::step);
    for (TunedPlan& plan : all)
      if (tuning.front.empty() || plan.peak() < tuning.front.back().peak()) tuning.front.push_back(std::move(plan));
  }

  // Draws are of the estimates, which take less than a millisecond for each.
  void set_ranges(Tuning& tuning, const std::vector<LaidOutPlan>& best) {
    if (options_.draws == 0 || best.empty()) return;
    tell("ranges", 0);
    const std::vector<StepRange> ranges = step_ranges(
        *question_.experiment.calibration, best.size(),
        [&](Calibration costs) { return search_.ratios(best, Shared<Calibration>(std::move(costs))); }, options_.draws,
        static_cast<std::uint64_t>(options_.seed));
    tuning.notes.push_back(fmt::format(
        "90 % range: the estimated step in 90 % of {} draws of all costs, each within the range in which it is "
        "known; what the model leaves out is not in it",
        options_.draws));
    for (std::size_t i = 0; i < best.size(); ++i) tuning.best[i].range = ranges[i];
  }

  static void set_ties(std::vector<TunedPlan>& best) {
    for (TunedPlan& plan : best)
      plan.tied = !surely_slower(plan.step, plan.range, best.front().step, best.front().range);
  }

  void set_proof(Tuning& tuning, std::chrono::steady_clock::time_point start) const {
    const planners::LayoutSearchReport r = search_.report();
    tuning.proof = {r.layouts,
                    r.too_large,
                    r.slower,
                    r.estimated,
                    r.looked_at,
                    r.predicted,
                    r.bound,
                    r.least,
                    Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())};
  }

  const Question& question_;
  const int global_batch_;
  const TuneOptions& options_;
  const planners::SearchProgress& say_;
  const Bytes limit_;
  LayoutSearch search_;
};

}  // namespace

TuneQuestion load_tune_question(const TuneOptions& options) {
  TuneQuestion asked;
  Options left = static_cast<const Options&>(options);
  // Groups and batch that suit every question; the search takes others.
  left.request.set = {R"(parallelism={"mp": 1, "esp": 1})", "workload.batch=1"};
  take_sizes_of_file(options.request.file, asked, left.request.set);
  for (const std::string& setting : options.request.set)
    if (!take_sizes_of_setting(setting, asked)) left.request.set.push_back(setting);
  if (options.global_batch > 0) asked.global_batch = options.global_batch;
  if (options.micro_batch > 0) asked.micro_batch = options.micro_batch;
  if (asked.global_batch == 0) throw InputError("--global-batch is missing: how many samples a step trains");
  if (options.sequence > 0) left.request.set.push_back(fmt::format("workload.sequence={}", options.sequence));
  asked.question = load_question(left);
  const Experiment& e = asked.question.experiment;
  if (!e.events.empty()) throw InputError("/events: tune searches steps without events; leave them out");
  if (e.cluster.network || e.workload.message_sizes == MessageSizes::Routed)
    asked.question.notes.emplace_back(
        "all ranks of a stage are taken as alike, and estimates know no described network; simulate tells how the best "
        "one does with ranks of their own");
  return asked;
}

Tuning tune(const TuneQuestion& question, const TuneOptions& options, const planners::SearchProgress& say) {
  return Tuner(question, options, say).run();
}

}  // namespace dovetail::bench
