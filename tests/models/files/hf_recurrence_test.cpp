// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose layers mix tokens in different ways.
#include "models/files/hf_recurrence.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <tuple>

#include "models/files/import_hf.hpp"
#include "tests/support/hf_family.hpp"

using namespace dovetail;

namespace {

Model hybrid_of(const nlohmann::json& own) {
  return import_hf(test::family(own), "x").model;
}

}  // namespace

TEST_CASE("Layers without attention are read by the keys of each family") {
  const auto read = [](const nlohmann::json& own) {
    const Model m = hybrid_of(own);
    return std::tuple(m.layers, m.attention.layers, m.recurrence);
  };
  using enum RecurrenceKind;
  // Each fourth layer has attention.
  CHECK(read({{"full_attention_interval", 4},
              {"linear_num_value_heads", 8},
              {"linear_value_head_dim", 16},
              {"linear_num_key_heads", 4},
              {"linear_key_head_dim", 32},
              {"linear_conv_kernel_dim", 4}}) == std::tuple(8, 2, Recurrence{GatedDelta, 6, 8, 16, 4, 32, 4}));
  CHECK(read({{"linear_attn_config",
               {{"full_attn_layers", {4, 8}}, {"num_heads", 4}, {"head_dim", 16}, {"short_conv_kernel_size", 4}}}}) ==
        std::tuple(8, 2, Recurrence{KimiDelta, 6, 4, 16, 4, 16, 4, 16}));
  CHECK(read({{"attn_type_list", {0, 0, 0, 1, 0, 0, 0, 1}}, {"head_dim", 16}}) ==
        std::tuple(8, 2, Recurrence{Lightning, 6, 8, 16, 8, 16}));
  CHECK(read({{"attn_layer_period", 8},
              {"attn_layer_offset", 4},
              {"mamba_expand", 2},
              {"mamba_d_state", 16},
              {"mamba_d_conv", 4},
              {"mamba_dt_rank", 5}}) == std::tuple(8, 1, Recurrence{Mamba, 7, 128, 1, 1, 16, 4, 5}));
  CHECK(read({{"layer_types", {"mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba", "attention"}},
              {"mamba_n_heads", 8},
              {"mamba_d_head", "auto"},
              {"mamba_expand", 2},
              {"mamba_n_groups", 2},
              {"mamba_d_state", 32},
              {"mamba_d_conv", 4}}) == std::tuple(8, 2, Recurrence{Mamba2, 6, 8, 16, 2, 32, 4}));
  // Nemotron-H lists mixers and feed-forward parts one by one: here 4 of these.
  CHECK(read({{"hybrid_override_pattern", "M-M-*-M-"},
              {"mamba_num_heads", 8},
              {"mamba_head_dim", 16},
              {"n_groups", 2},
              {"ssm_state_size", 32},
              {"conv_kernel", 4}}) == std::tuple(4, 1, Recurrence{Mamba2, 3, 8, 16, 2, 32, 4}));
  CHECK(read({{"layer_types", {"conv", "conv", "full_attention", "conv", "conv", "conv", "conv", "full_attention"}},
              {"conv_L_cache", 3}}) == std::tuple(8, 2, Recurrence{ShortConvolution, 6, 64, 1, 0, 0, 3}));
}

TEST_CASE("Parts that are listed one by one need no recurrence, and inner channels stay numbers") {
  const Model m = hybrid_of({{"hybrid_override_pattern", "*-*-*-"}});
  CHECK(m.layers == 3);
  CHECK(m.recurrence.layers == 0);
  const nlohmann::json jamba{{"attn_layer_period", 8},
                             {"mamba_d_state", 16},
                             {"mamba_d_conv", 4},
                             {"hidden_size", 2'000'000'000},
                             {"num_attention_heads", 8}};
  CHECK_THROWS_WITH(hybrid_of(jamba), Catch::Contains("4000000000 inner channels are too many"));
}

TEST_CASE("Layers with windows may have other heads, and values another size than keys") {
  const Attention a = hybrid_of({{"model_type", "mimo_v2_flash"},
                                 {"head_dim", 12},
                                 {"v_head_dim", 8},
                                 {"sliding_window", 128},
                                 {"hybrid_layer_pattern", {0, 1, 1, 1, 0, 1, 1, 0}},
                                 {"swa_num_attention_heads", 8},
                                 {"swa_num_key_value_heads", 4},
                                 {"swa_head_dim", 12},
                                 {"swa_v_head_dim", 8}})
                          .attention;
  CHECK(a.value_size == 8);
  CHECK(a.windowed_layers == 5);
  CHECK(a.windowed == HeadSizes{8, 4, 12, 8});
}
