#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "models/base/overloaded.hpp"
#include "models/plan/knob_table.hpp"
#include "reports/flags/frameworks.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::reports;
using Catch::Matchers::Contains;

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

Plan usual() {
  Plan plan;
  plan.micro_batches = 4;
  plan.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  plan.recompute = {Recompute::MpGather};
  plan.zero = 1;
  return plan;
}

// Other values of the knob than the plan's.
std::vector<Plan> others(const Knob& knob, const Plan& plan) {
  std::vector<Plan> plans;
  const auto add = [&](auto change) {
    Plan other = plan;
    change(other);
    if (!(other == plan)) plans.push_back(std::move(other));
  };
  std::visit(Overloaded{[&](const ChoiceKnob& k) {
                          for (const KnobValue& value : k.values())
                            if (value.built) add([&](Plan& p) { k.set(p, value.value); });
                        },
                        [&](const FlagKnob& k) { add([&](Plan& p) { p.*k.member = !(p.*k.member); }); },
                        [&](const CountKnob& k) {
                          add([&](Plan& p) { p.*k.member = p.*k.member == k.least ? k.least + 1 : k.least; });
                        },
                        [&](const BytesKnob& k) { add([&](Plan& p) { p.*k.member = 4'000'000; }); },
                        [&](const CountsKnob& k) { add([&](Plan& p) {
                                                     p.*k.member = {2, 1, 1, 2};
                                                   }); },
                        [&](const SlicesKnob& k) { add([&](Plan& p) {
                                                     p.*k.member = {{Window::Moe, 0, 64}};
                                                   }); },
                        [&](const SetKnob& k) {
                          for (const KnobValue& value : k.values())
                            add([&](Plan& p) { k.set(p, k.get(p) ^ 1U << static_cast<unsigned>(value.value)); });
                        }},
             knob.type);
  return plans;
}

// The plan on which a knob that goes with others has an effect.
Plan with_its_effect(std::string_view knob) {
  Plan plan = usual();
  if (knob == "scope") plan.forward_degree = plan.backward_degree = 2;
  if (knob == "virtual_stages") plan.pipeline_schedule = PipelineSchedule::Interleaved;
  if (knob == "gradient_chunk_bytes") plan.grad_sync = GradSync::FixedChunks;
  if (knob == "gradient_slices") plan.grad_sync = GradSync::Partitioned;
  if (knob == "parameter_gather") plan.grad_sync = GradSync::WithDense;
  if (knob == "comm_sms") plan.all_to_all = AllToAll::NodeDeduplicated;
  if (knob == "sharding_repeats") plan.expert_sharding = ExpertSharding::EpMp;
  return plan;
}

std::string printed(Framework framework, const Plan& plan) {
  std::ostringstream out;
  write_flags(out, flags_for(framework, laid_out(), plan));
  return out.str();
}

}  // namespace

TEST_CASE("flags of Megatron-LM, written out") {
  // 8 samples of a group in 4 micro-batches: 2 each; 8 x dp 4 = 32 in all. 4 layers divide over pp 2 x 2 stages.
  Plan plan = usual();
  plan.pipeline_schedule = PipelineSchedule::Interleaved;
  plan.virtual_stages = 2;
  plan.grad_sync = GradSync::WithDense;
  plan.parameter_gather = ParameterGather::Ahead;
  plan.recompute = {Recompute::MpGather, Recompute::Norms, Recompute::Moe};
  plan.scores_at = ScoresAt::Experts;
  CHECK(printed(Framework::Megatron, plan) ==
        R"(# Megatron-LM, checked against d98e8a6, core 0.19; beside the arguments of the model itself
MEGATRON_ARGS=(
  --tensor-model-parallel-size 2            # core 0.8 and later
  --sequence-parallel                       # core 0.8 and later
  --pipeline-model-parallel-size 2          # core 0.8 and later
  --expert-model-parallel-size 4            # core 0.8 and later
  --expert-tensor-parallel-size 2           # core 0.10 and later
  --num-virtual-stages-per-pipeline-rank 2  # core 0.11 and later
  --micro-batch-size 2                      # core 0.8 and later
  --global-batch-size 32                    # core 0.8 and later
  --seq-length 16                           # core 0.8 and later
  --bf16                                    # core 0.8 and later
  --accumulate-allreduce-grads-in-fp32      # core 0.8 and later
  --clip-grad 0                             # core 0.8 and later
  --use-distributed-optimizer               # core 0.8 and later
  --overlap-grad-reduce                     # core 0.8 and later
  --overlap-param-gather                    # core 0.8 and later
  --recompute-granularity selective         # core 0.8 and later
  --recompute-modules layernorm moe         # core 0.13 and later
  --moe-token-dispatcher-type alltoall      # core 0.8 and later
  --moe-grouped-gemm                        # core 0.8 and later
  --moe-permute-fusion                      # core 0.11 and later
  --moe-expert-capacity-factor 1            # core 0.8 and later
  --moe-pad-expert-input-to-capacity        # core 0.8 and later
)
)");
}

TEST_CASE("flags of Megatron-LM: stages of unequal length are a layout") {
  Experiment e = laid_out();
  e.workload.layers = e.model.layers = 5;
  const FrameworkFlags flags = flags_for(Framework::Megatron, e, usual());
  CHECK_THAT(flags.text, Contains("--pipeline-model-parallel-layout \"Et*3|t*2L\""));
}

TEST_CASE("flags of Tutel and DeepSpeed, written out in part") {
  Plan plan = usual();
  plan.forward_degree = plan.backward_degree = 4;
  plan.scope = Scope::Moe;
  plan.all_to_all = AllToAll::TwoDimensional;
  plan.expert_sharding = ExpertSharding::EpMp;
  const std::string tutel = printed(Framework::Tutel, plan);
  CHECK_THAT(tutel, Contains("a2a_ffn_overlap_degree=4,") && Contains("use_2dh=True,") &&
                        Contains("parallel_type='adaptive:2',") && Contains("'num_experts_per_device': -2"));
  const std::string deepspeed = printed(Framework::DeepSpeed, usual());
  CHECK_THAT(deepspeed, Contains("\"train_batch_size\": 32") && Contains("\"gradient_accumulation_steps\": 4") &&
                            Contains("\"stage\": 1") && Contains("ep_size=4,"));
}

// Knobs that a framework has no line of their own for: another line says them.
bool said_elsewhere(Framework framework, std::string_view knob) {
  using Names = std::set<std::string_view>;
  switch (framework) {
    case Framework::Megatron:  // padded rows are equally many for each expert; the slices are said as partitioned
      return Names{"expert_kernel", "gradient_slices"}.contains(knob);
    case Framework::DeepSpeed:  // parts are said as one; stages with interleaved; it gathers weights in one way
      return Names{"recompute", "gradient_slices", "virtual_stages"}.contains(knob);
    case Framework::Tutel:  // it is a layer, and says in one line that these are set elsewhere
      return Names{"pipeline_schedule", "virtual_stages", "zero", "parameter_gather", "recompute", "graphs"}.contains(
          knob);
    case Framework::Json:
      break;
  }
  return false;
}

TEST_CASE("flags: no knob is dropped without a word, whatever the framework") {
  for (const auto& [name, framework] : framework_names)
    for (const Knob& knob : knobs()) {
      if (said_elsewhere(framework, knob.name)) continue;
      const Plan plan = with_its_effect(knob.name);
      for (const Plan& other : others(knob, plan)) {
        const bool contradicts = other.pipeline_schedule == PipelineSchedule::Interleaved && other.virtual_stages == 1;
        if (contradicts && framework != Framework::Json) continue;
        INFO(name << ": " << knob.name);
        CHECK(printed(framework, other) != printed(framework, plan));
      }
    }
}

TEST_CASE("flags: an export as JSON is parts of an experiment file") {
  const auto file = nlohmann::json::parse(printed(Framework::Json, usual()));
  CHECK(file["plan"]["micro_batches"] == 4);
  CHECK(file["parallelism"]["esp"] == 2);
  CHECK(file["workload"]["batch"] == 8);
}
