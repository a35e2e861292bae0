// SPDX-License-Identifier: Apache-2.0
// How a result came to be: what a reader needs to make it again.
#pragma once
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

// `created` is now. Files as FilesRead names them.
RunProvenance provenance(const std::vector<std::string>& command_line, const FilesRead& files, int seed);

}  // namespace dovetail::bench
