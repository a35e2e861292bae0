// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/config_fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "bench/imports/megatron_table.hpp"

namespace dovetail::bench {
namespace {

// A field whose name is not that of an argument. `inverse`: the argument turns it off.
struct OtherName {
  std::string_view field, argument;
  bool inverse = false;
};
constexpr std::array other_names{
    OtherName{"num_moe_experts", "num_experts"},
    OtherName{"encoder_num_layers", "num_layers"},
    OtherName{"gated_linear_unit", "swiglu"},
    OtherName{"add_bias_linear", "disable_bias_linear", true},
    OtherName{"share_embeddings_and_output_weights", "untie_embeddings_and_output_weights", true},
    OtherName{"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
    OtherName{"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    OtherName{"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    OtherName{"grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    OtherName{"bucket_size", "ddp_bucket_size"},
    OtherName{"fp8", "fp8_format"},
    OtherName{"fp8_param", "fp8_param_gather"},
    OtherName{"apply_rope_fusion", "no_rope_fusion", true},
    OtherName{"check_for_nan_in_grad", "no_check_for_nan_in_loss_and_grad", true},
    OtherName{"check_for_nan_in_loss", "no_check_for_nan_in_loss_and_grad", true},
    OtherName{"overlap_p2p_comm", "no_overlap_p2p_communication", true},
    OtherName{"bias_activation_fusion", "no_bias_swiglu_fusion", true},
    OtherName{"masked_softmax_fusion", "no_masked_softmax_fusion", true},
    OtherName{"persist_layer_norm", "no_persist_layer_norm", true},
    OtherName{"layernorm_epsilon", "norm_epsilon"},
    OtherName{"sequence_length", "seq_length"},
};

// Their fields count before those of other sections.
constexpr std::array<std::string_view, 5> first_sections{"model", "train", "ddp", "optimizer", "mixed_precision"};

std::string as_name(std::string_view key) {
  std::string name(key.substr(std::min(key.find_first_not_of('-'), key.size())));
  std::ranges::replace(name, '-', '_');
  return name;
}

void add(std::string_view name, std::vector<std::string> values, const Location& where, GivenRun& run) {
  run.arguments.push_back({std::string(name), std::move(values), where});
}

// "bf16_mixed", "bf16_with_fp8_mixed": formats by the name of a recipe.
void add_precision(const ConfigField& field, GivenRun& run) {
  const std::string& text = field.values.front();
  for (const std::string_view format : {"bf16", "fp16"})
    if (text.find(format) != std::string::npos) add(format, {}, field.where, run);
  if (text.find("fp8") == std::string::npos) return;
  add("fp8_format", {"e4m3"}, field.where, run);
}

bool add_other_format(const ConfigField& field, const std::string& name, GivenRun& run) {
  if (field.values.empty()) return false;
  const std::string& text = field.values.front();
  if (name == "mixed_precision" || name == "precision") {
    add_precision(field, run);
    return true;
  }
  if (name == "params_dtype") {
    if (text.find("bfloat16") != std::string::npos) add("bf16", {}, field.where, run);
    if (text.ends_with("float16") && !text.ends_with("bfloat16")) add("fp16", {}, field.where, run);
    return true;
  }
  int size = 0;
  const bool whole =
      std::from_chars(text.data(), text.data() + text.size(), size).ptr == text.data() + text.size() && size > 0;
  if (name == "num_nodes" && whole) run.nodes = size;
  if ((name == "num_gpus_per_node" || name == "gpus_per_node") && whole) run.ranks_a_node = size;
  return name == "num_nodes" || name == "num_gpus_per_node" || name == "gpus_per_node";
}

// A switch of a configuration: on by an argument, or off by one whose name says so.
void add_switch(const ConfigField& field, const std::string& name, GivenRun& run) {
  const auto other = std::ranges::find(other_names, std::string_view(name), &OtherName::field);
  if (other != other_names.end()) {
    if (*field.on != other->inverse) add(other->argument, {}, field.where, run);
    if (name == "grad_reduce_in_fp32" && !*field.on) add("grad_reduce_in_bf16", {}, field.where, run);
    return;
  }
  if (find_megatron_argument(name) != nullptr) {
    if (*field.on) add(name, {}, field.where, run);
    return;
  }
  for (const std::string_view prefix : {"no_", "disable_"})
    if (const std::string off = std::string(prefix) + name; find_megatron_argument(off) != nullptr) {
      if (!*field.on) add(off, {}, field.where, run);
      return;
    }
  if (*field.on) add(name, {}, field.where, run);  // which is not known
}

std::size_t rank_of(const ConfigField& field) {
  return static_cast<std::size_t>(std::ranges::find(first_sections, std::string_view(field.section)) -
                                  first_sections.begin());
}

}  // namespace

std::vector<std::string> words_in(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']') && text.find_first_of("[]*+", 1) == text.size() - 1)
    text = text.substr(1, text.size() - 2);
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(", \t\n'\"", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(", \t\n'\"", at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

void add_fields(std::vector<ConfigField> fields, GivenRun& run) {
  std::ranges::stable_sort(fields, std::ranges::greater{}, rank_of);
  for (const ConfigField& field : fields) {
    const std::string name = as_name(field.key);
    if (field.on) {
      add_switch(field, name, run);
      continue;
    }
    if (add_other_format(field, name, run)) continue;
    const auto other = std::ranges::find(other_names, std::string_view(name), &OtherName::field);
    add(other == other_names.end() ? std::string_view(name) : other->argument, field.values, field.where, run);
  }
}

}  // namespace dovetail::bench
