// SPDX-License-Identifier: Apache-2.0
#include "models/files/import_hf.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/question/parameters.hpp"
#include "tests/support/hf_family.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
namespace fs = std::filesystem;

namespace {

JsonFile config_of(const std::string& checkpoint) {
  const fs::path path = fs::path(DOVETAIL_TEST_DATA) / "hf" / checkpoint / "config.json";
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return JsonFile::parse(without_python_numbers(text), path.string());
}

std::string shipped(const std::string& name) {
  std::ifstream file(data_directory() / "models" / (name + ".json"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// mixtral's config with some keys changed, or taken away by null.
JsonFile changed(const nlohmann::json& patch, const std::string& checkpoint = "mixtral-8x7b") {
  nlohmann::json config = config_of(checkpoint).root();
  config.merge_patch(patch);
  return JsonFile::parse(config.dump(), "config.json");
}

std::string refusal(const JsonFile& config, const ExpertChoice& choice = {}) {
  try {
    import_hf(config, "x", choice);
  } catch (const InputError& error) {
    return error.what();
  }
  return "imported";
}

using test::family;

Model of_family(const nlohmann::json& own) {
  return import_hf(family(own), "x").model;
}

}  // namespace

TEST_CASE("The shipped models are what import makes of the public configs, and the sequences of papers") {
  for (const char* name : {"mixtral-8x7b",
                           "mixtral-8x22b",
                           "qwen1.5-moe-a2.7b",
                           "qwen3-30b-a3b",
                           "qwen3-235b-a22b",
                           "olmoe-1b-7b",
                           "deepseek-v2",
                           "deepseek-v2-lite",
                           "deepseek-v3",
                           "kimi-k2",
                           "glm-4.5",
                           "glm-4.5-air",
                           "gpt-oss-120b",
                           "gpt-oss-20b",
                           "llama-4-scout",
                           "llama-4-maverick",
                           "dbrx",
                           "phi-3.5-moe",
                           "hunyuan-a13b",
                           "minimax-m2",
                           "granite-3.1-3b-a800m",
                           "qwen2-57b-a14b",
                           "llama-3.1-70b",
                           "ernie-4.5-21b-a3b",
                           "deepseek-v3.2",
                           "gemma-4-26b-a4b",
                           "glm-5",
                           "jamba2-mini",
                           "kimi-k2.5",
                           "kimi-linear-48b-a3b",
                           "mimo-v2-flash",
                           "minimax-m1",
                           "minimax-m2.5",
                           "nemotron-3-nano-30b-a3b",
                           "nemotron-3-super-120b-a12b",
                           "qwen3-next-80b-a3b",
                           "qwen3.5-35b-a3b",
                           "qwen3.5-397b-a17b",
                           "step-3.7-flash"}) {
    Model model = import_hf(config_of(name), name).model;
    FilesRead files;
    const Model read = load_model(name, files);
    CHECK(read.source.starts_with(model.source));
    model.source = read.source;
    model.sequence = read.sequence;  // configs say only how long one may be
    CHECK(to_model_file(model) == shipped(name));
  }
  CHECK(to_model_file(import_hf(config_of("gpt2-xl"), "gpt2-xl-moe", {.experts = 8, .top_k = {}}).model) ==
        shipped("gpt2-xl-moe"));
}

TEST_CASE("A written model reads back as the same model") {
  Model model{"a \"b\" \u00e9", "no\nsource", 3, 64, {6, 2, 48}, 10, 3, 100, ExpertKind::Ffn, 7};
  if (GENERATE(false, true)) {
    model.sequence = 99;
    model.biases = Biases::QueryKeyValue;
    model.norms = NormKind::Layer;
    model.tied_embeddings = true;
    model.learned_positions = 77;
    model.mtp_layers = 2;
    model.attention.qk_norm = GENERATE(QkNorm::Head, QkNorm::Width);
  } else if (GENERATE(false, true)) {
    model.attention = {6, 6, 48, AttentionKind::Latent, 0, 24, 32, 16, 20};
    model.first_dense = 1;
    model.moe_every = 2;
    model.dense_hidden = 30;
    model.shared_experts = {2, 50, true};
    model.router = {Scoring::Sigmoid, 5, 2, 2.5, true, true};
  }
  const test::TemporaryFolder folder;
  folder.write("m.json", to_model_file(model));
  FilesRead files;
  CHECK(to_model_file(load_model("m.json", files)) == to_model_file(model));
}

TEST_CASE("Head sizes need not be hidden / heads, and experts have their own hidden size") {
  const Model qwen = import_hf(config_of("qwen3-30b-a3b"), "qwen3-30b-a3b").model;
  CHECK(qwen.attention.head_size == 128);  // hidden 2048 / 32 heads is 64
  CHECK(qwen.expert_hidden == 768);
  CHECK(qwen.experts == 128);
  CHECK(qwen.top_k == 8);
  CHECK(qwen.attention.qk_norm == QkNorm::Head);
}

TEST_CASE("What checkpoints leave out or write as null has its usual value") {
  const Model plain = import_hf(changed({{"num_key_value_heads", nullptr}}), "x").model;
  CHECK(plain.attention.kv_heads == 32);
  CHECK(plain.attention.head_size == 128);
  CHECK(import_hf(changed({{"n_inner", 100}}, "gpt2-xl"), "x", {.experts = 4, .top_k = 1}).model.expert_hidden == 100);
}

TEST_CASE("Dense layers, shared experts and router of newer checkpoints") {
  const Model v2 = import_hf(config_of("deepseek-v2"), "x").model, v3 = import_hf(config_of("deepseek-v3"), "x").model;
  CHECK(v2.first_dense == 1);
  CHECK(v3.first_dense == 3);
  CHECK_FALSE(v3.is_moe(2));
  CHECK(v3.is_moe(3));
  CHECK(v2.shared_experts == SharedExpertSizes{2, 1536, false});
  CHECK(v2.router == Router{Scoring::Softmax, 8, 3, 16, false, false});
  CHECK(v3.router == Router{Scoring::Sigmoid, 8, 4, 2.5, true, true});
  CHECK(import_hf(changed({{"topk_method", "greedy"}}, "deepseek-v2"), "x").model.router.groups ==
        1);  // no groups then
  CHECK(import_hf(changed({{"q_lora_rank", nullptr}}, "deepseek-v2"), "x").model.attention.q_rank == 0);
  CHECK(import_hf(config_of("qwen1.5-moe-a2.7b"), "x").model.shared_experts == SharedExpertSizes{1, 5632, true});
  const Model half =
      import_hf(changed({{"decoder_sparse_step", 2}, {"mlp_only_layers", {0, 1}}}, "qwen3-30b-a3b"), "x").model;
  CHECK(half.moe_every == 2);
  CHECK(half.first_dense == 2);
  CHECK(half.first_moe() == 3);
  CHECK(half.dense_hidden == 6144);
}

TEST_CASE("The user's experts come before the config's") {
  const Model model = import_hf(config_of("mixtral-8x7b"), "x", {.experts = 16, .top_k = 4}).model;
  CHECK(model.experts == 16);
  CHECK(model.top_k == 4);
  CHECK(import_hf(config_of("gpt2-xl"), "x", {.experts = 1, .top_k = {}}).model.top_k == 1);
}

TEST_CASE("A dense checkpoint is a dense model, or one with experts of its size") {
  const Model llama = of_family({{"model_type", "llama"}});
  CHECK(llama.dense());
  CHECK(llama.dense_hidden == 256);
  CHECK(llama.biases == Biases::None);
  CHECK(of_family({{"model_type", "llama"}, {"attention_bias", true}}).biases == Biases::Attention);
  CHECK(of_family({{"model_type", "qwen2"}}).biases == Biases::QueryKeyValue);
  const Model experts = import_hf(family({{"model_type", "llama"}}), "x", {.experts = 4, .top_k = {}}).model;
  CHECK(experts.experts == 4);
  CHECK(experts.top_k == 2);
  CHECK(experts.expert_hidden == 256);
  // The whole of shipped Llama: without `model_type`, since its structure says it all.
  FilesRead files;
  Model shipped_llama = load_model("llama-3.1-8b", files);
  Model read = of_family({{"num_hidden_layers", 32},
                          {"hidden_size", 4096},
                          {"num_attention_heads", 32},
                          {"num_key_value_heads", 8},
                          {"intermediate_size", 14336},
                          {"vocab_size", 128256}});
  CHECK(parameters(read).total() == parameters(shipped_llama).total());
}

TEST_CASE("Sizes are read under the names that families give them") {
  const Model glm = of_family({{"model_type", "glm4_moe"},
                               {"n_routed_experts", 16},
                               {"num_experts_per_tok", 4},
                               {"moe_intermediate_size", 32},
                               {"first_k_dense_replace", 3},
                               {"n_shared_experts", 1},
                               {"use_qk_norm", true},
                               {"attention_bias", true},
                               {"num_nextn_predict_layers", 1},
                               {"routed_scaling_factor", 2.5}});
  CHECK(glm.first_dense == 3);
  CHECK(glm.dense_hidden == 256);
  CHECK(glm.shared_experts == SharedExpertSizes{1, 32, false});
  CHECK(glm.attention.qk_norm == QkNorm::Head);
  CHECK(glm.biases == Biases::QueryKeyValue);
  CHECK(glm.router == Router{Scoring::Sigmoid, 1, 1, 2.5, true, true});
  CHECK(glm.mtp_layers == 1);

  const Model dbrx = import_hf(JsonFile::parse(R"({"model_type": "dbrx", "n_layers": 4, "d_model": 64, "n_heads": 8,
      "vocab_size": 100, "attn_config": {"kv_n_heads": 2},
      "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 96, "moe_normalize_expert_weights": 1}})",
                                               "config.json"),
                               "x")
                         .model;
  CHECK(dbrx.layers == 4);
  CHECK(dbrx.attention.kv_heads == 2);
  CHECK(dbrx.experts == 16);
  CHECK(dbrx.top_k == 4);
  CHECK(dbrx.expert_hidden == 96);
  CHECK(dbrx.router.normalise);

  // A list of equal sizes, one for each layer, is that size.
  const Model hunyuan = of_family({{"model_type", "hunyuan_v1_moe"},
                                   {"num_experts", 8},
                                   {"moe_topk", {2, 2, 2}},
                                   {"moe_intermediate_size", {96, 96, 96}},
                                   {"num_shared_expert", {1, 1, 1}},
                                   {"use_qk_norm", true},
                                   {"use_cla", false}});
  CHECK(hunyuan.top_k == 2);
  CHECK(hunyuan.expert_hidden == 96);
  CHECK(hunyuan.shared_experts == SharedExpertSizes{1, 96, false});
  CHECK(refusal(family({{"num_experts", 8}, {"moe_topk", {2, 3}}}))
            .ends_with("/moe_topk/1: 3 after 2: layers of different sizes are not built, expected the same"));

  const Model minimax = of_family({{"model_type", "minimax_m2"},
                                   {"num_local_experts", 8},
                                   {"num_experts_per_tok", 2},
                                   {"use_qk_norm", true},
                                   {"use_routing_bias", true},
                                   {"attn_type_list", {1, 1}},
                                   {"shared_intermediate_size", 0}});
  CHECK(minimax.attention.qk_norm == QkNorm::Width);
  CHECK(minimax.router.correction_bias);
  CHECK(minimax.shared_experts.count == 0);
  CHECK(of_family({{"model_type", "granitemoeshared"},
                   {"num_local_experts", 8},
                   {"num_experts_per_tok", 2},
                   {"shared_intermediate_size", 48}})
            .shared_experts == SharedExpertSizes{1, 48, false});
  const Model phi = of_family({{"model_type", "phimoe"},
                               {"num_local_experts", 8},
                               {"num_experts_per_tok", 2},
                               {"attention_bias", true},
                               {"lm_head_bias", true}});
  CHECK(phi.norms == NormKind::Layer);
  CHECK(phi.biases == Biases::Attention);
}

TEST_CASE("A language model is read out of one with other inputs") {
  const nlohmann::json text{{"model_type", "llama4_text"},    {"num_hidden_layers", 8},   {"hidden_size", 64},
                            {"num_attention_heads", 8},       {"num_key_value_heads", 2}, {"intermediate_size", 128},
                            {"intermediate_size_mlp", 256},   {"num_local_experts", 16},  {"num_experts_per_tok", 1},
                            {"interleave_moe_layer_step", 2}, {"use_qk_norm", true},      {"vocab_size", 1000},
                            {"attention_chunk_size", 8192}};
  const nlohmann::json whole{{"model_type", "llama4"}, {"text_config", text}, {"vision_config", {{"hidden_size", 1}}}};
  const ImportedModel imported = import_hf(JsonFile::parse(whole.dump(), "config.json"), "x");
  const Model& llama4 = imported.model;
  CHECK(llama4.moe_every == 2);
  CHECK(llama4.first_dense == 0);
  CHECK(llama4.dense_hidden == 256);
  CHECK(llama4.shared_experts == SharedExpertSizes{1, 128, false});
  CHECK(llama4.router.scoring == Scoring::Sigmoid);
  CHECK(llama4.attention.qk_norm == QkNorm::None);
  CHECK(imported.left_out == std::vector<std::string>{"all but the language model: parts for images, sounds and films",
                                                      "norms of queries and keys, which have no weights"});
  nlohmann::json refused = whole;
  refused["text_config"].erase("vocab_size");
  CHECK(refusal(JsonFile::parse(refused.dump(2), "config.json")).ends_with("/text_config: missing key \"vocab_size\""));
}

TEST_CASE("Layers with experts are those that any of the keys say") {
  const auto placed = [](const nlohmann::json& own) {
    nlohmann::json config{{"num_experts", 8}, {"num_experts_per_tok", 2}};
    config.merge_patch(own);
    const Model model = of_family(config);
    return std::pair{model.first_dense, model.moe_every};
  };
  CHECK(placed(nlohmann::json::object()) == std::pair{0, 1});
  CHECK(placed({{"moe_layers", {1, 3, 5, 7}}}) == std::pair{0, 2});
  CHECK(placed({{"moe_layer_freq", {0, 1, 1, 1, 1, 1, 1, 1}}}) == std::pair{1, 1});
  CHECK(placed({{"moe_layer_start_index", 1}, {"moe_layer_interval", 1}, {"moe_layer_end_index", 7}}) ==
        std::pair{1, 1});
  CHECK(placed({{"expert_layer_period", 2}, {"expert_layer_offset", 1}}) == std::pair{0, 2});
  CHECK(placed({{"moe_layers", {7}}}) == std::pair{0, 8});
  CHECK(placed({{"first_k_dense_replace", 7}}) == std::pair{0, 8});
}

TEST_CASE("Attention that is not built is refused, or named where only its time is that of another") {
  const auto refused = [](const nlohmann::json& own) { return refusal(family(own)); };
  CHECK(refused({{"mamba_d_state", 16}})
            .ends_with("/mamba_d_state: given, but no key that is known here says which layers have it and which "
                       "attention"));
  CHECK(refused({{"use_cla", true}}).ends_with("/use_cla: layers that share keys and values are not built"));
  CHECK(refused({{"layer_types", {"full_attention", "hybrid"}}})
            .ends_with("/layer_types/1: layers of hybrid are not built; expected attention, linear_attention, mamba or "
                       "conv"));
  CHECK(refused({{"layer_types", {"full_attention", "linear_attention"}}})
            .ends_with("some layers have no attention, but no key of this file that is known here says what they "
                       "have"));
  CHECK(refused({{"layer_types", {"mamba", "mamba"}}}).ends_with("no layer has attention, which is not built"));
  CHECK(refused({{"hybrid_override_pattern", "M*X"}}).ends_with("layer 'X', expected M, *, - or E"));
  const auto left_out = [](const nlohmann::json& own) { return import_hf(family(own), "x").left_out; };
  CHECK(left_out({{"model_type", "mistral"}, {"sliding_window", nullptr}}).empty());
  CHECK(left_out({{"model_type", "qwen2"}, {"sliding_window", 4096}, {"use_sliding_window", false}}).empty());
  const auto windows = [](const nlohmann::json& own) {
    const Attention a = of_family(own).attention;
    return std::tuple(a.window, a.windowed_layers, a.windows);
  };
  CHECK(windows({{"model_type", "mistral"},
                 {"sliding_window", 128},
                 {"layer_types", {"sliding_attention", "full_attention"}}}) == std::tuple(128, 1, Windows::Sliding));
  CHECK(windows({{"model_type", "llama4"}, {"attention_chunk_size", 512}}) == std::tuple(512, 6, Windows::Chunks));
  // Every second one of 8 layers has all positions, or every third one, or those before the fifth.
  CHECK(windows({{"model_type", "gemma2"}, {"sliding_window", 4096}}) == std::tuple(4096, 4, Windows::Sliding));
  CHECK(windows({{"model_type", "gemma3"}, {"sliding_window", 512}, {"sliding_window_pattern", 3}}) ==
        std::tuple(512, 6, Windows::Sliding));
  CHECK(
      windows(
          {{"model_type", "qwen2"}, {"sliding_window", 256}, {"use_sliding_window", true}, {"max_window_layers", 5}}) ==
      std::tuple(256, 3, Windows::Sliding));
  CHECK(windows({{"attention_chunk_size", 512}, {"no_rope_layers", {1, 0, 1, 0}}}) ==
        std::tuple(512, 2, Windows::Chunks));
  const Attention chosen =
      of_family({{"model_type", "deepseek_v3"}, {"index_topk", 2048}, {"index_n_heads", 4}, {"index_head_dim", 32}})
          .attention;
  CHECK(chosen.windows == Windows::Chosen);
  CHECK(chosen.window == 2048);
  CHECK(chosen.windowed_layers == 8);
  CHECK(chosen.index == PositionIndex{4, 32});
  CHECK(left_out({{"model_type", "new_family"}}) ==
        std::vector<std::string>{"what the code of new_family does and its config does not say: assumed are gated "
                                 "experts and RMS norms, and no biases"});
}

TEST_CASE("Checkpoints whose code says more than their configs have as many parameters as published") {
  struct Published {
    const char* checkpoint;
    double total, active, margin;  // billions
  };
  for (const auto& [checkpoint, total, active, margin] :
       {Published{"snowflake-arctic", 480, 17, 1.7},   // its README
        Published{"grok-2", 270, 115, .6},             // xAI's announcement
        Published{"gpt-neox-20b", 20.6, 20.6, .06},    // GPT-NeoX-20B (2022): 20,554,567,680
        Published{"gemma-2-27b", 27.2, 27.2, .05}}) {  // Gemma 2 (2024), table 2
    const ImportedModel imported = import_hf(config_of(checkpoint), checkpoint);
    INFO(checkpoint);
    CHECK(static_cast<double>(parameters(imported.model).total()) * 1e-9 == Approx(total).margin(margin));
    CHECK(static_cast<double>(active_parameters(imported.model).total()) * 1e-9 == Approx(active).margin(margin));
    CHECK(imported.unknown.empty());
  }
  CHECK(import_hf(config_of("snowflake-arctic"), "x").model.shared_experts == SharedExpertSizes{1, 7168, false});
  CHECK(import_hf(config_of("grok-2"), "x").model.shared_experts == SharedExpertSizes{1, 32768, false});
}

TEST_CASE("Keys that are not known are named, those that change the layers are refused") {
  const nlohmann::json own{{"model_type", "llama"}, {"pad_token_id", 0},  {"brand_new_part", 3},
                           {"not_used", false},     {"neither", nullptr}, {"router_aux_loss_coef", .1}};
  CHECK(import_hf(family(own), "x").unknown == std::vector<std::string>{"brand_new_part"});
  const auto refused = [](const nlohmann::json& keys) { return refusal(family(keys)); };
  CHECK(refused({{"use_residual", true}}).ends_with("/use_residual: experts beside a dense part are not built here"));
  CHECK(refused({{"num_kv_shared_layers", 2}}).ends_with("layers that share keys and values are not built"));
  CHECK(refused({{"global_head_dim", 512}}).ends_with("/global_head_dim: given, but no layer has a window"));
  CHECK_THAT(refused({{"o_lora_rank", 16}}), Catch::Contains("/o_lora_rank: outputs of attention through a low rank"));
  CHECK(refused({{"zero_expert_num", 4}}).ends_with("experts that compute nothing are not built"));
  CHECK(refusal(changed({{"moe_intermediate_size", nullptr}}, "qwen3-30b-a3b"))
            .ends_with("missing key \"moe_intermediate_size\""));
  CHECK_THAT(import_hf(family({{"model_type", "new"}, {"num_experts", 4}, {"moe_top_k", 2}}), "x").left_out.back(),
             Catch::Contains("gated experts of intermediate_size 256"));
}

TEST_CASE("Configs of other shapes: what a thinker reads, and Python's numbers") {
  const nlohmann::json text{{"model_type", "qwen3_omni_moe_text"},
                            {"num_hidden_layers", 8},
                            {"hidden_size", 64},
                            {"num_attention_heads", 8},
                            {"vocab_size", 100},
                            {"num_experts", 16},
                            {"top_k_experts", 2},
                            {"moe_intermediate_size", 32}};
  const nlohmann::json whole{{"model_type", "qwen3_omni_moe"}, {"thinker_config", {{"text_config", text}}}};
  const Model model = import_hf(JsonFile::parse(whole.dump(), "config.json"), "x").model;
  CHECK(model.experts == 16);
  CHECK(model.top_k == 2);
  CHECK(without_python_numbers(R"({"a": [0, Infinity, -Infinity], "b\"": NaN, "NaN": "Infinity"})") ==
        R"({"a": [0, null    , null     ], "b\"": null, "NaN": "Infinity"})");
}

TEST_CASE("A checkpoint's config.json in the place of a model file") {
  const test::TemporaryFolder folder;
  folder.write("config.json", config_of("mixtral-8x7b").text());
  FilesRead files;
  CHECK_THROWS_WITH(
      load_model("./config.json", files),
      Catch::Contains("config.json:1:1: a checkpoint's config.json, not a model file; make one by: dovetail "
                      "import ./config.json -o model.json"));
}

TEST_CASE("A config that cannot be imported is refused in one line") {
  CHECK(refusal(JsonFile::parse("{}", "config.json")) ==
        "config.json:1:1: missing key \"num_hidden_layers\", in other families \"n_layers\", \"n_layer\", "
        "\"num_layers\"");
  CHECK(refusal(JsonFile::parse("[]", "config.json")) == "config.json:1:1: expected an object, got an empty array");
  CHECK(refusal(JsonFile::parse("{\"model_type\": \"mixtral\", \"hidden_sise\": 4}", "config.json")) ==
        "config.json:1:1: missing key \"num_hidden_layers\", in other families \"n_layers\", \"n_layer\", "
        "\"num_layers\"");
  CHECK(refusal(config_of("gpt2-xl"), {.experts = {}, .top_k = 2})
            .ends_with("2 experts of a token chosen, but the checkpoint has none; expected a number of experts too"));
  CHECK(refusal(changed({{"num_attention_heads", 24}}))
            .ends_with("24 attention heads do not divide the hidden size 4096"));
  CHECK(refusal(changed({{"mlp_only_layers", {0, 2}}}, "qwen3-30b-a3b"))
            .ends_with(
                "experts in layers 1, 3, 4, 5, 6, ... (from 0): dense layers must be the first ones, or every n-th "
                "layer (from 1) have experts"));
  CHECK(refusal(changed({{"moe_layer_freq", 2}}, "deepseek-v2"))
            .ends_with("experts in layers 2, 4, 6, 8, 10, ... (from 0): dense layers must be the first ones, or every "
                       "n-th layer (from 1) have experts"));
  CHECK(refusal(changed({{"num_hidden_layers", 2147483647}}))
            .ends_with("expected a whole number from 1 to 10000, got the number 2147483647"));
  CHECK(refusal(changed({{"qk_nope_head_dim", 2147483647}}, "deepseek-v3"))
            .ends_with("expected a whole number from 1 to 65536, got the number 2147483647"));
  CHECK(refusal(changed({{"kv_lora_rank", 0}}, "deepseek-v3"))
            .ends_with("/kv_lora_rank: expected a whole number of at least 1, got the number 0"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = -1, .top_k = {}})
            .ends_with("config.json: /experts: expected at least 0, got -1"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = 0, .top_k = 0})
            .ends_with("/experts: 0, expected at least 1: the checkpoint has experts"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = {}, .top_k = 9})
            .ends_with("config.json: /top_k: 9, expected at most the 8 experts"));
}
