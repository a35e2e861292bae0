#include "bench/pipeline/kernel_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <span>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/measurements.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_fit.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::bench {
namespace {

void put(std::vector<KernelTable>& tables, KernelTable table) {
  std::erase_if(
      tables, [&](const KernelTable& other) { return other.kind() == table.kind() && other.dtype() == table.dtype(); });
  tables.push_back(std::move(table));
}

std::string sizes_text(const KernelShape& shape) {
  const auto names = kernel_size_names(shape.kind);
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < names.size(); ++i) sizes.push_back(fmt::format("{} {}", names[i], shape.size[i]));
  return fmt::format("{}", fmt::join(sizes, ", "));
}

}  // namespace

Keep::Keep(const std::string& text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool percent = std::string_view(stop, end) == "%";
  if (error != std::errc() || !(percent ? number > 0 && number <= 100 : number >= 1 && stop == end))
    throw InputError(
        fmt::format("--keep: {}, expected a number of shapes or a share, as 3000 or 50%", in_quotes(text)));
  share_ = percent ? number / 100 : 1;
  count_ = percent ? HUGE_VAL : number;
}

std::size_t Keep::of(std::size_t shapes) const {
  return static_cast<std::size_t>(std::min(count_, share_ * static_cast<double>(shapes)));
}

void add_measured_kernels(Calibration& calibration, const MeasurementsRequest& request, FilesRead& files) {
  bool any = false;
  for (const MeasuredKernels& measured : read_measurements(request.folder, files)) {
    if (request.dtype && measured.dtype != *request.dtype) continue;
    any = true;
    KernelTable table = fit_table(measured.dtype, measured.kernels, request.keep.of(measured.kernels.size()));
    table.provenance = {Origin::Measured, fmt::format("{}; {} of {} measured shapes", request.source,
                                                      table.points().size(), measured.kernels.size())};
    put(calibration.tables, std::move(table));
  }
  if (!any)
    throw InputError(
        fmt::format("{}: nothing was measured in {}", request.folder, name_in(dtype_names, *request.dtype)));
}

void write_kernel_tables(std::ostream& out, const Calibration& calibration, bool colour) {
  // The stated range is for nine of ten shapes.
  reports::TextTable table({"\nkernel", "\nformat", "shapes\nheld", "held\nback", "mean\nerror %",
                            "nine of ten\nwithin %", "in the stated\nrange %", "worst\nerror %", "\nworst at"});
  const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
  for (const KernelTable& t : calibration.tables) {
    const HeldBackError& e = t.error;
    const bool known = e.rows > 0;
    table.add({std::string(name_in(kernel_kind_names, t.kind())), std::string(name_in(dtype_names, t.dtype())),
               fmt::format("{}", t.points().size()), fmt::format("{}", e.rows), known ? percent(e.mean) : "-",
               known ? percent(e.ninetieth) : "-", e.covered > 0 ? percent(e.covered) : "-",
               known ? percent(e.worst) : "-", known ? sizes_text(e.worst_shape) : ""});
  }
  out << table.text(colour);
}

}  // namespace dovetail::bench
