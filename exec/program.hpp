// The program dovetail-exec: a schedule file in, the timeline of really executing it out.
#pragma once
#include <string>
#include <vector>

#include "exec/world.hpp"

namespace dovetail::exec {

using MakeWorld = std::unique_ptr<World> (*)();

// Exit codes: 0 done; 1 numerics differ from the reference, or a bug; 2 wrong usage or input; 4 a device or library
// failed. Messages go to standard error. `mpi` makes the processes of --transport mpi; null: not in this build.
int run_program(const std::vector<std::string>& arguments, MakeWorld mpi = nullptr);

}  // namespace dovetail::exec
