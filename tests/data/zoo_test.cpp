// SPDX-License-Identifier: Apache-2.0
// The shipped models against published sizes, and every model on every cluster.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/question/parameters.hpp"
#include "models/question/volumes.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;

namespace {

Experiment experiment(const std::string& cluster, const std::string& model, const std::vector<std::string>& set,
                      int nodes = 0) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = model;
  request.set = set;
  request.nodes = nodes;
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace

TEST_CASE("Parameters of the shipped models are as many as those of their checkpoints") {
  // Sums of the sizes of all tensors of the checkpoints on Hugging Face, as their safetensors metadata has them.
  const std::map<std::string, std::int64_t> published{
      {"mixtral-8x7b", 46'702'792'704},             // mistralai/Mixtral-8x7B-v0.1
      {"mixtral-8x22b", 140'620'634'112},           // mistral-community/Mixtral-8x22B-v0.1
      {"qwen1.5-moe-a2.7b", 14'315'784'192},        // Qwen/Qwen1.5-MoE-A2.7B
      {"qwen3-30b-a3b", 30'532'122'624},            // Qwen/Qwen3-30B-A3B
      {"qwen3-235b-a22b", 235'093'634'560},         // Qwen/Qwen3-235B-A22B
      {"olmoe-1b-7b", 6'919'161'856},               // allenai/OLMoE-1B-7B-0924
      {"deepseek-v2", 235'741'434'880},             // deepseek-ai/DeepSeek-V2
      {"deepseek-v2-lite", 15'706'484'224},         // deepseek-ai/DeepSeek-V2-Lite
      {"llama-3.1-8b", 8'030'261'248},              // meta-llama/Llama-3.1-8B
      {"deepseek-v3", 671'026'419'200},             // deepseek-ai/DeepSeek-V3, without its MTP layer and scales of fp8
      {"granite-3.1-3b-a800m", 3'298'788'864},      // ibm-granite/granite-3.1-3b-a800m-base
      {"qwen3-next-80b-a3b", 79'674'391'296},       // of Qwen/Qwen3-Coder-Next, which has the same sizes
      {"qwen3.5-35b-a3b", 34'660'610'688},          // without the part that reads images, 446,571,248
      {"nemotron-3-nano-30b-a3b", 31'577'940'288},  // nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
      {"nemotron-3-super-120b-a12b", 120'668'707'840},  // 123,611,033,088, without MTP's 2,942,325,248
      {"glm-5", 743'911'218'432},                       // zai-org/GLM-5, without its MTP layer
  };
  // Billions that model cards and papers state, with half a unit of their last digit.
  const std::map<std::string, std::pair<double, double>> rounded{
      {"kimi-k2", {1030, 10}},             // Kimi K2: 1.03 to 1.04 trillion
      {"glm-4.5-air", {106, 1}},           // GLM-4.5, table 1
      {"gpt-oss-120b", {116.83, .005}},    // gpt-oss model card, table 1
      {"gpt-oss-20b", {20.91, .005}},      // the same
      {"llama-4-scout", {108, 1}},         // model card: 109, with some .9 of the part that reads images
      {"llama-4-maverick", {400, 1}},      // model card: 400
      {"dbrx", {132, .5}},                 // model card
      {"phi-3.5-moe", {41.9, .05}},        // model card
      {"hunyuan-a13b", {80, .5}},          // README: 80
      {"minimax-m2", {229, .5}},           // checkpoint: 229; README: 230
      {"qwen2-57b-a14b", {57.41, .005}},   // Qwen2 Technical Report
      {"llama-3.1-70b", {70.6, .05}},      // The Llama 3 Herd of Models
      {"ernie-4.5-21b-a3b", {21.8, .05}},  // checkpoint: 21.8 in all
      {"ernie-4.5-300b-a47b", {300, 1}},   // its name
      {"qwen3.5-397b-a17b", {397, 1}},     // its name, with the part that reads images
      {"kimi-k2.5", {1030, 10}},           // as Kimi K2
      {"deepseek-v3.2", {671, 1}},         // as DeepSeek-V3, and .85 of its index
      {"minimax-m2.5", {229, .5}},         // as MiniMax-M2
      {"minimax-m1", {456, .5}},           // model card of MiniMax-Text-01
      {"kimi-linear-48b-a3b", {49, .5}},   // checkpoint: 49
      {"jamba2-mini", {51.6, .05}},        // checkpoint
      {"mimo-v2-flash", {309, .5}},        // model card
      {"gemma-4-26b-a4b", {25.2, .05}},    // model card
      {"step-3.7-flash", {196, 1}},        // model card of Step-3.5-Flash
  };
  // Models of papers, which publish no exact number, and GPT-2 with experts, which has no checkpoint.
  const std::set<std::string> unpublished{"ampipe-base", "ampipe-large",  "ampipe-medium", "ampipe-xl",
                                          "gpt2-xl-moe", "gpt2-xl-moe-6", "moe-bert-l",    "moe-gpt3-s",
                                          "moe-gpt3-xl", "swinv2-moe-b",  "tutel-layer"};
  for (const std::string& name : known_names("models")) {
    INFO(name);
    FilesRead files;
    const Model model = load_model(name, files);
    if (const auto total = published.find(name); total != published.end()) {
      CHECK(parameters(model).total() == total->second);
    } else if (const auto about = rounded.find(name); about != rounded.end()) {
      const auto [billions, margin] = about->second;
      CHECK(static_cast<double>(parameters(model).total()) * 1e-9 == Approx(billions).margin(margin));
    } else if (name == "glm-4.5") {  // its paper counts the MTP layer, but neither embedding nor output head
      const Parameters all = parameters(model);
      CHECK(static_cast<double>(all.total() + all.mtp - all.embedding - all.head) * 1e-9 == Approx(355).margin(.5));
    } else {
      CHECK(unpublished.contains(name));
    }
  }
}

TEST_CASE("Parameters of a token are those that papers state") {
  const auto billions = [](const char* name) {
    FilesRead files;
    return static_cast<double>(active_parameters(load_model(name, files)).total()) * 1e-9;
  };
  CHECK(billions("mixtral-8x7b") == Approx(12.9).margin(.05));    // Mixtral of Experts (2024)
  CHECK(billions("mixtral-8x22b") == Approx(39).margin(.5));      // Mistral AI's announcement
  CHECK(billions("qwen3-30b-a3b") == Approx(3.3).margin(.06));    // its model card
  CHECK(billions("qwen3-235b-a22b") == Approx(22).margin(.5));    // its model card
  CHECK(billions("olmoe-1b-7b") == Approx(1.3).margin(.05));      // OLMoE (2024)
  CHECK(billions("deepseek-v2") == Approx(21).margin(.5));        // DeepSeek-V2 (2024): 21B
  CHECK(billions("deepseek-v2-lite") == Approx(2.4).margin(.3));  // the same, without the embedding's lookup
  CHECK(billions("deepseek-v3") == Approx(37).margin(.6));        // DeepSeek-V3 (2024): 37B
  CHECK(billions("dbrx") == Approx(36).margin(.5));               // its model card
  CHECK(billions("phi-3.5-moe") == Approx(6.6).margin(.05));      // its model card
  CHECK(billions("hunyuan-a13b") == Approx(13).margin(.5));       // its README
  CHECK(billions("qwen2-57b-a14b") == Approx(14.2).margin(.1));   // Qwen2 Technical Report: 14B
  CHECK(billions("granite-3.1-3b-a800m") == Approx(.883).margin(.0005));
  CHECK(billions("ernie-4.5-300b-a47b") == Approx(47).margin(1));  // its name
  CHECK(billions("qwen3-next-80b-a3b") == Approx(3.874929408));    // total less the experts of other tokens
  CHECK(billions("nemotron-3-super-120b-a12b") == Approx(12.770).margin(.0005));  // the same
}

TEST_CASE("Parameters of a token without its embedding, as some model cards count") {
  const auto billions = [](const char* name) {
    FilesRead files;
    const Parameters p = active_parameters(load_model(name, files));
    return static_cast<double>(p.total() - p.embedding) * 1e-9;
  };
  CHECK(billions("gpt-oss-120b") == Approx(5.13).margin(.005));  // gpt-oss model card, table 1
  CHECK(billions("gpt-oss-20b") == Approx(3.61).margin(.005));   // the same
  CHECK(billions("kimi-k2") == Approx(32).margin(.5));           // its README
  CHECK(billions("minimax-m2") == Approx(10).margin(.5));        // its README
  CHECK(billions("llama-4-scout") == Approx(17).margin(1));      // its model card
  CHECK(billions("llama-4-maverick") == Approx(17).margin(1));   // its model card
  CHECK(billions("glm-4.5-air") == Approx(12).margin(1));        // GLM-4.5, table 1
  CHECK(billions("ernie-4.5-21b-a3b") == Approx(3).margin(.5));  // its model card
}

TEST_CASE("Latent attention of DeepSeek-V3: parameters and work of a layer, by hand") {
  const Experiment e =
      experiment("a800-8", "deepseek-v3", {"cluster.gpus_per_node=1", "workload.batch=1", "workload.sequence=1024"});
  const LayerVolumes v = layer_volumes(e, 0);
  const std::int64_t q = 7168LL * 1536 + 1536LL * 128 * (128 + 64);         // down, up
  const std::int64_t kv = 7168LL * (512 + 64) + 512LL * 128 * (128 + 128);  // with the shared rope key; keys and values
  const std::int64_t output = 128LL * 128 * 7168;
  CHECK(v.attention_parameters == q + kv + output);
  CHECK(v.ffn_parameters == 3LL * 7168 * 18432);
  CHECK(v.router_parameters + v.expert_parameters == 0);                                // dense
  CHECK(v.attention_score_flops.value() == 2.0 * 1024 * 1024 * 128 * (192 + 128) / 2);  // scores, values; causal
  CHECK(v.projected_width == 128 * (192 + 192 + 128));
  // Over 8 ranks each holds 16 heads, but all of the projections down to the ranks.
  Experiment shared = e;
  shared.parallelism.mp = 8;
  CHECK(layer_volumes(shared, 0).attention_parameters ==
        7168LL * 1536 + 7168LL * 576 + (1536LL * 128 * 192 + 512LL * 128 * 256 + output) / 8);
  CHECK(layer_volumes(shared, 3).ffn_parameters == 3LL * 7168 * 2048 / 8);  // one shared expert
}

TEST_CASE("Every model on every cluster builds, validates and has a price") {
  for (const std::string& cluster : known_names("clusters"))
    for (const std::string& model : known_names("models")) {
      INFO(model << " on " << cluster);
      Experiment e = experiment(cluster, model, {});
      e.workload.layers =
          std::min(e.workload.layers, e.model.first_moe() + 2);  // a dense layer too, where there is one
      const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
      CHECK_NOTHROW(validate(*schedule));
      std::vector<double> scratch;
      CHECK(analytic_makespan(price(schedule, e), scratch) > Seconds(0));
      CHECK(find_copy(*e.calibration).beta > SecondsPerByte(0));
    }
}

TEST_CASE("Clusters of another size: ndv4 up to 512 nodes") {
  for (int nodes : {1, 2, 64, 512}) {
    const Experiment e = experiment("ndv4", "mixtral-8x7b", {"parallelism.count_per_node=1"}, nodes);
    CHECK(e.cluster.gpus() == 8 * nodes);
    CHECK(e.parallelism.ep == 8 * nodes);
    CHECK(e.model.experts == 8 * nodes);
  }
}

TEST_CASE("Tutel's placement sets experts and groups, and refuses what contradicts it") {
  const auto place = [](const std::string& count, const std::string& more = "workload.layers=1") {
    return experiment("ndv4", "mixtral-8x7b", {"parallelism.count_per_node=" + count, more});
  };
  const Experiment two = place("2");  // 16 GPUs
  CHECK(two.model.experts == 32);
  CHECK(two.parallelism.ep == 16);
  CHECK(two.parallelism.esp == 1);
  CHECK(two.parallelism.edp == 1);
  const Experiment halves = place("-2");
  CHECK(halves.model.experts == 8);
  CHECK(halves.parallelism.ep == 8);
  CHECK(halves.parallelism.esp == 2);
  CHECK_NOTHROW(place("-2", "parallelism.ep=8"));
  CHECK_THROWS_WITH(place("0"), Catch::Contains("count_per_node=0: 0, expected experts on each GPU"));
  CHECK_THROWS_WITH(place("-3"), Catch::Contains("-3: 3 GPUs do not divide the cluster's 16"));
  CHECK_THROWS_WITH(place("-2", "parallelism.ep=4"),
                    Catch::Contains("ep=4: contradicts count_per_node -2 on 16 GPUs, which is ep 8"));
  CHECK_THROWS_WITH(place("1", "parallelism.esp=2"), Catch::Contains("which is esp 1"));
}
