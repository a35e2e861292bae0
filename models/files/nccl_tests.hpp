// SPDX-License-Identifier: Apache-2.0
// Reads what NVIDIA's nccl-tests print: the table of a text output, or the file of its option -J.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/files/nccl_run.hpp"

namespace dovetail {

struct Calibration;

// Every test in the file: a text may hold several, one after the other, with tags of mpirun or srun before the lines.
// Throws InputError, with the place in the file, for what is no such output, for tests that cannot be told apart, for
// wrong results, for CPU times and where parts of the output disagree (nccl_agreement.hpp).
std::vector<NcclTestsRun> read_nccl_tests(const std::string& path, FilesRead& files);

// Fits each run and puts it in place of all entries for its collective and link; of an all-to-all, costs by message go
// too. If a run does not say which collective or over which links (several nodes: inter), the arguments do; throws
// InputError where they do not either, where `collective` would have to stand for several tests of a file, and for
// times in which the calibration's hardware cannot send so much.
void merge_nccl_tests(Calibration& calibration, std::span<const NcclTestsRun> runs,
                      std::optional<Collective> collective, std::optional<LinkKind> link);

}  // namespace dovetail
