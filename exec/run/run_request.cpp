#include "exec/run/run_request.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <string_view>

#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

struct RunRefusal {
  bool (*applies)(const RunRequest&);
  std::string_view why;
};

constexpr std::array run_refusals{
    RunRefusal{[](const RunRequest& r) { return r.cuda() && r.transport == RunTransport::Mpi; },
               "--device cuda: not with --transport mpi, because GPUs exchange by --transport nccl or nccl-mpi"},
    RunRefusal{[](const RunRequest& r) { return r.nccl() && !r.cuda(); },
               "--transport nccl: only with --device cuda, because NCCL works between GPUs"},
    RunRefusal{[](const RunRequest& r) { return r.nccl() && r.emulate_links; },
               "--transport nccl: not with --emulate-links, because the links are real"},
    RunRefusal{[](const RunRequest& r) { return r.exchange_blocks > 0 && !(r.cuda() && r.emulate_links); },
               "--exchange-blocks: only with --device cuda --emulate-links, where one GPU stands for one rank"},
    RunRefusal{[](const RunRequest& r) { return r.gemm_multiprocessors > 0 && !r.cuda(); },
               "--gemm-multiprocessors: only with --device cuda"},
    RunRefusal{[](const RunRequest& r) { return !r.hostfile.empty() && !r.processes(); },
               "--hostfile: only with --transport mpi or nccl-mpi"},
};

}  // namespace

RunParts parts_of_this_build() {
  return {DOVETAIL_HAS_CUDA != 0, DOVETAIL_HAS_MPI != 0, DOVETAIL_HAS_NCCL != 0};
}

void validate(const RunRequest& request) {
  for (const RunRefusal& refusal : run_refusals)
    if (refusal.applies(request)) throw InputError(std::string(refusal.why));
  if (!request.hostfile.empty() && !std::ifstream(request.hostfile))
    throw InputError(fmt::format("--hostfile {}: cannot be read", request.hostfile));
}

void require_parts(const RunRequest& request, const RunParts& built) {
  if (request.cuda() && !built.cuda)
    throw DeviceError("--device cuda", "not in this build; install CUDA with cuBLAS and build again");
  if (request.processes() && !built.mpi)
    throw DeviceError("--transport mpi", "not in this build; apt-get install libopenmpi-dev and build again");
  if (request.nccl() && !built.nccl)
    throw DeviceError("--transport nccl", "not in this build; give -DDOVETAIL_NCCL_ROOT=... and build again");
}

RunOptions run_options(const RunRequest& request) {
  RunOptions how;
  how.emulate_links = request.emulate_links;
  how.hold_compute = request.hold_compute;
  how.check_numerics = !request.no_check;
  how.measure.limit = Seconds(request.measure_time);
  how.seed = request.seed;
  how.patience = Seconds(request.hang_time);
  how.gemm_multiprocessors = request.gemm_multiprocessors;
  if (request.exchange_blocks > 0) how.exchange_blocks = request.exchange_blocks;
  return how;
}

}  // namespace dovetail::exec
