#include <fmt/format.h>

#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

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
  const JsonReader attention = json.at("attention");
  model.attention.heads = attention.integer("heads", 1);
  model.attention.kv_heads = attention.integer("kv_heads", 1);
  model.attention.head_size = attention.integer("head_size", 1);
  if (model.attention.heads % model.attention.kv_heads != 0)
    attention.fail("heads", fmt::format("{}, expected a multiple of the {} kv_heads", model.attention.heads,
                                        model.attention.kv_heads));
  model.experts = json.integer("experts", 1);
  model.top_k = json.integer("top_k", 1);
  if (model.top_k > model.experts)
    json.fail("top_k", fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  model.expert_hidden = json.integer("expert_hidden", 1);
  model.expert_kind = json.enumeration("expert_kind", expert_kind_names);
  model.vocabulary = json.integer_or("vocabulary", 0);
  if (const auto profile = json.find("expert_profile")) model.expert_profile = read_profile(*profile);
  if (const auto profile = json.find("gate_profile")) model.gate_profile = read_profile(*profile);
  return model;
}

Model load_model(const std::string& name, FilesRead& files) {
  return read_model(JsonReader(open_input(model_input, name, {}, files)));
}

}  // namespace dovetail
