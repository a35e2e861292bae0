// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/imported_parts.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/files/input_file.hpp"
#include "models/files/load.hpp"
#include "models/files/plan_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail::bench {
namespace {

using ImportJson = nlohmann::ordered_json;

constexpr std::int64_t most_gpus = 1'000'000'000;

[[noreturn]] void refuse_sizes(const std::string& place, const std::string& message) {
  throw InputError(Location{.file = place, .line = 0, .column = 0, .pointer = {}}, message);
}

int share(int whole, std::int64_t part, const std::string& place, const std::string& what) {
  if (part < 1 || whole % part != 0) refuse_sizes(place, what);
  return static_cast<int>(whole / part);
}

// One micro-batch has no other that it could overlap with.
void run_apart(Plan& plan, Unsaid& unsaid) {
  plan.scope = Scope::Layer;
  plan.pair_order = PairOrder::Alternate;
  plan.delay_weight_gradient = DelayedWeights::None;
  unsaid.notes.emplace_back("a step has one micro-batch, so that there is no other for it to overlap with");
}

}  // namespace

ImportedRanks imported_ranks(const ImportRequest& request, std::optional<int> nodes, std::optional<int> ranks_a_node) {
  ImportedRanks ranks{.cluster = request.cluster, .nodes = request.nodes};
  std::optional<std::int64_t> launched;
  if (nodes && ranks_a_node) launched = std::int64_t{*nodes} * *ranks_a_node;
  if (launched && *launched > most_gpus)
    throw InputError(fmt::format("{} ranks are launched, which no cluster has", *launched));
  if (request.cluster.empty()) {
    if (ranks.nodes == 0) ranks.nodes = nodes.value_or(0);
    if (ranks_a_node) ranks.total = ranks.nodes * *ranks_a_node;
    return ranks;
  }
  FilesRead files;
  WorkloadDefaults defaults;
  const Cluster cluster = load_cluster(request.cluster, defaults, files);
  if (ranks.nodes == 0 && launched) {
    if (*launched % cluster.gpus_per_node != 0)
      throw InputError(
          fmt::format("--cluster {}: the {} ranks that are launched do not fill nodes of {} GPUs; --nodes "
                      "COUNT says how many there are",
                      request.cluster, *launched, cluster.gpus_per_node));
    ranks.nodes = static_cast<int>(*launched / cluster.gpus_per_node);
  }
  if (ranks.nodes == 0) ranks.nodes = nodes.value_or(cluster.nodes);
  const std::int64_t total = std::int64_t{ranks.nodes} * cluster.gpus_per_node;
  if (total > most_gpus) throw InputError(fmt::format("--nodes {}: {} GPUs, which no cluster has", ranks.nodes, total));
  ranks.total = static_cast<int>(total);
  return ranks;
}

void add_sizes(const ImportedRanks& ranks, const ImportedSizes& sizes, const Model& model, Plan plan,
               const std::string& place, ImportJson& experiment, Unsaid& unsaid) {
  if (!ranks.cluster.empty()) experiment["cluster"] = ranks.cluster;
  if (ranks.nodes > 0) experiment["nodes"] = ranks.nodes;
  ImportJson groups{{"pp", sizes.pp}, {"mp", sizes.mp}, {"ep", sizes.ep}, {"esp", sizes.esp}};
  if (sizes.mp > 1 && sizes.sequence_parallel) groups["sequence_parallel"] = *sizes.sequence_parallel;
  if (!sizes.layout.empty()) groups["pipeline_layout"] = sizes.layout;
  ImportJson workload = experiment["workload"];
  const bool known = ranks.total > 0 && sizes.micro_batch > 0;
  int micro_batches = 1;
  if (ranks.total > 0) {
    const int dp =
        share(ranks.total, std::int64_t{sizes.pp} * sizes.mp, place,
              fmt::format("{} GPUs do not divide into groups of tp {} and pp {}", ranks.total, sizes.mp, sizes.pp));
    groups["dp"] = dp;
    groups["edp"] = model.dense() ? share(ranks.total, sizes.pp, place, "")
                                  : share(ranks.total, std::int64_t{sizes.pp} * sizes.ep * sizes.esp, place,
                                          fmt::format("{} GPUs do not divide into groups of ep {}, etp {} and pp {}",
                                                      ranks.total, sizes.ep, sizes.esp, sizes.pp));
    if (known) {
      const int together = sizes.global_batch > 0 ? sizes.global_batch : 0;
      micro_batches = together == 0
                          ? 1
                          : share(together, std::int64_t{dp} * sizes.micro_batch, place,
                                  fmt::format("a global batch of {} samples does not divide into micro-batches "
                                              "of {} on dp {}",
                                              together, sizes.micro_batch, dp));
      const std::int64_t batch = std::int64_t{micro_batches} * sizes.micro_batch;
      if (batch > most_gpus) refuse_sizes(place, fmt::format("{} samples of a group, which no step has", batch));
      workload["batch"] = batch;
      plan.micro_batches = micro_batches;
      if (plan.scope == Scope::Batch && micro_batches == 1) run_apart(plan, unsaid);
    }
  }
  if (!known && sizes.global_batch > 0) workload["global_batch"] = sizes.global_batch;
  if (!known && sizes.micro_batch > 0) workload[sizes.global_batch > 0 ? "micro_batch" : "batch"] = sizes.micro_batch;
  experiment["workload"] = std::move(workload);
  experiment["parallelism"] = std::move(groups);
  ImportJson knobs = to_json(plan);
  if (!known) knobs.erase("micro_batches");
  experiment["plan"] = std::move(knobs);
  if (known) return;
  unsaid.notes.emplace_back(sizes.micro_batch == 0
                                ? "no size of a micro-batch is given, so that the plan leaves the number of "
                                  "micro-batches open; commands need "
                                  "--system NAME too"
                                : "nothing says how many GPUs there are, so that the number of micro-batches is left "
                                  "open; --cluster NAME and "
                                  "--nodes COUNT make it whole, and commands need --system NAME until then");
}

ImportJson framework_with(const std::string& name, const std::map<std::string, bool>& options) {
  FilesRead files;
  const JsonFile file = read_input(framework_input, name, files);
  ImportJson framework = ImportJson::parse(file.text(), nullptr, true, true);
  bool differs = false;
  for (const auto& [option, on] : options) {
    nlohmann::ordered_json& own = framework["options"][option];
    differs = differs || own != on;
    own = on;
  }
  return differs ? framework : ImportJson(name);
}

void require_experiment(const ImportedRun& run, const std::string& file) {
  const JsonFile written = JsonFile::parse(to_experiment_file(run), "the experiment from " + file);
  shipped_schema("experiment").validate(written);
  const JsonReader reader(written);
  const JsonReader model = reader.at("model");
  if (model.value().is_object()) read_model(model);
  Plan plan;
  read_plan(reader.at("plan"), plan);
}

}  // namespace dovetail::bench
