// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/tune_curve.hpp"

#include <fmt/format.h>

#include <CLI/StringTools.hpp>
#include <algorithm>
#include <charconv>

#include "bench/pipeline/for_framework.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "reports/sections/proof_line.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr int most_gpus = 1'048'576;

int gpu_count(const std::string& text, std::string_view part) {
  int value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > most_gpus)
    throw InputError(fmt::format("--gpus {}: expected a count of GPUs, counts with commas, or a range such as 64..1024",
                                 in_quotes(text)));
  return value;
}

// The nodes of a cluster that have so many GPUs.
int nodes_of(const std::string& cluster, int gpus) {
  FilesRead files;
  WorkloadDefaults defaults;
  const int of_node = load_cluster(cluster, defaults, files).gpus_per_node;
  if (gpus % of_node != 0)
    throw InputError(fmt::format("--gpus {}: not whole nodes of {}, which have {} GPUs", gpus, cluster, of_node));
  return gpus / of_node;
}

TuningPoint point_of(const TuneQuestion& question, const TuneOptions& options,
                     const planners::SearchProgress& say) try {
  const Cluster& cluster = question.question.experiment.cluster;
  Report report = tune(question, options, say);
  TuningPoint point{cluster.name, cluster.gpus(), cluster.device.memory, {}, {}};
  if (report.results.empty())
    point.refusal =
        fmt::format("no plan fits {}: {}", reports::bytes(report.tuning->limit), reports::proof_line(report));
  else
    point.best = std::move(report.results.front());
  return point;
} catch (const InputError& error) {
  const Cluster& cluster = question.question.experiment.cluster;
  return {cluster.name, cluster.gpus(), cluster.device.memory, {}, error.message()};
}

}  // namespace

std::vector<int> gpu_counts(const std::string& text) {
  std::vector<int> counts;
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    const int first = gpu_count(text, std::string_view(text).substr(0, dots));
    const int last = gpu_count(text, std::string_view(text).substr(dots + 2));
    if (last < first) throw InputError(fmt::format("--gpus {}: its end comes before its beginning", in_quotes(text)));
    for (int gpus = first; gpus < last; gpus *= 2) counts.push_back(gpus);
    counts.push_back(last);
    return counts;
  }
  for (const std::string& part : CLI::detail::split(text, ',')) counts.push_back(gpu_count(text, part));
  return counts;
}

std::vector<TuneOptions> hardware_choices(const TuneOptions& options) {
  std::vector<TuneOptions> choices;
  const std::vector<int> counts = options.gpus.empty() ? std::vector{0} : gpu_counts(options.gpus);
  if (!options.gpus.empty() && options.request.nodes > 0)
    throw InputError("--gpus contradicts --nodes: both say how large the cluster is");
  for (const std::string& cluster : CLI::detail::split(options.request.cluster, ','))
    for (const int gpus : counts) {
      TuneOptions& one = choices.emplace_back(options);
      one.request.cluster = cluster;
      if (gpus > 0 && cluster.empty()) throw InputError("--gpus needs --cluster: the kind of nodes that it counts");
      if (gpus > 0) one.request.nodes = nodes_of(cluster, gpus);
      one = with_its_costs(std::move(one));
    }
  return choices;
}

Report tune_curve(const std::vector<TuneOptions>& choices, FilesRead& files, const planners::SearchProgress& begin,
                  const std::function<void()>& done) {
  std::vector<TuneQuestion> questions;
  Report report{.kind = "tune", .experiment = {}, .provenance = {}, .results = {}, .notes = {}};
  TuningCurve& curve = report.curve.emplace();
  for (const TuneOptions& options : choices) {
    const TuneQuestion& question = questions.emplace_back(load_tune_question(options));
    files.insert(question.question.files.begin(), question.question.files.end());
    for (const std::string& note : question.question.notes)
      if (std::ranges::find(report.notes, note) == report.notes.end()) report.notes.push_back(note);
  }
  const Experiment& e = report.experiment = questions.front().question.experiment;
  curve.model = e.model.name;
  curve.sequence = e.workload.sequence;
  curve.global_batch = questions.front().global_batch;
  curve.workload =
      reports::workload_text(e, fmt::format("{} samples of {} tokens", curve.global_batch, curve.sequence));
  curve.gpu_watts = choices.front().gpu_watts;
  if (const auto framework = choices.front().plans_for) curve.framework = ForOneFramework(*framework, e, {}, {}).text();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    TuneOptions options = choices[i];
    options.explain = options.gains = false;
    options.output = options.html = "";
    const Cluster& cluster = questions[i].question.experiment.cluster;
    const std::string name = fmt::format("{} {} GPUs", cluster.name, cluster.gpus());
    curve.points.push_back(point_of(questions[i], options, [&](std::string_view part, double share) {
      if (begin) begin(fmt::format("{}, {}", name, part), share);
    }));
    done();
  }
  return report;
}

}  // namespace dovetail::bench
