// SPDX-License-Identifier: Apache-2.0
#include "models/files/device_points.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/csv.hpp"

namespace dovetail {
namespace {

constexpr std::string_view point_columns =
    "what,dtype,layout,batch,rows,inner,columns,heads,kv_heads,blocks,carve_out,beside,flops,bytes,median_s,"
    "ci95_low_s,ci95_high_s,samples,kept_speed,predicted_s,clock_mhz,power_w,per_second";
constexpr double same_rate = 1e-9;  // a difference by rounding alone

std::string point_line(const DevicePoint& p) {
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", name_in(device_work_names, p.what),
      name_in(dtype_names, p.dtype), name_in(product_layout_names, p.layout), p.batch, p.rows, p.inner, p.columns,
      p.heads, p.kv_heads, p.blocks, p.carve_out, p.beside, p.flops, p.bytes, p.median.value(), p.ci95_low.value(),
      p.ci95_high.value(), p.samples, p.kept_speed ? fmt::format("{}", *p.kept_speed) : "",
      p.predicted ? fmt::format("{}", p.predicted->value()) : "", p.clock.mhz, p.clock.watts, p.per_second());
}

std::optional<double> number_or_nothing(const CsvTable::Row& row, std::size_t column) {
  return row.text(column).empty() ? std::nullopt : std::optional(row.number(column));
}

DevicePoint read_point(const CsvTable& t, const CsvTable::Row& row) {
  const auto number = [&](std::string_view name) { return row.number(t.column(name)); };
  const auto count = [&](std::string_view name) { return row.whole(t.column(name), 0); };
  DevicePoint p;
  p.what = row.name(t.column("what"), device_work_names);
  p.dtype = row.name(t.column("dtype"), dtype_names);
  p.layout = row.name(t.column("layout"), product_layout_names);
  for (const auto& [name, size] : {std::pair("batch", &p.batch), std::pair("rows", &p.rows),
                                   std::pair("inner", &p.inner), std::pair("columns", &p.columns)})
    *size = count(name);
  for (const auto& [name, size] : {std::pair("heads", &p.heads), std::pair("kv_heads", &p.kv_heads),
                                   std::pair("blocks", &p.blocks), std::pair("carve_out", &p.carve_out)}) {
    *size = static_cast<int>(count(name));
    if (*size != count(name)) row.fail(t.column(name), "too large a number");
  }
  p.beside = row.text(t.column("beside"));
  p.flops = number("flops");
  p.bytes = number("bytes");
  p.median = Seconds(number("median_s"));
  if (p.median <= Seconds(0)) row.fail(t.column("median_s"), "a median of 0, expected a time");
  p.ci95_low = Seconds(number("ci95_low_s"));
  p.ci95_high = Seconds(number("ci95_high_s"));
  p.samples = count("samples");
  p.kept_speed = number_or_nothing(row, t.column("kept_speed"));
  if (const auto time = number_or_nothing(row, t.column("predicted_s"))) p.predicted = Seconds(*time);
  p.clock = {number("clock_mhz"), number("power_w")};
  if (const double rate = number("per_second"); std::abs(rate - p.per_second()) > same_rate * p.per_second())
    row.fail(t.column("per_second"), fmt::format("{:.6g}, but the other columns say {:.6g}", rate, p.per_second()));
  return p;
}

}  // namespace

DevicePointsWriter::DevicePointsWriter(const std::string& path) : path_(path), file_(path, std::ios::trunc) {
  if (!file_) throw InputError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  file_ << point_columns << '\n' << std::flush;
}

void DevicePointsWriter::add(const DevicePoint& point) {
  file_ << point_line(point) << std::flush;
  if (!file_) throw DeviceError(path_, "cannot be written");
}

std::vector<DevicePoint> read_device_points(const std::string& path, FilesRead& files) {
  const CsvTable table(path, files, CsvSource::Growing);
  if (fmt::format("{}", fmt::join(table.names(), ",")) != point_columns)
    throw InputError({path, 1, 1, ""}, "no measured points of a device, expected a first line of their names");
  std::vector<DevicePoint> points;
  for (const CsvTable::Row& row : table.rows()) points.push_back(read_point(table, row));
  return points;
}

}  // namespace dovetail
