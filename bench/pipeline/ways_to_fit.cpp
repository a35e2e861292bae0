// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/ways_to_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

struct Attempt {
  std::string words;
  Bytes peak;
};

class Fitting {
 public:
  Fitting(const Question& question, const Plan& plan)
      : question_(question),
        plan_(planners::without_choices(plan)),
        limit_(question.experiment.cluster.device.memory),
        now_(planners::peak_memory(question.experiment, plan)) {}

  std::vector<std::string> lines() {
    const Workload& w = question_.experiment.workload;
    const Parallelism& p = question_.experiment.parallelism;
    report(restores());
    report(first_fit(2, w.batch, [this](int parts) { return micro_batches(parts); }));
    std::optional<Attempt> smaller;
    for (int batch = w.batch / 2; batch >= 1 && !fits(smaller); batch /= 2)
      smaller = nearer(smaller, asked(fmt::format("workload.batch={}", batch)));
    report(smaller);
    report(first_fit(2, 64, [&](int factor) {
      return (factor & (factor - 1)) == 0 ? more_nodes(factor * question_.experiment.cluster.nodes) : std::nullopt;
    }));
    report(
        first_fit(p.pp + 1, w.layers, [this](int stages) { return asked(fmt::format("parallelism.pp={}", stages)); }));
    return lines_;
  }

 private:
  bool fits(const std::optional<Attempt>& attempt) const { return attempt && attempt->peak <= limit_; }

  static std::optional<Attempt> nearer(const std::optional<Attempt>& a, const std::optional<Attempt>& b) {
    return !a || (b && b->peak < a->peak) ? b : a;
  }

  static std::optional<Attempt> attempt(const std::string& words, const Experiment& experiment, const Plan& plan) {
    if (planners::refusal(plan, experiment)) return std::nullopt;
    return Attempt{words, planners::peak_memory(experiment, plan)};
  }

  std::optional<Attempt> first_fit(int first, int last, const std::function<std::optional<Attempt>(int)>& attempt) {
    std::optional<Attempt> best;
    for (int value = first; value <= last && !fits(best); ++value) best = nearer(best, attempt(value));
    return best;
  }

  std::optional<Attempt> restores() {
    std::optional<Attempt> best;
    for (const auto& [name, restore] : restore_names)
      for (const auto& [ring, buffers] : buffers_names) {
        Plan plan = plan_;
        plan.restore = restore;
        plan.buffers = buffers;
        if (buffers != Buffers::PerChunk && plan.order == Order::DispatchFirst) plan.order = Order::Alternate;
        best = nearer(
            best, attempt(fmt::format("plan.restore={} with plan.buffers={}", name, ring), question_.experiment, plan));
      }
    return best;
  }

  std::optional<Attempt> micro_batches(int parts) {
    Plan plan = plan_;
    plan.micro_batches = parts;
    if (plan.virtual_stages == 1) plan.pipeline_schedule = pipeline_schedule("1f1b");
    return attempt(fmt::format("plan.micro_batches={} with plan.pipeline_schedule={}", parts,
                               name_in(pipeline_schedule_names, plan.pipeline_schedule)),
                   question_.experiment, plan);
  }

  std::optional<Attempt> more_nodes(int nodes) {
    ExperimentRequest request = question_.request;
    request.nodes = nodes;
    return loaded(fmt::format("--nodes {}", nodes), request);
  }

  std::optional<Attempt> asked(const std::string& set) {
    ExperimentRequest request = question_.request;
    request.set.push_back(set);
    return loaded("--set " + set, request);
  }

  // The experiment that the user would get; groups are laid out anew where they are left open.
  std::optional<Attempt> loaded(const std::string& words, const ExperimentRequest& request) {
    try {
      FilesRead files;
      std::vector<std::string> notes;
      const Experiment experiment = load_experiment(request, files, notes);
      return attempt(words, experiment, plan_);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  void report(const std::optional<Attempt>& attempt) {
    if (!attempt || attempt->peak >= now_) return;
    lines_.push_back(fmt::format(
        "{}: {} ({:.0f} bytes) less, {}", attempt->words, reports::bytes(now_ - attempt->peak),
        (now_ - attempt->peak).value(),
        attempt->peak <= limit_ ? "fits" : fmt::format("still {} too much", reports::bytes(attempt->peak - limit_))));
  }

  const Question& question_;
  const Plan plan_;
  const Bytes limit_, now_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> ways_to_fit(const Question& question, const Plan& plan) {
  return Fitting(question, plan).lines();
}

}  // namespace dovetail::bench
