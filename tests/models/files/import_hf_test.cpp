#include "models/files/import_hf.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
namespace fs = std::filesystem;

namespace {

JsonFile config_of(const std::string& checkpoint) {
  return JsonFile::read(fs::path(DOVETAIL_TEST_DATA) / "hf" / checkpoint / "config.json");
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

}  // namespace

TEST_CASE("The shipped models are what import makes of the public configs, and the sequences of papers") {
  for (const char* name : {"mixtral-8x7b", "mixtral-8x22b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "qwen3-235b-a22b",
                           "olmoe-1b-7b", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3"}) {
    Model model = import_hf(config_of(name), name);
    FilesRead files;
    const Model read = load_model(name, files);
    CHECK(read.source.starts_with(model.source));
    model.source = read.source;
    model.sequence = read.sequence;  // configs say only how long one may be
    CHECK(to_model_file(model) == shipped(name));
  }
  CHECK(to_model_file(import_hf(config_of("gpt2-xl"), "gpt2-xl-moe", {.experts = 8, .top_k = {}})) ==
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
  const Model qwen = import_hf(config_of("qwen3-30b-a3b"), "qwen3-30b-a3b");
  CHECK(qwen.attention.head_size == 128);  // hidden 2048 / 32 heads is 64
  CHECK(qwen.expert_hidden == 768);
  CHECK(qwen.experts == 128);
  CHECK(qwen.top_k == 8);
  CHECK(qwen.attention.qk_norm == QkNorm::Head);
}

TEST_CASE("What checkpoints leave out or write as null has its usual value") {
  const Model plain = import_hf(changed({{"num_key_value_heads", nullptr}}), "x");
  CHECK(plain.attention.kv_heads == 32);
  CHECK(plain.attention.head_size == 128);
  CHECK(import_hf(changed({{"n_inner", 100}}, "gpt2-xl"), "x", {.experts = 4, .top_k = 1}).expert_hidden == 100);
}

TEST_CASE("Dense layers, shared experts and router of newer checkpoints") {
  const Model v2 = import_hf(config_of("deepseek-v2"), "x"), v3 = import_hf(config_of("deepseek-v3"), "x");
  CHECK(v2.first_dense == 1);
  CHECK(v3.first_dense == 3);
  CHECK_FALSE(v3.is_moe(2));
  CHECK(v3.is_moe(3));
  CHECK(v2.shared_experts == SharedExpertSizes{2, 1536, false});
  CHECK(v2.router == Router{Scoring::Softmax, 8, 3, 16, false, false});
  CHECK(v3.router == Router{Scoring::Sigmoid, 8, 4, 2.5, true, true});
  CHECK(import_hf(changed({{"topk_method", "greedy"}}, "deepseek-v2"), "x").router.groups == 1);  // no groups then
  CHECK(import_hf(changed({{"q_lora_rank", nullptr}}, "deepseek-v2"), "x").attention.q_rank == 0);
  CHECK(import_hf(config_of("qwen1.5-moe-a2.7b"), "x").shared_experts == SharedExpertSizes{1, 5632, true});
  const Model half =
      import_hf(changed({{"decoder_sparse_step", 2}, {"mlp_only_layers", {0, 1}}}, "qwen3-30b-a3b"), "x");
  CHECK(half.moe_every == 2);
  CHECK(half.first_dense == 2);
  CHECK(half.first_moe() == 3);
  CHECK(half.dense_hidden == 6144);
}

TEST_CASE("The user's experts come before the config's") {
  const Model model = import_hf(config_of("mixtral-8x7b"), "x", {.experts = 16, .top_k = 4});
  CHECK(model.experts == 16);
  CHECK(model.top_k == 4);
  CHECK(import_hf(config_of("gpt2-xl"), "x", {.experts = 1, .top_k = {}}).top_k == 1);
}

TEST_CASE("A config that cannot be imported is refused in one line") {
  CHECK(refusal(JsonFile::parse("{\n  \"model_type\": \"llama\"\n}", "config.json")) ==
        "config.json:2:17: /model_type: expected \"mixtral\", \"qwen2_moe\", \"qwen3_moe\", \"olmoe\", "
        "\"deepseek_v2\", "
        "\"deepseek_v3\" or \"gpt2\", got \"llama\"");
  CHECK(refusal(JsonFile::parse("{}", "config.json")) == "config.json:1:1: missing key \"model_type\"");
  CHECK(refusal(JsonFile::parse("[]", "config.json")) == "config.json:1:1: expected an object, got an empty array");
  CHECK(refusal(JsonFile::parse("{\"model_type\": \"mixtral\", \"hidden_sise\": 4}", "config.json")) ==
        "config.json:1:1: missing key \"num_hidden_layers\"");
  CHECK(refusal(config_of("gpt2-xl")).ends_with("gpt2 has no experts, expected their number from you (experts)"));
  CHECK(refusal(changed({{"num_attention_heads", 24}}))
            .ends_with("24 attention heads do not divide the hidden size 4096"));
  CHECK(refusal(changed({{"mlp_only_layers", {0, 2}}}, "qwen3-30b-a3b"))
            .ends_with("/mlp_only_layers/1: expected 1: dense layers are the first ones"));
  CHECK(refusal(changed({{"moe_layer_freq", 2}}, "deepseek-v2"))
            .ends_with("/moe_layer_freq: other steps than 1 are not built yet, expected 1"));
  CHECK(refusal(changed({{"qk_nope_head_dim", 2147483647}}, "deepseek-v3"))
            .ends_with("expected a whole number from 1 to 65536, got the number 2147483647"));
  CHECK(refusal(changed({{"kv_lora_rank", 0}}, "deepseek-v3"))
            .ends_with("/kv_lora_rank: expected a whole number of at least 1, got the number 0"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = -1, .top_k = {}})
            .ends_with("config.json: /experts: expected at least 0, got -1"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = 0, .top_k = 0})
            .ends_with("/experts: 0, expected at least 1: checkpoints without experts are not imported yet"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = {}, .top_k = 9})
            .ends_with("config.json: /top_k: 9, expected at most the 8 experts"));
}
