// SPDX-License-Identifier: Apache-2.0
// Processes started by mpirun. Compiled only where MPI is found.
#pragma once
#include "exec/transport/world.hpp"

namespace dovetail::exec {

// Initialises MPI; the world finalises it. Throws DeviceError where MPI does not let several threads call it at once.
// One world per process.
std::unique_ptr<World> make_mpi_world();

}  // namespace dovetail::exec
