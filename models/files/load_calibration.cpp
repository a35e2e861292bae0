// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>

#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/interference_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {
namespace {

int read_members_per_node(const JsonReader& json, const CollectiveCost& cost) {
  if (!json.has("members_per_node")) return 0;
  const int members = json.integer("members_per_node", 1);
  if (cost.link == LinkKind::Intra)
    json.fail("members_per_node", "on links inside a node it says nothing, expected it on inter links alone");
  if (cost.gpus > 0 && (cost.gpus % members != 0 || cost.gpus == members))
    json.fail("members_per_node", fmt::format("{} members on each node do not make {} on several nodes, expected "
                                              "\"gpus\" to be a multiple",
                                              members, cost.gpus));
  return members;
}

// After the provenance, whose sizes it goes with.
template <class PerUnit>
Outside<PerUnit> read_outside(const JsonReader& json, const Provenance& provenance) {
  Outside<PerUnit> outside;
  const auto given = json.find("outside");
  if (!given) return outside;
  if (provenance.fit == nullptr)
    given->fail("without measured sizes it says nothing, expected provenance.fit beside it");
  if (given->has("alpha")) outside.alpha = given->quantity<Seconds>("alpha");
  if (given->has("beta")) outside.beta = given->quantity<PerUnit>("beta", Sign::Positive);
  return outside;
}

Latency read_latency(const JsonReader& json) {
  return {json.enumeration("hops", hops_names), json.quantity<Seconds>("inside"), json.quantity<Seconds>("between")};
}

CollectiveCost read_collective(const JsonReader& json) {
  CollectiveCost cost;
  cost.collective = json.enumeration("collective", std::span(collective_names).subspan(1));  // all but none
  cost.link = json.enumeration("link", link_kind_names);
  cost.gpus = json.integer_or("gpus", 0, 2);
  cost.members_per_node = read_members_per_node(json, cost);
  cost.alpha = json.quantity<Seconds>("alpha");
  cost.beta = json.quantity<SecondsPerByte>("beta");
  if (const auto latency = json.find("latency")) {
    if (cost.gpus > 0) latency->fail("beside \"gpus\" it says nothing: alpha is that of so many, expected one of both");
    cost.latency = read_latency(*latency);
  }
  cost.provenance = read_provenance(json.at("provenance"));
  cost.outside = read_outside<SecondsPerByte>(json, cost.provenance);
  return cost;
}

// Costs for different numbers of GPUs are interpolated: one for any number among them would be ambiguous.
void require_distinct(const JsonReader& json, const CollectiveCost& cost, const std::vector<CollectiveCost>& earlier) {
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

GemmCost read_gemm(const JsonReader& json, const std::vector<GemmCost>& earlier) {
  GemmCost cost;
  cost.dtype = json.enumeration("dtype", dtype_names);
  cost.alpha = json.quantity<Seconds>("alpha");
  cost.beta = json.quantity<SecondsPerFlop>("beta", Sign::Positive);
  cost.provenance = read_provenance(json.at("provenance"));
  cost.outside = read_outside<SecondsPerFlop>(json, cost.provenance);
  for (const GemmCost& other : earlier)
    if (other.dtype == cost.dtype)
      json.fail("dtype", fmt::format("a second cost of {}, expected one", name_in(dtype_names, cost.dtype)));
  return cost;
}

MemoryCost read_memory(const JsonReader& json) {
  MemoryCost cost{json.quantity<Seconds>("alpha"), json.quantity<SecondsPerByte>("beta"),
                  read_provenance(json.at("provenance"))};
  cost.outside = read_outside<SecondsPerByte>(json, cost.provenance);
  return cost;
}

CacheRate read_cache(const JsonReader& json) {
  return {json.quantity<BytesPerSecond>("bandwidth", Sign::Positive), read_provenance(json.at("provenance"))};
}

MessageCost read_message(const JsonReader& json, const std::vector<MessageCost>& earlier) {
  MessageCost cost;
  cost.link = json.enumeration("link", link_kind_names);
  cost.protocol = json.enumeration_or("protocol", std::span(protocol_names).first(2), Protocol::Simple);
  cost.per_message = json.quantity<Seconds>("per_message");
  cost.connections = json.number_or("connections", 0, 1);
  cost.bandwidth = json.quantity<BytesPerSecond>("bandwidth", Sign::Positive);
  cost.peer_bandwidth = json.quantity_or("peer_bandwidth", BytesPerSecond(0), Sign::Positive);
  cost.provenance = read_provenance(json.at("provenance"));
  for (const MessageCost& other : earlier)
    if (other.link == cost.link && other.protocol == cost.protocol)
      json.fail(fmt::format("a second cost of {} messages on {} links, expected one",
                            name_in(protocol_names, cost.protocol), name_in(link_kind_names, cost.link)));
  return cost;
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

WorkRates read_rates(const JsonReader& json) {
  return {json.quantity<SecondsPerFlop>("products"), json.quantity<SecondsPerFlop>("attention"),
          json.quantity<SecondsPerByte>("outputs"), json.quantity<SecondsPerByte>("memory")};
}

KernelCost read_kernel(const JsonReader& json, const std::vector<KernelCost>& earlier) {
  KernelCost cost;
  cost.op = json.enumeration("op", op_kind_names);
  cost.phase = json.enumeration("phase", phase_names);
  cost.alpha = json.quantity<Seconds>("alpha");
  if (const auto rates = json.find("rates")) {
    cost.rates = read_rates(*rates);
    if (json.has("factor")) json.fail("factor", "beside rates, expected one of both");
  } else {
    cost.factor = json.number("factor", 0, 1e6);
  }
  cost.provenance = read_provenance(json.at("provenance"));
  for (const KernelCost& other : earlier)
    if (other.op == cost.op && other.phase == cost.phase)
      json.fail(fmt::format("a second cost of {} in the {} pass, expected one", name_in(op_kind_names, cost.op),
                            name_in(phase_names, cost.phase)));
  return cost;
}

Fit read_fit(const JsonReader& json) {
  Fit fit;
  fit.r2 = json.number("r2");
  for (const JsonReader& point : json.at("points").elements())
    fit.points.push_back({point.number("size", 0), point.quantity<Seconds>("time"), point.number("error")});
  return fit;
}

HostCost read_host(const JsonReader& json) {
  return {json.quantity<Seconds>("launch"), read_provenance(json.at("provenance")),
          json.number_or("pace", 1, 1e-3, 1e3)};
}

// Kernels of trainings that are priced by others.
constexpr Names<KernelKind, 4> training_kernels{{{"weight_gradient", KernelKind::WeightGradient},
                                                 {"attention_backward", KernelKind::AttentionBackward},
                                                 {"experts", KernelKind::Experts},
                                                 {"expert_gradients", KernelKind::ExpertGradients}}};

TrainingKernel read_training(const JsonReader& json) {
  return {json.enumeration("kernel", training_kernels), json.number("times", 1, 100),
          read_provenance(json.at("provenance"))};
}

SustainedRate read_sustained(const JsonReader& json) {
  SustainedRate sustained{json.enumeration("dtype", dtype_names),
                          json.quantity<FlopsPerSecond>("burst", Sign::Positive),
                          json.quantity<FlopsPerSecond>("rate", Sign::Positive), json.boolean_or("always", false),
                          read_provenance(json.at("provenance"))};
  if (sustained.rate > sustained.burst) json.fail("rate", "above burst, expected at most that");
  return sustained;
}

Hardware read_hardware(const JsonReader& json) {
  Hardware hardware;
  const JsonReader peak = json.at("peak");
  for (const auto& [name, dtype] : dtype_names)
    if (peak.has(name)) hardware.peak[dtype] = peak.quantity<FlopsPerSecond>(name, Sign::Positive);
  hardware.memory_bandwidth = json.quantity<BytesPerSecond>("memory_bandwidth", Sign::Positive);
  hardware.node_bandwidth = json.quantity<BytesPerSecond>("node_bandwidth", Sign::Positive);
  hardware.card_share = json.quantity<BytesPerSecond>("nic_bandwidth_per_gpu", Sign::Positive);
  return hardware;
}

}  // namespace

Provenance read_provenance(const JsonReader& json) {
  Provenance provenance{json.enumeration("origin", origin_names), json.string("source"),
                        json.boolean_or("disturbed", false)};
  if (json.has("within")) provenance.within = json.number("within", 1, 1000);
  if (const auto fit = json.find("fit")) provenance.fit = std::make_shared<const Fit>(read_fit(*fit));
  return provenance;
}

Calibration read_calibration(const JsonReader& json) {
  Calibration calibration;
  calibration.name = json.string("name");
  calibration.source = json.string_or("source", "");
  if (const auto hardware = json.find("hardware")) calibration.hardware = read_hardware(*hardware);
  for (const JsonReader& each : json.at("collectives").elements()) {
    const CollectiveCost cost = read_collective(each);
    require_distinct(each, cost, calibration.collectives);
    calibration.collectives.push_back(cost);
  }
  for (const JsonReader& each : json.at("gemms").elements())
    calibration.gemms.push_back(read_gemm(each, calibration.gemms));
  if (const auto tables = json.find("tables"))
    for (const JsonReader& each : tables->elements())
      calibration.tables.push_back(read_table(each, calibration.tables));
  if (const auto training = json.find("training"))
    for (const JsonReader& each : training->elements()) calibration.training.push_back(read_training(each));
  if (const auto sustained = json.find("sustained"))
    for (const JsonReader& each : sustained->elements()) calibration.sustained.push_back(read_sustained(each));
  calibration.memory = read_memory(json.at("memory"));
  if (const auto strided = json.find("strided_copy")) calibration.strided_copy = read_memory(*strided);
  if (const auto cache = json.find("l2_cache")) calibration.l2_cache = read_cache(*cache);
  if (const auto messages = json.find("messages"))
    for (const JsonReader& each : messages->elements())
      calibration.messages.push_back(read_message(each, calibration.messages));
  if (const auto copy = json.find("copy")) calibration.copy = read_memory(*copy);
  if (const auto kernels = json.find("kernels"))
    for (const JsonReader& each : kernels->elements())
      calibration.kernels.push_back(read_kernel(each, calibration.kernels));
  if (const auto list = json.find("interference")) calibration.interference = read_interference(*list);
  if (const auto host = json.find("host")) calibration.host = read_host(*host);
  return calibration;
}

Calibration load_calibration(const std::string& name, FilesRead& files) {
  return read_calibration(JsonReader(open_input(calibration_input, name, {}, files)));
}

}  // namespace dovetail
