// SPDX-License-Identifier: Apache-2.0
// Ranks are threads of this process: members of a group meet, show each other their buffers and copy.
#pragma once
#include <memory>

#include "exec/transport/transport.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail::exec {

// For all ranks of `parallelism`, on streams 0 to streams - 1.
std::unique_ptr<Transport> make_inproc_transport(const Parallelism& parallelism, int ranks, int streams);

}  // namespace dovetail::exec
