// SPDX-License-Identifier: Apache-2.0
// Shipped calibrations: the errors of their tables of kernels, and the origin of every cost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <set>
#include <span>

#include "models/base/json/json_file.hpp"
#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/kernel_agreement.hpp"
#include "models/price/kernel_fit.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/peak_rates.hpp"
#include "models/question/fields.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;

namespace {

constexpr auto forward_kernels = std::span(computing_kernels).first<3>();

// "fitted, assumed": each once, in the order of their names.
std::string origins(const std::set<Origin>& found) {
  std::vector<std::string_view> names;
  for (const auto& [name, origin] : origin_names)
    if (found.contains(origin)) names.push_back(name);
  return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
}

std::string kernel_origin(const Calibration& c, KernelKind kind, DType dtype) {
  const KernelTable* table = find_table(c.tables, kind, dtype);
  return origins({table != nullptr ? table->provenance.origin : find_gemm(c, dtype).provenance.origin}) +
         (table != nullptr ? ", by shape" : "");
}

std::string link_origins(const Calibration& c, LinkKind link) {
  std::set<Origin> found;
  const auto by_size = [&](Collective collective) {
    const auto of = [&](const KernelTable& t) {
      return is_collective(t.kind()) && collective_of(t.kind()) == collective;
    };
    return link == LinkKind::Intra && std::ranges::any_of(c.tables, of);
  };
  for (const KernelTable& table : c.tables)
    if (link == LinkKind::Intra && is_collective(table.kind())) found.insert(table.provenance.origin);
  for (const CollectiveCost& cost : c.collectives)
    if (cost.link == link && !by_size(cost.collective)) found.insert(cost.provenance.origin);
  for (const MessageCost& cost : c.messages)
    if (cost.link == link) found.insert(cost.provenance.origin);
  return origins(found);
}

// A row for each shipped cluster, in the number format that its files suggest.
std::string origins_table() {
  std::string table =
      "| cluster | products | attention | experts | device memory | inside a node | between nodes | copies to the host "
      "|\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const std::string& name : known_names("clusters")) {
    FilesRead files;
    ExperimentRequest request;
    request.cluster = name;
    request.model = "mixtral-8x7b";
    const ExperimentParts parts = load_parts(request, files);
    const Calibration& c = *parts.calibration;  // brought to the hardware of the cluster
    const DType dtype = workload_of(parts.defaults).dtype;
    table += fmt::format("| `{}` |", name);
    for (const auto& [kernel, kind] : forward_kernels) table += fmt::format(" {} |", kernel_origin(c, kind, dtype));
    table +=
        fmt::format(" {} | {} | {} | {} |\n", origins({c.memory.provenance.origin}), link_origins(c, LinkKind::Intra),
                    link_origins(c, LinkKind::Inter), c.copy ? origins({c.copy->provenance.origin}) : "-");
  }
  return table;
}

double shipped_error(const Calibration& c, KernelKind kind, DType dtype = DType::Bf16) {
  return find_table(c.tables, kind, dtype)->error.mean;
}

// " 2.6 |", or a dash where there is no table.
std::string error_cell(const Calibration& c, KernelKind kind) {
  if (find_table(c.tables, kind, DType::Bf16) == nullptr) return " - |";
  return fmt::format(" {:.1f} |", 100 * shipped_error(c, kind));
}

constexpr std::array with_tables{"dgx-h100", "hgx-h200", "dgx-b200", "gb200-nvl72"};
constexpr std::array of_short_measurements{"dgx-h100", "hgx-h200", "gb200-nvl72"};
constexpr std::array of_trainings{"dgx-b200"};  // in bf16, and experts as grouped products
constexpr std::array of_a100{"dgx-a100-40gb", "dgx-a100-80gb", "ndv4", "a800-8"};  // nothing in fp8
constexpr std::array of_blackwell_ultra{"dgx-b300", "gb300-nvl72"};  // kernels of B200 and GB200, own collectives

using Limits = std::vector<std::pair<KernelKind, double>>;

template <std::size_t Count>
void check_halves(const std::array<const char*, Count>& names, DType dtype, const Limits& limits) {
  for (const char* name : names) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    for (const auto& [kind, limit] : limits) {
      const KernelTable* table = find_table(c.tables, kind, dtype);
      REQUIRE(table != nullptr);
      const HeldBackError error = fit_table(dtype, table->points(), table->points().size() / 2).error;
      INFO(name << " " << name_in(kernel_kind_names, kind) << " " << error.mean);
      CHECK(error.mean < limit);
      CHECK(error.mean > .01);  // they were held back
    }
  }
}

void check_half_of_collectives(const char* name) {
  FilesRead files;
  const Calibration c = load_calibration(name, files);
  for (const auto& [kernel, kind] : collective_kernels) {
    const std::vector<MeasuredKernel>& points = find_table(c.tables, kind, DType::Bf16)->points();
    const HeldBackError error = fit_table(DType::Fp16, points, points.size() / 2).error;
    INFO(name << " " << kernel << " " << error.mean);
    CHECK(error.mean < .12);  // sizes of a curve lie up to 6 times apart then
    CHECK(error.mean > .01);
  }
}

}  // namespace

TEST_CASE("half of the shipped measured kernels predicts the other half") {
  check_halves(of_short_measurements, DType::Bf16,
               {{KernelKind::Gemm, .11}, {KernelKind::Attention, .075}, {KernelKind::Experts, .065}});
}

// Few shapes, of single and of grouped products.
TEST_CASE("half of the shipped kernels of trainings predicts the other half") {
  check_halves(of_trainings, DType::Bf16,
               {{KernelKind::Gemm, .15}, {KernelKind::WeightGradient, .15}, {KernelKind::Attention, .2}});
}

TEST_CASE("half of the shipped kernels of A100 predicts the other half") {
  check_halves(of_a100, DType::Bf16,
               {{KernelKind::Gemm, .11}, {KernelKind::Attention, .075}, {KernelKind::Experts, .12}});
}

TEST_CASE("half of the shipped measured kernels in fp8 predicts the other half") {
  check_halves(with_tables, DType::Fp8, {{KernelKind::Gemm, .13}, {KernelKind::Experts, .2}});
}

TEST_CASE("half of the shipped sizes of collectives predicts the other half") {
  for (const char* name : with_tables) check_half_of_collectives(name);
  for (const char* name : {"dgx-a100-40gb", "dgx-a100-80gb", "ndv4"}) check_half_of_collectives(name);
  for (const char* name : of_blackwell_ultra) check_half_of_collectives(name);
}

TEST_CASE("every shipped table is of one kernel, and nothing in it is beyond its hardware") {
  for (const std::string& name : known_names("calibrations")) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    REQUIRE(c.hardware);
    for (const KernelTable& table : c.tables) {
      INFO(name << " " << name_in(kernel_kind_names, table.kind()) << " " << name_in(dtype_names, table.dtype()));
      CHECK_FALSE(larger_but_faster(table.points()));
      if (table.provenance.origin != Origin::Measured) continue;  // its points are of other hardware
      for (const auto& [shape, time] : table.points())
        CHECK_FALSE(beyond_peak(shape, table.dtype(), time, *c.hardware));
      if (!computes(table.kind()) || table.dtype() != DType::Fp8) continue;
      const KernelTable* const half = find_table(c.tables, table.kind(), DType::Bf16);
      if (half != nullptr && !half->sustained) CHECK_FALSE(dearer_in_fp8(table.points(), half->points()));
    }
  }
}

TEST_CASE("shipped prices of experts do not fall with twice the rows, and are about as low or lower in fp8") {
  constexpr double by_waves = 1.02;  // a last wave may be full of one size and nearly empty of another
  constexpr double by_casts = 1.6;   // small experts were measured at up to 1.56 times, with the casts of their rows
  struct Experts {
    std::int64_t experts, hidden, inter;
  };
  for (const char* name : with_tables) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    const KernelPrices prices(c, DType::Bf16, DType::Fp8);
    const auto seconds = [&](const KernelShape& shape, std::optional<DType> dtype) {
      const KernelUse use{shape, 1, 1, dtype};
      const ResourceTime time = prices.of(std::span(&use, 1), 1);
      return time.fixed + time.busy;
    };
    for (const auto& [experts, hidden, inter] :
         {Experts{32, 7168, 2048}, Experts{8, 7168, 2048}, Experts{16, 2048, 768}, Experts{8, 4096, 14336}}) {
      Seconds before, before_fp8;
      for (std::int64_t rows = 128 * experts; rows <= 16384 * experts; rows *= 2) {
        const KernelShape shape = experts_shape(rows, experts, hidden, inter, rows);
        INFO(name << " " << rows << " rows of " << experts << " x " << hidden << " x " << inter);
        const Seconds half = seconds(shape, {}), fp8 = seconds(shape, DType::Fp8);
        CHECK(by_waves * half >= before);
        CHECK(by_waves * fp8 >= before_fp8);
        CHECK(fp8 / half <= by_casts);
        before = half;
        before_fp8 = fp8;
      }
    }
  }
}

TEST_CASE("data/README.md names the error of every shipped table") {
  const std::string readme = JsonFile::read_text(data_directory() / "README.md");
  const auto check_row = [&](const char* name, const Calibration& c) {
    std::string row = fmt::format("| `{}` |", name);
    for (const auto& [kernel, kind] : forward_kernels) row += error_cell(c, kind);
    for (const auto& [kernel, kind] : collective_kernels) row += error_cell(c, kind);
    CHECK_THAT(readme, Catch::Contains(row));
  };
  for (const char* name : of_a100) {
    FilesRead files;
    check_row(name, load_calibration(name, files));
  }
  const auto check_rows = [&](const char* name) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    check_row(name, c);
    CHECK_THAT(readme, Catch::Contains(fmt::format("| `{}` in fp8 | {:.1f} | {:.1f} |", name,
                                                   100 * shipped_error(c, KernelKind::Gemm, DType::Fp8),
                                                   100 * shipped_error(c, KernelKind::Experts, DType::Fp8))));
  };
  for (const char* name : with_tables) check_rows(name);
  for (const char* name : of_blackwell_ultra) check_rows(name);
}

TEST_CASE("data/README.md tells where the costs of every shipped cluster come from") {
  constexpr std::string_view begin = "<!-- where costs come from -->\n", end = "<!-- end -->";
  std::string readme = JsonFile::read_text(data_directory() / "README.md");
  const std::size_t first = readme.find(begin) + begin.size(), last = readme.find(end, first);
  REQUIRE(last != std::string::npos);
  readme.replace(first, last - first, origins_table());
  CHECK(test::golden_difference("../../data/README.md", readme) == "");
}
