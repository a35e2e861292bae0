// SPDX-License-Identifier: Apache-2.0
// The time that one kind of work of one size took on a device, alone or beside other work.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/dtype.hpp"
#include "models/base/units.hpp"
#include "models/results/clock_reading.hpp"

namespace dovetail {

// Copies of one direction to and from pinned host memory; CopyBothWays: in turns. StridedCopy: of `rows` pieces.
// Exchange: the kernel that stands for a rank's exchange, copying within the device as fast as its blocks can.
enum class DeviceWorkKind {
  Product,
  AttentionForward,
  AttentionBackward,
  AttentionBoth,
  Encode,
  Decode,
  Copy,
  StridedCopy,
  CopyToHost,
  CopyFromHost,
  CopyBothWays,
  Exchange
};
inline constexpr std::array<std::pair<std::string_view, DeviceWorkKind>, 12> device_work_names{
    {{"product", DeviceWorkKind::Product},
     {"attention_forward", DeviceWorkKind::AttentionForward},
     {"attention_backward", DeviceWorkKind::AttentionBackward},
     {"attention_forward_and_backward", DeviceWorkKind::AttentionBoth},
     {"encode", DeviceWorkKind::Encode},
     {"decode", DeviceWorkKind::Decode},
     {"copy", DeviceWorkKind::Copy},
     {"strided_copy", DeviceWorkKind::StridedCopy},
     {"copy_to_host", DeviceWorkKind::CopyToHost},
     {"copy_from_host", DeviceWorkKind::CopyFromHost},
     {"copy_both_ways", DeviceWorkKind::CopyBothWays},
     {"exchange", DeviceWorkKind::Exchange}}};

// The factor of a product that lies transposed in memory. Results and sizes are those of the product as multiplied.
enum class ProductLayout { Plain, LeftTransposed, RightTransposed };
inline constexpr std::array<std::pair<std::string_view, ProductLayout>, 3> product_layout_names{
    {{"plain", ProductLayout::Plain},
     {"left_transposed", ProductLayout::LeftTransposed},
     {"right_transposed", ProductLayout::RightTransposed}}};

// A product is `batch` times (rows, inner) by (inner, columns). Causal attention is of `batch` sequences of `rows`
// tokens with heads of `columns`. Everything else has `rows` times `columns` elements.
struct DevicePoint {
  DeviceWorkKind what = DeviceWorkKind::Product;
  DType dtype = DType::Fp32;
  ProductLayout layout = ProductLayout::Plain;
  long batch = 1, rows = 0, inner = 0, columns = 1;
  int heads = 0, kv_heads = 0;
  int blocks = 0;               // of an exchange
  int carve_out = 0;            // multiprocessors that a product leaves free, for exchanges
  std::string beside;           // what ran at the same time; empty: nothing
  double flops = 0, bytes = 0;  // either; bytes are read plus written, but those of copies to the host and of exchanges
  Seconds median, ci95_low, ci95_high;
  long samples = 0;
  std::optional<double> kept_speed;  // share of its own speed, beside other work
  std::optional<Seconds> predicted;  // by costs that were fitted to other sizes of the same device
  ClockReading clock;                // while it was measured

  // Whether another point is of the same work: whatever ran beside it, and however long it took.
  bool same_work(const DevicePoint& o) const {
    return what == o.what && dtype == o.dtype && layout == o.layout && batch == o.batch && rows == o.rows &&
           inner == o.inner && columns == o.columns && heads == o.heads && kv_heads == o.kv_heads &&
           blocks == o.blocks && carve_out == o.carve_out;
  }
  double per_second() const { return (flops > 0 ? flops : bytes) / median.value(); }
};

}  // namespace dovetail
