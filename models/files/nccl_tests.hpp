// Reads what NVIDIA's nccl-tests print: the table of a text output, or the file of its option -J.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/fit.hpp"
#include "models/files/load.hpp"

namespace dovetail {

struct Calibration;

// One collective over one group. Sizes are bytes as CollectiveCost counts them, which is how nccl-tests count too.
struct NcclTestsRun {
  std::string file;
  int line = 1;                          // where it begins in the file
  std::optional<Collective> collective;  // not in the text of older versions
  int ranks = 0, nodes = 0;              // 0: the output does not say
  int members_per_node = 0;              // 0: it does not say, or not the same number on every node
  std::vector<TimedSize> times;          // out of place; without those of no bytes
};

// Every test in the file: a text may hold several, one after the other, with tags of mpirun or srun before the lines.
// Throws InputError, with the place in the file, for what is no such output, for tests that cannot be told apart, for
// wrong results and for CPU times.
std::vector<NcclTestsRun> read_nccl_tests(const std::string& path, FilesRead& files);

// Fits each run and puts it in place of all entries for its collective and link; of an all-to-all, costs by message go
// too. If a run does not say which collective or over which links (several nodes: inter), the arguments do; throws
// InputError where they do not either, and where `collective` would have to stand for several tests of a file.
void merge_nccl_tests(Calibration& calibration, std::span<const NcclTestsRun> runs,
                      std::optional<Collective> collective, std::optional<LinkKind> link);

}  // namespace dovetail
