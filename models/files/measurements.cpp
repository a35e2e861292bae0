#include "models/files/measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/csv.hpp"

namespace dovetail {
namespace {

// As AIConfigurator names formats. fp8_block: both factors in fp8, with a scale for each block.
constexpr Names<DType, 6> measured_formats{{{"bfloat16", DType::Bf16},
                                            {"bf16", DType::Bf16},
                                            {"float16", DType::Fp16},
                                            {"fp16", DType::Fp16},
                                            {"fp8_block", DType::Fp8},
                                            {"fp8", DType::Fp8}}};
// Rows of which every expert takes as many: a plan's capacity makes them equal.
constexpr std::string_view equal_rows = "balanced";

using Fastest = std::map<DType, std::map<KernelShape, Seconds>>;

// One row: its format and shape; nothing where it measures something else than kernels of plans.
struct Reading {
  DType dtype;
  KernelShape shape;
};
using ReadRow = std::optional<Reading> (*)(const CsvTable& table, const CsvTable::Row& row);

std::optional<Reading> read_gemm_row(const CsvTable& t, const CsvTable::Row& row) {
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  return Reading{row.name(t.column("dtype"), measured_formats), gemm_shape(size("m"), size("n"), size("k"))};
}

std::optional<Reading> read_attention_row(const CsvTable& t, const CsvTable::Row& row) {
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  return Reading{DType::Bf16,
                 attention_shape(size("batch"), size("sequence"), size("heads"), size("kv_heads"), size("head_dim"))};
}

std::optional<Reading> read_experts_row(const CsvTable& t, const CsvTable::Row& row) {
  if (row.text(t.column("distribution")) != equal_rows) return {};
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  const std::int64_t ep = size("ep"), experts = std::max<std::int64_t>(1, size("experts") / ep);
  const std::int64_t rows = std::max<std::int64_t>(1, size("tokens") * size("topk") / ep);
  return Reading{row.name(t.column("dtype"), measured_formats),
                 experts_shape(rows, experts, size("hidden"), std::max<std::int64_t>(1, size("inter") / size("tp")),
                               size("tokens") * size("topk"))};
}

struct MeasuredFile {
  std::string_view name;
  ReadRow read;
};
constexpr std::array<MeasuredFile, 3> measured_files{
    {{"gemm.csv", read_gemm_row}, {"attention.csv", read_attention_row}, {"moe.csv", read_experts_row}}};
// Known folders hold these too; no cost follows from them yet.
constexpr std::array<std::string_view, 2> unread_files{"nccl.csv", "deepep.csv"};

Fastest read_rows(const CsvTable& table, ReadRow read) {
  Fastest fastest;
  const std::size_t time = table.column("us");
  for (const CsvTable::Row& row : table.rows()) {
    const std::optional<Reading> reading = read(table, row);
    if (!reading) continue;
    const Seconds seconds(row.number(time) * 1e-6);
    if (!(seconds > Seconds(0))) row.fail(time, "0, expected a time");
    const auto [found, first] = fastest[reading->dtype].try_emplace(reading->shape, seconds);
    if (!first) found->second = std::min(found->second, seconds);
  }
  return fastest;
}

void require_known(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error)
    throw InputError(fmt::format("{}: {}, expected a folder of measurements", folder.string(), error.message()));
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    const bool known = std::ranges::find(measured_files, name, &MeasuredFile::name) != measured_files.end() ||
                       std::ranges::find(unread_files, name) != unread_files.end();
    if (name.ends_with(".csv") && !known)
      throw InputError({entry.path().string(), 1, 1, ""},
                       "unknown file of measurements, expected gemm.csv, "
                       "attention.csv or moe.csv");
  }
}

}  // namespace

std::vector<MeasuredKernels> read_measurements(const std::filesystem::path& folder, FilesRead& files) {
  require_known(folder);
  std::vector<MeasuredKernels> all;
  for (const auto& [name, read] : measured_files) {
    const std::string path = (folder / name).string();
    if (!std::filesystem::exists(path)) continue;
    const CsvTable table(path, files);
    for (const auto& [dtype, shapes] : read_rows(table, read)) {
      MeasuredKernels& kernels = all.emplace_back(MeasuredKernels{dtype, {}, path});
      for (const auto& [shape, seconds] : shapes) kernels.kernels.push_back({shape, seconds});
    }
  }
  if (all.empty())
    throw InputError(
        fmt::format("{}: no measurements, expected gemm.csv, attention.csv or moe.csv in it", folder.string()));
  return all;
}

std::vector<std::string> measurement_files(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (const MeasuredFile& file : measured_files) paths.push_back((folder / file.name).string());
  return paths;
}

std::vector<std::string> unread_measurements(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (const std::string_view name : unread_files)
    if (std::filesystem::exists(folder / name)) paths.push_back((folder / name).string());
  return paths;
}

}  // namespace dovetail
