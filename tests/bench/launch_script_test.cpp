// SPDX-License-Identifier: Apache-2.0
// Launch scripts, lists, YAML and JSON as arguments with their places.
#include <catch2/catch.hpp>
#include <map>

#include "bench/dependencies.hpp"
#include "bench/imports/given_run.hpp"
#include "bench/imports/layer_pattern.hpp"
#include "bench/imports/shell_arithmetic.hpp"
#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

// Values of each argument, joined by blanks.
std::map<std::string, std::string> arguments(const GivenRun& run) {
  std::map<std::string, std::string> all;
  for (const GivenArgument& argument : run.arguments) {
    std::string text;
    for (const std::string& value : argument.values) text += (text.empty() ? "" : " ") + as_written(value);
    all[argument.name] = text;
  }
  return all;
}

std::map<std::string, std::string> of_script(const std::string& text, const Variables& variables = {}) {
  return arguments(read_launch_script(text, "run.sh", variables));
}

std::optional<std::int64_t> calculated(std::string_view text) {
  return arithmetic(text, [](std::string_view name) -> std::optional<std::string> {
    if (name == "A") return "6";
    if (name == "B") return "A * 2";
    if (name == "LOOP") return "LOOP + LOOP";
    return {};
  });
}

std::string failure(const std::string& text) {
  try {
    read_launch_script(text, "run.sh", {});
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a shell's arithmetic") {
  CHECK(calculated("2 + 3 * 4") == 14);
  CHECK(calculated("(2 + 3) * 4 % 7") == 6);
  CHECK(calculated("-A + $B / ${A}") == -4);  // -6 + 12 / 6
  CHECK_FALSE(calculated("1 / 0"));
  CHECK_FALSE(calculated("9223372036854775807 + 1"));
  CHECK_FALSE(calculated("UNKNOWN + 1"));
  CHECK_FALSE(calculated("2 << 1"));
  CHECK_FALSE(calculated("LOOP"));
  CHECK_FALSE(calculated(std::string(10'000, '(')));
}

TEST_CASE("lists of layers") {
  CHECK(layer_list("([0]*1+[1]*2)") == std::vector<bool>{false, true, true});
  CHECK(layer_list("([0]+[1])*2") == std::vector<bool>{false, true, false, true});
  CHECK(layer_list("[0, 1, 1]") == std::vector<bool>{false, true, true});
  CHECK_FALSE(layer_list("2"));
  CHECK_FALSE(layer_list("[1]*1000000000"));
  CHECK_FALSE(layer_list("[0]*3+"));
  CHECK_FALSE(layer_list("__import__('os')"));
}

TEST_CASE("a launch script: variables, lists, quotes, defaults and arithmetic") {
  const auto given = of_script(R"sh(
TP=4; NODES=$((2 * 4))
SIZE=${SIZE:-"1024"}
MODEL=( --num-layers 12   # layers
        --hidden-size "$SIZE" --num-attention-heads=${HEADS-16} )
MODEL+=(--swiglu)
TEXT="--seq-length 2048 \
  --moe-layer-freq ([0]*1+[1]*11)"
export EXTRA="--bf16"
python -m torch.distributed.run --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py ${MODEL[@]} $TEXT $EXTRA \
  --tensor-model-parallel-size ${TP} --lr 1e-4 --split '949, 50,1' > log.txt 2>&1
)sh");
  CHECK(given == std::map<std::string, std::string>{{"num_layers", "12"},
                                                    {"hidden_size", "1024"},
                                                    {"num_attention_heads", "16"},
                                                    {"swiglu", ""},
                                                    {"seq_length", "2048"},
                                                    {"moe_layer_freq", "([0]*1+[1]*11)"},
                                                    {"bf16", ""},
                                                    {"tensor_model_parallel_size", "4"},
                                                    {"lr", "1e-4"},
                                                    {"split", "949, 50,1"}});
}

TEST_CASE("a launch script: ranks, places, and a command inside of another's quotes") {
  const GivenRun run = read_launch_script(
      "#!/bin/bash\n#SBATCH --nodes=3\nA=(--num-layers 2\n   --hidden-size 8)\n"
      "srun bash -c \"torchrun --nproc-per-node=4 pretrain_gpt.py ${A[*]} --swiglu\"\n",
      "run.sh", {});
  CHECK(arguments(run) ==
        std::map<std::string, std::string>{{"num_layers", "2"}, {"hidden_size", "8"}, {"swiglu", ""}});
  CHECK(run.nodes == 3);
  CHECK(run.ranks_a_node == 4);
  const GivenRun placed =
      read_launch_script("A=(--num-layers 2\n   --hidden-size 8)\nx.py \"${A[@]}\" --swiglu\n", "run.sh", {});
  REQUIRE(placed.arguments.size() == 3);
  CHECK(placed.arguments[1].where.line == 2);
  CHECK(placed.arguments[1].where.column == 4);
  CHECK(placed.arguments[2].where.line == 3);
}

TEST_CASE("a launch script: conditions that are known are followed, others are named") {
  CHECK(of_script(
            "FP8=0\nARGS=\"--num-layers 2\"\nif [ $FP8 -eq 1 ]; then\n ARGS+=\" --swiglu\"\nelse\n ARGS+=\" --bf16\"\n"
            "fi\npretrain_gpt.py $ARGS\n") == std::map<std::string, std::string>{{"num_layers", "2"}, {"bf16", ""}});
  CHECK(of_script("[ -z \"\" ] && L=3\n[ -n \"\" ] && L=4\nx.py --num-layers $L\n")["num_layers"] == "3");
  const GivenRun run = read_launch_script(
      "A=(--num-layers 2)\nif [ -f file ]; then\n  A+=(--bf16)\nfi\nx.py ${A[@]} $REST\n", "run.sh", {});
  CHECK(arguments(run).contains("bf16"));
  REQUIRE(run.notes.size() == 2);  // and $REST
  CHECK_THAT(run.notes[0], Contains("run.sh:3:3: A is set under a condition that is not known: taken as met"));
}

TEST_CASE("a launch script: what it leaves open is named with its place, and variables from outside fill it") {
  const std::string text = "x.py --num-layers $LAYERS --swiglu $REST --lr $(cat lr)\n";
  const GivenRun run = read_launch_script(text, "run.sh", {});
  REQUIRE(run.notes.size() == 1);
  CHECK_THAT(run.notes[0], Contains("run.sh:1:36: \"$REST\" is not known"));
  CHECK(is_open(run.arguments[0].values.at(0)));
  CHECK(arguments(run)["lr"] == "$(cat lr)");
  CHECK(of_script(text, {{"LAYERS", "7"}, {"REST", "--bf16"}}) ==
        std::map<std::string, std::string>{{"num_layers", "7"}, {"swiglu", ""}, {"bf16", ""}, {"lr", "$(cat lr)"}});
}

TEST_CASE("a plain list of arguments, and arrays that no command uses") {
  CHECK(of_script("--num-layers 4\n--hidden-size\n64\n--moe-layer-freq ([0]*1+[1]*3)\n") ==
        std::map<std::string, std::string>{
            {"num_layers", "4"}, {"hidden_size", "64"}, {"moe_layer_freq", "([0]*1+[1]*3)"}});
  CHECK(of_script("B=(--bf16)\nA=(\n  --num-layers 4\n  # a comment\n)\n") ==
        std::map<std::string, std::string>{{"num_layers", "4"}, {"bf16", ""}});
}

TEST_CASE("a launch script that is none is refused at its place") {
  CHECK_THAT(failure("A=\"--num-layers 2\n"), Contains("run.sh:1:3: this quote is not closed"));
  CHECK_THAT(failure("A=(--num-layers 2\n"), Contains("run.sh:1:3: this list is not closed"));
  CHECK_THAT(failure("x.py --num-layers ${A\n"), Contains("run.sh:1:20: this is not closed"));
  CHECK_THAT(failure("echo hello\n"), Contains("run.sh:1:1: no argument of Megatron-LM stands here"));
  std::string growing = "A=--num-layers\n";
  for (int i = 0; i < 40; ++i) growing += "A=$A$A\n";
  CHECK_THAT(failure(growing), Contains("grow without end"));
}

TEST_CASE("fields of JSON and YAML: switches, names of Megatron Bridge, sections and entries") {
  const std::string json =
      R"({"args": {"num_moe_experts": 8, "add_bias_linear": false, "gradient_accumulation_fusion": false,
    "bf16": true, "fp16": false, "clip_grad": null, "recompute_modules": ["mlp", "moe"], "lr": 1e-4}})";
  const std::map<std::string, std::string> expected{
      {"num_experts", "8"}, {"disable_bias_linear", ""},      {"no_gradient_accumulation_fusion", ""},
      {"bf16", ""},         {"recompute_modules", "mlp moe"}, {"lr", "0.0001"}};
  CHECK(arguments(read_json_arguments(json, "a.json", "")) == expected);
  CHECK(arguments(read_json_arguments(R"(["--num-layers", "2", "--swiglu"])", "a.json", "")) ==
        std::map<std::string, std::string>{{"num_layers", "2"}, {"swiglu", ""}});
  const std::string entries =
      R"([{"name": "a", "args": {"--num-layers": 1}}, {"name": "b", "args": {"--num-layers": 2}}])";
  CHECK(arguments(read_json_arguments(entries, "a.json", "b"))["num_layers"] == "2");
  CHECK(arguments(read_json_arguments(entries, "a.json", "1"))["num_layers"] == "1");
  CHECK_THROWS_WITH(read_json_arguments(entries, "a.json", ""), Contains("2 lists of arguments stand here"));
  CHECK_THROWS_WITH(read_json_arguments(entries, "a.json", "c"), Contains("no entry \"c\""));
  if (found::has_yaml_cpp == 0) return;
  const std::string yaml =
      "model:\n  num_layers: 3\n  gated_linear_unit: true\n  seq_length: ${seq}\ndataset:\n  sequence_length: 9\n"
      "mixed_precision: bf16_mixed\nrecompute_modules: [mlp]\n";
  const GivenRun run = read_yaml_arguments(yaml, "a.yaml", {{"seq", "5"}});
  CHECK(arguments(run) ==
        std::map<std::string, std::string>{
            {"num_layers", "3"}, {"swiglu", ""}, {"seq_length", "5"}, {"bf16", ""}, {"recompute_modules", "mlp"}});
  CHECK(run.fields);
  CHECK_THROWS_WITH(read_yaml_arguments("a: [1\nb: 2\n", "a.yaml", {}), Contains("a.yaml:"));
  CHECK_THROWS_WITH(read_yaml_arguments("- 1\n", "a.yaml", {}), Contains("no field of Megatron-LM stands here"));
}
