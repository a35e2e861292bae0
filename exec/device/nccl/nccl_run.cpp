// SPDX-License-Identifier: Apache-2.0
#include "exec/device/nccl/nccl_run.hpp"

#include <fmt/format.h>

#include <utility>

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/device_run.hpp"
#if DOVETAIL_HAS_NCCL
#include "exec/device/nccl/nccl_network.hpp"
#endif
#include "models/base/errors.hpp"

namespace dovetail::exec {

#if DOVETAIL_HAS_NCCL

RunResult run_over_nccl(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                        const RunOptions& options, World* world) {
  const int ranks = experiment.cluster.gpus();
  const int first = world == nullptr ? 0 : world->rank_on_machine();
  const int here = world == nullptr ? ranks : 1;
  if (cuda_devices() < first + here)
    throw DeviceError("--transport nccl", fmt::format("a GPU for each rank: {} asked for, this machine has {}",
                                                      first + here, cuda_devices()));
  std::string id;
  if (world == nullptr || world->rank() == 0) id = make_nccl_id();
  if (world != nullptr) world->broadcast(id);
  const Schedule& schedule = *priced->schedule;
  const auto between =
      world == nullptr ? nullptr : world->transport(schedule.groups, static_cast<int>(schedule.streams.size()));
  Cancellation cancellation;
  DeviceGroup group;
  group.ranks = static_cast<std::size_t>(here);
  group.between_processes = between.get();
  group.network = world == nullptr ? "nccl" : "nccl-mpi";
  group.make_device = [first](std::size_t local) { return make_cuda_device(first + static_cast<int>(local)); };
  group.make_network = [&](std::size_t local) {
    const int rank = world == nullptr ? static_cast<int>(local) : world->rank();
    return make_nccl_network(rank, ranks, id, cancellation);
  };
  return run_on_devices(group, experiment, std::move(priced), options, cancellation);
}

#else

RunResult run_over_nccl(const Experiment&, std::shared_ptr<const PricedSchedule>, const RunOptions&, World*) {
  throw DeviceError("--transport nccl", "not in this build; give -DDOVETAIL_NCCL_ROOT=... and build again");
}

#endif

}  // namespace dovetail::exec
