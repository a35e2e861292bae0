// SPDX-License-Identifier: Apache-2.0
// The files of many experiments: each is read and checked once for the settings that change it.
#pragma once
#include <cstddef>
#include <map>
#include <string>

#include "models/base/shared.hpp"
#include "models/files/experiment_file.hpp"
#include "models/files/load.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {

// By ExperimentFile::source_of. A file is noted as read when it is, and not again where it is known.
struct KnownParts {
  static constexpr std::size_t most = 64;  // of each kind, which bounds the memory of grids that change files
  std::map<std::string, Shared<Model>> models;
  std::map<std::string, Shared<Calibration>> calibrations;  // not yet adapted to a cluster
  std::map<std::string, Shared<FrameworkParts>> frameworks;
};

// As in load.hpp.
ExperimentParts load_parts(const ExperimentRequest& request, const ExperimentFile& file, KnownParts& known,
                           FilesRead& files);
ExperimentParts load_parts(const ExperimentRequest& request, KnownParts& known, FilesRead& files);
Experiment load_experiment(const ExperimentRequest& request, KnownParts& known, FilesRead& files,
                           std::vector<std::string>& notes);

}  // namespace dovetail
