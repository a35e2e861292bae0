// SPDX-License-Identifier: Apache-2.0
// Ranks are processes of MPI_COMM_WORLD, one each. Collectives are made of point-to-point messages, so that sums are
// taken in the order of the group and no wait spins.
#pragma once
#include <memory>

#include "exec/transport/transport.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail::exec {

// Called by all processes, with MPI initialised for many threads. Destroy it before MPI is finalised.
std::unique_ptr<Transport> make_mpi_transport(const Parallelism& parallelism, int streams);

}  // namespace dovetail::exec
