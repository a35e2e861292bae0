// SPDX-License-Identifier: Apache-2.0
// Real config.json files (tests/data/hf/README.md says where each was found): what import makes of each.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "models/files/import_hf.hpp"
#include "models/question/parameters.hpp"

using namespace dovetail;
namespace fs = std::filesystem;

namespace {

const fs::path folder = fs::path(DOVETAIL_TEST_DATA) / "hf";

// Parts that the published count of a token's parameters leaves out.
enum class Without { Nothing, Embedding, Ends };

// Billions, as the model's card, paper or name states them, each with how far we may be off: half of a unit of its last
// digit, and 1 where parts are counted that import leaves out.
struct Published {
  double total, margin, active = 0, active_margin = 0;  // active 0: a dense model
  Without without = Without::Nothing;
};

const std::map<std::string, Published> taken{
    {"dbrx", {132, .5, 36, .5}},
    {"deepseek-v2", {235.74, .005, 21, .5}},
    {"deepseek-v2-lite", {15.706, .0005, 2.4, .1, Without::Embedding}},
    {"deepseek-v3", {671.03, .005, 37, .5, Without::Embedding}},
    {"deepseek-v3.2", {671, 1, 37, .5, Without::Embedding}},
    {"ernie-4.5-21b-a3b", {21.8, .05, 3, .5, Without::Embedding}},
    {"gemma-4-26b-a4b", {25.2, .05, 3.8, .05}},
    {"glm-4.5", {355, 3, 32, 1, Without::Embedding}},  // with its MTP layer, without embedding and head
    {"glm-4.5-air", {106, 1, 12, 1, Without::Embedding}},
    {"glm-5", {743.911218, .000001, 40, 1, Without::Embedding}},  // safetensors
    {"glm-5.2", {743.377, .001, 40, 1, Without::Embedding}},      // safetensors, without its MTP layer
    {"gpt-oss-120b", {116.83, .005, 5.13, .005, Without::Embedding}},
    {"gpt-oss-20b", {20.91, .005, 3.61, .005, Without::Embedding}},
    {"granite-3.1-3b-a800m", {3.2988, .00005, .883, .0005}},
    {"granite-4.0-h-tiny", {7, .5, 1, .5, Without::Embedding}},
    {"grok-2", {270, .6, 115, .5}},
    {"hunyuan-a13b", {80, .5, 13, .5}},
    {"intellect-3", {106, 1, 12, 1, Without::Embedding}},
    {"jamba-v0.1", {51.6, .05, 12, .5}},
    {"jamba2-mini", {51.6, .05, 12, .5}},
    {"kimi-k2", {1030, 10, 32, .5, Without::Embedding}},
    {"kimi-k2.5", {1030, 10, 32, .5, Without::Embedding}},
    {"kimi-k3", {2800, 50, 104, .5, Without::Embedding}},
    {"kimi-linear-48b-a3b", {49, .5, 3, .5, Without::Ends}},  // its name says 48, its checkpoint has 49
    {"lfm2-8b-a1b", {8.3, .05, 1.5, .1}},
    {"ling-coder-lite", {16.8, .05, 2.75, .005}},
    {"llama-4-maverick", {400, 1, 17, .5}},
    {"llama-4-scout", {108, 1, 17, .5}},
    {"mimo-v2-flash", {309, .5, 15, .5}},
    {"minimax-m1", {456, .5, 45.9, .05, Without::Ends}},
    {"minimax-m2", {229, .5, 10, .5, Without::Embedding}},
    {"minimax-m2.5", {229, .5, 10, .5, Without::Embedding}},
    {"minimax-m3", {427.09, 1.5, 23, 2, Without::Embedding}},  // with the part that reads images
    {"mixtral-8x22b", {140.6, .05, 39, .5}},
    {"mixtral-8x7b", {46.7, .05, 12.9, .05}},
    {"nemotron-3-nano-30b-a3b", {31.57794, .000005, 3.6, .05}},    // safetensors
    {"nemotron-3-super-120b-a12b", {120.6687, .00005, 12.7, .1}},  // safetensors, without its MTP layer
    {"nemotron-3-ultra-550b-a55b", {550, 1, 55, .5, Without::Embedding}},
    {"olmoe-1b-7b", {6.919, .0005, 1.3, .05}},
    {"phi-3.5-moe", {41.9, .05, 6.6, .05}},
    {"qwen1.5-moe-a2.7b", {14.3, .05, 2.7, .05}},
    {"qwen2-57b-a14b", {57.41, .005, 14.2, .1}},
    {"qwen3-235b-a22b", {235, .5, 22, .5}},
    {"qwen3-30b-a3b", {30.5, .05, 3.3, .06}},
    {"qwen3-coder-480b-a35b", {480, .5, 35, .5}},
    {"qwen3-next-80b-a3b", {79.674391, .000001, 3.874929, .000001}},  // safetensors, of Qwen3-Coder-Next
    {"qwen3-vl-235b-a22b", {235, .5, 22, .5}},
    {"qwen3-vl-30b-a3b", {30.5, .05, 3.3, .06}},
    {"qwen3.5-122b-a10b", {122.1115, .0001, 10, .5}},  // safetensors, without the part that reads images
    {"qwen3.5-35b-a3b", {34.66061, .00001, 3, .5}},    // the same
    {"qwen3.5-397b-a17b", {397, 1, 17, .5}},
    {"snowflake-arctic", {480, 1.7, 17, .5}},
    {"step-3.7-flash", {196, 1, 11, .5}},
    {"baichuan2-7b", {7.5, .05}},
    {"exaone-3.0-7.8b", {7.8, .05}},
    {"exaone-4.0-32b", {32, .5}},
    {"gemma-2-27b", {27.2, .05}},
    {"gemma-3-1b", {1, .05}},
    {"gpt-neox-20b", {20.55, .005}},
    {"gpt2-xl", {1.5576, .00005}},
    {"internlm2-7b", {7.7, .05}},
    {"llama-3.1-405b", {405, 1}},
    {"llama-3.1-70b", {70.6, .05}},
    {"llama-3.2-3b", {3.21, .005}},
    {"mimo-7b", {7.6, .05}},
    {"nemotron-h-56b", {56, .5}},
    {"olmo-3.1-32b", {32.2, .05}},
    {"phi-3-small", {7.4, .05}},
    {"phi-4", {14.7, .05}},
    {"qwen2-vl-7b", {7.6, .05}},  // the part that reads text
    {"qwen2.5-72b", {72.7, .05}},
    {"qwen3-32b", {32.8, .05}},
    {"qwen3-8b", {8.2, .05}},
    {"qwen3.5-27b", {27, .5}},
};

// With a part of the answer.
const std::map<std::string, std::string> not_taken{
    {"deepseek-v4-flash", "/o_lora_rank: outputs of attention through a low rank"},
    {"deepseek-v4-pro", "/o_lora_rank: outputs of attention through a low rank"},
    {"gemma-3-27b", "missing key \"vocab_size\""},
    {"hunyuan-large", "/use_cla: layers that share keys and values are not built"},
    {"longcat-flash", "/zero_expert_num: experts that compute nothing are not built"},
    {"minicpm3-4b", "missing key \"v_head_dim\""},
    {"nemotron-super-49b", "/block_configs: layers that differ from each other are not built"},
};

double billions(const Parameters& p, Without without = Without::Nothing) {
  const std::int64_t embedding = without == Without::Nothing ? 0 : p.embedding;
  return static_cast<double>(p.total() - embedding - (without == Without::Ends ? p.head : 0)) * 1e-9;
}

ImportedModel imported(const std::string& name) {
  std::ifstream file(folder / name / "config.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return import_hf(JsonFile::parse(without_python_numbers(text), "config.json"), name);
}

std::string answer(const std::string& name) {
  try {
    imported(name);
  } catch (const InputError& error) {
    return error.what();
  }
  return "read";
}

}  // namespace

TEST_CASE("Real configs are read, and have as many parameters as published, or are refused with the reason") {
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) found.insert(entry.path().filename());
  CHECK(found.size() == taken.size() + not_taken.size());
  for (const auto& [name, published] : taken) {
    INFO(name);
    REQUIRE(answer(name) == "read");
    const Model model = imported(name).model;
    CHECK(billions(parameters(model)) == Approx(published.total).margin(published.margin).epsilon(0));
    if (published.active > 0)
      CHECK(billions(active_parameters(model), published.without) ==
            Approx(published.active).margin(published.active_margin).epsilon(0));
    else
      CHECK(model.dense());
  }
  for (const auto& [name, why] : not_taken) {
    INFO(name);
    CHECK_THAT(answer(name), Catch::Matchers::Contains(why));
  }
}
