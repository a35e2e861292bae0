// SPDX-License-Identifier: Apache-2.0
// The way into the shared object that holds SimGrid's backends (module.cpp). It has a copy of its own of what it needs
// of models/, which keeps no state that a backend would share with the program.
#pragma once
#include "models/time/backend.hpp"

namespace dovetail::sim {

inline constexpr const char* module_file = "simgrid.so";
inline constexpr const char* make_backend_symbol = "dovetail_make_simgrid_backend";

// A new backend of this name, "simgrid" or "simgrid-flow", which the caller deletes. Throws what its constructor does.
using MakeBackend = Backend* (*)(const char* name, const char* platform);

}  // namespace dovetail::sim
