// SPDX-License-Identifier: Apache-2.0
// Reads what was measured on the device of a validation beside plans: our own points, another program's times, labels.
#pragma once
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

// Empty: not given. `step` and `run`: of the same layer, `run` the result of dovetail run at degree 1.
struct StudyFiles {
  std::string points, baselines, step, run, labels;
};

// Peers are compared where our points have the very same work, measured alone; `notes` says what was left out. Throws
// InputError with the place of what is wrong in a file, and for files that go together where one is missing.
DeviceStudy read_device_study(const StudyFiles& from, FilesRead& files, std::vector<std::string>& notes);

}  // namespace dovetail::bench
