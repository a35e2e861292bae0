// SPDX-License-Identifier: Apache-2.0
// One change at a time moves a real step the right way, and by an amount that trainings show.
#include <catch2/catch.hpp>

#include "bench/pipeline/evaluate.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

using Settings = std::vector<std::string>;

// Eight layers of Qwen3-30B-A3B on 16 H100 by Megatron-LM, which exchanges rows with all experts one to one: eight
// micro-batches of a sample unless the settings say otherwise. Later settings count.
double step_with(const Settings& settings = {}) {
  Options options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 2;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=8", "workload.batch=8",  "plan.micro_batches=8", "parallelism.ep=8",
                         "parallelism.mp=1",  "parallelism.esp=1", "plan.zero=1",          "plan.all_to_all=linear"};
  options.request.set.insert(options.request.set.end(), settings.begin(), settings.end());
  options.systems = {"megatron_lm"};
  const Question question = load_question(options);
  const Candidate& candidate = question.candidates.front();
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  return evaluation.evaluate(candidate, evaluation.choose(candidate)).metrics.makespan.value();
}

}  // namespace

TEST_CASE("One change at a time moves a step the right way and by a believable amount") {
  const double step = step_with();
  struct Change {
    Settings settings;
    double least, most;  // of the step
  };
  const auto [settings, least, most] = GENERATE(values<Change>({
      {{"plan.micro_batches=2"}, .75, .93},                           // four samples each
      {{"framework.options.permute_fusion=true"}, .9, .99},           // kernels and launches of the permutation
      {{"framework.options.cross_entropy_te_fusion=true"}, .8, .97},  // passes over the logits
      {{"plan.all_to_all=node_deduplicated"}, .85, .97},              // each row once to a node
      {{"plan.graphs=router"}, .9, 1},                                // launches of what graphs hold
      {{"plan.graphs=attention"}, .9, 1},
      {{"plan.recompute=norms"}, 1, 1.02},
      {{"plan.recompute=activation"}, 1, 1.03},
      {{"plan.recompute=attention"}, 1.01, 1.08},
      {{"plan.recompute=moe"}, 1.05, 1.35},
      {{"parallelism.mp=2", "workload.batch=16"}, 1.01, 1.15},  // as many samples in all
      {{"parallelism.mp=8", "workload.batch=64"}, 1.08, 1.5},
      {{"calibration.host.launch=24 us"}, 1.1, 1.6},  // 2.4 us
      {{"framework=bare"}, .6, .9},
  }));
  INFO(settings.front());
  CHECK(step_with(settings) / step >= least);
  CHECK(step_with(settings) / step <= most);
}

TEST_CASE("What a framework adds to a step counts for less where micro-batches are larger") {
  const auto share_of_framework = [](Settings settings) {
    const double step = step_with(settings);
    settings.push_back("framework=bare");
    return 1 - step_with(settings) / step;
  };
  const double small = share_of_framework({}), large = share_of_framework({"plan.micro_batches=2"});
  CHECK(large < small);
}
