// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

// Throws for keys that belong to another kind of attention.
void refuse_keys(const JsonReader& json, std::initializer_list<const char*> keys, AttentionKind kind) {
  for (const char* key : keys)
    if (json.has(key)) json.fail(key, fmt::format("contradicts kind {}", name_in(attention_kind_names, kind)));
}

void read_windows(const JsonReader& json, int layers, Attention& a) {
  a.window = json.integer_or("window", 0);
  for (const char* key : {"windowed_layers", "windows"})
    if (a.window == 0 && json.has(key)) json.fail(key, "given, but no layer has a window");
  a.windowed_layers = json.integer_or("windowed_layers", a.window > 0 ? layers : 0, 0, layers);
  a.windows = json.enumeration_or("windows", windows_names, a.windows);
}

Attention read_attention(const JsonReader& json, int layers) {
  Attention a;
  read_windows(json, layers, a);
  a.kind = json.enumeration_or("kind", attention_kind_names, a.kind);
  a.heads = json.integer("heads", 1);
  if (a.kind == AttentionKind::Latent) {
    refuse_keys(json, {"kv_heads", "head_size", "qk_norm"}, a.kind);
    a.q_rank = json.integer_or("q_rank", 0);
    a.kv_rank = json.integer("kv_rank", 1);
    a.nope_size = json.integer("nope_size", 1);
    a.rope_size = json.integer("rope_size", 0);
    a.value_size = json.integer("value_size", 1);
    a.kv_heads = a.heads;
    a.head_size = a.nope_size + a.rope_size;
    return a;
  }
  refuse_keys(json, {"q_rank", "kv_rank", "nope_size", "rope_size", "value_size"}, a.kind);
  a.qk_norm = json.enumeration_or("qk_norm", qk_norm_names, a.qk_norm);
  a.kv_heads = json.integer("kv_heads", 1);
  a.head_size = json.integer("head_size", 1);
  if (a.heads % a.kv_heads != 0)
    json.fail("heads", fmt::format("{}, expected a multiple of the {} kv_heads", a.heads, a.kv_heads));
  return a;
}

void read_experts(const JsonReader& json, Model& model) {
  model.experts = json.integer("experts", 0, most_experts);
  if (model.dense()) {
    for (std::string_view key : {"top_k", "expert_hidden", "first_dense", "moe_every", "shared_experts", "router",
                                 "expert_profile", "gate_profile"})
      if (json.has(key)) json.fail(key, "given, but experts is 0");
    return;
  }
  model.top_k = json.integer("top_k", 1);
  if (model.top_k > model.experts)
    json.fail("top_k", fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  model.expert_hidden = json.integer("expert_hidden", 1);
}

void read_dense_layers(const JsonReader& json, Model& model) {
  if (model.dense()) {
    model.first_dense = model.layers;
    model.dense_hidden = json.integer("dense_hidden", 1);
    return;
  }
  constexpr int most = 10'000;  // as in the model schema
  model.first_dense = json.integer_or("first_dense", 0, 0, most);
  model.moe_every = json.integer_or("moe_every", 1, 1, most);
  if (model.first_moe() >= model.layers)
    json.fail(model.first_dense >= model.layers ? "first_dense" : "moe_every",
              fmt::format("leaves no MoE layer among the {} layers", model.layers));
  const bool any = model.first_dense > 0 || model.moe_every > 1;
  if (any) model.dense_hidden = json.integer("dense_hidden", 1);
  if (!any && json.has("dense_hidden")) json.fail("dense_hidden", "given, but no layer is dense");
}

Router read_router(const JsonReader& json, const Model& model) {
  Router r;
  r.scoring = json.enumeration_or("scoring", scoring_names, r.scoring);
  r.groups = json.integer_or("groups", r.groups, 1);
  r.top_groups = json.integer_or("top_groups", r.groups, 1);
  r.scale = json.number_or("scale", r.scale);
  r.normalise = json.boolean_or("normalise", r.normalise);
  r.correction_bias = json.boolean_or("correction_bias", r.correction_bias);
  if (r.scale <= 0) json.fail("scale", fmt::format("{}, expected more than zero", r.scale));
  if (model.experts % r.groups != 0)
    json.fail("groups", fmt::format("{}, which do not divide the {} experts", r.groups, model.experts));
  if (r.top_groups > r.groups)
    json.fail("top_groups", fmt::format("{}, expected at most the {} groups", r.top_groups, r.groups));
  if (model.top_k > model.experts / r.groups * r.top_groups)
    json.fail("top_groups", fmt::format("{} of {} groups hold fewer than the {} experts of a token", r.top_groups,
                                        r.groups, model.top_k));
  return r;
}

// Reads all that layers and ends have beside their matrices.
void read_small_parts(const JsonReader& json, Model& model) {
  model.biases = json.enumeration_or("biases", biases_names, model.biases);
  model.norms = json.enumeration_or("norms", norm_kind_names, model.norms);
  model.tied_embeddings = json.boolean_or("tied_embeddings", model.tied_embeddings);
  model.learned_positions = json.integer_or("learned_positions", 0);
  model.mtp_layers = json.integer_or("mtp_layers", 0);
  if (model.biases != Biases::None && model.attention.kind == AttentionKind::Latent)
    json.fail("biases", "latent attention with biases is not counted yet, expected \"none\"");
}

TimeCurve read_curve(const JsonReader& json) {
  const auto list = json.find("points");
  if (!list) return TimeCurve::fit(json.quantity<Seconds>("alpha"), json.quantity<Seconds>("beta"));
  for (std::string_view other : {"alpha", "beta"})
    if (json.find(other)) json.fail(other, "given beside points; expected one or the other");
  std::vector<ProfilePoint> points;
  for (const JsonReader& each : list->elements()) {
    points.push_back({each.number("size", 0), each.quantity<Seconds>("time")});
    if (points.size() > 1 && points.back().size <= points[points.size() - 2].size)
      each.fail("size", fmt::format("{} after {}, expected ascending sizes", points.back().size,
                                    points[points.size() - 2].size));
  }
  if (points.size() < 2) json.fail("points", fmt::format("{}, expected at least 2", points.size()));
  return {std::move(points), /*fitted=*/false};
}

TimeProfile read_profile(const JsonReader& json) {
  TimeProfile profile;
  profile.forward = read_curve(json.at("forward"));
  if (const auto backward = json.find("backward")) profile.backward = read_curve(*backward);
  profile.provenance = read_provenance(json.at("provenance"));
  return profile;
}

}  // namespace

Model read_model(const JsonReader& json) {
  Model model;
  model.name = json.string("name");
  model.source = json.string_or("source", "");
  model.layers = json.integer("layers", 1);
  model.hidden = json.integer("hidden", 1);
  model.attention = read_attention(json.at("attention"), model.layers);
  read_experts(json, model);
  model.expert_kind = json.enumeration("expert_kind", expert_kind_names);
  model.vocabulary = json.integer_or("vocabulary", 0);
  model.sequence = json.integer_or("sequence", 0);
  model.dropless = json.boolean_or("dropless", false);
  if (model.dropless && model.dense()) json.fail("dropless", fmt::format("true, but {} has no experts", model.name));
  read_small_parts(json, model);
  read_dense_layers(json, model);
  if (const auto shared = json.find("shared_experts"))
    model.shared_experts = {shared->integer("count", 1), shared->integer("hidden", 1),
                            shared->boolean_or("gate", false)};
  if (const auto router = json.find("router")) model.router = read_router(*router, model);
  if (const auto profile = json.find("expert_profile")) model.expert_profile = read_profile(*profile);
  if (const auto profile = json.find("gate_profile")) model.gate_profile = read_profile(*profile);
  return model;
}

Model load_model(const std::string& name, FilesRead& files) {
  return read_model(JsonReader(open_input(model_input, name, {}, files)));
}

}  // namespace dovetail
