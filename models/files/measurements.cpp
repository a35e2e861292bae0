// SPDX-License-Identifier: Apache-2.0
#include "models/files/measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/csv.hpp"
#include "models/question/drawn_choices.hpp"

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

constexpr Names<KernelKind, 3> product_phases{{{"forward", KernelKind::Gemm},
                                               {"input_gradient", KernelKind::Gemm},
                                               {"weight_gradient", KernelKind::WeightGradient}}};
constexpr Names<KernelKind, 2> attention_phases{
    {{"forward", KernelKind::Attention}, {"backward", KernelKind::AttentionBackward}}};

constexpr Names<KernelKind, 4> measured_collectives{{{"alltoall", KernelKind::AllToAll},
                                                     {"all_gather", KernelKind::AllGather},
                                                     {"reduce_scatter", KernelKind::ReduceScatter},
                                                     {"all_reduce", KernelKind::AllReduce}}};
constexpr Names<DType, 4> element_formats{
    {{"half", DType::Fp16}, {"bfloat16", DType::Bf16}, {"float", DType::Fp32}, {"fp8", DType::Fp8}}};
constexpr std::int64_t node_ranks = 8;  // of the machines on which DeepEP was measured

struct TimeAt {
  Seconds time;
  Location place;
};
// Shapes of one kind, in one format.
using Fastest = std::map<std::pair<KernelKind, DType>, std::map<KernelShape, TimeAt>>;

// One row: its format and shape; nothing where it measures something else than kernels of plans.
struct Reading {
  DType dtype;
  KernelShape shape;
};
using ReadRow = std::optional<Reading> (*)(const CsvTable& table, const CsvTable::Row& row);

// The kernel of a row by its column `phase`, or `usual` where the file has none.
template <std::size_t N>
KernelKind kind_of(const CsvTable& t, const CsvTable::Row& row, const Names<KernelKind, N>& phases, KernelKind usual) {
  const auto phase = t.find_column("phase");
  return phase ? row.name(*phase, phases) : usual;
}

std::optional<Reading> read_gemm_row(const CsvTable& t, const CsvTable::Row& row) {
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  const auto groups = t.find_column("groups");
  const KernelShape shape = gemm_shape(size("m"), size("n"), size("k"), groups ? row.whole(*groups, 1) : 1);
  return Reading{row.name(t.column("dtype"), measured_formats),
                 as_kind(shape, kind_of(t, row, product_phases, KernelKind::Gemm))};
}

std::optional<Reading> read_attention_row(const CsvTable& t, const CsvTable::Row& row) {
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  const KernelShape shape =
      attention_shape(size("batch"), size("sequence"), size("heads"), size("kv_heads"), size("head_dim"));
  return Reading{DType::Bf16, as_kind(shape, kind_of(t, row, attention_phases, KernelKind::Attention))};
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

std::optional<Reading> read_collective_row(const CsvTable& t, const CsvTable::Row& row) {
  const DType dtype = row.name(t.column("dtype"), element_formats);
  const auto element = static_cast<std::int64_t>(size_of(dtype).value());
  return Reading{
      dtype, collective_shape(row.name(t.column("collective"), measured_collectives), row.whole(t.column("gpus"), 2),
                              row.whole(t.column("message_size"), 1) * element)};
}

// Over several nodes another kernel does this.
template <KernelKind kind>
std::optional<Reading> read_exchange_row(const CsvTable& t, const CsvTable::Row& row) {
  const auto size = [&](std::string_view name) { return row.whole(t.column(name), 1); };
  const std::int64_t tokens = size("tokens"), experts = size("experts"), topk = size("topk");
  if (topk > experts) row.fail(t.column("topk"), fmt::format("more than the {} experts", experts));
  if (size("nodes") != 1) return {};
  const double copies = static_cast<double>(tokens) * groups_of_a_token(node_ranks, experts, topk);
  return Reading{kind == KernelKind::Dispatch ? DType::Fp8 : DType::Bf16,
                 exchange_shape(kind, tokens, std::llround(copies), size("hidden"), size("sms"))};
}

struct MeasuredFile {
  std::string_view name;
  ReadRow read;
  std::string_view time = "us";  // the column of it, in microseconds
};
constexpr std::array<MeasuredFile, 6> measured_files{
    {{"gemm.csv", read_gemm_row},
     {"attention.csv", read_attention_row},
     {"moe.csv", read_experts_row},
     {"nccl.csv", read_collective_row},
     {"deepep.csv", read_exchange_row<KernelKind::Dispatch>, "dispatch_us"},
     {"deepep.csv", read_exchange_row<KernelKind::Combine>, "combine_us"}}};
constexpr std::string_view file_names = "gemm.csv, attention.csv, moe.csv, nccl.csv or deepep.csv";

Fastest read_rows(const CsvTable& table, ReadRow read, std::string_view time_column) {
  Fastest fastest;
  const std::size_t time = table.column(time_column);
  for (const CsvTable::Row& row : table.rows()) {
    const std::optional<Reading> reading = read(table, row);
    if (!reading) continue;
    const Seconds seconds(row.number(time) * 1e-6);
    if (!(seconds > Seconds(0))) row.fail(time, "0, expected a time");
    const TimeAt here{seconds, row.place(time)};
    const auto [found, first] = fastest[{reading->shape.kind, reading->dtype}].try_emplace(reading->shape, here);
    if (!first && seconds < found->second.time) found->second = here;
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
    const bool known = std::ranges::find(measured_files, name, &MeasuredFile::name) != measured_files.end();
    if (name.ends_with(".csv") && !known)
      throw InputError({entry.path().string(), 1, 1, ""},
                       fmt::format("unknown file of measurements, expected {}", file_names));
  }
}

}  // namespace

std::vector<MeasuredKernels> read_measurements(const std::filesystem::path& folder, FilesRead& files) {
  require_known(folder);
  std::vector<MeasuredKernels> all;
  for (const auto& [name, read, time] : measured_files) {
    const std::string path = (folder / name).string();
    if (!std::filesystem::exists(path)) continue;
    const CsvTable table(path, files);
    for (const auto& [of, shapes] : read_rows(table, read, time)) {
      MeasuredKernels& kernels = all.emplace_back(MeasuredKernels{of.second, {}, {}});
      for (const auto& [shape, fastest] : shapes) {
        kernels.kernels.push_back({shape, fastest.time});
        kernels.places.push_back(fastest.place);
      }
    }
  }
  if (all.empty()) throw InputError(fmt::format("{}: no measurements, expected {} in it", folder.string(), file_names));
  return all;
}

std::vector<std::string> measurement_files(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (const MeasuredFile& file : measured_files)
    if (std::string path = (folder / file.name).string(); paths.empty() || paths.back() != path)
      paths.push_back(std::move(path));
  return paths;
}

}  // namespace dovetail
