// SPDX-License-Identifier: Apache-2.0
#include "exec/run/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"

namespace dovetail::exec {
namespace {

constexpr std::array<std::pair<ProbeKind, DeviceWorkKind>, 11> work_kinds{
    {{ProbeKind::Gemm, DeviceWorkKind::Product},
     {ProbeKind::Encode, DeviceWorkKind::Encode},
     {ProbeKind::Decode, DeviceWorkKind::Decode},
     {ProbeKind::StridedCopy, DeviceWorkKind::StridedCopy},
     {ProbeKind::HostCopy, DeviceWorkKind::CopyBothWays},
     {ProbeKind::CopyToHost, DeviceWorkKind::CopyToHost},
     {ProbeKind::CopyFromHost, DeviceWorkKind::CopyFromHost},
     {ProbeKind::AttentionForward, DeviceWorkKind::AttentionForward},
     {ProbeKind::AttentionBackward, DeviceWorkKind::AttentionBackward},
     {ProbeKind::AttentionBoth, DeviceWorkKind::AttentionBoth},
     {ProbeKind::Exchange, DeviceWorkKind::Exchange}}};

DeviceWorkKind work_of(const Probe& p) {
  if (p.kind == ProbeKind::StridedCopy && p.rows == 1) return DeviceWorkKind::Copy;
  for (const auto& [kind, work] : work_kinds)
    if (kind == p.kind) return work;
  throw InternalError("a collective is no work of one device");
}

// Causal: products over half of the scores, two forward and five backward, one of which computes the scores again.
double attention_flops(const Probe& p) {
  const double product = static_cast<double>(p.batch) * p.heads * static_cast<double>(p.rows) *
                         static_cast<double>(p.rows) * static_cast<double>(p.columns);
  const int products = p.kind == ProbeKind::AttentionForward ? 2 : p.kind == ProbeKind::AttentionBackward ? 5 : 7;
  return products * product;
}

}  // namespace

bool Probe::computes() const {
  return kind == ProbeKind::Gemm || kind == ProbeKind::AttentionForward || kind == ProbeKind::AttentionBackward ||
         kind == ProbeKind::AttentionBoth;
}

double Probe::size() const {
  const auto bytes = static_cast<double>(rows * columns) * size_of(dtype).value();
  switch (kind) {
    case ProbeKind::Gemm:
      return 2.0 * static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(inner) *
             static_cast<double>(columns);
    case ProbeKind::AttentionForward:
    case ProbeKind::AttentionBackward:
    case ProbeKind::AttentionBoth:
      return attention_flops(*this);
    case ProbeKind::Encode:
    case ProbeKind::StridedCopy:
      return 2 * bytes;  // read and written
    case ProbeKind::Decode:
      return 3 * bytes;  // the residual too
    case ProbeKind::HostCopy:
    case ProbeKind::CopyToHost:
    case ProbeKind::CopyFromHost:
    case ProbeKind::Exchange:
    case ProbeKind::Collective:
      return bytes;
  }
  throw InternalError("a probe of no kind");
}

std::string name_of(const Probe& p) {
  switch (p.kind) {
    case ProbeKind::Gemm:
      return fmt::format("GEMM ({}){}", name_in(dtype_names, p.dtype),
                         p.carve_out > 0 ? fmt::format(" that leaves {} multiprocessors", p.carve_out) : "");
    case ProbeKind::Encode:
    case ProbeKind::Decode:
      return "encode and decode";
    case ProbeKind::StridedCopy:
      return p.rows == 1 ? "copy" : "strided copy";
    case ProbeKind::HostCopy:
      return "host copy";
    case ProbeKind::CopyToHost:
      return "copy to the host";
    case ProbeKind::CopyFromHost:
      return "copy from the host";
    case ProbeKind::AttentionForward:
    case ProbeKind::AttentionBackward:
    case ProbeKind::AttentionBoth:
      return fmt::format("attention ({})", name_in(dtype_names, p.dtype));
    case ProbeKind::Exchange:
      return fmt::format("exchange kernel of {} blocks (unpaced)", p.blocks);
    case ProbeKind::Collective:
      return std::string(name_in(collective_names, p.collective));
  }
  throw InternalError("a probe of no kind");
}

DevicePoint point_of(const Probe& p) {
  DevicePoint point;
  point.what = work_of(p);
  point.dtype = p.dtype;
  point.layout = p.layout;
  point.batch = p.batch;
  point.rows = p.rows;
  point.inner = p.inner;
  point.columns = p.columns;
  point.heads = p.heads;
  point.kv_heads = p.kv_heads;
  point.blocks = p.blocks;
  point.carve_out = p.carve_out;
  (p.computes() ? point.flops : point.bytes) = p.size();
  return point;
}

Probe probe_of(const DevicePoint& point) {
  Probe p;
  const auto work = point.what == DeviceWorkKind::Copy ? DeviceWorkKind::StridedCopy : point.what;
  p.kind = std::ranges::find(work_kinds, work, &std::pair<ProbeKind, DeviceWorkKind>::second)->first;
  p.dtype = point.dtype;
  p.layout = point.layout;
  p.batch = point.batch;
  p.rows = point.rows;
  p.inner = point.inner;
  p.columns = point.columns;
  p.heads = point.heads;
  p.kv_heads = point.kv_heads;
  p.blocks = point.blocks;
  p.carve_out = point.carve_out;
  return p;
}

}  // namespace dovetail::exec
