// SPDX-License-Identifier: Apache-2.0
#include "models/files/peer_times.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/json/json_reader.hpp"

namespace dovetail {
namespace {

enum class PeerKind { Product, Attention, Copy };
constexpr std::array<std::pair<std::string_view, PeerKind>, 3> peer_kind_names{
    {{"product", PeerKind::Product}, {"attention", PeerKind::Attention}, {"copy", PeerKind::Copy}}};
constexpr std::array<std::pair<std::string_view, ProductLayout>, 3> product_passes{
    {{"forward", ProductLayout::Plain},
     {"input_gradient", ProductLayout::RightTransposed},
     {"weight_gradient", ProductLayout::LeftTransposed}}};
constexpr std::array<std::pair<std::string_view, DeviceWorkKind>, 2> attention_passes{
    {{"forward", DeviceWorkKind::AttentionForward}, {"forward_and_backward", DeviceWorkKind::AttentionBoth}}};

constexpr double shortest = 1e-12;

template <class Times>
void read_peer_times(const JsonReader& json, Times& to) {
  to.median = Seconds(json.number("median_s", shortest));
  const std::vector<JsonReader> ends = json.at("ci95_s").elements();
  if (ends.size() != 2) json.fail("ci95_s", "expected the two ends of an interval");
  to.ci95_low = Seconds(ends[0].number(0));
  to.ci95_high = Seconds(ends[1].number(0));
  if (to.median < to.ci95_low || to.median > to.ci95_high)
    json.fail("median_s", fmt::format("{} s, outside of its interval of {} to {} s", to.median.value(),
                                      to.ci95_low.value(), to.ci95_high.value()));
  to.clock = {json.number_or("clock_mhz", 0, 0), json.number_or("power_w", 0, 0)};
}

std::map<std::string, std::string> read_versions(const JsonReader& json) {
  std::map<std::string, std::string> versions;
  for (const auto& [name, version] : json.at("versions").members())
    versions[name] = version.value().is_string() ? version.string() : version.value().dump();
  return versions;
}

PeerPoint read_peer_product(const JsonReader& json) {
  DevicePoint p;
  p.layout = json.enumeration("pass", product_passes);
  p.batch = json.long_integer("batch", 1);
  p.rows = json.long_integer("rows", 1);
  p.inner = json.long_integer("inner", 1);
  p.columns = json.long_integer("columns", 1);
  p.flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.rows) * static_cast<double>(p.inner) *
            static_cast<double>(p.columns);
  if (const double told = json.number_or("flops", p.flops, 0); told != p.flops)
    json.fail("flops", fmt::format("{}, but the sizes make {}", told, p.flops));
  return {fmt::format("{}, {}", json.string("product"), json.string("pass")), p};
}

PeerPoint read_peer_attention(const JsonReader& json) {
  DevicePoint p;
  p.what = json.enumeration("pass", attention_passes);
  p.batch = json.long_integer("batch", 1);
  p.rows = json.long_integer("sequence", 1);
  p.columns = json.long_integer("head_size", 1);
  p.heads = json.integer("heads", 1);
  p.kv_heads = json.integer("kv_heads", 1);
  p.flops = json.number("flops", 1);
  return {"attention, " + json.string("pass"), p};
}

PeerPoint read_peer_copy(const JsonReader& json) {
  DevicePoint p;
  p.what = DeviceWorkKind::Copy;
  const long bytes = json.long_integer("bytes", 2);
  if (bytes % 2 != 0) json.fail("bytes", fmt::format("{}, expected whole elements of two bytes", bytes));
  p.rows = 1;
  p.columns = bytes / 2;
  p.bytes = 2 * static_cast<double>(bytes);  // read and written
  return {"copy", p};
}

PeerPoint read_peer_point(const JsonReader& json) {
  PeerPoint peer;
  switch (json.enumeration("kind", peer_kind_names)) {
    case PeerKind::Product:
      peer = read_peer_product(json);
      break;
    case PeerKind::Attention:
      peer = read_peer_attention(json);
      break;
    case PeerKind::Copy:
      peer = read_peer_copy(json);
      break;
  }
  peer.point.dtype = json.enumeration_or("dtype", dtype_names, DType::Bf16);
  read_peer_times(json, peer.point);
  peer.point.samples = json.long_integer("samples", 1);
  return peer;
}

}  // namespace

PeerPoints read_peer_points(const std::string& path, FilesRead& files) {
  const JsonFile file = JsonFile::read(path);
  files[path] = file.text();
  const JsonReader json(file);
  PeerPoints peer;
  peer.gpu = json.string("gpu");
  peer.versions = read_versions(json);
  for (const JsonReader& each : json.at("measurements").elements()) peer.points.push_back(read_peer_point(each));
  return peer;
}

PeerStep read_peer_step(const std::string& path, FilesRead& files) {
  const JsonFile file = JsonFile::read(path);
  files[path] = file.text();
  const JsonReader json(file);
  PeerStep step;
  step.what = json.string("what");
  step.gpu = json.string("gpu");
  step.versions = read_versions(json);
  step.hidden = json.at("arguments").long_integer("hidden", 1);
  read_peer_times(json, step);
  return step;
}

}  // namespace dovetail
