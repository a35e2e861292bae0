// SPDX-License-Identifier: Apache-2.0
// The request for a run on real hardware. The options of both programs, `dovetail run` and `dovetail-exec`, fill it,
// and its rules are stated here once.
#pragma once
#include <cstdint>
#include <string>

#include "exec/host/host_run.hpp"

namespace dovetail::exec {

// CPUs or GPUs compute.
enum class RunDevice { Host, Cuda };
inline constexpr Names<RunDevice, 2> run_device_names{{{"host", RunDevice::Host}, {"cuda", RunDevice::Cuda}}};

// How ranks exchange data. Inproc: threads of one process. Mpi: processes. Nccl: GPUs of one process. NcclMpi: GPUs of
// processes.
enum class RunTransport { Inproc, Mpi, Nccl, NcclMpi };
inline constexpr Names<RunTransport, 4> run_transport_names{{{"inproc", RunTransport::Inproc},
                                                             {"mpi", RunTransport::Mpi},
                                                             {"nccl", RunTransport::Nccl},
                                                             {"nccl-mpi", RunTransport::NcclMpi}}};

struct RunRequest {
  RunDevice device = RunDevice::Host;
  RunTransport transport = RunTransport::Inproc;
  bool emulate_links = false, one_rank = false, no_check = false;
  HoldCompute hold_compute = HoldCompute::Auto;
  double measure_time = 15, hang_time = 8;  // seconds
  std::uint64_t seed = 1;
  int exchange_blocks = 0;       // 0: as many as by default
  int gemm_multiprocessors = 0;  // 0: all that held exchanges leave
  int train = 0;                 // steps; 0: none
  std::string hostfile{};        // of Open MPI; empty: none

  bool cuda() const { return device == RunDevice::Cuda; }
  bool nccl() const { return transport == RunTransport::Nccl || transport == RunTransport::NcclMpi; }
  bool processes() const { return transport == RunTransport::Mpi || transport == RunTransport::NcclMpi; }
};

// The parts that a program was built with.
struct RunParts {
  bool cuda = false, mpi = false, nccl = false;
};
RunParts parts_of_this_build();

// Throws InputError, in terms of the options, for what contradicts itself.
void validate(const RunRequest& request);

// Whether the program has every part that the request needs.
bool is_built(const RunRequest& request, const RunParts& built);

// Throws DeviceError, with how to get it, for a part that the request needs and the program lacks.
void require_parts(const RunRequest& request, const RunParts& built);

RunOptions run_options(const RunRequest& request);

}  // namespace dovetail::exec
