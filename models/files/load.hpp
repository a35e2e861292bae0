// SPDX-License-Identifier: Apache-2.0
// Reads the input files of an experiment. A name resolves against data/<kind>/<name>.json, anything that
// ends in .json or contains a slash is a path. Every failure is an InputError with its place in the file.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/system.hpp"
#include "models/question/experiment.hpp"
#include "models/question/workload_defaults.hpp"

namespace dovetail {

// Remembers what was read, for provenance: file -> text. Shipped files are called "data/clusters/x.json" wherever the
// data lies.
using FilesRead = std::map<std::string, std::string>;

Cluster load_cluster(const std::string& name, WorkloadDefaults& defaults, FilesRead& files);
Model load_model(const std::string& name, FilesRead& files);
Calibration load_calibration(const std::string& name, FilesRead& files);
System load_system(const std::string& name, FilesRead& files);
// A plan file as a system of the planner "fixed" that is named after the file.
System load_plan(const std::string& path, FilesRead& files);

// The names in data/<kind>: clusters, models, calibrations, systems.
std::vector<std::string> known_names(const std::string& kind);

// The user's request: names or an experiment file, and the values that options override. `set` may give what options
// of their own give, with the same value.
struct ExperimentRequest {
  std::string file;  // name or path of an experiment; empty: from the names
  std::string cluster, model, calibration;
  int nodes = 0;       // same kind of cluster, other size; 0: as described
  bool ideal = false;  // overlap, whatever the file says
  // "key=value" in order, dotted paths into the experiment (workload.batch=4, parallelism.ep=2,
  // calibration.memory.beta="1 ps/B"); those into "plan." are applied by apply_to_plan.
  std::vector<std::string> set;
  std::map<std::string, std::string> written;  // those that the user wrote otherwise: "parallelism.mp=8" -> "tp=8"

  const std::string& as_written(const std::string& setting) const {
    const auto found = written.find(setting);
    return found == written.end() ? setting : found->second;
  }
  bool esp_follows_mp = false;  // unless it is given, as Megatron-LM's etp follows tp
  friend bool operator==(const ExperimentRequest&, const ExperimentRequest&) = default;
};

// Throws InputError where two spellings give one value differently: "--set tp=2 contradicts --set parallelism.mp=4".
// The same key given again has its last value. load_experiment() looks itself.
void require_agreement(const ExperimentRequest& request);

// Defaults: the cluster's, else as the model is trained: its sequence, top_k and layers, dropless or with f 1.2, bf16;
// groups as default_parallelism or trained_parallelism, filled up around those given. Options come before the file.
// Paths in a file are relative to it. `notes` gets a line for every default that a reader must know (layers cut to the
// testbed's, padded heads).
Experiment load_experiment(const ExperimentRequest& request, FilesRead& files, std::vector<std::string>& notes);

// The parts of an experiment from other files. They depend on the request's file, names and nodes, and on its settings
// of cluster.*, model.*, calibration.* and framework.* alone, so that experiments which are alike in these can share
// them.
struct ExperimentParts {
  Cluster cluster;
  WorkloadDefaults defaults;
  Model model;
  Shared<Calibration> calibration;
  TrainingFramework framework;
};
ExperimentParts load_parts(const ExperimentRequest& request, FilesRead& files);
Experiment load_experiment(const ExperimentRequest& request, const ExperimentParts& parts, FilesRead& files,
                           std::vector<std::string>& notes);

// Whether the experiment file's "plan" gives every knob, so that it leaves nothing open to a system.
bool has_whole_plan(const ExperimentRequest& request);

// A function that sets the knobs of the experiment file's "plan", then those of --set plan.x=y, and the micro-batches
// that workload.micro_batch stands for. When called it throws InputError for a wrong value.
std::function<void(Plan&)> plan_settings(const ExperimentRequest& request, const Experiment& experiment);
void apply_to_plan(const ExperimentRequest& request, const Experiment& experiment, Plan& plan);  // the same, once

// Sets knobs of a plan as `option` names them: "plan.forward_degree=2". Throws InputError, with the option, for others.
void set_knobs(const std::vector<std::string>& settings, std::string_view option, Plan& plan);

}  // namespace dovetail
