// SPDX-License-Identifier: Apache-2.0
// Folders of measurements are held to the base's hardware and to themselves.
#include "bench/pipeline/kernel_tables.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "models/base/json/json_file.hpp"
#include "models/files/csv.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

const std::string samples = DOVETAIL_TEST_DATA "/measurements/";

std::string complaint(const std::string& folder = ".") {
  FilesRead files;
  Calibration c = load_calibration("dgx-h100", files);
  try {
    add_measured_kernels(c, {folder, "a test", {}, {}}, files);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

// A file of the samples with its times, the last column, in another unit.
std::string in_other_unit(const std::string& name, double factor) {
  FilesRead files;
  const CsvTable table(samples + name, files);
  const std::size_t last = table.names().size() - 1;
  std::string text;
  for (const std::string_view column : table.names()) text += fmt::format("{}{}", text.empty() ? "" : ",", column);
  for (const CsvTable::Row& row : table.rows()) {
    text += '\n';
    for (std::size_t i = 0; i < last; ++i) text += std::string(row.text(i)) + ',';
    text += fmt::format("{}", factor * row.number(last));
  }
  return text + '\n';
}

}  // namespace

TEST_CASE("times in milliseconds are refused at their line, of every kind of kernel") {
  CHECK(complaint(samples) == "none");
  for (const std::string name : {"gemm.csv", "attention.csv", "moe.csv"}) {
    const test::TemporaryFolder folder;
    folder.write(name, in_other_unit(name, 1e-3));
    CHECK_THAT(complaint(), Contains(name + ":") && Contains(" of the hardware: is the time in microseconds?"));
  }
  const test::TemporaryFolder folder;
  folder.write("nccl.csv",
               "collective,dtype,gpus,message_size,us\nalltoall,half,8,1024,.02\nalltoall,half,8,1048576,.03\n");
  CHECK_THAT(complaint(),
             Contains("nccl.csv:3:25: ") && Contains("from a GPU to others of its node, above the 450 GB/s"));
}

TEST_CASE("two kernels in one file are refused") {
  const test::TemporaryFolder folder;
  folder.write("gemm.csv", "dtype,m,n,k,us\nbf16,1024,1024,1024,40\nbf16,2048,1024,1024,13\n");
  CHECK_THAT(complaint(),
             Contains("gemm.csv:2:21: rows 1024, columns 1024, inner 1024, groups 1 in bf16 take 40 us, but "
                      "rows 2048, columns 1024, inner 1024, groups 1 take 13 us (line 3)"));
  folder.write(
      "gemm.csv",
      "dtype,m,n,k,us\nbf16,1024,1024,1024,10\nbf16,64,1024,1024,9\nfp8,1024,1024,1024,35\nfp8,64,1024,1024,34\n");
  CHECK_THAT(complaint(), Contains("gemm.csv:5:18: 34 us in fp8, but 9 us in half precision"));
}

TEST_CASE("fp8 alone is held to the half precision of the base") {
  const test::TemporaryFolder folder;
  FilesRead files;
  const Calibration base = load_calibration("dgx-h100", files);
  const MeasuredKernel& known = find_table(base.tables, KernelKind::Gemm, DType::Bf16)->points().back();
  const auto write = [&](double factor) {
    folder.write("gemm.csv", fmt::format("dtype,m,n,k,us\nfp8,{},{},{},{}\nfp8,1,1,1,1\n", known.shape.size[0],
                                         known.shape.size[1], known.shape.size[2], factor * known.time.value() * 1e6));
  };
  write(4);
  CHECK_THAT(complaint(), Contains("gemm.csv:2:") && Contains("us in half precision"));
  write(.7);
  CHECK(complaint() == "none");
}

TEST_CASE("experts of a folder count, also where they are slower than grouped products") {
  const test::TemporaryFolder folder;
  folder.write("moe.csv", in_other_unit("moe.csv", 3));
  FilesRead files;
  Calibration c = load_calibration("dgx-h100", files);
  CHECK(find_table(c.tables, KernelKind::Experts, DType::Bf16)->or_grouped);
  add_measured_kernels(c, {".", "a test", {}, {}}, files);
  CHECK_FALSE(find_table(c.tables, KernelKind::Experts, DType::Bf16)->or_grouped);
}
