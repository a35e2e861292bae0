// SPDX-License-Identifier: Apache-2.0
// Measured runs on this machine's CPUs.
#pragma once
#include <memory>

#include "exec/run/measured_run.hpp"
#include "exec/transport/transport.hpp"

namespace dovetail::exec {

// Runs the ranks of the experiment's cluster. All processes of the transport call it and get the same result. Throws
// InputError when the tensors of a machine's ranks exceed its memory, DeviceError where there is no room for their
// threads or none of them gets past an op. An op that fails: see StreamRuntime.
RunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options, Transport& transport);

// The same with all ranks as threads of this process.
RunResult run_on_host(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options = {});

// If f <= 0 and the router decides, sets the capacity from its real choices with this seed's weights and data,
// of the whole batch and of micro-batches.
void resolve_routed_capacity(Experiment& experiment, std::uint64_t seed);

// CPUs that this process may use.
int free_cores();

}  // namespace dovetail::exec
