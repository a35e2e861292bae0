// SPDX-License-Identifier: Apache-2.0
#include "exec/step/wire_format.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/base/errors.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail::exec {
namespace {

constexpr double e4m3_max = 448;

// `digits` after the leading one; below 2^least_exponent the step stays what it is there.
double round_to(double value, int digits, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double step = std::ldexp(1, std::max(std::ilogb(value), least_exponent) - digits);
  return std::nearbyint(value / step) * step;
}

double scale_of(std::span<const double> row) {
  double largest = 0;
  for (double x : row) largest = std::max(largest, std::fabs(x));
  const auto scale = static_cast<float>(largest / e4m3_max);
  return scale > 0 ? scale : 1;
}

// Rounds a row in place to what is sent; returns the scale to multiply with on arrival.
double encode_row(Wire wire, std::span<double> row) {
  check(wire != Wire::Same, "rows that are sent as they are have no format");
  if (wire == Wire::Bf16) {
    std::ranges::transform(row, row.begin(), to_bf16);
    return 1;
  }
  const double scale = scale_of(row);
  for (double& x : row) x = to_e4m3(x / scale);
  return scale;
}

}  // namespace

double to_bf16(double value) {
  return round_to(value, 7, -126);
}

double to_e4m3(double value) {
  return std::clamp(round_to(value, 3, -6), -e4m3_max, e4m3_max);
}

double spacing_of(Wire wire) {
  if (wire == Wire::Same) return 0;
  return wire == Wire::Bf16 ? 0x1p-7 : 0x1p-3;
}

void round_row(Wire wire, std::span<double> row) {
  if (wire == Wire::Same) return;
  const double scale = encode_row(wire, row);
  for (double& x : row) x *= scale;
}

template <class Scalar>
void compress_rows(Wire wire, std::int64_t rows, std::int64_t hidden, const Scalar* from, Scalar* to) {
  std::vector<double> row(static_cast<std::size_t>(hidden));
  const std::int64_t width = wire_row_elements(wire, hidden);
  for (std::int64_t i = 0; i < rows; ++i, from += hidden, to += width) {
    std::copy_n(from, hidden, row.begin());
    const double scale = encode_row(wire, row);
    std::fill(std::transform(row.begin(), row.end(), to, [](double x) { return static_cast<Scalar>(x); }), to + width,
              static_cast<Scalar>(scale));
  }
}

template <class Scalar>
void decompress_rows(Wire wire, std::int64_t rows, std::int64_t hidden, const Scalar* from, Scalar* to) {
  const std::int64_t width = wire_row_elements(wire, hidden);
  for (std::int64_t i = 0; i < rows; ++i, from += width, to += hidden) {
    const Scalar scale = width > hidden ? from[hidden] : Scalar(1);
    std::transform(from, from + hidden, to, [scale](Scalar x) { return x * scale; });
  }
}

template void compress_rows<float>(Wire, std::int64_t, std::int64_t, const float*, float*);
template void compress_rows<double>(Wire, std::int64_t, std::int64_t, const double*, double*);
template void decompress_rows<float>(Wire, std::int64_t, std::int64_t, const float*, float*);
template void decompress_rows<double>(Wire, std::int64_t, std::int64_t, const double*, double*);

}  // namespace dovetail::exec
