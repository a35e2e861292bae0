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

TEST_CASE("The shipped models are what import makes of the public configs") {
  CHECK(to_model_file(import_hf(config_of("mixtral-8x7b"), "mixtral-8x7b")) == shipped("mixtral-8x7b"));
  CHECK(to_model_file(import_hf(config_of("gpt2-xl"), "gpt2-xl-moe", {.experts = 8, .top_k = {}})) ==
        shipped("gpt2-xl-moe"));
}

TEST_CASE("A written model reads back as the same model") {
  const Model model{"a \"b\" \u00e9", "no\nsource", 3, 64, {6, 2, 48}, 10, 3, 100, ExpertKind::Ffn, 7};
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
}

TEST_CASE("What checkpoints leave out or write as null has its usual value") {
  const Model plain = import_hf(changed({{"num_key_value_heads", nullptr}}), "x");
  CHECK(plain.attention.kv_heads == 32);
  CHECK(plain.attention.head_size == 128);
  CHECK(import_hf(changed({{"n_inner", 100}}, "gpt2-xl"), "x", {.experts = 4, .top_k = 1}).expert_hidden == 100);
}

TEST_CASE("The user's experts come before the config's") {
  const Model model = import_hf(config_of("mixtral-8x7b"), "x", {.experts = 16, .top_k = 4});
  CHECK(model.experts == 16);
  CHECK(model.top_k == 4);
  CHECK(import_hf(config_of("gpt2-xl"), "x", {.experts = 1, .top_k = {}}).top_k == 1);
}

TEST_CASE("A config that cannot be imported is refused in one line") {
  CHECK(refusal(JsonFile::parse("{\n  \"model_type\": \"deepseek_v3\"\n}", "config.json")) ==
        "config.json:2:17: /model_type: expected \"mixtral\", \"qwen3_moe\" or \"gpt2\", got \"deepseek_v3\"");
  CHECK(refusal(JsonFile::parse("{}", "config.json")) == "config.json:1:1: missing key \"model_type\"");
  CHECK(refusal(JsonFile::parse("[]", "config.json")) == "config.json:1:1: expected an object, got an empty array");
  CHECK(refusal(JsonFile::parse("{\"model_type\": \"mixtral\", \"hidden_sise\": 4}", "config.json")) ==
        "config.json:1:1: missing key \"num_hidden_layers\"");
  CHECK(refusal(config_of("gpt2-xl")).ends_with("gpt2 has no experts, expected their number from you (experts)"));
  CHECK(refusal(changed({{"num_attention_heads", 24}}))
            .ends_with("24 attention heads do not divide the hidden size 4096"));
  CHECK(refusal(changed({{"decoder_sparse_step", 2}}, "qwen3-30b-a3b"))
            .ends_with("/decoder_sparse_step: dense layers between sparse ones are not built yet, expected 1"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = -1, .top_k = {}})
            .ends_with("config.json: /experts: expected at least 1, got -1"));
  CHECK(refusal(config_of("mixtral-8x7b"), {.experts = {}, .top_k = 9})
            .ends_with("config.json: /top_k: 9, expected at most the 8 experts"));
}
