// SPDX-License-Identifier: Apache-2.0
// Folders of measured kernels: gemm.csv, attention.csv, moe.csv, nccl.csv and deepep.csv, whose columns data/README.md
// describes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/price/kernel_table.hpp"

namespace dovetail {

struct MeasuredKernels {
  DType dtype = DType::Bf16;
  std::vector<MeasuredKernel> kernels;  // of one kind, each shape once: the fastest of the kernels that ran it
  std::vector<Location> places;         // of their times
};

// Files that a folder lacks are left out. Throws InputError with file, line and column for what cannot be read, for a
// folder that holds none of them, and for a file of another name that ends in .csv: it would be ignored.
std::vector<MeasuredKernels> read_measurements(const std::filesystem::path& folder, FilesRead& files);

// The files of a folder that read_measurements looks for.
std::vector<std::string> measurement_files(const std::filesystem::path& folder);

}  // namespace dovetail
