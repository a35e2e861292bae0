// SPDX-License-Identifier: Apache-2.0
// The backends of SimGrid, from a shared object that is opened when the first one is asked for. SimGrid brings 22
// libraries, which take the dynamic loader longer than most commands take.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "models/time/backend.hpp"

namespace dovetail::bench {

// The shared object, beside the program that runs.
std::filesystem::path simgrid_module();

// "simgrid" or "simgrid-flow". Throws DeviceError where the shared object is missing, and whatever the
// backend's constructor throws.
std::unique_ptr<Backend> make_simgrid_backend(const std::string& name, const std::string& platform);

}  // namespace dovetail::bench
