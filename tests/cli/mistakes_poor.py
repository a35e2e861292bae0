# SPDX-License-Identifier: Apache-2.0
"""Mistakes whose answer does not lead a user on yet: what the program says now, and what it should say. A mended one
moves to mistakes.py, and `mistakes_test.py PROGRAM poor` shows which are mended. Headings name the source to change."""
from dataclasses import dataclass

from mistakes import ASK, CONFIG, DEEPSPEED, FILE, JOB, MEGATRON, ON, OWN_CLUSTER, OWN_MODEL, OWN_PLAN, SCRIPT, TUNE
from mistakes import Mistake, cluster, job, model

SYSTEM = '{"name": "own", "plan": {"scope": "layer"}, "planner": {"name": "fixed"}}'
RESULT = '{\n  "schema_version": "2.0",\n  "kind": "tuning",\n  "results": []\n}\n'
INDEX = '{"metadata": {"total_size": 1}, "weight_map": {}}'
SAFETENSORS = b"\x08\x01\x00\x00\x00\x00\x00\x00{}"
NOTHING = "(nothing)"  # the program takes it, and says nothing
QWEN = f"{MEGATRON} --model qwen1.5-moe-a2.7b"


@dataclass
class Poor(Mistake):
    present: str = ""  # part of the line that answers now
    wanted: str = ""   # the line that should; `answer` matches it


def poor(typed, meant, present, wanted, answer, **more):
    return Poor(typed, meant, answer, present=present, wanted=wanted, **more)


def command(typed, meant, wanted, answer):
    return poor(typed, meant, f'unknown command "{typed.split()[0]}"; expected one of', wanted, answer)


def option(typed, meant, instead, now=""):
    """The answer names the option as unknown, with no or a misleading suggestion `now`; it should suggest `instead`."""
    word = next(w for w in reversed(typed.split()) if w.startswith("-"))
    present = f'unknown option "{word}"' + (f', did you mean "{now}"?' if now else "; see dovetail")
    return poor(typed, meant, present, f'dovetail: unknown option "{word}", did you mean {instead}?',
                rf'unknown option "{word}", did you mean "?{instead}')


def setting(assignment, meant, instead):
    """The answer lists the parts of an experiment, or nothing; it should suggest `instead`."""
    key = assignment.split("=")[0]
    last = key.split(".")[-1]
    part = key.split(".")[0] if "." in key else ""
    shown = last if part in ("workload", "model", "cluster", "plan") else part or last
    return poor(f"{ASK} --set {assignment}", meant, f'unknown key "{shown}"',
                f'dovetail: --set {assignment}: unknown key "{shown}", did you mean {instead}?',
                rf'unknown key "{shown}", did you mean "?{instead}')


# bench/cli/usage.cpp, refuse_leftovers: words of other programs for commands, and options before the command.
COMMANDS = [
    command("help tune", "the help of tune", 'dovetail: unknown command "help", did you mean dovetail tune --help?',
            r"did you mean dovetail tune --help"),
    command("version", "--version", 'dovetail: unknown command "version", did you mean "--version"?', r"--version"),
    command("list", "clusters, models and systems",
            'dovetail: unknown command "list"; what is shipped are the files in the '
            "folder that dovetail doctor shows", r"dovetail doctor"),
    command("models", "the models that are shipped",
            'dovetail: unknown command "models"; what is shipped are the files '
            "in the folder that dovetail doctor shows", r"dovetail doctor"),
    poor("-V", "the version", 'unknown option "-V", did you mean "-h"?',
         'dovetail: unknown option "-V", did you mean "--version"?', r'"-V", did you mean "--version"'),
    poor("--model olmoe-1b-7b tune", "an option before the command", 'unknown option "--model"; see dovetail --help',
         'dovetail: "--model" stands before the command; expected dovetail tune --model ...', r"dovetail tune --model"),
    poor("tune –-cluster dgx-h100", "two hyphens, of which a page made a dash", "is one argument too many",
         'dovetail: tune: "–-cluster" begins with a dash, did you mean "--cluster"?', r'did you mean "--cluster"'),
    poor(f"compare {ON} --systems tutel fsmoe", "two systems", 'compare: "fsmoe" is one argument too many',
         'dovetail: compare: "fsmoe" is one argument too many, did you mean --systems tutel,fsmoe?', r"tutel,fsmoe"),
    poor(f"{ASK} --set tp 4", "--set tp=4", 'simulate: "4" is one argument too many',
         "dovetail: --set tp: expected key=value, did you mean --set tp=4?", r"--set tp=4"),
    poor(f"{ASK} --set tp=4 pp=2", "two settings", 'simulate: "pp" is one argument too many',
         'dovetail: simulate: "pp=2" is one argument too many, did you mean --set pp=2?', r"--set pp=2"),
    poor(f"{ASK} --ideal=banana", "--ideal", "Could not convert: --ideal = banana", "dovetail: --ideal: takes no value",
         r"--ideal.*(takes no value|expected)"),
]

# bench/cli/usage.cpp with megatron_names.cpp: options that are settings here, of other commands or of other tools.
OPTIONS = [
    option(f"{ASK} --tensor-parallel 2", "tensor parallelism", "--set tp=N"),
    option(f"{ASK} --tensor-parallel-size 2", "vLLM's name of it", "--set tp=N"),
    option(f"{ASK} --sequence 8192", "tune's option", "--set seq=N"),
    option(f"{ASK} --global-batch 64", "tune's option", "--set gbs=N"),
    option(f"{ASK} --batch 8", "samples", "--set mbs=N"),
    option(f"{ASK} --gpus 16", "tune's option", "--nodes"),
    option(f"{ASK} --save best.json", "tune's option", "--output"),
    option(f"{ASK} --json", "the result as JSON", "--format json"),
    option(f"{ASK} --bf16", "Megatron-LM's option", "--set workload.dtype=bf16"),
    option(f"{ASK} --zero-stage 1", "DeepSpeed's stage", "--set plan.zero=N"),
    option(f"{ASK} --use-distributed-optimizer", "Megatron-LM's ZeRO-1", "--set plan.zero=1"),
    option(f"{ASK} --recompute-granularity full", "Megatron-LM's option", "--set plan.recompute=full"),
    option(f"{ASK} --moe-router-topk 4", "Megatron-LM's option", "--set workload.top_k=N"),
    option(f"{ASK} --nproc_per_node 8", "torchrun's option", "--set cluster.gpus_per_node=N"),
    option("simulate --cluster dgx-h100 -n 2", "Slurm's option", "--nodes", now="-o"),
    option(f"{TUNE} --dtype bf16", "the number format", "--set workload.dtype=bf16"),
    option(f"tune {ON} --batch 64", "the samples of a step", "--global-batch"),
    option(f"plan {ON} --system megatron_lm --save best.json", "tune's option", "--save-plan", now="--state"),
    option(f"plan {ON} --system megatron_lm --for megatron", "tune's option", "--export", now="--format"),
    option("sweep degrees --set tp=2", "a setting of all cells", "an axis or the base of the grid", now="--seed"),
    option("calibrate --gpu", "this machine's GPU", "--device cuda"),
    option("calibrate --cluster dgx-h100", "costs to start from", "--base"),
    option(f"run {ON} --system tutel --np 8", "mpirun's option", "--ranks"),
    option(f"run {ON} --system tutel --mpi", "processes", "--transport mpi", now="--mpirun"),
    poor(f"{ASK} --timeout 5m", "five minutes", '--timeout "5m": expected a number from 0.001',
         'dovetail: --timeout "5m": expected a number of seconds, from 0.001 to 1000000000', r"seconds"),
    poor(f"{TUNE} --memory-margin 10%", "10", '--memory-margin "10%": expected a number from 0 to 99',
         'dovetail: --memory-margin "10%": expected a number of percent, from 0 to 99', r"percent"),
    poor(f"run {ON} --system tutel --ranks 7", "seven threads", "7 ranks, expected a multiple of 2",
         "dovetail: --ranks 7: expected a multiple of 2, because they stand for 2 nodes; 6 or 8 would do",
         r"--ranks 7: "),
]

# bench/cli/megatron_names.cpp (names, switches) and models/files/experiment_file.cpp, with_its_part: keys of --set.
SETTINGS = [
    setting("tensor_parallel=2", "tensor parallelism", "tp"),
    setting("sp=2", "sequence parallelism", "parallelism.sequence_parallel"),
    setting("seq_len=4096", "the sequence", "workload.sequence"),
    setting("batch_size=4", "samples", "workload.batch"),
    setting("gradient_accumulation_steps=8", "Hugging Face's name", "plan.micro_batches"),
    setting("per_device_train_batch_size=8", "Hugging Face's name", "mbs"),
    setting("train_batch_size=64", "DeepSpeed's name", "gbs"),
    setting("zero_stage=1", "DeepSpeed's name", "plan.zero"),
    setting("zero_optimization.stage=1", "DeepSpeed's name", "plan.zero"),
    setting("fsdp=true", "PyTorch's FSDP", "plan.zero"),
    setting("use_distributed_optimizer=true", "Megatron-LM's ZeRO-1", "plan.zero"),
    setting("overlap_grad_reduce=true", "Megatron-LM's option", "plan.grad_sync=with_dense"),
    setting("overlap_param_gather=true", "Megatron-LM's option", "plan.parameter_gather=ahead"),
    setting("gradient_checkpointing=true", "Hugging Face's name", "plan.recompute=full"),
    setting("recompute_granularity=full", "Megatron-LM's option", "plan.recompute=full"),
    setting("moe_expert_capacity_factor=1.2", "Megatron-LM's option", "workload.capacity_factor"),
    setting("num_layers_per_virtual_pipeline_stage=2", "Megatron-LM's option", "vpp"),
    setting("gpus=16", "two nodes", "nodes"),
]

# models/base/json/schema_walk.cpp, check_member: no list where there are more than 12 keys, and spelling alone decides.
KEYS = [
    setting("workload.batchsize=2", "workload.batch", "batch"),
    setting("workload.seq_len=4096", "workload.sequence", "sequence"),
    poor(f"{ASK} --set workload.optimizer=adamw", "the only one there is", 'unknown key "optimizer"',
         'dovetail: --set workload.optimizer=adamw: unknown key "optimizer"; every step is of Adam, leave it out',
         r"Adam"),
    setting("model.num_experts=64", "Hugging Face's name", "experts"),
    setting("model.hidden_size=2048", "Hugging Face's name", "hidden"),
    setting("cluster.interconnect=infiniband", "network cards", "nic_bandwidth"),
    setting("plan.overlap=true", "whatever overlaps", "grad_sync"),
    poor(FILE, "tensor parallelism", 'unknown key "tp", did you mean "cp"?',
         'job.json:6:19: /parallelism/tp: unknown key "tp", did you mean "mp"?', r'6:19: .*did you mean "mp"',
         files=job('"mp"', '"tp"')),
    poor(FILE, "samples", '/workload/batch_size: unknown key "batch_size"',
         'job.json:5:16: /workload/batch_size: unknown key "batch_size", did you mean "batch"?',
         r'5:16: .*did you mean "batch"', files=job('"batch"', '"batch_size"')),
    poor(OWN_CLUSTER, "nic_bandwidth", 'did you mean "node_bandwidth"?',
         'mine.json:9:3: /network_bandwidth: unknown key "network_bandwidth", did you mean "nic_bandwidth"?',
         r'did you mean "nic_bandwidth"', files=cluster('"nic_bandwidth"', '"network_bandwidth"')),
    poor(OWN_MODEL, "layers", 'unknown key "num_layers", did you mean "mtp_layers"?',
         'mine.json:4:3: /num_layers: unknown key "num_layers", did you mean "layers"?', r'did you mean "layers"',
         files=model('"layers"', '"num_layers"')),
    poor(OWN_MODEL, "the number format", '/dtype: unknown key "dtype"',
         'mine.json:7:17: /dtype: unknown key "dtype"; a workload has it: "workload": {"dtype": "bf16"}',
         r"7:17: .*workload", files=model('"experts": 4', '"experts": 4, "dtype": "bf16"')),
    poor(OWN_CLUSTER, "NVLink through switches", '"nvlink", did you mean "nvlink_pairs"?',
         'mine.json:6:16: /node_link: expected "nvswitch" (joins all), "nvlink_pairs" (bridges between two) or "pcie", '
         'got the string "nvlink"', r'"nvlink"$', files=cluster('"pcie"', '"nvlink"')),
    poor(f"{ASK} --set workload.products=fp4", "four bits", 'got the string "fp4", did you mean "fp64"?',
         'dovetail: --set workload.products=fp4: expected "fp64", "fp32", "bf16", "fp16" or "fp8", '
         'got the string "fp4"', r'got the string "fp4"$'),
    poor(f"{ASK} --set cluster.device=H200", "another GPU", 'expected an object, got the string "H200"',
         'dovetail: --set cluster.device=H200: expected an object with name, memory, memory_bandwidth and peak; for a '
         "cluster of these: --cluster hgx-h200", r"memory_bandwidth|hgx-h200"),
    poor(f"{ASK} --set workload.capacity_factor=dropless", "no token is dropped", 'expected a number, got the string',
         'dovetail: --set workload.capacity_factor=dropless: expected a number, 0 to drop nothing', r"0 .*drop"),
    poor(f"{ASK} --set tp=4,pp=2", "two settings", 'expected a whole number, got the string "4,pp=2"',
         "dovetail: --set tp=4,pp=2: expected one setting; give the others by --set of their own",
         r"--set pp=2|of their own"),
    poor(f"{ASK} --set 'pp = 2'", "spaces around the sign", 'unknown key "pp ", expected $schema',
         "dovetail: --set pp = 2: unknown key \"pp \", did you mean pp=2, without spaces?", r"did you mean"),
    poor(f"{ASK} --set plan.recompute=[moe_act,layernorm]", "two modules", 'or "moe", got an array',
         'dovetail: --set plan.recompute=[moe_act,layernorm]: did you mean activation,norms?', r"activation,norms"),
]

# models/files/input_file.cpp: names with a slash or an ending are paths, and only spelling leads to a shipped file.
NAMES = [
    poor("tune --cluster dgx-h100 --model Qwen/Qwen3-30B-A3B --global-batch 64", "a model of Hugging Face",
         "dovetail: Qwen/Qwen3-30B-A3B: cannot be read",
         'dovetail: --model Qwen/Qwen3-30B-A3B: no such file, did you mean ' 'the shipped "qwen3-30b-a3b"?',
         r'--model Qwen/.*"qwen3-30b-a3b"'),
    poor("tune --cluster dgx-h100 --model Qwen/QwQ-32B --global-batch 64", "a model that is not shipped",
         "dovetail: Qwen/QwQ-32B: cannot be read",
         "dovetail: --model Qwen/QwQ-32B: no such file; for a model of Hugging "
         "Face get its config.json and make a model by: dovetail import config.json -o model.json", r"dovetail import"),
    poor(FILE, "a model of Hugging Face", "dovetail: allenai/OLMoE-1B-7B-0924: cannot be read",
         'job.json:3:12: /model: allenai/OLMoE-1B-7B-0924: no such file, did you mean "olmoe-1b-7b"?',
         r"^job\.json:3:12: /model", files=job("olmoe-1b-7b", "allenai/OLMoE-1B-7B-0924")),
    poor(OWN_CLUSTER, "dgx-h100", 'dovetail: unknown calibration "h100", did you mean "dgx-h100"?',
         'mine.json:10:18: /calibration: unknown calibration "h100", did you mean "dgx-h100"?', r"^mine\.json:10:18: ",
         files=cluster('"calibration": "fsmoe-testbed-b"', '"calibration": "h100"')),
    poor("import Qwen/Qwen3-30B-A3B", "a model of Hugging Face", "dovetail: Qwen/Qwen3-30B-A3B: cannot be read",
         "dovetail: Qwen/Qwen3-30B-A3B: no such file; expected the path of a config.json, which the model's page has",
         r"expected .*config\.json"),
    poor("import qwen3-30b-a3b", "a model that is shipped", "dovetail: qwen3-30b-a3b: cannot be read",
         'dovetail: qwen3-30b-a3b: no such file; this model is shipped: --model qwen3-30b-a3b',
         r"--model qwen3-30b-a3b"),
    poor("tune --cluster dgx-h100.json --model olmoe-1b-7b --global-batch 64", "the shipped file",
         "dovetail: dgx-h100.json: cannot be read", 'dovetail: --cluster dgx-h100.json: no such file, did you mean '
         '"dgx-h100"?', r'did you mean "dgx-h100"'),
    poor("validate host.json", "the shipped grid", "dovetail: host.json: cannot be read",
         'dovetail: host.json: no such file, did you mean "host"?', r'did you mean "host"'),
    poor("tune --cluster H100x8 --model olmoe-1b-7b --global-batch 64", "a node of H100",
         'unknown cluster "H100x8" (known',
         'dovetail: --cluster H100x8: unknown cluster "H100x8", did you mean "dgx-h100"?', r'did you mean "dgx-h100"'),
    poor("tune --cluster p5.48xlarge --model olmoe-1b-7b --global-batch 64", "AWS's nodes of H100",
         'unknown cluster "p5.48xlarge" (known',
         'dovetail: --cluster p5.48xlarge: unknown cluster, did you mean "dgx-h100", ' "which has the same GPUs?",
         r'did you mean "(hgx|dgx)-h100"'),
    poor("tune --cluster a3-megagpu-8g --model olmoe-1b-7b --global-batch 64", "Google's nodes of H100",
         'unknown cluster "a3-megagpu-8g" (known', 'dovetail: --cluster a3-megagpu-8g: unknown cluster, did you mean '
         '"hgx-h100", which has the same GPUs?', r'did you mean "hgx-h100"'),
    poor("tune --cluster ND_H100_v5 --model olmoe-1b-7b --global-batch 64", "Azure's nodes of H100",
         'unknown cluster "ND_H100_v5" (known',
         'dovetail: --cluster ND_H100_v5: unknown cluster, did you mean "dgx-h100"?', r'did you mean "(hgx|dgx)-h100"'),
    poor("tune --cluster dgx-h100 --model deepseek-r1 --global-batch 64", "the model of the sizes of V3",
         'did you mean "deepseek-v2"?', 'dovetail: --model deepseek-r1: unknown model, did you mean "deepseek-v3"?',
         r'did you mean "deepseek-v3"'),
    poor(f"compare {ON.replace('dgx-h100', 'dgx-h100,ndv4')} --system tutel", "two clusters",
         'unknown cluster "dgx-h100,ndv4"',
         "dovetail: --cluster dgx-h100,ndv4: compare takes one cluster; for several see dovetail tune --help",
         r"takes one cluster"),
    poor(f"simulate {ON} --plan megatron_lm", "a system", "dovetail: megatron_lm: cannot be read",
         "dovetail: --plan megatron_lm: no such file, did you mean --system megatron_lm?", r"--system megatron_lm"),
    poor("simulate --model olmoe-1b-7b --system megatron_lm", "any cluster",
         "dovetail: no cluster given, expected one of", "dovetail: --cluster is missing: expected one of a10g-4, ...",
         r"--cluster"),
]

# models/files/input_file.cpp, which knows a checkpoint's config.json given as a model already: files of another kind.
KINDS = [
    poor("tune --cluster dgx-h100 --model ./checkpoint --global-batch 64", "a checkpoint as the model",
         "./checkpoint: is a directory, expected a file",
         "dovetail: --model ./checkpoint: a checkpoint, not a model file; "
         "make one by: dovetail import ./checkpoint -o model.json", r"dovetail import \./checkpoint",
         files={"checkpoint/config.json": CONFIG}),
    poor("import model.safetensors", "the weights of a checkpoint", "model.safetensors:1:3: a zero byte, expected text",
         "dovetail: model.safetensors: weights, expected the config.json beside them", r"config\.json",
         files={"model.safetensors": SAFETENSORS}),
    poor("import model.index.json", "the index of a checkpoint", 'missing key "num_hidden_layers"',
         "model.index.json:1:1: an index of weights, expected the config.json beside it", r"config\.json",
         files={"model.index.json": INDEX}),
    poor("import tiny.json", "a model file of Dovetail", 'missing key "num_hidden_layers"',
         "tiny.json:1:1: a model file already; give it by --model tiny.json", r"--model tiny\.json"),
    poor("import run.sh", "a launch script of Megatron-LM", 'run.sh:1:1: unexpected "#", expected a value',
         "run.sh:1:1: a script, not a config.json; for one of Megatron-LM: dovetail import --megatron run.sh",
         r"import --megatron run\.sh", files={"run.sh": SCRIPT}),
    poor("simulate --experiment run.sh --system megatron_lm", "a launch script of Megatron-LM",
         'unknown experiment "run.sh" (known', 'dovetail: --experiment run.sh: no experiment; make one by: '
         "dovetail import --megatron run.sh -o job.json", r"import --megatron run\.sh", files={"run.sh": SCRIPT}),
    poor("import ds_config.json", "a configuration of DeepSpeed", 'missing key "num_hidden_layers"',
         "ds_config.json:1:1: a configuration of DeepSpeed; dovetail import --deepspeed ds_config.json --model NAME",
         r"import --deepspeed ds_config\.json", files={"ds_config.json": DEEPSPEED}),
    poor("simulate --experiment ds_config.json --system deepspeed_moe", "a configuration of DeepSpeed",
         'unknown key "train_batch_size", expected $schema', "ds_config.json:1:1: a configuration of DeepSpeed, not an "
         "experiment; make one by: dovetail import --deepspeed ds_config.json --model NAME -o job.json",
         r"import --deepspeed ds_config\.json", files={"ds_config.json": DEEPSPEED}),
    poor("import --deepspeed run.sh --model olmoe-1b-7b", "a launch script",
         'run.sh:1:1: unexpected "#", expected a value',
         "run.sh:1:1: no configuration of DeepSpeed, which is JSON; for a script: dovetail import --megatron run.sh",
         r"--megatron run\.sh", files={"run.sh": SCRIPT}),
    poor("import --megatron config.json", "a checkpoint", "config.json: --num-layers is not given",
         "config.json:1:1: a checkpoint's config.json; make a model by: dovetail import config.json -o model.json",
         r"dovetail import config\.json", files={"config.json": CONFIG}),
    poor("import folder.json", "a folder without a config.json", "folder.json/config.json: cannot be read",
         "dovetail: folder.json: no config.json in this folder; expected the folder of a checkpoint", r"expected"),
    poor("simulate --experiment tuned.json", "the result of tune -o", 'unknown key "schema_version", expected $schema',
         "tuned.json:2:3: a result, not an experiment; dovetail tune --save FILE writes one", r"--save",
         files={"tuned.json": RESULT}),
    poor("explain job.json", "the file of tune --save", 'missing key "schema_version"',
         "job.json:1:1: an experiment, not a result; explain takes what tune, plan, compare or simulate wrote by -o",
         r"-o", files={"job.json": JOB}),
    poor("simulate --cluster dgx-h100 --model job.json --system tutel", "an experiment",
         '/cluster: unknown key "cluster"',
         "job.json:1:1: an experiment, not a model file; give it by --experiment job.json", r"--experiment job\.json",
         files={"job.json": JOB}),
    poor("simulate --experiment good.json --system tutel", "a cluster", '/name: unknown key "name", expected $schema',
         "good.json:1:1: a cluster, not an experiment; give it by --cluster good.json", r"--cluster good\.json"),
    poor("simulate --cluster tiny.json --model good.json --system tutel", "both the wrong way round",
         'unknown key "layers"', "tiny.json:1:1: a model, not a cluster; give it by --model tiny.json",
         r"--model tiny\.json"),
    poor("run --experiment config.json --system tutel", "a checkpoint", '/architectures: unknown key "architectures"',
         "config.json:1:1: a checkpoint's config.json, not an experiment; make a model of it by: "
         "dovetail import config.json", r"dovetail import", files={"config.json": CONFIG}),
    poor(OWN_PLAN, "a system", '/name: unknown key "name"',
         "mine.json:1:1: a system, not a plan; give it by --system mine.json", r"--system mine\.json",
         files={"mine.json": SYSTEM}),
    poor("calibrate --base dgx-h100 --nccl-tests config.json", "another JSON", 'config.json:1:1: missing key "args"',
         'config.json:1:1: no output of nccl-tests: expected "args" and "results", as its option -J writes them',
         r"nccl-tests", files={"config.json": CONFIG}),
    poor("sweep grid.json -o x.jsonl", "axes by name", "/axes: expected an array, got an object",
         'grid.json:1:10: /axes: expected an array such as [{"name": "workload.batch", "values": [1, 2]}], '
         'got an object',
         r"such as", files={"grid.json": '{"axes": {"workload.batch": [1, 2]}}'}),
]

# models/base/json/json_syntax.cpp: habits of other formats.
SYNTAX = [
    poor(FILE, "a comment", 'job.json:4:15: unexpected "#", expected a key in double quotes',
         'job.json:4:15: unexpected "#"; comments begin with "//"', r"4:15: .*//", files=job("1,\n", "1, # one\n")),
    poor(FILE, "YAML", 'job.json:1:1: unexpected "cluster", expected a value',
         "job.json:1:1: no JSON; expected an object, which begins with \"{\"", r"1:1: .*(JSON|\{)",
         files={"job.json": "cluster: dgx-h100\nmodel: olmoe-1b-7b\n"}),
    poor(FILE, "ZeRO-3", "job.json:4:32: /plan/zero: expected at most 1, got 3",
         "job.json:4:32: /plan/zero: zero 3 is not built yet; built: 0 to 1", r"4:32: .*not built yet",
         files=job('"nodes": 1', '"nodes": 1, "plan": {"zero": 3}')),
]

# models/question/parallelism.cpp, models/files/load_experiment.cpp, pipeline_rules.cpp, bench/pipeline/tune.cpp: sizes.
SIZES = [
    poor(f"{ASK} --set tp=3", "three ranks", "--set tp=3: pp 1 x dp 2 x mp 3 = 6 ranks, but the cluster has 8 GPUs",
         "dovetail: --set tp=3: tp 3 does not divide the 8 GPUs; 2 or 4 would", r"--set tp=3: .*\b[24]\b.* would"),
    poor(f"{ASK} --set pp=5", "five stages", "ranks, but the cluster has 8 GPUs",
         "dovetail: --set pp=5: pp 5 does not divide the 8 GPUs; 4 would", r"--set pp=5: .*4 would"),
    poor(f"{ASK} --set ep=7", "seven ranks",
         "--set ep=7: pp 1 x edp 1 x ep 7 x esp 1 = 7 ranks, but the cluster has 8 GPUs",
         "dovetail: --set ep=7: ep 7 does not divide the 8 GPUs and 64 experts; 8 would", r"--set ep=7: .*8 would"),
    poor(f"{ASK} --set edp=3", "three copies", "--set edp=3: pp 1 x edp 3 x ep 2 x esp 1 = 6 ranks",
         "dovetail: --set edp=3: edp 3 does not divide the 8 GPUs; 2 or 4 would", r"--set edp=3: .* would"),
    poor(f"{QWEN} --set tp=1 --set ep=7", "seven ranks of 60 experts", "dovetail: --set tp=1: pp 1 x edp 1 x ep 7",
         "dovetail: --set ep=7: ep 7 divides neither the 8 GPUs nor the 60 experts; 4 would", r"--set ep=7: .*4 would"),
    poor("simulate --cluster dgx-h100 --nodes 3 --model gpt2-xl-moe --system megatron_lm --set tp=3", "three ranks",
         "dovetail: /parallelism/esp: esp 3 does not divide the expert hidden size 6400; 2 would",
         "dovetail: --set tp=3: etp 3, which follows it, does not divide the expert hidden size 6400; 2 would",
         r"--set tp=3: .*2 would"),
    poor(FILE, "seven ranks", "job.json:6:18: /parallelism: pp 1 x edp 1 x ep 7",
         "job.json:6:36: /parallelism/ep: ep 7 does not divide the 8 GPUs; 8 would",
         r"^job\.json:6:\d+: /parallelism/ep: ", files=job('"ep": 8', '"ep": 7')),
    poor(f"{TUNE} --set tp=3", "three ranks", "expected other sizes than mp 3 (2 would)",
         "dovetail: --set tp=3: no layout has it: expected another size, such as 2", r"tp[ =]3"),
    poor(f"{TUNE} --set mbs=3", "three samples", "expected other sizes than micro-batch 3 (2 would)",
         "dovetail: --set mbs=3: no layout has it: expected another size, such as 2", r"mbs[ =]3"),
    poor(f"{ASK} --set gbs=12", "twelve samples", "--set gbs=12: 12 samples do not divide over dp 8",
         "dovetail: --set gbs=12: 12 samples do not divide over dp 8; 8 or 16 would", r"gbs=12: .*16 would"),
    poor(f"{ASK} --set gbs=64 --set mbs=3", "three samples", "3 do not divide the 8 samples of a model-parallel group",
         "dovetail: --set mbs=3: 3 do not divide the 8 samples of a rank (gbs 64 over dp 8); 2 or 4 would",
         r"mbs=3: .* would"),
    poor(f"{ASK} --set pp=4 --set vpp=2 --set gbs=12 --set mbs=1", "six micro-batches",
         "dovetail: system megatron_lm: /plan/micro_batches: 6 do not divide over the 4 pipeline stages",
         "dovetail: --set gbs=12: 6 micro-batches do not divide over the 4 pipeline stages; expected gbs 16, or vpp 1",
         r"--set gbs=12: .*16"),
    poor("tune --cluster dgx-h100 --nodes 1 --model llama-3.1-8b --global-batch 8 --set ep=8 --draws 0 -q",
         "experts of a dense model", NOTHING, "dovetail: --set ep=8: llama-3.1-8b has no experts; expected ep 1",
         r"--set ep=8"),
    poor(f"{ASK} --set cluster.device.memory=80GB --draws 0 -q", "the 80 GiB of an H100's data sheet", NOTHING,
         'note: 80 GB are 74.5 GiB; where a data sheet says "80 GB" of memory it means 80 GiB', r"74\.5 GiB.*80 GiB",
         code=0),
]

POOR = COMMANDS + OPTIONS + SETTINGS + KEYS + NAMES + KINDS + SYNTAX + SIZES
