// SPDX-License-Identifier: Apache-2.0
// MPI calls as exceptions, and waiting for messages without occupying a core. Included only where MPI is found.
#pragma once
#include <mpi.h>

#include <functional>
#include <vector>

#include "exec/run/cancellation.hpp"

namespace dovetail::exec {

// Throws DeviceError with MPI's own words unless `code` is MPI_SUCCESS.
void check_mpi(const char* call, int code);

// Tests, sleeping in between, until all are complete: Open MPI's own waits spin, and would take the cores from the
// threads that compute. After a cancellation the requests are given up and Cancelled is thrown.
void complete(std::vector<MPI_Request>& requests, const Cancellation& cancellation);

}  // namespace dovetail::exec
