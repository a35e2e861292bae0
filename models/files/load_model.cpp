#include <fmt/format.h>

#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {

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
  return model;
}

Model load_model(const std::string& name, FilesRead& files) {
  return read_model(JsonReader(open_input(model_input, name, {}, files)));
}

}  // namespace dovetail
