// SPDX-License-Identifier: Apache-2.0
// The common part of files of measured times: where they lie, and who measured what.
#pragma once
#include <string>

#include "models/base/json/json_reader.hpp"
#include "models/files/input_file.hpp"
#include "models/results/measured_time.hpp"

namespace dovetail::bench {

// The path of a name in the folder of that kind, or the path that it is.
std::string path_of(const InputKind& kind, const std::string& name);

MeasuredSource read_source(const std::string& path, const JsonReader& json);

}  // namespace dovetail::bench
