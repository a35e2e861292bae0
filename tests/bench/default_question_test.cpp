// SPDX-License-Identifier: Apache-2.0
// The question where the user says nothing is the one that people train, in each system's own way.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "bench/pipeline/answer.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/tune.hpp"
#include "models/time/analytic_backend.hpp"
#include "reports/answer/table.hpp"
#include "reports/flags/frameworks.hpp"
#include "reports/text/format.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

Options question_of(const std::string& model, int nodes, std::vector<std::string> set = {},
                    const std::string& cluster = "dgx-h100") {
  Options options;
  options.request.cluster = cluster;
  options.request.nodes = nodes;
  options.request.model = model;
  options.request.set = std::move(set);
  return options;
}

Question asked(const std::string& model, std::vector<std::string> set = {}, const std::string& cluster = "dgx-h100") {
  return load_question(question_of(model, 2, std::move(set), cluster));
}

bool notes(const Question& question, const std::string& what) {
  return std::ranges::any_of(question.notes, [&](const std::string& note) { return note.find(what) != note.npos; });
}

// The plan that a system takes, and its time.
SystemResult taken(Options options, const std::string& system) {
  options.systems = {system};
  const Question question = load_question(options);
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  return evaluation.evaluate(question.candidates.front(), evaluation.choose(question.candidates.front()));
}

}  // namespace

TEST_CASE("Models that are trained dropless are asked about so, testbeds of papers keep their capacity") {
  const Workload trained = asked("qwen3-30b-a3b").experiment.workload;
  CHECK(trained.capacity_factor == 0);
  CHECK(trained.message_sizes == MessageSizes::Routed);
  const Question paper = asked("qwen3-30b-a3b", {"workload.layers=2"}, "fsmoe-testbed-b");
  CHECK(paper.experiment.workload.capacity_factor == 1.2);
  CHECK(paper.experiment.workload.message_sizes == MessageSizes::Padded);
  CHECK(paper.experiment.parallelism.esp == 4);
  // A model that says nothing of it.
  CHECK(asked("gpt2-xl-moe").experiment.workload.capacity_factor == 1.2);
}

TEST_CASE("One half of how tokens are sent, once said, decides the other") {
  CHECK(asked("qwen3-30b-a3b", {"workload.capacity_factor=1.25"}).experiment.workload.message_sizes ==
        MessageSizes::Padded);
  CHECK(asked("qwen3-30b-a3b", {"workload.capacity_factor=0"}).experiment.workload.message_sizes ==
        MessageSizes::Routed);
  CHECK(asked("qwen3-30b-a3b", {"workload.message_sizes=padded"}).experiment.workload.capacity_factor == 0);
  const Question fp8 = asked("qwen3-30b-a3b", {"workload.products=fp8"});
  CHECK(fp8.experiment.workload.message_sizes == MessageSizes::Routed);  // also where products are narrower
}

TEST_CASE("Groups that nobody gives share as little as the memory allows, and a note says which they are") {
  const Question question = asked("qwen3-30b-a3b");
  CHECK(question.experiment.parallelism.esp == 1);
  CHECK(question.experiment.parallelism.ep == 16);
  CHECK(notes(question, "nobody gave all groups: mp 2, ep 16, esp 1"));
  CHECK(asked("qwen3-30b-a3b", {"parallelism.mp=1", "parallelism.ep=8"}).experiment.parallelism.edp == 2);
  Options options = question_of("qwen3-30b-a3b", 2, {"parallelism.mp=2"});
  options.request.esp_follows_mp = true;  // it was written as tp
  CHECK(load_question(options).experiment.parallelism.esp == 2);
  CHECK(notes(load_question(options), "esp 2: etp follows tp, as in Megatron-LM"));
}

TEST_CASE("Prediction layers are trained with the whole model alone, and the header says so") {
  const auto header = [](const std::vector<std::string>& set) {
    return reports::experiment_lines(asked("glm-4.5-air", set).experiment)[1];
  };
  CHECK_THAT(header({}), Contains("46 layers + 1 of multi-token prediction") && Contains("128 experts, dropless"));
  CHECK_THAT(header({"workload.layers=4"}), Contains("4 of 46 layers without multi-token prediction"));
  CHECK_THAT(reports::experiment_lines(asked("deepseek-v3", {"workload.layers=4"}).experiment)[1],
             Contains("top 8 of 256 experts in 4 of 8 groups"));
}

TEST_CASE("Every shipped system answers the default question, dropless or with padded messages") {
  const Question question = load_question(question_of("qwen3-30b-a3b", 1, {"workload.layers=2"}));
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  for (const Candidate& candidate : question.candidates) {
    INFO(candidate.system.name);
    if (candidate.system.plan.pipeline().halves) continue;  // they ask for stages
    const SystemResult result = evaluation.evaluate(candidate, evaluation.choose(candidate));
    const bool routed = result.schedule->routed;
    CHECK(routed == !result.plan.pad_messages);
    if (candidate.system.name == "megatron_lm") {
      CHECK(routed);
      CHECK(result.plan.expert_kernel == ExpertKernel::Grouped);
      CHECK(result.plan.scores_at == ScoresAt::Experts);
    }
    if (candidate.system.name == "tutel") CHECK_FALSE(routed);
  }
}

TEST_CASE("tune says what it asks, and asks the same where the user says it") {
  TuneOptions options;
  static_cast<Options&>(options) = question_of("qwen3-30b-a3b", 2, {"workload.layers=8"});
  options.systems = {"megatron_lm"};
  options.global_batch = 64;
  options.sequence = 2048;
  options.draws = 0;
  options.explain = false;
  const Report open = tune(load_tune_question(options), options, {});
  std::ostringstream text;
  reports::write_table(text, open, false, true);
  CHECK_THAT(text.str(), Contains("8 of 48 layers, 64 samples of 2048 tokens, top 8 of 128 experts, dropless, bf16"));
  options.request.set.insert(options.request.set.end(),
                             {"workload.capacity_factor=0", "workload.message_sizes=routed"});
  const Report said = tune(load_tune_question(options), options, {});
  CHECK(said.results.front().metrics.makespan == open.results.front().metrics.makespan);
  CHECK(said.tuning->systems.front().own.metrics.makespan == open.tuning->systems.front().own.metrics.makespan);
}

// As many micro-batches as stages: by 1f1b and by gpipe the step takes as long.
TEST_CASE("megatron_lm takes what Megatron-LM has, in ties too") {
  Options options = question_of("glm-4.5-air", 8,
                                {"workload.batch=8", "workload.sequence=4096",
                                 R"(parallelism={"pp": 4, "dp": 2, "mp": 8, "ep": 16, "esp": 1, "edp": 1})",
                                 "plan.micro_batches=4", "plan.recompute=full"});
  const SystemResult result = taken(options, "megatron_lm");
  CHECK(result.plan.pipeline_schedule != pipeline_schedule("gpipe"));
  const Question question = load_question(options);
  CHECK(reports::flags_for(reports::Framework::Megatron, question.experiment, result.plan).cannot.empty());
}

// A pipeline is planned on few of its micro-batches, whose number the user has fixed for the whole step.
TEST_CASE("megatron_lm is planned where micro-batch, batch and stages are given") {
  const Options options = question_of("qwen3-30b-a3b", 2,
                                      {"workload.layers=8", "parallelism.pp=4", "parallelism.mp=1", "parallelism.ep=4",
                                       "parallelism.esp=1", "workload.micro_batch=1", "workload.global_batch=128"});
  const SystemResult result = taken(options, "megatron_lm");
  CHECK(result.plan.micro_batches == 32);
  CHECK_THAT(result.planner.reason, Contains("planned on 8 of the micro-batches"));
}

TEST_CASE("How one system sends tokens decides nothing for another") {
  const std::vector<std::string> groups{R"(parallelism={"mp": 2, "ep": 8, "esp": 2})", "workload.layers=2"};
  Question question = load_question(question_of("mixtral-8x7b", 2, groups));
  const auto padding =
      std::ranges::find(question.candidates, "tutel", [](const Candidate& c) { return c.system.name; });
  Candidate repeats = *padding, routes = *padding;
  repeats.system.sequence_parallel = routes.system.sequence_parallel = false;
  routes.system.plan.pad_messages = false;
  repeats.file = routes.file = "user";
  const auto time_of = [&](std::initializer_list<const Candidate*> order, const Candidate& asked) {
    AnalyticBackend backend;
    Evaluation evaluation(question, backend);
    Seconds time;
    for (const Candidate* each : order) {
      const Seconds its = evaluation.evaluate(*each, evaluation.choose(*each)).metrics.makespan;
      if (each == &asked) time = its;
    }
    return time;
  };
  CHECK(time_of({&repeats, &routes}, routes) == time_of({&routes, &repeats}, routes));
  CHECK(time_of({&repeats, &routes}, repeats) == time_of({&routes, &repeats}, repeats));
}

TEST_CASE("A padded question is no question to Megatron-LM, and the export says so") {
  const SystemResult padded =
      taken(question_of("qwen3-30b-a3b", 2, {"workload.layers=2", "workload.message_sizes=padded"}), "megatron_lm");
  const Question question = asked("qwen3-30b-a3b", {"workload.layers=2", "workload.message_sizes=padded"});
  const reports::FrameworkFlags flags =
      reports::flags_for(reports::Framework::Megatron, question.experiment, padded.plan);
  CHECK_FALSE(flags.whole());
  CHECK(flags.taken.messages == MessageSizes::Routed);
  CHECK(std::ranges::any_of(flags.cannot, [](const std::string& line) { return line.starts_with("workload.mess"); }));
}

TEST_CASE("A grouped kernel of padded messages is a batched one, and a note says so") {
  Options options = question_of("qwen3-30b-a3b", 1, {"workload.layers=2", "plan.expert_kernel=grouped"});
  options.systems = {"tutel", "megatron_lm"};
  const Question question = load_question(options);
  CHECK(notes(question, "plan.expert_kernel grouped: messages of tutel are padded"));
  CHECK(notes(question, "have room for the fullest expert's rows in tutel"));
}

TEST_CASE("Plans of the presets that have an export can be exported whole") {
  for (const auto& [system, framework] : {std::pair{"megatron_lm", reports::Framework::Megatron},
                                          {"deepspeed_moe", reports::Framework::DeepSpeed},
                                          {"tutel", reports::Framework::Tutel}})
    for (const char* groups :
         {R"(parallelism={"mp": 1, "ep": 8, "esp": 1})", R"(parallelism={"mp": 4, "ep": 8, "esp": 1})",
          R"(parallelism={"pp": 2, "mp": 2, "ep": 4, "esp": 2})"}) {
      const Options options =
          question_of("qwen3-30b-a3b", 2, {"workload.layers=4", "workload.batch=4", "workload.sequence=2048", groups});
      const SystemResult result = taken(options, system);
      INFO(system << " " << groups);
      for (const std::string& line :
           reports::flags_for(framework, load_question(options).experiment, result.plan).cannot) {
        INFO(line);
        CHECK_FALSE(line.starts_with("plan."));
      }
    }
}

TEST_CASE("Tokens are gathered again under megatron_lm where model-parallel ranks share them") {
  const auto gathers_again = [](const char* mp) {
    return taken(question_of("qwen3-30b-a3b", 1, {"workload.layers=2", mp}), "megatron_lm")
        .plan.recompute.has(Recompute::MpGather);
  };
  CHECK(gathers_again("parallelism.mp=2"));
  CHECK_FALSE(gathers_again("parallelism.mp=1"));
}

// Its gradients have communicators of their own, so that all-to-alls of the last micro-batch do not wait behind them.
TEST_CASE("Under megatron_lm overlap of gradients delays no stage") {
  const std::vector<std::string> base{"workload.layers=16",
                                      "workload.batch=16",
                                      "workload.sequence=4096",
                                      R"(parallelism={"pp": 8, "mp": 1, "ep": 8, "esp": 1})",
                                      "plan.pipeline_schedule=1f1b",
                                      "plan.micro_batches=16",
                                      "plan.parameter_gather=after_update"};
  const auto step = [&](const char* sync) {
    std::vector<std::string> set = base;
    set.emplace_back(sync);
    return taken(question_of("qwen3-30b-a3b", 16, set), "megatron_lm").metrics.makespan;
  };
  CHECK(step("plan.grad_sync=with_dense") <= step("plan.grad_sync=after") * 1.02);
}

TEST_CASE("Dropless experts in shards apply scores as Megatron-LM does") {
  const std::vector<std::string> set{"workload.batch=16", "workload.sequence=2048", "workload.layers=2",
                                     R"(parallelism={"pp": 1, "dp": 8, "mp": 2, "ep": 8, "esp": 2, "edp": 1})",
                                     "plan.micro_batches=16"};
  const SystemResult result = taken(question_of("mixtral-8x7b", 2, set), "megatron_lm");
  CHECK(result.plan.scores_at == ScoresAt::Experts);
  CHECK(std::ranges::any_of(result.schedule->ops, [](const Op& op) { return op.kind == OpKind::GatherScores; }));
}
