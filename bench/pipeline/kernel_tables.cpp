// SPDX-License-Identifier: Apache-2.0
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
#include "models/price/kernel_agreement.hpp"
#include "models/price/kernel_fit.hpp"
#include "models/price/peak_rates.hpp"
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

// --- whether times can be true ---

void require_possible(const MeasuredKernels& measured, const Hardware& hardware) {
  for (std::size_t i = 0; i < measured.kernels.size(); ++i) {
    const auto& [shape, time] = measured.kernels[i];
    if (const auto claim = beyond_peak(shape, measured.dtype, time, hardware))
      throw InputError(measured.places[i], *claim);
  }
}

std::string microseconds(Seconds time) {
  return fmt::format("{:.6g} us", time.value() * 1e6);
}

void require_one_kernel(const MeasuredKernels& measured) {
  const auto found = larger_but_faster(measured.kernels);
  if (!found) return;
  const auto& [slower, faster] = std::pair(measured.kernels[found->slower], measured.kernels[found->faster]);
  throw InputError(
      measured.places[found->slower],
      fmt::format("{} in {} take {}, but {} take {} (line {}): no one kernel does both, expected the times "
                  "of one, undisturbed",
                  sizes_text(slower.shape), name_in(dtype_names, measured.dtype), microseconds(slower.time),
                  sizes_text(faster.shape), microseconds(faster.time), measured.places[found->faster].line));
}

// Products in half precision, of the same folder or else of the base.
std::vector<MeasuredKernel> in_half(const std::vector<MeasuredKernels>& all, const Calibration& base, KernelKind kind) {
  for (const MeasuredKernels& measured : all)
    if (is_half(measured.dtype) && measured.kernels.front().shape.kind == kind) return measured.kernels;
  const KernelTable* table = find_table(base.tables, kind, DType::Bf16);
  return table == nullptr ? std::vector<MeasuredKernel>{} : table->points();
}

void require_cheaper(const MeasuredKernels& fp8, const std::vector<MeasuredKernel>& half) {
  const auto found = dearer_in_fp8(fp8.kernels, half);
  if (!found) return;
  throw InputError(fp8.places[found->slower],
                   fmt::format("{} in fp8, but {} in half precision: no one kernel of {} does both, expected times "
                               "without those of the host, and of one kernel",
                               microseconds(fp8.kernels[found->slower].time), microseconds(half[found->faster].time),
                               sizes_text(half[found->faster].shape)));
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
  const std::vector<MeasuredKernels> all = read_measurements(request.folder, files);
  for (const MeasuredKernels& measured : all) {
    if (request.dtype && measured.dtype != *request.dtype) continue;
    any = true;
    if (calibration.hardware) require_possible(measured, *calibration.hardware);
    require_one_kernel(measured);
    const KernelKind kind = measured.kernels.front().shape.kind;
    if (computes(kind) && measured.dtype == DType::Fp8) require_cheaper(measured, in_half(all, calibration, kind));
    KernelTable table = fit_table(measured.dtype, measured.kernels, request.keep.of(measured.kernels.size()));
    table.sustained = request.sustained && computes(kind);
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
