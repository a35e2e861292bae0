// SPDX-License-Identifier: Apache-2.0
// Experiments from arguments of Megatron-LM and configurations of DeepSpeed, and what of them is not expressed.
#include "bench/imports/megatron_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "bench/imports/given_run.hpp"
#include "bench/imports/megatron_silent.hpp"
#include "bench/imports/megatron_table.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

constexpr auto usual =
    "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --num-experts 8 --seq-length 512 "
    "--max-position-embeddings 512 --vocab-size 1000 --micro-batch-size 2 --global-batch-size 64 ";

ImportedRun imported(const std::string& more, ImportRequest request = {.cluster = "dgx-h100", .nodes = 1}) {
  request.name = "m";
  request.source = "args.txt";
  return import_megatron(read_launch_script(usual + more, "args.txt", {}), request);
}

std::string failure(const std::string& more) {
  try {
    imported(more);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool lists(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

nlohmann::ordered_json at(const ImportedRun& run, const char* pointer) {
  return run.experiment.value(nlohmann::ordered_json::json_pointer(pointer), nlohmann::ordered_json());
}

}  // namespace

TEST_CASE("every argument of Megatron-LM's parser is in the table, and the table has no other") {
  std::ifstream file(DOVETAIL_TEST_DATA "/frameworks/megatron-lm.csv");
  std::set<std::string> names;
  std::string line;
  for (int number = 0; std::getline(file, line); ++number) {
    if (number < 2) continue;
    std::string name = line.substr(2, line.find(',') - 2);
    std::ranges::replace(name, '-', '_');
    INFO(name);
    CHECK(find_megatron_argument(name) != nullptr);
    names.insert(name);
  }
  CHECK(names.size() > 800);
  for (const std::string& name : megatron_argument_names()) {
    INFO(name);
    CHECK(names.contains(name));
  }
  for (const MegatronArgument& row : megatron_arguments()) {
    INFO(row.name);
    CHECK(row.effect != Effect::None);
    CHECK(!row.what.empty());
    CHECK(std::ranges::count(silent_megatron_arguments(), row.name) == 0);
  }
}

TEST_CASE("Megatron-LM's defaults stand where an argument is not given") {
  const ImportedRun run = imported("");
  CHECK(at(run, "/model/dense_hidden").is_null());  // no dense layer
  CHECK(at(run, "/model/expert_hidden") == 4096);   // 4 x 1024
  CHECK(at(run, "/model/expert_kind") == "ffn");
  CHECK(at(run, "/model/vocabulary") == 1024);  // 1000 to a multiple of 128
  CHECK(at(run, "/model/norms") == "layer");
  CHECK(at(run, "/model/biases") == "all");
  CHECK(at(run, "/model/tied_embeddings") == true);
  CHECK(at(run, "/model/learned_positions") == 512);
  CHECK(at(run, "/model/top_k") == 2);
  CHECK(at(run, "/workload/dtype") == "fp32");
  CHECK(at(run, "/workload/clip_gradients") == 1);
  CHECK(at(run, "/workload/batch") == 8);  // 64 samples over dp 8
  CHECK(at(run, "/plan/micro_batches") == 4);
  CHECK(at(run, "/plan/expert_kernel") == "batched");
  CHECK(at(run, "/plan/zero") == 0);
  CHECK(at(run, "/parallelism/dp") == 8);
  CHECK(at(run, "/framework/options/dropout") == true);
  CHECK(at(run, "/framework/options/allgather_dispatcher") == true);
  // int(4 x 1024 x 2 / 3 / 64) x 64 = 42 x 64
  CHECK(at(imported("--swiglu"), "/model/expert_hidden") == 2688);
  // 128 x tp 4
  CHECK(at(imported("--tensor-model-parallel-size 4 --sequence-parallel --vocab-size 1025"), "/model/vocabulary") ==
        1536);
  CHECK(at(imported("--bf16"), "/workload/gradients") == "fp32");
  CHECK(at(imported("--fp16"), "/workload/gradients") == "fp16");
  CHECK(at(imported("--bf16 --grad-reduce-in-bf16"), "/workload/gradients") == "bf16");
  CHECK(at(imported("--tensor-model-parallel-size 4 --sequence-parallel"), "/parallelism/esp") == 4);
}

TEST_CASE("arguments of layers: which have experts, and which see a window") {
  const ImportedRun run = imported("--moe-layer-freq ([0]*1+[1]*3) --ffn-hidden-size 3000");
  CHECK(at(run, "/model/first_dense") == 1);
  CHECK(at(run, "/model/dense_hidden") == 3000);
  CHECK(at(imported("--moe-layer-freq ([0]+[1])*2"), "/model/moe_every") == 2);
  // The first and third layers have experts, which no form here has.
  const ImportedRun turns = imported("--moe-layer-freq 2");
  CHECK(at(turns, "/model/first_dense") == 2);
  CHECK(lists(turns.unsaid.missing, "--moe-layer-freq 2: here the 2 dense layers come first"));
  const ImportedRun windows = imported("--window-size (128,0) --window-attn-skip-freq 2");
  CHECK(at(windows, "/model/attention/window") == 128);
  CHECK(at(windows, "/model/attention/windowed_layers") == 2);  // 4 - 4 / 2
}

TEST_CASE("sinks of attention are those that are learned") {
  CHECK(at(imported("--softmax-type learnable"), "/model/attention/sinks") == true);
  CHECK(at(imported(""), "/model/attention/sinks").is_null());
  CHECK(lists(imported("--softmax-type off-by-one").unsaid.missing,
              "--softmax-type off-by-one: here scores have no sink"));
}

TEST_CASE("pipelines: uneven ends as a layout, virtual stages by either argument") {
  const std::string two = "--pipeline-model-parallel-size 2 ";
  CHECK(at(imported(two + "--decoder-first-pipeline-num-layers 1"), "/parallelism/pipeline_layout") == "Et*1|t*3L");
  CHECK(at(imported(two + "--num-layers 5 --account-for-embedding-in-pipeline-split"),
           "/parallelism/pipeline_layout") == "Et*2|t*3L");
  const ImportedRun virtual_stages = imported(two + "--num-layers-per-virtual-pipeline-stage 1");
  CHECK(at(virtual_stages, "/plan/virtual_stages") == 2);
  CHECK(at(virtual_stages, "/plan/pipeline_schedule") == "interleaved");
  CHECK(at(imported(two + "--pipeline-model-parallel-layout 'Et|t|t|tL'"), "/plan/virtual_stages") == 2);
}

TEST_CASE("what an experiment cannot say is listed with its reason, unknown arguments with the nearest one") {
  const ImportedRun run = imported(
      "--context-parallel-size 2 --optimizer muon --recompute-granularity selective --recompute-modules moe_act mhc "
      "--swiglu --num-layer 3 --weight-decay 0.1 --transformer-impl transformer_engine --tp-comm-overlap");
  CHECK(lists(run.unsaid.missing, "--context-parallel-size 2: context parallelism is not built"));
  CHECK(lists(run.unsaid.missing, "--optimizer muon: the optimizer of a step here is Adam"));
  CHECK(lists(run.unsaid.missing, "\"mhc\" is kept"));
  CHECK(lists(run.unsaid.missing, "--tp-comm-overlap: "));
  CHECK_FALSE(lists(run.unsaid.missing, "transformer-impl"));  // its default
  REQUIRE(run.unsaid.unknown.size() == 1);
  CHECK_THAT(run.unsaid.unknown[0], Contains("args.txt:1:") && Contains("did you mean \"--num-layers\"?"));
  CHECK(run.unsaid.silent == 2);
  CHECK(at(run, "/plan/recompute") == "activation");
}

TEST_CASE("sizes that contradict each other are refused at the argument") {
  CHECK_THAT(failure("--num-layers"), Contains("args.txt:1:") && Contains("--num-layers: expected a value"));
  CHECK_THAT(failure("--num-layers four"), Contains("--num-layers: \"four\", expected a whole number"));
  CHECK_THAT(failure("--num-layers 0"), Contains("--num-layers: 0, expected at least 1"));
  CHECK_THAT(failure("--swiglu 3"), Contains("--swiglu: takes no value"));
  CHECK_THAT(failure("--hidden-size 1000 --num-attention-heads 7"), Contains("7 do not divide the hidden size 1000"));
  CHECK_THAT(failure("--moe-router-topk 9"), Contains("9, expected at most the 8 experts"));
  CHECK_THAT(failure("--expert-model-parallel-size 3"), Contains("3 does not divide 8 experts"));
  CHECK_THAT(failure("--tensor-model-parallel-size 3 --sequence-parallel"),
             Contains("8 GPUs do not divide into groups of tp 3 and pp 1"));
  CHECK_THAT(failure("--tensor-model-parallel-size 2"), Contains("--sequence-parallel alone"));
  CHECK_THAT(failure("--global-batch-size 60"), Contains("60 samples does not divide into micro-batches of 2 on dp 8"));
  CHECK_THAT(failure("--bf16 --fp16"), Contains("--fp16: given beside --bf16"));
  CHECK_THAT(failure("--overlap-param-gather"), Contains("needs --use-distributed-optimizer"));
  CHECK_THAT(failure("--moe-layer-freq ([0]*1+[1]*4)"), Contains("a list of 5 layers, but num_layers is 4"));
  CHECK_THAT(failure("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
                     "--num-virtual-stages-per-pipeline-rank 2"),
             Contains("expected one of them"));
  CHECK_THAT(failure("--pipeline-model-parallel-size 2 --num-layers 5"),
             Contains("5 layers do not divide over 2 stages"));
  CHECK_THAT(failure("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|x'"),
             Contains("--pipeline-model-parallel-layout"));
  CHECK_THAT(failure("--moe-token-dispatcher-type alltoal"), Contains("did you mean \"alltoall\"?"));
}

TEST_CASE("without a number of GPUs the batch is that of all of them, and a model may come from elsewhere") {
  const ImportedRun open = imported("", {});
  CHECK(at(open, "/workload/global_batch") == 64);
  CHECK(at(open, "/workload/micro_batch") == 2);
  CHECK(at(open, "/plan/micro_batches").is_null());
  CHECK(at(open, "/parallelism/dp").is_null());
  CHECK(lists(open.unsaid.notes, "nothing says how many GPUs there are"));
  const ImportedRun named =
      imported("--expert-model-parallel-size 8", {.model = "mixtral-8x7b", .cluster = "dgx-h100", .nodes = 1});
  CHECK(at(named, "/model") == "mixtral-8x7b");
  CHECK(lists(named.unsaid.notes, "the model is mixtral-8x7b"));
  CHECK_THROWS_WITH(import_megatron(read_launch_script("--bf16", "a.txt", {}), {.name = "m", .source = "a.txt"}),
                    Contains("a.txt: --num-layers is not given"));
}

namespace {

ImportedRun of_deepspeed(const std::string& text, const std::string& model = "mixtral-8x7b") {
  return import_deepspeed(JsonFile::parse(text, "ds.json"),
                          {.model = model, .source = "ds.json", .cluster = "dgx-h100", .nodes = 1});
}

}  // namespace

TEST_CASE("a configuration of DeepSpeed: two sizes of a batch give the third") {
  const ImportedRun run = of_deepspeed(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4,
    "bf16": {"enabled": true}, "gradient_clipping": 0.5, "moe": {"ep_size": 8, "capacity_factor": 1.5},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 1000, "offload_optimizer": {"device": "cpu"}},
    "steps_per_print": 5, "train_batchsize": 3})");
  CHECK(at(run, "/workload/batch") == 8);  // 64 over dp 8
  CHECK(at(run, "/plan/micro_batches") == 4);
  CHECK(at(run, "/plan/zero") == 1);
  CHECK(at(run, "/plan/gradient_chunk_bytes") == 4000);  // 1000 gradients in fp32
  CHECK(at(run, "/workload/clip_gradients") == 0.5);
  CHECK(at(run, "/workload/capacity_factor") == 1.5);
  CHECK(at(run, "/parallelism/ep") == 8);
  CHECK(lists(run.unsaid.missing, "zero_optimization.stage 3: ZeRO-2 and ZeRO-3 are not built"));
  CHECK(lists(run.unsaid.missing, "zero_optimization.offload_optimizer: "));
  REQUIRE(run.unsaid.unknown.size() == 1);
  CHECK_THAT(run.unsaid.unknown[0], Contains("ds.json:4:") && Contains("did you mean \"train_batch_size\"?"));
  const ImportedRun small = of_deepspeed(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})");
  CHECK(at(small, "/workload/batch") == 6);
  CHECK(at(small, "/plan/micro_batches") == 3);
}

TEST_CASE("a configuration of DeepSpeed that contradicts itself or the model is refused at its place") {
  CHECK_THROWS_WITH(of_deepspeed(R"({"train_batch_size": 60, "train_micro_batch_size_per_gpu": 2,
                                     "gradient_accumulation_steps": 4})"),
                    Contains("ds.json:1:") && Contains("60 is not train_micro_batch_size_per_gpu 2"));
  CHECK_THROWS_WITH(of_deepspeed(R"({"moe": {"num_experts": [16]}})"),
                    Contains("16, but the model mixtral-8x7b has 8"));
  CHECK_THROWS_WITH(of_deepspeed(R"({"zero_optimization": {"stage": 4}})"), Contains("4, expected 0 to 3"));
  CHECK_THROWS_WITH(of_deepspeed(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"),
                    Contains("enabled beside bf16"));
  CHECK_THROWS_WITH(of_deepspeed("{}", ""), Contains("--model NAME"));
}
