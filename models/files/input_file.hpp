// SPDX-License-Identifier: Apache-2.0
// Finds, opens and checks the input files of an experiment; what is in them is for read_parts.hpp.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json/json_file.hpp"
#include "models/files/load.hpp"

namespace dovetail {

// A kind of input: how messages and experiments call one ("cluster"; also its schema), and its folder in data/.
struct InputKind {
  std::string name, folder;
};
inline const InputKind cluster_input{"cluster", "clusters"};
inline const InputKind model_input{"model", "models"};
inline const InputKind calibration_input{"calibration", "calibrations"};
inline const InputKind framework_input{"framework", "frameworks"};
inline const InputKind trace_input{"trace", "traces"};
inline const InputKind system_input{"system", "systems"};
inline const InputKind experiment_input{"experiment", "experiments"};

// A value that an option puts into a file: at `pointer`, called `origin` in messages ("--set cluster.nodes=4").
struct Override {
  std::string pointer;
  std::string value;  // JSON text, or any other text for a string
  std::string origin;
};

// Ends in .json or .csv or has a slash.
bool is_path(std::string_view name);

// The lines of a text, without their ends.
std::vector<std::string_view> lines_of(std::string_view text);

// The text as JSON, or as a string where it is none.
nlohmann::json option_value(const std::string& text);

// The file that a name or path stands for, as it is; noted in `files`.
JsonFile read_input(const InputKind& kind, const std::string& name, FilesRead& files);

// The same with the overrides, valid against its schema.
JsonFile open_input(const InputKind& kind, const std::string& name, const std::vector<Override>& overrides,
                    FilesRead& files);

// A name in a file that is a path is relative to that file.
std::string beside(const std::string& file, const std::string& name);

}  // namespace dovetail
