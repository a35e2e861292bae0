// The shipped models against published sizes, and every model on every cluster.
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
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

TEST_CASE("Parameters of the shipped models add up to what is published") {
  struct Row {
    const char* model;
    double total;  // published, with embedding and output head
    const char* source;
  };
  for (const Row& row : {
           Row{"mixtral-8x7b", 46.7e9, "Mixtral of Experts (2024), Mistral AI's announcement: 46.7B"},
           Row{"mixtral-8x22b", 141e9, "Mistral AI's announcement of Mixtral 8x22B: 141B"},
           Row{"qwen1.5-moe-a2.7b", 14.3e9, "its model card: 14.3B"},
           Row{"qwen3-30b-a3b", 30.5e9, "its model card: 30.5B"},
           Row{"deepseek-v2", 236e9, "DeepSeek-V2 (2024): 236B"},
           Row{"deepseek-v3", 671e9, "DeepSeek-V3 (2024): 671B, without the multi-token prediction module"},
       }) {
    INFO(row.model << ": " << row.source);
    // One GPU holds all of it.
    const Experiment e = experiment("a800-8", row.model, {"cluster.gpus_per_node=1"});
    double layers = 0;
    for (int layer = 0; layer < e.model.layers; ++layer)
      layers += static_cast<double>(layer_volumes(e, layer).parameters());
    const double embeddings = 2.0 * e.model.vocabulary * e.model.hidden;  // none of the six ties them
    CHECK(layers + embeddings == Approx(row.total).epsilon(.01));
  }
}

TEST_CASE("Latent attention of DeepSeek-V3: parameters and work of a layer, by hand") {
  const Experiment e = experiment("a800-8", "deepseek-v3", {"cluster.gpus_per_node=1", "workload.sequence=1024"});
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
