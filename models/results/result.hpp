// SPDX-License-Identifier: Apache-2.0
// The findings of a command, in memory: commands fill this, reports print it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/results/explanation.hpp"
#include "models/results/system_result.hpp"
#include "models/results/tuning.hpp"

namespace dovetail {

// How a result came to be. It never holds the whole environment.
struct RunProvenance {
  std::string version, git_revision, host, compiler, created;  // created: ISO 8601 UTC
  std::vector<std::string> command_line;
  std::map<std::string, std::string> libraries;     // name -> version
  std::map<std::string, std::string> input_sha256;  // file -> digest
  unsigned long seed = 0;
};

// A system that cannot do what is asked, and why.
struct RefusedSystem {
  std::string system, reason;
};

struct Report {
  std::string kind;  // the command
  Experiment experiment;
  RunProvenance provenance;
  std::vector<SystemResult> results;
  std::vector<RefusedSystem> refused = {};
  std::vector<std::string> notes;  // what a reader must know: assumed constants, layers cut to the testbed's default
  RoutingFigures routing = {};     // by add_figures
  std::optional<Explanation> explanation = {};  // of the best result, where it was asked for
  // A search over layouts. The results are then the best plan of each layout, the fastest first, and groups and batch
  // of the experiment are of no meaning. Empty results: none fits.
  std::optional<Tuning> tuning = {};
  std::optional<TuningCurve> curve = {};  // in place of results, where several clusters were asked for
};

}  // namespace dovetail
