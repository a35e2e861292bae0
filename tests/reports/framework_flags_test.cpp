// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "reports/flags/frameworks.hpp"
#include "tests/reports/exported_plans.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::reports;
using Catch::Matchers::Contains;
using test::usual_plan;

namespace {

// 16 GPUs in pp 2 x mp 2 x dp 4 and ep 4 x esp 2, 4 layers, 8 samples of a group in 4 micro-batches.
Experiment laid_out() {
  Experiment e = test::round_numbers(4);
  e.cluster.nodes = 8;
  e.parallelism = {.dp = 4, .mp = 2, .ep = 4, .esp = 2, .pp = 2, .edp = 1};
  e.workload.dtype = DType::Bf16;
  e.workload.gradients = DType::Fp32;
  e.workload.batch = 8;
  return e;
}

std::string printed(Framework framework, const Plan& plan) {
  std::ostringstream out;
  write_flags(out, flags_for(framework, laid_out(), plan));
  return out.str();
}

}  // namespace

TEST_CASE("flags of Megatron-LM, written out") {
  // 8 samples of a group in 4 micro-batches: 2 each; 8 x dp 4 = 32 in all. 4 layers divide over pp 2 x 2 stages.
  Plan plan = usual_plan();
  plan.pipeline_schedule = pipeline_schedule("interleaved");
  plan.virtual_stages = 2;
  plan.grad_sync = GradSync::WithDense;
  plan.parameter_gather = ParameterGather::Ahead;
  plan.recompute = {Recompute::MpGather, Recompute::Norms, Recompute::Moe};
  plan.scores_at = ScoresAt::Experts;
  plan.comm_streams = CommStreams::ByGroup;
  CHECK(printed(Framework::Megatron, plan) ==
        R"(# Megatron-LM, checked against d98e8a6, core 0.20.0
# the model, round
MODEL_ARGS=(
  --num-layers 4
  --hidden-size 8
  --num-attention-heads 2
  --ffn-hidden-size 16
  --normalization RMSNorm
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --position-embedding-type rope
  --max-position-embeddings 16
  # no argument says: the vocabulary, which is not known here
  --num-experts 4
  --moe-ffn-hidden-size 16
  --moe-router-topk 2
  --moe-router-pre-softmax
  --attention-dropout 0.0 --hidden-dropout 0.0
)
# the plan
MEGATRON_ARGS=(
  # core 0.8 and later
  --tensor-model-parallel-size 2
  --sequence-parallel
  --pipeline-model-parallel-size 2
  --expert-model-parallel-size 4
  --micro-batch-size 2
  --global-batch-size 32
  --seq-length 16
  --bf16
  --accumulate-allreduce-grads-in-fp32
  --clip-grad 0
  --use-distributed-optimizer
  --overlap-grad-reduce
  --overlap-param-gather
  --recompute-granularity selective
  --moe-token-dispatcher-type alltoall
  --moe-grouped-gemm
  --moe-expert-capacity-factor 1
  --moe-pad-expert-input-to-capacity
  # core 0.10 and later
  --expert-tensor-parallel-size 2
  # core 0.11 and later
  --num-virtual-stages-per-pipeline-rank 2
  --moe-permute-fusion
  # core 0.13 and later
  --recompute-modules layernorm moe
)
)");
}

namespace {

// The last arguments, which say what overlaps, and what Megatron-LM cannot do.
std::pair<std::vector<std::string>, std::vector<std::string>> overlaps(const Experiment& e, const Plan& plan) {
  const FrameworkFlags flags = flags_for(Framework::Megatron, e, plan);
  std::vector<std::string> names;
  for (const Flag& flag : flags.flags)
    if (flag.name.find("overlap-") != std::string::npos || flag.name.find("delay") != std::string::npos ||
        flag.name.find("shared-expert") != std::string::npos)
      if (flag.name.find("grad-reduce") == std::string::npos && flag.name.find("param") == std::string::npos)
        names.push_back(flag.name);
  return {names, flags.cannot};
}

}  // namespace

// Its configuration asserts all this (core/transformer/transformer_config.py at d98e8a6).
TEST_CASE("flags of Megatron-LM: two micro-batches overlap under its conditions") {
  using Names = std::vector<std::string>;
  Experiment e = laid_out();
  e.model.shared_experts = {1, 4, false};
  Plan plan = usual_plan();
  plan.scores_at = ScoresAt::Experts;
  plan.comm_streams = CommStreams::ByGroup;
  plan.recompute = {Recompute::MpGather};
  plan.scope = Scope::Batch;
  plan.forward_degree = plan.backward_degree = 1;
  plan.pipeline_schedule = pipeline_schedule("interleaved");
  plan.virtual_stages = 2;
  CHECK(overlaps(e, plan) == std::pair(Names{"--overlap-moe-expert-parallel-comm"}, Names{}));
  plan.pair_order = PairOrder::AttentionEarly;
  plan.delay_weight_gradient = DelayedWeights::All;
  CHECK(overlaps(e, plan) == std::pair(Names{"--overlap-moe-expert-parallel-comm",
                                             "--ep-overlap-early-attn-memory-release", "--delay-wgrad-compute"},
                                       Names{}));
  plan.shared_experts = SharedExperts::Overlapped;
  CHECK(overlaps(e, plan).second == Names{"plan.shared_experts overlapped with scope batch: it has one or the other"});
  plan.shared_experts = SharedExperts::Serial;
  plan.pair_order = PairOrder::Alternate;
  const auto refused = [&](const Experiment& experiment, const Plan& asked) {
    return overlaps(experiment, asked).second.front();
  };
  Plan on_one_lap = plan;
  on_one_lap.pipeline_schedule = pipeline_schedule("1f1b");
  on_one_lap.virtual_stages = 1;
  CHECK_THAT(refused(e, on_one_lap), Contains("on several stages it asks for virtual stages"));
  Plan recomputing = plan;
  recomputing.recompute = {Recompute::MpGather, Recompute::Moe};
  CHECK_THAT(refused(e, recomputing), Contains("it asks for no recompute of moe"));
  Experiment predicting = e;
  predicting.workload.mtp_layers = 2;
  CHECK_THAT(refused(predicting, plan), Contains("one layer of multi-token prediction at most"));
  // Without pairs the gradients of experts' weights alone may wait, and shared experts may overlap.
  plan.scope = Scope::Layer;
  plan.delay_weight_gradient = DelayedWeights::Expert;
  plan.shared_experts = SharedExperts::Overlapped;
  CHECK(overlaps(e, plan) ==
        std::pair(Names{"--overlap-dispatch-backward-with-experts-wgrad", "--moe-shared-expert-overlap"}, Names{}));
}

TEST_CASE("flags of Megatron-LM: stages of unequal length are a layout") {
  Experiment e = laid_out();
  e.workload.layers = e.model.layers = 5;
  const FrameworkFlags flags = flags_for(Framework::Megatron, e, usual_plan());
  CHECK_THAT(flags.text, Contains("--pipeline-model-parallel-layout \"Et*3|t*2L\""));
}

TEST_CASE("flags of Tutel and DeepSpeed, written out in part") {
  Plan plan = usual_plan();
  plan.forward_degree = plan.backward_degree = 4;
  plan.scope = Scope::Moe;
  plan.all_to_all = AllToAll::TwoDimensional;
  plan.expert_sharding = ExpertSharding::EpMp;
  const std::string tutel = printed(Framework::Tutel, plan);
  CHECK_THAT(tutel, Contains("a2a_ffn_overlap_degree=4,") && Contains("use_2dh=True,") &&
                        Contains("parallel_type='adaptive:2',") && Contains("'num_experts_per_device': -2"));
  // Without stages 8 data-parallel ranks have the 32 samples, 4 each, in micro-batches of 2.
  const std::string deepspeed = printed(Framework::DeepSpeed, usual_plan());
  CHECK_THAT(deepspeed, Contains("\"train_batch_size\": 32") && Contains("\"gradient_accumulation_steps\": 2") &&
                            Contains("\"stage\": 1") && Contains("ep_size=4,"));
}

// Knobs that a framework has no line of their own for: another line says them.
bool said_elsewhere(Framework framework, std::string_view knob) {
  using Names = std::set<std::string_view>;
  switch (framework) {
    case Framework::Megatron:  // these messages are padded already; the slices are said as partitioned
      return Names{"expert_kernel", "gradient_slices", "pad_messages"}.contains(knob);
    case Framework::DeepSpeed:  // parts are said as one, and so are stages; it gathers weights in one way
      return Names{"recompute", "gradient_slices", "pipeline_schedule", "program", "virtual_stages", "pad_messages"}
          .contains(knob);
    case Framework::Tutel:  // it is a layer, and says in one line that these are set elsewhere
      return Names{"pipeline_schedule", "program",   "virtual_stages",       "zero",
                   "parameter_gather",  "grad_sync", "gradient_chunk_bytes", "gradient_slices",
                   "recompute",         "graphs",    "pad_messages"}
          .contains(knob);
    case Framework::Json:
      break;
  }
  return false;
}

TEST_CASE("flags: no knob is dropped without a word, whatever the framework") {
  for (const auto& [name, framework] : framework_names)
    for (const Knob& knob : knobs()) {
      if (said_elsewhere(framework, knob.name)) continue;
      const Plan plan = test::with_its_effect(knob.name);
      for (const Plan& other : test::others(knob, plan)) {
        const bool contradicts =
            other.pipeline_schedule == pipeline_schedule("interleaved") && other.virtual_stages == 1;
        if (contradicts && framework != Framework::Json) continue;
        INFO(name << ": " << knob.name);
        CHECK(printed(framework, other) != printed(framework, plan));
      }
    }
}

bool of_plan(const std::string& sentence) {
  return sentence.starts_with("plan.");
}

TEST_CASE("flags: the plan that a framework takes has the same flags, and nothing more that it cannot do") {
  for (const Framework framework : {Framework::Megatron, Framework::DeepSpeed, Framework::Tutel})
    for (const Knob& knob : knobs())
      for (const Plan& plan : test::others(knob, test::with_its_effect(knob.name))) {
        if (plan.pipeline_schedule == pipeline_schedule("interleaved") && plan.virtual_stages == 1) continue;
        Experiment e = laid_out();
        const FrameworkFlags flags = flags_for(framework, e, plan);
        e.parallelism = flags.taken.groups;
        e.workload.batch = flags.taken.batch;
        const FrameworkFlags again = flags_for(framework, e, flags.taken.plan);
        INFO(name_in(framework_names, framework) << ": " << knob.name << "\n" << flags.text);
        CHECK(again.text == flags.text);
        CHECK(std::ranges::count_if(again.cannot, of_plan) == 0);
        CHECK(again.taken.plan == flags.taken.plan);
        CHECK(again.whole() == again.known);  // what it does not do at all stays
        if (framework == Framework::Megatron) CHECK(flags.whole() == (flags.taken.plan == plan));
      }
}

// A plan that some framework might run: knobs of the plan at random, in the middle of what it does anyway.
Plan near(Framework framework, const Experiment& e, test::Random& random) {
  Plan plan = as_run_by(framework, e, usual_plan()).value_or(usual_plan());
  const Plan other = test::random_legal_plan(random, e);
  for (const Knob& knob : knobs())
    if (random() % 8 == 0) copy_value(knob, other, plan);
  return plan;
}

TEST_CASE("flags: a framework runs the plans whose flags leave nothing out, and of others what their flags say") {
  std::map<Framework, int> whole, changed;
  for (int seed = 1; seed <= test::cases(400); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    Experiment e = test::random_experiment(random);
    for (const auto& [name, framework] : training_framework_names) {
      const Plan plan = near(framework, e, random);
      if (e.parallelism.pp > 1 && !e.parallelism.pipeline_layout.empty()) continue;  // of other stages than the plan's
      const FrameworkFlags flags = flags_for(framework, e, plan);
      const std::optional<Plan> run = as_run_by(framework, e, plan);
      INFO(name << ", seed " << seed << ": " << test::describe(e, plan) << "\n"
                << fmt::format("{}", fmt::join(flags.cannot, "\n")));
      CHECK((run == plan) == flags.cannot.empty());
      CHECK(flags.whole() == flags.cannot.empty());
      if (!run) continue;
      ++(run == plan ? whole : changed)[framework];
      const FrameworkFlags again = flags_for(framework, e, *run);
      CHECK(again.cannot.empty());
      CHECK(again.text == flags.text);
      CHECK(as_run_by(framework, e, *run) == run);
    }
  }
  for (const auto& [name, framework] : training_framework_names) {
    INFO(name);
    CHECK(whole[framework] > test::cases(10));
    CHECK(changed[framework] > test::cases(30));
  }
}

TEST_CASE("flags of Tutel: the kind of expert, and experts of the group that it exchanges with") {
  Experiment e = laid_out();
  e.parallelism = {.dp = 16, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 4};
  const std::string grouped = flags_for(Framework::Tutel, e, usual_plan()).text;
  CHECK_THAT(grouped, Contains("'type': 'ffn', 'num_experts_per_device': 1,") && Contains("group=expert_group,") &&
                          Contains("of the 4 GPUs"));
  e.model.expert_kind = ExpertKind::Gated;
  e.parallelism = {.dp = 16, .mp = 1, .ep = 4, .esp = 4, .pp = 1, .edp = 1};
  Plan plan = usual_plan();
  plan.expert_sharding = ExpertSharding::EpMp;
  const FrameworkFlags gated = flags_for(Framework::Tutel, e, plan);  // 4 experts on 16 GPUs: 4 share one
  CHECK_THAT(gated.text, Contains("'type': 'llama_ffn', 'num_experts_per_device': -4,") && Contains("'adaptive:1'") &&
                             !Contains("group="));
  CHECK(gated.taken.plan.expert_sharding == ExpertSharding::EpDp);
  e.model.experts = 32;  // with whole ones on each of the 16 GPUs
  const FrameworkFlags whole = flags_for(Framework::Tutel, e, plan);
  CHECK_THAT(whole.text, Contains("'num_experts_per_device': 2,") && !Contains("parallel_type"));
  CHECK(whole.taken.groups.ep == 16);
}

TEST_CASE("flags of DeepSpeed: samples that do not divide over ranks without stages") {
  Experiment e = laid_out();
  e.workload.batch = 1;  // 4 of 4 groups, over 8 ranks
  Plan plan;
  const FrameworkFlags flags = flags_for(Framework::DeepSpeed, e, plan);
  CHECK_THAT(flags.text, Contains("\"train_batch_size\": 8,"));
  CHECK(std::ranges::count(flags.cannot,
                           "workload.batch: 4 samples do not divide over its 8 data-parallel ranks; these are 8") == 1);
}

TEST_CASE("flags: an export as JSON is parts of an experiment file") {
  const auto file = nlohmann::json::parse(printed(Framework::Json, usual_plan()));
  CHECK(file["plan"]["micro_batches"] == 4);
  CHECK(file["parallelism"]["esp"] == 2);
  CHECK(file["workload"]["batch"] == 8);
}
