// Tables of kernels in the shipped calibrations.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "models/base/json/json_file.hpp"
#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_fit.hpp"

using namespace dovetail;

namespace {

constexpr std::array with_tables{"dgx-h100", "hgx-h200", "dgx-b200", "gb200-nvl72"};

}  // namespace

TEST_CASE("half of the shipped measured kernels predicts the other half") {
  for (const char* name : with_tables) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    for (const auto& [kind, limit] : {std::pair{KernelKind::Gemm, .11}, {KernelKind::Attention, .075}, {KernelKind::Experts, .065}}) {
      const KernelTable* table = find_table(c.tables, kind, DType::Bf16);
      REQUIRE(table != nullptr);
      const HeldBackError error = fit_table(DType::Bf16, table->points(), table->points().size() / 2).error;
      INFO(name << " " << name_in(kernel_kind_names, kind) << " " << error.mean);
      CHECK(error.mean < limit);
      CHECK(error.mean > .01);  // they were held back
    }
  }
}

TEST_CASE("data/README.md names the error of every shipped table") {
  const std::string readme = JsonFile::read_text(data_directory() / "README.md");
  for (const char* name : with_tables) {
    FilesRead files;
    const Calibration c = load_calibration(name, files);
    std::string row = fmt::format("| `{}` |", name);
    for (const auto& [kernel, kind] : kernel_kind_names)
      row += fmt::format(" {:.1f} |", 100 * find_table(c.tables, kind, DType::Bf16)->error.mean);
    CHECK_THAT(readme, Catch::Contains(row));
  }
}
