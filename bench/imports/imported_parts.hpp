// SPDX-License-Identifier: Apache-2.0
// The parts of an imported experiment that every framework has: its ranks, framework file and checks.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/imports/imported_run.hpp"
#include "models/plan/plan.hpp"
#include "models/question/model.hpp"

namespace dovetail::bench {

// The GPUs that a run has; total 0: not known.
struct ImportedRanks {
  std::string cluster;  // empty: left open
  int nodes = 0;        // of the cluster; 0: left open
  int total = 0;
};

// Throws InputError where the launch's ranks do not fill nodes of the named cluster.
ImportedRanks imported_ranks(const ImportRequest& request, std::optional<int> nodes, std::optional<int> ranks_a_node);

// Group sizes and samples of a run. 0: not given.
struct ImportedSizes {
  int mp = 1, pp = 1, ep = 1, esp = 1;
  std::optional<bool> sequence_parallel = {};
  std::string layout = {};
  int micro_batch = 0, global_batch = 0;
};

// Puts cluster, nodes, groups, batch and plan into the experiment; its workload and model are there already. Throws
// InputError where sizes do not divide; `place` names the file.
void add_sizes(const ImportedRanks& ranks, const ImportedSizes& sizes, const Model& model, Plan plan,
               const std::string& place, nlohmann::ordered_json& experiment, Unsaid& unsaid);

// The name of a framework file, or the whole file where switches differ from its own.
nlohmann::ordered_json framework_with(const std::string& name, const std::map<std::string, bool>& options);

// Throws InputError unless the experiment fits its schema and its model makes sense.
void require_experiment(const ImportedRun& run, const std::string& file);

}  // namespace dovetail::bench
