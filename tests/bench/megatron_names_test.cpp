// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/megatron_names.hpp"

#include <catch2/catch.hpp>

#include "bench/pipeline/evaluate.hpp"
#include "models/base/errors.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Question asked(const std::vector<std::string>& settings) {
  Options options;
  options.request.cluster = "dgx-h100";
  options.request.model = "mixtral-8x7b";
  options.systems = {"megatron_lm"};
  for (const std::string& setting : settings)
    for (const std::string& ours : without_megatron_names(setting)) options.request.set.push_back(ours);
  return load_question(options);
}

std::string refusal_of(const std::vector<std::string>& settings) {
  try {
    const Question question = asked(settings);
    AnalyticBackend backend;
    Evaluation(question, backend).choose(question.candidates.front());
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Megatron-LM's tensor parallelism of experts follows that of the dense part") {
  for (const char* setting : {"tp=2", "TP=2", "parallelism.tp=2", "tensor_model_parallel_size=2"})
    CHECK(sets_tensor_parallelism(setting));
  for (const char* setting : {"mp=2", "parallelism.mp=2", "etp=2", "ep=2", "plan.tp=2", "tp_something=2"})
    CHECK_FALSE(sets_tensor_parallelism(setting));
}

TEST_CASE("Megatron-LM's names mean our settings") {
  using Settings = std::vector<std::string>;
  CHECK(without_megatron_names("tp=8") == Settings{"parallelism.mp=8"});
  CHECK(without_megatron_names("parallelism.etp=2") == Settings{"parallelism.esp=2"});
  CHECK(without_megatron_names("vpp=4") == Settings{"plan.virtual_stages=4", "plan.pipeline_schedule=interleaved"});
  CHECK(without_megatron_names("vpp=1") == Settings{"plan.virtual_stages=1"});
  for (const char* mp : {"mp=8", "TP=8", "tensor_model_parallel_size=8", "tensor-model-parallel-size=8"})
    CHECK(without_megatron_names(mp) == Settings{"parallelism.mp=8"});
  CHECK(without_megatron_names("esp=2") == Settings{"parallelism.esp=2"});
  for (const char* ours : {"parallelism.mp=8", "workload.batch=4", "parallelism.mbs=2", "tp", "model.tp=2"})
    CHECK(without_megatron_names(ours) == Settings{ours});
  CHECK(megatron_setting("--expert-model-parallel-size") == "ep=N");
  CHECK(megatron_setting("--tp") == "tp=N");
  CHECK(megatron_setting("--nodes").empty());
}

TEST_CASE("Options of Megatron-LM that say what overlaps are given, or taken back") {
  using Settings = std::vector<std::string>;
  CHECK(without_megatron_names("overlap_moe_expert_parallel_comm=true") == Settings{"plan.scope=batch"});
  CHECK(without_megatron_names("overlap-moe-expert-parallel-comm=false") == Settings{"plan.scope=layer"});
  CHECK(without_megatron_names("plan.delay_wgrad_compute=true") == Settings{"plan.delay_weight_gradient=all"});
  CHECK(without_megatron_names("ep_overlap_early_attn_memory_release=true") ==
        Settings{"plan.pair_order=attention_early"});
  CHECK(without_megatron_names("overlap_dispatch_backward_with_experts_wgrad=true") ==
        Settings{"plan.delay_weight_gradient=expert"});
  CHECK(without_megatron_names("moe_shared_expert_overlap=true") == Settings{"plan.shared_experts=overlapped"});
  CHECK(without_megatron_names("parallelism.delay_wgrad_compute=true") ==
        Settings{"parallelism.delay_wgrad_compute=true"});
  CHECK_THROWS_WITH(without_megatron_names("delay_wgrad_compute=all"),
                    "--set delay_wgrad_compute=all: \"all\", expected true or false");
  CHECK(megatron_setting("--delay-wgrad-compute") == "delay_wgrad_compute=true");
  const Question question = asked({"pp=2", "ep=8", "gbs=512", "vpp=2", "overlap_moe_expert_parallel_comm=true",
                                   "delay_wgrad_compute=true", "ep_overlap_early_attn_memory_release=true"});
  AnalyticBackend backend;
  const Plan plan = Evaluation(question, backend).choose(question.candidates.front()).plan;
  CHECK(plan.scope == Scope::Batch);
  CHECK(plan.delay_weight_gradient == DelayedWeights::All);
  CHECK(plan.pair_order == PairOrder::AttentionEarly);
}

TEST_CASE("Values of other frameworks mean ours, or are not built yet") {
  using Settings = std::vector<std::string>;
  CHECK(without_megatron_names("plan.recompute=moe_act") == Settings{"plan.recompute=activation"});
  CHECK(without_megatron_names(R"(recompute_modules=["core_attn", "layernorm", "mlp", "moe"])") ==
        Settings{R"(plan.recompute=["attention","norms","dense_ffn","moe"])"});
  const Settings deepep{"plan.all_to_all=node_deduplicated", "plan.scores_at=experts", "plan.pad_messages=false"};
  for (const char* theirs : {"plan.all_to_all=deepep", "dispatcher=hybridep", "moe_token_dispatcher_type=flex"})
    CHECK(without_megatron_names(theirs) == deepep);
  CHECK(without_megatron_names("plan.all_to_all=node_deduplicated") == Settings{"plan.all_to_all=node_deduplicated"});
  CHECK(without_megatron_names("recompute_modules=layernorm moe_act") ==
        Settings{R"(plan.recompute=["norms","activation"])"});
  CHECK(without_megatron_names("plan.dispatcher=alltoall") == Settings{"plan.all_to_all=linear"});
  for (const char* ours : {"plan.recompute=full", R"(plan.recompute=["norms", "moe"])", "plan.zero=1", "plan.zero=x"})
    CHECK(without_megatron_names(ours) == Settings{ours});
  CHECK_THROWS_WITH(without_megatron_names("plan.zero=3"), "--set plan.zero=3: zero 3 is not built yet; built: 0 to 1");
  CHECK_THROWS_WITH(without_megatron_names("dispatcher=allgather"), Catch::Contains("allgather is not built yet"));
}

TEST_CASE("Megatron-LM's batches become samples of a group and micro-batches") {
  // 8 nodes x 8 GPUs in pp 4 x mp 2 x dp 8: 256 / 8 = 32 samples for a group, in 32 / 2 = 16 micro-batches.
  const Question question = asked({"pp=4", "tp=2", "ep=8", "etp=1", "gbs=256", "mbs=2"});
  CHECK(question.experiment.parallelism.dp == question.experiment.cluster.gpus() / 8);
  CHECK(question.experiment.workload.batch == 256 / question.experiment.parallelism.dp);
  AnalyticBackend backend;
  const planners::PlanChoice choice = Evaluation(question, backend).choose(question.candidates.front());
  CHECK(choice.plan.micro_batches == question.experiment.workload.batch / 2);
}

TEST_CASE("Megatron-LM's batches that contradict something are refused") {
  CHECK(refusal_of({"tp=1", "etp=1", "gbs=7"}).find("7 samples do not divide over dp") != std::string::npos);
  CHECK(refusal_of({"gbs=64", "workload.batch=2"}).find("given beside batch") != std::string::npos);
  CHECK(refusal_of({"workload.batch=4", "mbs=3"}).find("3 do not divide the 4 samples") != std::string::npos);
  CHECK(refusal_of({"workload.batch=4", "mbs=2", "plan.micro_batches=2"}).find("given beside plan.micro_batches") !=
        std::string::npos);
}
