// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM that the export writes, read back by the import: the same model, groups, batch and plan as
// the export says that Megatron-LM runs.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "bench/imports/given_run.hpp"
#include "bench/imports/megatron_import.hpp"
#include "models/base/errors.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/load.hpp"
#include "models/files/plan_json.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/system.hpp"
#include "models/question/stage_layout.hpp"
#include "models/question/volumes.hpp"
#include "reports/flags/frameworks.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using bench::ImportedRun;
using reports::Framework;
using reports::FrameworkFlags;

namespace {

// Whole models with every kind of attention, feed-forward part, router and norm, each in 2 stages of 2 x dp 4.
const std::vector<std::string> trip_models{"mixtral-8x7b",
                                           "mixtral-8x22b",
                                           "qwen3-30b-a3b",
                                           "qwen3-235b-a22b",
                                           "deepseek-v2-lite",
                                           "deepseek-v3",
                                           "kimi-k2",
                                           "glm-4.5-air",
                                           "llama-4-maverick",
                                           "gpt-oss-20b",
                                           "gpt2-xl-moe",
                                           "qwen1.5-moe-a2.7b",
                                           "llama-3.1-8b",
                                           "dbrx",
                                           "granite-3.1-3b-a800m",
                                           "qwen3-next-80b-a3b",
                                           "deepseek-v3.2"};

std::optional<Experiment> question(const std::string& model, const std::vector<std::string>& more) {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = model;
  request.nodes = 2;
  request.set = {"parallelism.pp=2", "parallelism.mp=2", "workload.batch=8", "workload.extent=model", "framework=bare"};
  request.set.insert(request.set.end(), more.begin(), more.end());
  FilesRead files;
  std::vector<std::string> notes;
  try {
    return load_experiment(request, files, notes);
  } catch (const InputError& error) {
    INFO(model << ": " << error.what());
    CHECK(model == "");
    return {};
  }
}

bool is_valid(const Plan& plan, const Experiment& e) {
  try {
    validate(plan, e);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

struct ReadBack {
  ImportedRun imported;
  Experiment experiment;
  Plan plan;
};

ReadBack read_back(const std::string& text) {
  const bench::GivenRun run = bench::read_launch_script(text, "exported.sh", {});
  ReadBack back{
      bench::import_megatron(run, {.name = "m", .source = "exported.sh", .cluster = "dgx-h100", .nodes = 2}), {}, {}};
  const test::TemporaryFolder folder;
  folder.write("imported.json", bench::to_experiment_file(back.imported));
  ExperimentRequest request;
  request.file = "imported.json";
  FilesRead files;
  std::vector<std::string> notes;
  back.experiment = load_experiment(request, files, notes);
  CHECK(has_whole_plan(request));
  apply_to_plan(request, back.experiment, back.plan);
  return back;
}

// The model without what no argument says: its names, the length of its training's samples, and whether messages were
// routed in it. Shared experts count together. Words are padded to equal shares.
nlohmann::ordered_json comparable(Model model, const Workload& workload, int mp) {
  model.name = model.source = "";
  model.sequence = 0;
  model.dropless = false;
  model.layers = workload.layers;
  model.top_k = workload.top_k;
  model.mtp_layers = workload.mtp_layers;
  model.shared_experts.hidden *= model.shared_experts.count;
  model.shared_experts.count = std::min(model.shared_experts.count, 1);
  model.vocabulary = (model.vocabulary + mp - 1) / mp * mp;
  // The layers that no argument tells apart (llama 4's chunks), and scores that are divided by their sum where there is
  // one alone.
  if (model.attention.windows == Windows::Chunks) model.attention.window = 0;
  if (model.top_k == 1) model.router.normalise = false;
  // The name of a norm of all heads together, and a bias of each expert beside softmax scores.
  if (model.attention.qk_norm == QkNorm::Width) model.attention.qk_norm = QkNorm::Head;
  if (model.router.scoring == Scoring::Softmax) model.router.correction_bias = false;
  return to_json(model);
}

// Plans that Megatron-LM runs alike: padded rows are equally many for each expert, and without chunks the MoE part is a
// layer's.
nlohmann::ordered_json comparable(Plan plan, const Experiment& e, MessageSizes messages) {
  if (plan.scope == Scope::Moe && plan.forward_degree == 1 && plan.backward_degree == 1) plan.scope = Scope::Layer;
  if (messages == MessageSizes::Padded) {
    plan.pad_messages = false;
    plan.expert_kernel = ExpertKernel::Grouped;
  }
  if (e.model.dense()) {
    plan.scores_at = ScoresAt::Decode;
    plan.all_to_all = AllToAll::Linear;
    plan.expert_kernel = ExpertKernel::Batched;
    plan.pad_messages = false;
  }
  if (plan.virtual_stages == 1 && e.parallelism.pp == 1) plan.pipeline_schedule = pipeline_schedule("1f1b");
  if (plan.pipeline().name == "gpipe" && plan.micro_batches == 1) plan.pipeline_schedule = pipeline_schedule("1f1b");
  if (plan.grad_sync != GradSync::FixedChunks) plan.gradient_chunk_bytes = Plan().gradient_chunk_bytes;
  if (plan.all_to_all != AllToAll::NodeDeduplicated) plan.comm_sms = 0;
  return to_json(plan);
}

std::vector<std::pair<int, int>> runs(const Plan& plan, const Experiment& e) {
  std::vector<std::pair<int, int>> list;
  const StageLayout layout = stage_layout(plan, e);
  for (int stage = 0; stage < layout.virtual_stages(); ++stage)
    list.emplace_back(layout.run(stage).first, layout.run(stage).last);
  return list;
}

void compare(const Experiment& e, const Plan& plan) {
  const FrameworkFlags flags = reports::flags_for(Framework::Megatron, e, plan);
  INFO(flags.text);
  REQUIRE(flags.known);
  const ReadBack back = read_back(flags.text);
  CHECK(back.imported.unsaid.unknown.empty());
  const Experiment& own = back.experiment;
  Experiment taken = e;
  taken.parallelism = flags.taken.groups;
  CHECK(comparable(own.model, own.workload, 2) == comparable(e.model, e.workload, 2));
  const Parallelism &p = own.parallelism, &q = taken.parallelism;
  CHECK(std::tuple(p.pp, p.mp, p.dp, p.ep, p.esp, p.edp, p.repeats_tokens()) ==
        std::tuple(q.pp, q.mp, q.dp, q.ep, q.esp, q.edp, q.repeats_tokens()));
  CHECK(own.workload.batch == flags.taken.batch);
  CHECK(own.workload.sequence == e.workload.sequence);
  CHECK(own.workload.dtype == e.workload.dtype);
  CHECK(own.workload.gradient_dtype() == e.workload.gradient_dtype());
  CHECK(own.workload.other_products() == e.workload.other_products());
  CHECK(own.workload.clip() == e.workload.clip());
  CHECK(own.workload.attention == e.workload.attention);
  CHECK(own.workload.message_sizes == flags.taken.messages);
  CHECK(std::max(own.workload.capacity_factor, 0.0) ==
        (flags.taken.messages == MessageSizes::Padded ? e.workload.capacity_factor : 0));
  CHECK(runs(back.plan, own) == runs(flags.taken.plan, taken));
  CHECK(comparable(back.plan, own, flags.taken.messages) == comparable(flags.taken.plan, taken, flags.taken.messages));
}

// A preset with four micro-batches. Slices of gradients, which its planner would choose, are those of no overlap.
Plan preset(const System& system, const Experiment& e) {
  Plan plan = plan_on(system, e);
  plan.micro_batches = 4;
  if (plan.grad_sync != GradSync::Partitioned) return plan;
  const StageLayout layout = stage_layout(plan, e);
  Plan after = plan;
  after.grad_sync = GradSync::After;
  plan.gradient_slices =
      gradient_slices(after, dense_elements(e, layout), size_of(e.workload.gradient_dtype()), layout);
  return plan;
}

}  // namespace

TEST_CASE("Every system on every kind of model comes back from Megatron-LM's arguments") {
  FilesRead files;
  std::map<std::string, int> compared;
  for (const std::string& model : trip_models) {
    const bool experts = model != "llama-3.1-8b";
    for (const std::string capacity : {"1.2", "0"}) {
      if (!experts && capacity == "0") continue;
      std::vector<std::string> set;
      if (experts)
        set = {"parallelism.esp=1", "workload.capacity_factor=" + capacity,
               capacity == "0" ? "workload.message_sizes=routed" : "workload.message_sizes=padded"};
      const std::optional<Experiment> e = question(model, set);
      if (!e) continue;
      for (const std::string& name : known_names("systems")) {
        const Plan plan = preset(load_system(name, files), *e);
        if (!is_valid(plan, *e)) continue;
        INFO(name << " on " << model << ", capacity factor " << capacity);
        compare(*e, plan);
        ++compared[name];
      }
    }
  }
  // A preset that fits no model would be compared with nothing.
  for (const std::string& name : known_names("systems")) {
    INFO(name);
    CHECK(compared[name] >= 12);
  }
}

TEST_CASE("Numbers, pipelines, recomputing, graphs and overlap come back from Megatron-LM's arguments") {
  struct Setting {
    std::vector<std::string> question, plan;
  };
  const std::vector<Setting> settings{
      {{"workload.dtype=fp16", "workload.gradients=fp16"},
       {"zero=0", "grad_sync=after", "parameter_gather=after_update"}},
      {{"workload.gradients=bf16", "workload.clip_gradients=0"}, {"grad_sync=fixed_chunks"}},
      {{"workload.attention=eager"}, {"recompute=full"}},
      {{}, {"recompute=[\"mp_gather\",\"norms\",\"moe\"]", "graphs=attention"}},
      {{}, {"recompute=[\"mp_gather\",\"attention\",\"activation\"]", "graphs=router"}},
      {{}, {"pipeline_schedule=interleaved", "virtual_stages=4"}},
      {{"parallelism.pipeline_layout=Et*11|t*13L"}, {}},
      {{}, {"all_to_all=node_deduplicated", "comm_sms=24"}},
      {{"parallelism.ep=4", "parallelism.esp=2"}, {}},
      {{"parallelism.sequence_parallel=false", "parallelism.esp=2", "workload.capacity_factor=1.5",
        "workload.message_sizes=padded"},
       {"recompute=none", "scores_at=decode"}},
      {{}, {"pipeline_schedule=interleaved", "virtual_stages=2", "scope=batch", "delay_weight_gradient=all"}},
      {{}, {"pipeline_schedule=interleaved", "virtual_stages=2", "scope=batch", "pair_order=attention_early"}},
      {{}, {"delay_weight_gradient=expert", "shared_experts=overlapped"}},
  };
  FilesRead files;
  for (const auto& [set, knobs] : settings) {
    const std::optional<Experiment> e = question("qwen1.5-moe-a2.7b", [&] {
      std::vector<std::string> all{"parallelism.ep=4", "parallelism.esp=1"};
      all.insert(all.end(), set.begin(), set.end());
      return all;
    }());
    REQUIRE(e);
    Plan plan = preset(load_system("megatron_lm", files), *e);
    std::vector<std::string> with_part;
    for (const std::string& knob : knobs) with_part.push_back("plan." + knob);
    set_knobs(with_part, "--set", plan);
    INFO(fmt::format("{}", knobs.empty() ? "" : knobs.front()));
    if (!is_valid(plan, *e)) {
      INFO("a setting of this test makes no plan");
      CHECK_NOTHROW(validate(plan, *e));
      continue;
    }
    compare(*e, plan);
  }
}
