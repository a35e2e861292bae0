#include "models/files/device_points.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"

namespace dovetail {
namespace {

constexpr std::string_view point_columns =
    "what,dtype,layout,batch,rows,inner,columns,heads,kv_heads,blocks,carve_out,beside,flops,bytes,median_s,"
    "ci95_low_s,ci95_high_s,samples,kept_speed,predicted_s,clock_mhz,power_w,per_second";

std::string point_line(const DevicePoint& p) {
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", name_in(device_work_names, p.what),
      name_in(dtype_names, p.dtype), name_in(product_layout_names, p.layout), p.batch, p.rows, p.inner, p.columns,
      p.heads, p.kv_heads, p.blocks, p.carve_out, p.beside, p.flops, p.bytes, p.median.value(), p.ci95_low.value(),
      p.ci95_high.value(), p.samples, p.kept_speed ? fmt::format("{}", *p.kept_speed) : "",
      p.predicted ? fmt::format("{}", p.predicted->value()) : "", p.clock.mhz, p.clock.watts, p.per_second());
}

// The cells of a line, from the left to the right.
class PointCells {
 public:
  PointCells(const std::string& file, int line, std::string_view text) : file_(&file), line_(line), rest_(text) {}

  std::string_view next() {
    if (ended_) fail("too few values");
    const std::size_t end = rest_.find(',');
    const std::string_view cell = rest_.substr(0, end);
    ended_ = end == std::string_view::npos;
    if (!ended_) rest_.remove_prefix(end + 1);
    return cell;
  }
  template <class Table>
  auto name(const Table& table) {
    const std::string_view cell = next();
    for (const auto& [name, value] : table)
      if (name == cell) return value;
    fail(fmt::format("{}: unknown", in_quotes(std::string(cell))));
  }
  template <class Number>
  Number number() {
    const std::string_view cell = next();
    Number value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool whole = error == std::errc() && end == cell.data() + cell.size();
    if (!whole || !(value >= 0) || !std::isfinite(static_cast<double>(value)))
      fail(fmt::format("{}, expected a number from 0 on", in_quotes(std::string(cell))));
    return value;
  }
  std::optional<double> number_or_nothing() {
    const PointCells before = *this;
    if (next().empty()) return {};
    *this = before;
    return number<double>();
  }
  Seconds time() { return Seconds(number<double>()); }
  void finish() const {
    if (!ended_) fail("too many values");
  }
  [[noreturn]] void fail(const std::string& message) const { throw InputError({*file_, line_, 1, ""}, message); }

 private:
  const std::string* file_;
  int line_;
  std::string_view rest_;
  bool ended_ = false;
};

DevicePoint read_point(PointCells cells) {
  DevicePoint p;
  p.what = cells.name(device_work_names);
  p.dtype = cells.name(dtype_names);
  p.layout = cells.name(product_layout_names);
  for (long* size : {&p.batch, &p.rows, &p.inner, &p.columns}) *size = cells.number<long>();
  for (int* count : {&p.heads, &p.kv_heads, &p.blocks, &p.carve_out}) *count = cells.number<int>();
  p.beside = cells.next();
  p.flops = cells.number<double>();
  p.bytes = cells.number<double>();
  for (Seconds* time : {&p.median, &p.ci95_low, &p.ci95_high}) *time = cells.time();
  if (p.median <= Seconds(0)) cells.fail("a median of 0, expected a time");
  p.samples = cells.number<long>();
  p.kept_speed = cells.number_or_nothing();
  if (const std::optional<double> time = cells.number_or_nothing()) p.predicted = Seconds(*time);
  p.clock.mhz = cells.number<double>();
  p.clock.watts = cells.number<double>();
  cells.number<double>();  // which the others say too
  cells.finish();
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
  std::string text = JsonFile::read_text(path);
  files[path] = text;
  text.resize(text.find_last_of('\n') + 1);  // an end of nowhere is -1
  std::vector<DevicePoint> points;
  int line = 0;
  for (std::string_view each : lines_of(text)) {
    if (++line > 1) points.push_back(read_point({path, line, each}));
    if (line == 1 && each != point_columns)
      throw InputError({path, 1, 1, ""}, "no measured points of a device, expected a first line of their names");
  }
  if (line == 0) throw InputError({path, 1, 1, ""}, "empty, expected measured points of a device");
  return points;
}

}  // namespace dovetail
