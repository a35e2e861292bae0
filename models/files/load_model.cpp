// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/calibration_fields.hpp"

namespace dovetail {
namespace {

// Sets the sizes that follow from others, and checks rules between them.
void complete_attention(const JsonReader& json, int layers, Attention& a) {
  const auto require_at_most = [&](std::string_view key, int given, int most, std::string_view of) {
    if (given > most) json.fail(key, fmt::format("{}, expected at most the {} layers{}", given, most, of));
  };
  require_at_most("layers", a.layers, layers, "");
  const int attention_layers = a.layers > 0 ? a.layers : layers;
  if (a.window > 0 && !json.has("windowed_layers")) a.windowed_layers = attention_layers;
  require_at_most("windowed_layers", a.windowed_layers, attention_layers, a.layers > 0 ? " with attention" : "");
  if (a.index.layers > attention_layers)
    json.at("index").fail(
        "layers", fmt::format("{}, expected at most the {} layers with attention", a.index.layers, attention_layers));
  if (a.windows == Windows::Chosen && a.index.heads == 0) (void)json.at("index");
  if (a.windowed.heads > 0 && a.windowed.heads % a.windowed.kv_heads != 0)
    json.at("windowed")
        .fail("heads",
              fmt::format("{}, expected a multiple of the {} kv_heads", a.windowed.heads, a.windowed.kv_heads));
  if (a.kind == AttentionKind::Latent) {
    if (a.value_size == 0) (void)json.at("value_size");
    a.kv_heads = a.heads;
    a.head_size = a.nope_size + a.rope_size;
  }
  if (a.heads % a.kv_heads != 0)
    json.fail("heads", fmt::format("{}, expected a multiple of the {} kv_heads", a.heads, a.kv_heads));
}

// Every layer has attention, a recurrence, or both.
void check_recurrence(const JsonReader& json, const Model& model) {
  const Recurrence& r = model.recurrence;
  const int attention = model.attention_layers();
  if (attention + r.layers < model.layers)
    json.fail("attention", fmt::format("{}, and {} with a recurrence: expected at least {} together", attention,
                                       r.layers, model.layers));
  if (r.layers == 0) return;
  const JsonReader part = json.at("recurrence");
  if (r.key_heads > 0 && r.heads % r.key_heads != 0)
    part.fail("heads", fmt::format("{}, expected a multiple of the {} key_heads", r.heads, r.key_heads));
}

void complete_dense_layers(const JsonReader& json, Model& model) {
  if (model.dense()) model.first_dense = model.layers;
  if (!model.dense() && model.first_moe() >= model.layers)
    json.fail(model.first_dense >= model.layers ? "first_dense" : "moe_every",
              fmt::format("leaves no MoE layer among the {} layers", model.layers));
  const bool any = model.first_dense > 0 || model.moe_every > 1;
  if (any && !json.has("dense_hidden")) (void)json.at("dense_hidden");
  if (!any && json.has("dense_hidden")) json.fail("dense_hidden", "given, but no layer is dense");
}

void complete_router(const JsonReader& json, Model& model) {
  Router& r = model.router;
  if (!json.has("top_groups")) r.top_groups = r.groups;
  if (model.experts % r.groups != 0)
    json.fail("groups", fmt::format("{}, which do not divide the {} experts", r.groups, model.experts));
  if (r.top_groups > r.groups)
    json.fail("top_groups", fmt::format("{}, expected at most the {} groups", r.top_groups, r.groups));
  if (model.top_k > model.experts / r.groups * r.top_groups)
    json.fail("top_groups", fmt::format("{} of {} groups hold fewer than the {} experts of a token", r.top_groups,
                                        r.groups, model.top_k));
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

TimeProfile read_profile(const JsonReader& json, FieldForm form) {
  TimeProfile profile;
  profile.forward = read_curve(json.at("forward"));
  if (const auto backward = json.find("backward")) profile.backward = read_curve(*backward);
  profile.provenance = fields_from<Provenance>(json.at("provenance"), form);
  return profile;
}

}  // namespace

Model read_model(const JsonReader& json, FieldForm form) {
  Model model = fields_from<Model>(json, form);
  complete_attention(json.at("attention"), model.layers, model.attention);
  check_recurrence(json, model);
  if (model.top_k > model.experts)
    json.fail("top_k", fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  if (model.dropless && model.dense()) json.fail("dropless", fmt::format("true, but {} has no experts", model.name));
  if (model.biases != Biases::None && model.attention.kind == AttentionKind::Latent)
    json.fail("biases", "latent attention with biases is not counted yet, expected \"none\"");
  complete_dense_layers(json, model);
  if (const auto router = json.find("router")) complete_router(*router, model);
  for (const auto& [key, profile] :
       {std::pair{"expert_profile", &model.expert_profile}, {"gate_profile", &model.gate_profile}})
    if (const auto given = json.find(key)) {
      if (model.dense()) json.fail(key, "given, but experts is 0");
      *profile = read_profile(*given, form);
    }
  return model;
}

Model read_model(const JsonReader& json) {
  return read_model(json, FieldForm::Inputs);
}

Model load_model(const std::string& name, FilesRead& files) {
  return read_model(JsonReader(open_input(model_input, name, {}, files)));
}

}  // namespace dovetail
