// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>

#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/interference_rules.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/calibration_fields.hpp"

namespace dovetail {
namespace {

void require_members_per_node(const JsonReader& json, const CollectiveCost& cost) {
  const int members = cost.members_per_node;
  if (members == 0) return;
  if (cost.link == LinkKind::Intra)
    json.fail("members_per_node", "on links inside a node it says nothing, expected it on inter links alone");
  if (cost.gpus > 0 && (cost.gpus % members != 0 || cost.gpus == members))
    json.fail("members_per_node", fmt::format("{} members on each node do not make {} on several nodes, expected "
                                              "\"gpus\" to be a multiple",
                                              members, cost.gpus));
}

template <class Cost>
void require_fit_beside_outside(const JsonReader& json, const Cost& cost) {
  if (const auto given = json.find("outside"); given && cost.provenance.fit == nullptr)
    given->fail("without measured sizes it says nothing, expected provenance.fit beside it");
}

// Costs for different numbers of GPUs are interpolated: one for any number among them would be ambiguous.
void require_distinct(const JsonReader& json, const CollectiveCost& cost, std::span<const CollectiveCost> earlier) {
  for (const CollectiveCost& other : earlier) {
    if (other.collective != cost.collective || other.link != cost.link) continue;
    const std::string entry =
        fmt::format("{} on {} links", name_in(collective_names, cost.collective), name_in(link_kind_names, cost.link));
    if (other.gpus == cost.gpus && other.members_per_node == cost.members_per_node)
      json.fail(fmt::format("a second cost of {}, expected one", entry));
    if ((other.members_per_node == 0) != (cost.members_per_node == 0))
      json.fail(fmt::format("costs of {} with and without \"members_per_node\", expected it in all or none", entry));
    if (other.gpus == 0 || cost.gpus == 0)
      json.fail(fmt::format("costs of {} with and without \"gpus\", expected it in all or none", entry));
  }
}

void require_collective(const JsonReader& json, const CollectiveCost& cost, std::span<const CollectiveCost> earlier) {
  require_members_per_node(json, cost);
  if (cost.latency && cost.gpus > 0)
    json.fail("latency", "beside \"gpus\" it says nothing: alpha is that of so many, expected one of both");
  require_fit_beside_outside(json, cost);
  require_distinct(json, cost, earlier);
}

void require_products(const JsonReader& json, const GemmCost& cost, std::span<const GemmCost> earlier) {
  require_fit_beside_outside(json, cost);
  for (const GemmCost& other : earlier)
    if (other.dtype == cost.dtype)
      json.fail("dtype", fmt::format("a second cost of {}, expected one", name_in(dtype_names, cost.dtype)));
}

void require_message(const JsonReader& json, const MessageCost& cost, std::span<const MessageCost> earlier) {
  for (const MessageCost& other : earlier)
    if (other.link == cost.link && other.protocol == cost.protocol)
      json.fail(fmt::format("a second cost of {} messages on {} links, expected one",
                            name_in(protocol_names, cost.protocol), name_in(link_kind_names, cost.link)));
}

void require_kernel(const JsonReader& json, const KernelCost& cost, std::span<const KernelCost> earlier) {
  for (const KernelCost& other : earlier)
    if (other.op == cost.op && other.phase == cost.phase)
      json.fail(fmt::format("a second cost of {} in the {} pass, expected one", name_in(op_kind_names, cost.op),
                            name_in(phase_names, cost.phase)));
}

void require_sustained(const JsonReader& json, const SustainedRate& cost, std::span<const SustainedRate>) {
  if (cost.rate > cost.burst) json.fail("rate", "above burst, expected at most that");
}

// Each entry of a list with those before it.
template <class Cost>
void require_each(const JsonReader& json, std::string_view key, const std::vector<Cost>& costs,
                  void (*require)(const JsonReader&, const Cost&, std::span<const Cost>)) {
  if (costs.empty()) return;
  const std::vector<JsonReader> entries = json.at(key).elements();
  for (std::size_t i = 0; i < costs.size(); ++i) require(entries[i], costs[i], std::span(costs).first(i));
}

// "8192,4096,4096,1,345.6": the sizes of the shape, then microseconds.
MeasuredKernel read_point(const JsonReader& json, KernelKind kind) {
  MeasuredKernel point{{kind, {}}, {}};
  const std::string text = json.string();
  const std::size_t sizes = kernel_size_names(kind).size();
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& value) {
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !(value > 0))
      json.fail(fmt::format("{}, expected {} and a time in us, with commas between them", in_quotes(text),
                            fmt::join(kernel_size_names(kind), ", ")));
    at = stop != end && *stop == ',' ? stop + 1 : stop;
  };
  for (std::size_t i = 0; i < sizes; ++i) number(point.shape.size[i]);
  double us = 0;
  number(us);
  if (at != end) json.fail(fmt::format("{}, expected {} numbers", in_quotes(text), sizes + 1));
  point.time = Seconds(us * 1e-6);
  return point;
}

std::vector<double> read_law(const JsonReader& json, KernelKind kind) {
  std::vector<double> law;
  for (const LawParameter& parameter : law_of(kind).parameters)
    law.push_back(json.number(std::string(parameter.name), parameter.least, parameter.most));
  return law;
}

HeldBackError read_error(const JsonReader& json, KernelKind kind) {
  HeldBackError error;
  error.rows = static_cast<std::size_t>(json.long_integer("rows", 0));
  error.mean = json.number("mean", 0);
  error.ninetieth = json.number("ninetieth", 0);
  error.worst = json.number("worst", 0);
  error.covered = json.number_or("covered", 0, 0);
  error.worst_shape.kind = kind;
  if (const auto shape = json.find("worst_shape")) {
    std::size_t i = 0;
    for (const JsonReader& size : shape->elements())
      if (i < error.worst_shape.size.size()) error.worst_shape.size[i++] = size.integer(0);
  }
  return error;
}

KernelTable read_table(const JsonReader& json, const std::vector<KernelTable>& earlier) {
  const KernelKind kind = json.enumeration("kernel", kernel_kind_names);
  const DType dtype = json.enumeration("dtype", dtype_names);
  for (const KernelTable& other : earlier)
    if (other.kind() == kind && other.dtype() == dtype)
      json.fail("kernel", fmt::format("a second table of {} in {}, expected one", name_in(kernel_kind_names, kind),
                                      name_in(dtype_names, dtype)));
  std::vector<MeasuredKernel> points;
  for (const JsonReader& point : json.at("points").elements()) points.push_back(read_point(point, kind));
  if (points.empty()) json.fail("points", "none, expected measured shapes");
  KernelTable table(kind, dtype, read_law(json.at("law"), kind), std::move(points));
  if (const auto error = json.find("held_back")) table.error = read_error(*error, kind);
  table.or_grouped = json.boolean_or("or_grouped", false);
  if (table.or_grouped && kind != KernelKind::Experts)
    json.fail("or_grouped", "of experts alone, whose products may be grouped");
  table.sustained = json.boolean_or("sustained", false);
  table.provenance = read_provenance(json.at("provenance"));
  return table;
}

}  // namespace

Provenance read_provenance(const JsonReader& json) {
  return fields_from<Provenance>(json);
}

Calibration read_calibration(const JsonReader& json) {
  auto calibration = fields_from<Calibration>(json);
  require_each(json, "collectives", calibration.collectives, require_collective);
  require_each(json, "gemms", calibration.gemms, require_products);
  require_each(json, "messages", calibration.messages, require_message);
  require_each(json, "kernels", calibration.kernels, require_kernel);
  require_each(json, "sustained", calibration.sustained, require_sustained);
  require_fit_beside_outside(json.at("memory"), calibration.memory);
  if (calibration.strided_copy) require_fit_beside_outside(json.at("strided_copy"), *calibration.strided_copy);
  if (calibration.copy) require_fit_beside_outside(json.at("copy"), *calibration.copy);
  if (const auto list = json.find("interference")) require_interference(*list, calibration.interference);
  if (const auto tables = json.find("tables"))
    for (const JsonReader& each : tables->elements())
      calibration.tables.push_back(read_table(each, calibration.tables));
  return calibration;
}

Calibration load_calibration(const std::string& name, FilesRead& files) {
  return read_calibration(JsonReader(open_input(calibration_input, name, {}, files)));
}

}  // namespace dovetail
