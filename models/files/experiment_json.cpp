// SPDX-License-Identifier: Apache-2.0
#include "models/files/experiment_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/interference_json.hpp"
#include "models/plan/communication.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

Json device_json(const Device& device) {
  Json peak = Json::object();
  for (const auto& [dtype, rate] : device.peak) peak[std::string(name_in(dtype_names, dtype))] = rate.value();
  Json json{{"name", device.name},
            {"memory_bytes", device.memory.value()},
            {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value()},
            {"peak_flops_per_s", std::move(peak)}};
  if (device.multiprocessors > 0) json["multiprocessors"] = device.multiprocessors;
  if (device.l2_cache > Bytes(0)) json["l2_cache_bytes"] = device.l2_cache.value();
  return json;
}

Json fit_json(const Fit& fit) {
  return {{"points", fit.points.size()},
          {"smallest", fit.points.front().size},
          {"largest", fit.points.back().size},
          {"r2", fit.r2},
          {"worst_error", worst_error(fit)}};
}

Json provenance_json(const Provenance& provenance) {
  Json json{{"origin", name_in(origin_names, provenance.origin)}, {"source", provenance.source}};
  if (provenance.disturbed) json["disturbed"] = true;
  if (provenance.within > 0) json["within"] = provenance.within;
  if (provenance.fit && !provenance.fit->points.empty()) json["fit"] = fit_json(*provenance.fit);
  return json;
}

template <class PerUnit>
void add_outside(const Outside<PerUnit>& outside, const char* beta, Json& json) {
  if (outside.alpha) json["outside"]["alpha_s"] = outside.alpha->value();
  if (outside.beta) json["outside"][beta] = outside.beta->value();
}

Json collective_json(const CollectiveCost& cost) {
  Json json{{"collective", name_in(collective_names, cost.collective)},
            {"link", name_in(link_kind_names, cost.link)},
            {"gpus", cost.gpus}};
  if (cost.members_per_node > 0) json["members_per_node"] = cost.members_per_node;
  json["alpha_s"] = cost.alpha.value();
  if (cost.latency)
    json["latency"] = {{"hops", name_in(hops_names, cost.latency->hops)},
                       {"inside_s", cost.latency->inside.value()},
                       {"between_s", cost.latency->between.value()}};
  json["beta_s_per_byte"] = cost.beta.value();
  add_outside(cost.outside, "beta_s_per_byte", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json gemm_json(const GemmCost& cost) {
  Json json{{"dtype", name_in(dtype_names, cost.dtype)},
            {"alpha_s", cost.alpha.value()},
            {"beta_s_per_flop", cost.beta.value()}};
  add_outside(cost.outside, "beta_s_per_flop", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json memory_json(const MemoryCost& cost) {
  Json json{{"alpha_s", cost.alpha.value()}, {"beta_s_per_byte", cost.beta.value()}};
  add_outside(cost.outside, "beta_s_per_byte", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

// Without its points, which would swell every result.
Json table_json(const KernelTable& table) {
  Json json{{"kernel", name_in(kernel_kind_names, table.kind())},
            {"dtype", name_in(dtype_names, table.dtype())},
            {"shapes", table.points().size()},
            {"provenance", provenance_json(table.provenance)}};
  if (table.error.rows > 0)
    json["held_back"] = {{"rows", table.error.rows}, {"mean", table.error.mean}, {"ninetieth", table.error.ninetieth}};
  return json;
}

Json kernel_json(const KernelCost& cost) {
  Json json{{"op", name_in(op_kind_names, cost.op)},
            {"phase", name_in(phase_names, cost.phase)},
            {"alpha_s", cost.alpha.value()}};
  if (cost.rates)
    json["rates"] = to_json(*cost.rates);
  else
    json["factor"] = cost.factor;
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json interference_json(const Interference& interference) {
  Json json = to_json(interference);
  json["provenance"] = provenance_json(interference.provenance);
  return json;
}

Json message_json(const MessageCost& cost) {
  Json json{{"link", name_in(link_kind_names, cost.link)},
            {"protocol", name_in(protocol_names, cost.protocol)},
            {"per_message_s", cost.per_message.value()},
            {"bandwidth_bytes_per_s", cost.bandwidth.value()},
            {"provenance", provenance_json(cost.provenance)}};
  if (cost.connections > 0) json["connections"] = cost.connections;
  if (cost.peer_bandwidth > BytesPerSecond(0)) json["peer_bandwidth_bytes_per_s"] = cost.peer_bandwidth.value();
  return json;
}

void add_windows(const Attention& a, Json& json) {
  if (a.window == 0) return;
  json["window"] = a.window;
  json["windowed_layers"] = a.windowed_layers;
  if (a.windows != Windows::Sliding) json["windows"] = name_in(windows_names, a.windows);
}

Json heads_json(const Attention& a) {
  if (a.kind == AttentionKind::GroupedQuery) {
    Json json{{"heads", a.heads}, {"kv_heads", a.kv_heads}, {"head_size", a.head_size}};
    if (a.qk_norm != QkNorm::None) json["qk_norm"] = name_in(qk_norm_names, a.qk_norm);
    return json;
  }
  return {{"kind", name_in(attention_kind_names, a.kind)},
          {"heads", a.heads},
          {"q_rank", a.q_rank},
          {"kv_rank", a.kv_rank},
          {"nope_size", a.nope_size},
          {"rope_size", a.rope_size},
          {"value_size", a.value_size}};
}

Json attention_json(const Attention& a) {
  Json json = heads_json(a);
  add_windows(a, json);
  return json;
}

Json router_json(const Router& router) {
  return {{"scoring", name_in(scoring_names, router.scoring)},
          {"groups", router.groups},
          {"top_groups", router.top_groups},
          {"scale", router.scale},
          {"normalise", router.normalise},
          {"correction_bias", router.correction_bias}};
}

Json gate_json(const Gate& gate) {
  return {{"kind", name_in(gate_kind_names, gate.kind)},
          {"projection", gate.projection},
          {"noise_seed", gate.noise_seed},
          {"renormalise", gate.renormalise},
          {"batch_prioritised", gate.batch_prioritised}};
}

// Only the fields that its kind needs, so that a trace's tables do not swell the results of others.
Json routing_json(const RoutingModel& routing) {
  Json json = {{"kind", name_in(routing_kind_names, routing.kind)}};
  if (routing.kind == RoutingKind::Zipf) json["exponent"] = routing.exponent;
  if (routing.kind == RoutingKind::Hot) {
    json["expert"] = routing.hot_expert;
    json["share"] = routing.hot_share;
  }
  if (routing.kind == RoutingKind::Trace) {
    if (!routing.trace.empty()) json["trace"] = routing.trace;
    json["layers"] = routing.layers;
  }
  if (routing.kind != RoutingKind::Router) json["seed"] = routing.seed;
  return json;
}

// Times are written as the points that lines are drawn through, with their unit as in input files.
Json curve_json(const TimeCurve& curve) {
  const auto text = [](Seconds time) { return fmt::format("{} s", time.value()); };
  const std::vector<ProfilePoint>& points = curve.points();
  if (curve.fitted())
    return {{"alpha", text(points[0].time)}, {"beta", text((points[1].time - points[0].time) / points[1].size)}};
  Json list = Json::array();
  for (const ProfilePoint& point : points) list.push_back({{"size", point.size}, {"time", text(point.time)}});
  return {{"points", std::move(list)}};
}

Json profile_json(const TimeProfile& profile) {
  Json json{{"forward", curve_json(profile.forward)}};
  if (!profile.backward.empty()) json["backward"] = curve_json(profile.backward);
  json["provenance"] = provenance_json(profile.provenance);
  return json;
}

template <class T>
Json list_json(const std::vector<T>& items, Json (*item_json)(const T&)) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(item_json(item));
  return list;
}

Json network_json(const NetworkDescription& network) {
  Json fabric = Json::array(), slow = Json::array();
  for (const FabricLevel& level : network.fabric)
    fabric.push_back({{"name", level.name}, {"nodes", level.nodes}, {"oversubscription", level.oversubscription}});
  for (const SlowPart& part : network.slow)
    slow.push_back({{"nodes", part.nodes},
                    {"gpus", part.gpus},
                    {"compute_speed", part.compute_speed},
                    {"link_speed", part.link_speed},
                    {"nic_speed", part.nic_speed}});
  return {{"fabric", std::move(fabric)},
          {"rails", network.rails},
          {"gpus_per_switch", network.gpus_per_switch},
          {"pcie_bandwidth_bytes_per_s", network.pcie_bandwidth.value()},
          {"switch_bandwidth_bytes_per_s", network.switch_bandwidth.value()},
          {"slow", std::move(slow)}};
}

}  // namespace

Json to_json(const Cluster& cluster) {
  Json json{{"name", cluster.name},
            {"description", cluster.description},
            {"source", cluster.source},
            {"nodes", cluster.nodes},
            {"gpus_per_node", cluster.gpus_per_node},
            {"device", device_json(cluster.device)},
            {"node_link", name_in(node_link_names, cluster.node_link)},
            {"node_bandwidth_bytes_per_s", cluster.node_bandwidth.value()},
            {"nics_per_node", cluster.nics_per_node},
            {"nic_bandwidth_bytes_per_s", cluster.nic_bandwidth.value()},
            {"calibration", cluster.calibration}};
  if (cluster.nvls) json["nvls"] = true;
  if (cluster.network) json["network"] = network_json(*cluster.network);
  return json;
}

namespace {

void add_small_parts(const Model& model, Json& json) {
  if (model.biases != Biases::None) json["biases"] = name_in(biases_names, model.biases);
  if (model.norms != NormKind::Rms) json["norms"] = name_in(norm_kind_names, model.norms);
  if (model.tied_embeddings) json["tied_embeddings"] = true;
  if (model.learned_positions > 0) json["learned_positions"] = model.learned_positions;
  if (model.mtp_layers > 0) json["mtp_layers"] = model.mtp_layers;
  if (model.dropless) json["dropless"] = true;
}

}  // namespace

// Fields that only some models have are written only for them.
Json to_json(const Model& model) {
  Json json{{"name", model.name},
            {"source", model.source},
            {"layers", model.layers},
            {"hidden", model.hidden},
            {"attention", attention_json(model.attention)},
            {"experts", model.experts},
            {"top_k", model.top_k},
            {"expert_hidden", model.expert_hidden},
            {"expert_kind", name_in(expert_kind_names, model.expert_kind)},
            {"vocabulary", model.vocabulary}};
  if (model.dense())
    for (const char* key : {"top_k", "expert_hidden"}) json.erase(key);
  if (model.sequence > 0) json["sequence"] = model.sequence;
  add_small_parts(model, json);
  if (model.first_dense > 0 && !model.dense()) json["first_dense"] = model.first_dense;
  if (model.moe_every > 1) json["moe_every"] = model.moe_every;
  if (model.dense_hidden > 0) json["dense_hidden"] = model.dense_hidden;
  if (const SharedExpertSizes& shared = model.shared_experts; shared.count > 0)
    json["shared_experts"] = {{"count", shared.count}, {"hidden", shared.hidden}, {"gate", shared.gate}};
  if (model.router != Router{}) json["router"] = router_json(model.router);
  if (model.expert_profile.given()) json["expert_profile"] = profile_json(model.expert_profile);
  if (model.gate_profile.given()) json["gate_profile"] = profile_json(model.gate_profile);
  return json;
}

Json to_json(const Calibration& calibration) {
  Json json{{"name", calibration.name},
            {"source", calibration.source},
            {"collectives", list_json(calibration.collectives, collective_json)},
            {"gemms", list_json(calibration.gemms, gemm_json)},
            {"memory", memory_json(calibration.memory)},
            {"interference", list_json(calibration.interference, interference_json)}};
  if (calibration.host)
    json["host"] = {{"launch_s", calibration.host->launch.value()},
                    {"pace", calibration.host->pace},
                    {"provenance", provenance_json(calibration.host->provenance)}};
  if (calibration.strided_copy) json["strided_copy"] = memory_json(*calibration.strided_copy);
  if (const auto& cache = calibration.l2_cache)
    json["l2_cache"] = {{"bandwidth_bytes_per_s", cache->bandwidth.value()},
                        {"provenance", provenance_json(cache->provenance)}};
  if (!calibration.tables.empty()) json["tables"] = list_json(calibration.tables, table_json);
  if (!calibration.messages.empty()) json["messages"] = list_json(calibration.messages, message_json);
  if (!calibration.kernels.empty()) json["kernels"] = list_json(calibration.kernels, kernel_json);
  if (calibration.copy) json["copy"] = memory_json(*calibration.copy);
  return json;
}

Json to_json(const WorkRates& rates) {
  return {{"products_s_per_flop", rates.products.value()},
          {"attention_s_per_flop", rates.attention.value()},
          {"outputs_s_per_byte", rates.outputs.value()},
          {"memory_s_per_byte", rates.memory.value()}};
}

Json to_json(const Workload& workload) {
  const auto& [batch, sequence, layers, top_k, capacity_factor, dtype, phases, capacity_rows, gate, routing, step,
               message_sizes, attention, causal, products, router_loads, extent, gradients, clip_gradients,
               mtp_layers] = workload;
  Json json{{"batch", batch},
            {"sequence", sequence},
            {"layers", layers},
            {"top_k", top_k},
            {"capacity_factor", capacity_factor},
            {"dtype", name_in(dtype_names, dtype)},
            {"products", name_in(dtype_names, products.value_or(dtype))},
            {"attention", name_in(attention_kernel_names, attention)},
            {"causal", causal},
            {"phases", name_in(phases_names, phases)},
            {"capacity_rows", capacity_rows},
            {"gate", gate_json(gate)},
            {"routing", routing_json(routing)},
            {"step", step}};
  for (const auto& [micro_batches, largest] : router_loads)
    json["router_loads"].push_back({{"micro_batches", micro_batches}, {"largest", largest}});
  if (gradients && *gradients != dtype) json["gradients"] = name_in(dtype_names, *gradients);
  if (clip_gradients) json["clip_gradients"] = *clip_gradients;
  if (extent == Extent::Model) json["mtp_layers"] = mtp_layers;
  if (extent != Extent::Layers) json["extent"] = name_in(extent_names, extent);
  if (message_sizes != MessageSizes::Padded) json["message_sizes"] = name_in(message_sizes_names, message_sizes);
  return json;
}

Json to_json(const Parallelism& parallelism) {
  Json json{{"dp", parallelism.dp},   {"mp", parallelism.mp}, {"ep", parallelism.ep},
            {"esp", parallelism.esp}, {"pp", parallelism.pp}, {"edp", parallelism.edp}};
  if (parallelism.sequence_parallel) json["sequence_parallel"] = *parallelism.sequence_parallel;
  if (!parallelism.pipeline_layout.empty()) json["pipeline_layout"] = parallelism.pipeline_layout;
  return json;
}

Json to_json(const Experiment& experiment) {
  if (!experiment.extensions.empty())
    throw InputError(
        fmt::format("{}: a file cannot hold what a program has of its own", experiment.extensions.names()));
  Json workload = to_json(experiment.workload);
  if (experiment.model.dense())
    for (std::string_view key : workload_of_experts) workload.erase(std::string(key));
  Json json{{"cluster", to_json(experiment.cluster)},          {"model", to_json(experiment.model)},
            {"calibration", to_json(*experiment.calibration)}, {"workload", std::move(workload)},
            {"parallelism", to_json(experiment.parallelism)},  {"overlap", name_in(overlap_names, experiment.overlap)}};
  const TrainingFramework& framework = experiment.framework;
  if (!framework.name.empty()) json["framework"] = {{"name", framework.name}, {"source", framework.source}};
  return json;
}

}  // namespace dovetail
