// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_cells.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/pipeline/backends.hpp"
#include "bench/sweep/sweep_line.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/plan_json.hpp"
#include "models/results/step_range.hpp"
#include "models/results/throughput.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_parts = 64;  // bounds the memory of grids with many clusters

// Knobs that are not as in a plan without any. Slices of gradients follow from the rest, and there are many of them.
Json changed_knobs(const Plan& plan) {
  Json changed = Json::object();
  for (const Knob& knob : knobs())
    if (!has_default(knob, plan) && !std::holds_alternative<SlicesKnob>(knob.type))
      changed[std::string(knob.name)] = value_json(knob, plan);
  return changed;
}

Json outcome(const SystemResult& result) {
  return {{"makespan_s", result.metrics.makespan.value()},
          {"forward_s", result.metrics.forward.value()},
          {"backward_s", result.metrics.backward.value()},
          {"exposed_communication_s", result.metrics.exposed_communication.value()},
          {"launch_bound_s", result.metrics.launch_bound.value()},
          {"lower_bound_s", result.lower_bound.value()},
          {"peak_bytes", result.memory.peak.value()},
          {"feasible", result.feasible}};
}

// The request without settings of these objects.
ExperimentRequest without(ExperimentRequest request, std::initializer_list<std::string_view> objects) {
  std::erase_if(request.set, [&](std::string_view option) {
    return std::ranges::any_of(objects, [&](std::string_view object) {
      return option.starts_with(object) && option.substr(object.size()).starts_with('.');
    });
  });
  return request;
}

}  // namespace

SweepCells::SweepCells(const SweepGrid& grid) : grid_(grid), backend_(make_backend(grid.backend)) {
  FilesRead files;
  for (const std::string& name : grid.systems)
    systems_.push_back({load_system(name, files), is_path(name) ? name : "", "/plan"});
}

std::string SweepCells::line(std::int64_t cell) {
  const auto systems = static_cast<std::int64_t>(systems_.size());
  const SweepPoint point = grid_.point(cell / systems);
  const auto at = static_cast<std::size_t>(cell % systems);
  Json json{{"cell", cell}, {"system", grid_.systems[at]}, {"values", point.values}};
  try {
    Evaluation& evaluation = ask(point.request);
    const SystemResult result = result_of(systems_[at], evaluation);
    json.update(outcome(result));
    if (const auto mfu = throughput(question_.experiment, result.metrics).mfu) json["mfu"] = *mfu;
    add_interval(result, json);
    json["overlap"] = name_in(overlap_names, question_.experiment.overlap);
    json["plan"] = knobs_of(result.plan);
    if (!result.feasible) json["missing_bytes"] = result.missing.value();
  } catch (const InputError& error) {
    json["refused"] = error.what();
  } catch (const InternalError& error) {  // the other cells are still worth having
    json["refused"] = fmt::format("{}{}", a_bug, error.what());
  }
  return json.dump();
}

// Intervals are drawn with the whole step.
SystemResult SweepCells::result_of(const Candidate& system, Evaluation& evaluation) const {
  const planners::PlanChoice choice = evaluation.choose(system);
  if (grid_.draws == 0 && find_backend(backend_->name())->planners_model)
    if (std::optional<SystemResult> result = evaluation.result_of_step(system, choice)) return *std::move(result);
  return evaluation.evaluate(system, choice, Arenas::LeftOut);
}

void SweepCells::add_interval(const SystemResult& result, Json& json) const {
  if (grid_.draws == 0) return;
  const std::vector schedules{result.schedule};
  const int draws = affordable_draws(schedules, grid_.draws);
  const StepRange range = step_ranges(question_.experiment, schedules, draws, grid_.seed).front();
  json["interval_low_s"] = range.low * result.metrics.makespan.value();
  json["interval_high_s"] = range.high * result.metrics.makespan.value();
}

const Json& SweepCells::knobs_of(const Plan& plan) {
  if (!described_ || *described_ != plan) {
    knobs_ = changed_knobs(plan);
    described_ = plan;
  }
  return knobs_;
}

// Cells that differ in knobs of the plan alone share their experiment.
// Cells of one point share the choices of its systems.
Evaluation& SweepCells::ask(const ExperimentRequest& request) {
  const ExperimentRequest experiment = without(request, {"plan"});
  if (evaluation_ && request == question_.request) return *evaluation_;
  evaluation_.reset();
  if (!asked_ || experiment != *asked_) {
    asked_.reset();
    question_ = {};
    question_.experiment = load_experiment(experiment, parts_of(experiment), question_.files, question_.notes);
    asked_ = experiment;
  }
  question_.request = request;
  return evaluation_.emplace(question_, *backend_);
}

// Requests that differ only in workload and groups of ranks share cluster, model and calibration.
const ExperimentParts& SweepCells::parts_of(const ExperimentRequest& request) {
  const ExperimentRequest files = without(request, {"workload", "parallelism"});
  if (const auto known = std::ranges::find(parts_, files, &Parts::first); known != parts_.end()) return known->second;
  if (parts_.size() == most_parts) parts_.clear();
  return parts_.emplace_back(files, load_parts(files, known_parts_, question_.files)).second;
}

}  // namespace dovetail::bench
