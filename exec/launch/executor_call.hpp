// SPDX-License-Identifier: Apache-2.0
// The words and files by which a program calls dovetail-exec.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "exec/host/host_run.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail::exec {

// dovetail-exec beside the running program. Throws DeviceError where it is missing.
std::string executor_path();

void add_run_options(std::vector<std::string>& command, const RunOptions& options);

// The line in which a process of dovetail-exec said why it failed; nothing if none did.
std::optional<std::string> own_words(const std::string& errors);
// Throws what a process that ended with this code has said: InputError for wrong input, else DeviceError.
[[noreturn]] void rethrow(const std::string& words, int code);

// The result that it wrote for a schedule. Throws DeviceError where the file is of another version.
RunResult result_of(const std::string& timeline_file, const PricedSchedule& priced);

}  // namespace dovetail::exec
