// SPDX-License-Identifier: Apache-2.0
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
    RunRefusal{[](const RunRequest& r) { return r.one_rank && (r.cuda() || !r.emulate_links); },
               "--one-rank: only with --emulate-links on the host; one GPU with --emulate-links stands for one rank "
               "anyway"},
    RunRefusal{[](const RunRequest& r) { return r.one_rank && r.processes(); },
               "--one-rank: not with --transport mpi, because there is nothing to exchange"},
    RunRefusal{[](const RunRequest& r) { return r.one_rank && r.train > 0; },
               "--train: not with --one-rank, which computes nothing of use"},
    RunRefusal{[](const RunRequest& r) { return r.exchange_blocks > 0 && !(r.cuda() && r.emulate_links); },
               "--exchange-blocks: only with --device cuda --emulate-links, where one GPU stands for one rank"},
    RunRefusal{[](const RunRequest& r) { return r.gemm_multiprocessors > 0 && !r.cuda(); },
               "--gemm-multiprocessors: only with --device cuda"},
    RunRefusal{
        [](const RunRequest& r) { return r.train > 0 && r.cuda() && r.emulate_links; },
        "--train: not with --device cuda --emulate-links, where one GPU stands for one rank and computes nothing "
        "of use"},
    RunRefusal{[](const RunRequest& r) { return !r.hostfile.empty() && !r.processes(); },
               "--hostfile: only with --transport mpi or nccl-mpi"},
};

struct RunPart {
  bool (*needed)(const RunRequest&);
  bool RunParts::*present;
  const char* option;
  const char* get_it;
};

constexpr std::array run_parts{
    RunPart{[](const RunRequest& r) { return r.cuda(); }, &RunParts::cuda, "--device cuda",
            "not in this build; install CUDA with cuBLAS and build again"},
    RunPart{[](const RunRequest& r) { return r.processes(); }, &RunParts::mpi, "--transport mpi",
            "not in this build; apt-get install libopenmpi-dev and build again"},
    RunPart{[](const RunRequest& r) { return r.nccl(); }, &RunParts::nccl, "--transport nccl",
            "not in this build; give -DDOVETAIL_NCCL_ROOT=... and build again"},
};

// Null: the program has every part that the request needs.
const RunPart* missing_part(const RunRequest& request, const RunParts& built) {
  for (const RunPart& part : run_parts)
    if (part.needed(request) && !(built.*part.present)) return &part;
  return nullptr;
}

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

bool is_built(const RunRequest& request, const RunParts& built) {
  return missing_part(request, built) == nullptr;
}

void require_parts(const RunRequest& request, const RunParts& built) {
  if (const RunPart* part = missing_part(request, built)) throw DeviceError(part->option, part->get_it);
}

RunOptions run_options(const RunRequest& request) {
  RunOptions how;
  how.emulate_links = request.emulate_links;
  how.one_rank = request.one_rank;
  how.hold_compute = request.hold_compute;
  how.check_numerics = !request.no_check;
  how.measure.limit = Seconds(request.measure_time);
  how.seed = request.seed;
  how.patience = Seconds(request.hang_time);
  how.train = request.train;
  how.gemm_multiprocessors = request.gemm_multiprocessors;
  if (request.exchange_blocks > 0) how.exchange_blocks = request.exchange_blocks;
  return how;
}

}  // namespace dovetail::exec
