// SPDX-License-Identifier: Apache-2.0
// Runs on a GPU for each rank, with NCCL between them.
#pragma once
#include "exec/host/host_run.hpp"
#include "exec/transport/world.hpp"

namespace dovetail::exec {

// On this machine's first GPUs, driven by a thread each; with a `world` by its processes, which must be as many as
// there are ranks, each on the GPU that has its number on its machine. Throws DeviceError where there are too few GPUs,
// or no NCCL in this build.
RunResult run_over_nccl(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                        const RunOptions& options, World* world);

}  // namespace dovetail::exec
