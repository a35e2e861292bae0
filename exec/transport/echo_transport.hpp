// SPDX-License-Identifier: Apache-2.0
// One rank stands for all: what it sends comes back in place of what the others would send it. Times alone mean
// something then, so that one core can run a rank of any group. Values are finite and otherwise of no use.
#pragma once
#include <memory>

#include "exec/transport/transport.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail::exec {

// For one rank of `parallelism`, on streams 0 to streams - 1. Nothing arrives from another pipeline stage: a schedule
// must have one.
std::unique_ptr<Transport> make_echo_transport(const Parallelism& parallelism, int rank, int streams);

}  // namespace dovetail::exec
