// SPDX-License-Identifier: Apache-2.0
#include "exec/run/program.hpp"
#include "models/base/build_info.hpp"
#include "models/base/streams.hpp"
#if DOVETAIL_HAS_MPI
#include "exec/transport/mpi_world.hpp"
#endif
#if DOVETAIL_HAS_CUDA
#include "exec/device/cuda/cuda_run.hpp"
#include "exec/device/nccl/nccl_run.hpp"
#endif

int main(int argc, char** argv) {
  dovetail::prepare_streams();
  dovetail::exec::MakeWorld mpi = nullptr;
  dovetail::exec::Cuda cuda;
#if DOVETAIL_HAS_MPI
  mpi = dovetail::exec::make_mpi_world;
#endif
#if DOVETAIL_HAS_CUDA
  cuda = {dovetail::exec::run_on_cuda, dovetail::exec::run_over_nccl, dovetail::exec::calibrate_cuda};
#endif
  return dovetail::exec::run_program({argv + 1, argv + argc}, mpi, cuda);
}
