// SPDX-License-Identifier: Apache-2.0
#include "models/files/calibration_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "models/base/names.hpp"
#include "models/files/interference_json.hpp"
#include "models/plan/communication.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

std::string text(Seconds time) {
  return fmt::format("{:.9g} us", time.value() * 1e6);
}
std::string text(SecondsPerByte time) {
  return fmt::format("{:.9g} ps/B", time.value() * 1e12);
}
std::string text(SecondsPerFlop time) {
  return fmt::format("{:.9g} fs/flop", time.value() * 1e15);
}
std::string text(BytesPerSecond rate) {
  return fmt::format("{:.9g} GB/s", rate.value() * 1e-9);
}

double rounded(double share) {
  return std::round(share * 1e4) / 1e4;
}

std::size_t sizes_of(const KernelTable& table) {
  return kernel_size_names(table.kind()).size();
}

Json provenance_entry(const Provenance& provenance) {
  Json json{{"origin", name_in(origin_names, provenance.origin)}, {"source", provenance.source}};
  if (provenance.disturbed) json["disturbed"] = true;
  if (provenance.within > 0) json["within"] = provenance.within;
  if (!provenance.fit) return json;
  Json points = Json::array();
  for (const FitPoint& p : provenance.fit->points)
    points.push_back({{"size", p.size}, {"time", text(p.time)}, {"error", p.error}});
  json["fit"] = {{"r2", provenance.fit->r2}, {"points", std::move(points)}};
  return json;
}

// alpha, beta and provenance after what identifies the cost.
template <class Cost>
Json cost_entry(const Cost& cost, Json json = Json::object()) {
  json["alpha"] = text(cost.alpha);
  json["beta"] = text(cost.beta);
  if (cost.outside.alpha) json["outside"]["alpha"] = text(*cost.outside.alpha);
  if (cost.outside.beta) json["outside"]["beta"] = text(*cost.outside.beta);
  json["provenance"] = provenance_entry(cost.provenance);
  return json;
}

Json collective_entry(const CollectiveCost& cost) {
  Json json{{"collective", name_in(collective_names, cost.collective)}, {"link", name_in(link_kind_names, cost.link)}};
  if (cost.gpus > 0) json["gpus"] = cost.gpus;
  if (cost.members_per_node > 0) json["members_per_node"] = cost.members_per_node;
  if (cost.latency)
    json["latency"] = {{"hops", name_in(hops_names, cost.latency->hops)},
                       {"inside", text(cost.latency->inside)},
                       {"between", text(cost.latency->between)}};
  return cost_entry(cost, std::move(json));
}

Json gemm_entry(const GemmCost& cost) {
  return cost_entry(cost, {{"dtype", name_in(dtype_names, cost.dtype)}});
}

Json message_entry(const MessageCost& cost) {
  Json json{{"link", name_in(link_kind_names, cost.link)},
            {"protocol", name_in(protocol_names, cost.protocol)},
            {"per_message", text(cost.per_message)}};
  if (cost.connections > 0) json["connections"] = cost.connections;
  json["bandwidth"] = text(cost.bandwidth);
  if (cost.peer_bandwidth > BytesPerSecond(0)) json["peer_bandwidth"] = text(cost.peer_bandwidth);
  json["provenance"] = provenance_entry(cost.provenance);
  return json;
}

// The points have a line each.
std::string table_text(const KernelTable& table) {
  Json law = Json::object(),
       head{{"kernel", name_in(kernel_kind_names, table.kind())}, {"dtype", name_in(dtype_names, table.dtype())}};
  std::size_t parameter = 0;
  for (const LawParameter& p : law_of(table.kind()).parameters) law[std::string(p.name)] = table.law()[parameter++];
  if (table.or_grouped) head["or_grouped"] = true;
  if (table.sustained) head["sustained"] = true;
  head["law"] = std::move(law);
  const HeldBackError& error = table.error;
  if (error.rows > 0)
    head["held_back"] = {{"rows", error.rows},
                         {"mean", rounded(error.mean)},
                         {"ninetieth", rounded(error.ninetieth)},
                         {"worst", rounded(error.worst)},
                         {"covered", rounded(error.covered)},
                         {"worst_shape", std::span(error.worst_shape.size).first(sizes_of(table))}};
  head["provenance"] = provenance_entry(table.provenance);
  std::string text = head.dump();
  text.back() = ',';
  text += "\n     \"points\": [";
  for (const MeasuredKernel& point : table.points())
    text += fmt::format("{}\"{},{:.6g}\"", &point == table.points().data() ? "" : ",\n      ",
                        fmt::join(std::span(point.shape.size).first(sizes_of(table)), ","), point.time.value() * 1e6);
  return text + "]}";
}

std::string tables_text(const std::vector<KernelTable>& tables) {
  std::string text = "  \"tables\": [";
  for (const KernelTable& table : tables)
    text += fmt::format("{}\n    {}", &table == tables.data() ? "" : ",", table_text(table));
  return text + "\n  ]";
}

Json hardware_entry(const Hardware& hardware) {
  Json peak = Json::object();
  for (const auto& [name, dtype] : dtype_names)
    if (const auto found = hardware.peak.find(dtype); found != hardware.peak.end())
      peak[std::string(name)] = fmt::format("{:.9g} TFLOP/s", found->second.value() * 1e-12);
  return {{"peak", std::move(peak)},
          {"memory_bandwidth", text(hardware.memory_bandwidth)},
          {"node_bandwidth", text(hardware.node_bandwidth)},
          {"nic_bandwidth_per_gpu", text(hardware.card_share)}};
}

Json kernel_entry(const KernelCost& cost) {
  Json entry{{"op", name_in(op_kind_names, cost.op)},
             {"phase", name_in(phase_names, cost.phase)},
             {"alpha", text(cost.alpha)}};
  if (cost.rates)
    entry["rates"] = {{"products", text(cost.rates->products)},
                      {"attention", text(cost.rates->attention)},
                      {"outputs", text(cost.rates->outputs)},
                      {"memory", text(cost.rates->memory)}};
  else
    entry["factor"] = cost.factor;
  entry["provenance"] = provenance_entry(cost.provenance);
  return entry;
}

Json interference_entry(const Interference& interference) {
  Json entry = to_json(interference);
  entry["provenance"] = provenance_entry(interference.provenance);
  return entry;
}

template <class T>
Json list_entries(const std::vector<T>& items, Json (*item_json)(const T&)) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(item_json(item));
  return list;
}

// A member of the file's object; the elements of a list have a line each.
std::string member(const std::string& key, const Json& value) {
  std::string lines = fmt::format("  {}: ", Json(key).dump());
  if (!value.is_array() || value.empty()) return lines + value.dump();
  for (std::size_t i = 0; i < value.size(); ++i)
    lines += fmt::format("{}\n    {}", i == 0 ? "[" : ",", value[i].dump());
  return lines + "\n  ]";
}

}  // namespace

std::string to_calibration_file(const Calibration& calibration, const Json& measurement) {
  Json json{{"name", calibration.name}, {"source", calibration.source}};
  if (calibration.hardware) json["hardware"] = hardware_entry(*calibration.hardware);
  if (!measurement.empty()) json["measurement"] = measurement;
  json["collectives"] = list_entries(calibration.collectives, collective_entry);
  json["gemms"] = list_entries(calibration.gemms, gemm_entry);
  json["memory"] = cost_entry(calibration.memory);
  if (calibration.strided_copy) json["strided_copy"] = cost_entry(*calibration.strided_copy);
  if (const auto& cache = calibration.l2_cache)
    json["l2_cache"] = {{"bandwidth", text(cache->bandwidth)}, {"provenance", provenance_entry(cache->provenance)}};
  if (!calibration.messages.empty()) json["messages"] = list_entries(calibration.messages, message_entry);
  if (calibration.copy) json["copy"] = cost_entry(*calibration.copy);
  if (!calibration.kernels.empty()) json["kernels"] = list_entries(calibration.kernels, kernel_entry);
  if (!calibration.interference.empty())
    json["interference"] = list_entries(calibration.interference, interference_entry);
  if (calibration.host)
    json["host"] = {{"launch", text(calibration.host->launch)},
                    {"provenance", provenance_entry(calibration.host->provenance)}};
  std::string file;
  for (const auto& [key, value] : json.items()) file += (file.empty() ? "{\n" : ",\n") + member(key, value);
  if (!calibration.tables.empty()) file += ",\n" + tables_text(calibration.tables);
  return file + "\n}\n";
}

}  // namespace dovetail
