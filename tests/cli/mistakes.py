# SPDX-License-Identifier: Apache-2.0
"""Mistakes of people who come from Megatron-LM, DeepSpeed, FSDP, Hugging Face or a cloud, each with what the one line
that answers it must say: the place, and a way on. mistakes_poor.py has those whose answer is not good enough yet."""
from dataclasses import dataclass, field

from bad_input_cases import CLUSTER, MODEL

ON = "--cluster dgx-h100 --nodes 1 --model olmoe-1b-7b"
ASK = f"simulate {ON} --system megatron_lm"
MEGATRON = "simulate --cluster dgx-h100 --nodes 1 --system megatron_lm"  # with a model to follow
TUNE = f"tune {ON} --global-batch 64"
FILE = "simulate --experiment job.json --system megatron_lm"
OWN_CLUSTER = "simulate --cluster mine.json --model tiny.json --system tutel"
OWN_MODEL = "simulate --cluster good.json --model mine.json --system tutel"
OWN_PLAN = "simulate --cluster good.json --model tiny.json --plan mine.json"
JOB = """{
  "cluster": "dgx-h100",
  "model": "olmoe-1b-7b",
  "nodes": 1,
  "workload": {"batch": 4, "sequence": 4096},
  "parallelism": {"mp": 1, "ep": 8}
}
"""
CONFIG = """{
  "architectures": ["MixtralForCausalLM"],
  "hidden_size": 4096,
  "num_hidden_layers": 32
}
"""
SCRIPT = "#!/bin/bash\ntorchrun pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 16\n"
DEEPSPEED = '{"train_batch_size": 64, "zero_optimization": {"stage": 1}}'


@dataclass
class Mistake:
    typed: str                                      # behind `dovetail`, as in a shell
    meant: str                                      # what the user had in mind
    answer: str                                     # regular expression, searched in the line that answers
    code: int = 2
    files: dict = field(default_factory=dict)       # content by name; None is a folder
    unreadable: tuple = ()                          # names of files that nobody may read


def changed(text, old, new):
    assert old in text, old
    return text.replace(old, new)


def job(old, new):
    return {"job.json": changed(JOB, old, new)}


def cluster(old, new):
    return {"mine.json": changed(CLUSTER, old, new)}


def model(old, new):
    return {"mine.json": changed(MODEL, old, new)}


COMMANDS = [
    Mistake("simulat --cluster dgx-h100", "simulate", r'unknown command "simulat", did you mean "simulate"\?'),
    Mistake("TUNE --cluster dgx-h100", "tune", r'unknown command "TUNE", did you mean "tune"\?'),
    Mistake("estimate --cluster dgx-h100", "simulate, by the word of another tool",
            r"expected one of tune, .*simulate"),
    Mistake(f"tune --nodez 2 {ON}", "--nodes", r'unknown option "--nodez", did you mean "--nodes"\?'),
    Mistake(f"tune --nnodes 2 {ON}", "--nodes, as torchrun has it", r'"--nnodes", did you mean "--nodes"\?'),
    Mistake("tune -cluster dgx-h100", "--cluster", r'"-cluster", did you mean "--cluster"\?'),
    Mistake(f"tune {ON} --global_batch 64", "--global-batch", r'"--global_batch", did you mean "--global-batch"\?'),
    Mistake(f"{ASK} --Nodes 2", "--nodes", r'"--Nodes", did you mean "--nodes"\?'),
    Mistake(f"{ASK} --tp 2", "tensor parallelism", r'"--tp", did you mean --set tp=N\?'),
    Mistake(f"{ASK} --expert-model-parallel-size 2", "expert parallelism", r"did you mean --set ep=N\?"),
    Mistake(f"{ASK} --global-batch-size 64", "the batch, as Megatron-LM has it", r"did you mean --set gbs=N\?"),
    Mistake(f"{ASK} --seq-length 8192", "the sequence, as Megatron-LM has it", r"did you mean --set seq=N\?"),
    Mistake(f"{ASK} --systems tutel", "another system", r'"--systems", did you mean "--system"\?'),
    Mistake(f"plan {ON} --knob", "--knobs", r'"--knob", did you mean "--knobs"\?'),
    Mistake(f"run {ON} --system tutel --rank 4", "--ranks", r'"--rank", did you mean "--ranks"\?'),
    Mistake("import config.json --out m.json", "-o", r'"--out", did you mean "--output"\?',
            files={"config.json": CONFIG}),
    Mistake("import config.json --top_k 2", "--top-k", r'"--top_k", did you mean "--top-k"\?',
            files={"config.json": CONFIG}),
    Mistake(f"simulate {ON} --nodes 2", "two nodes", r"--nodes: given twice"),
    Mistake("simulate --cluster --model olmoe-1b-7b", "a cluster of its own",
            r"--cluster: its value is missing before --model"),
    Mistake(f"tune {ON} --global-batch ''", "a variable of the shell that is empty",
            r"--global-batch: its value is missing"),
    Mistake(f"tune {ON}", "a search without a batch", r"--global-batch is missing: how many samples a step trains"),
    Mistake(f"simulate {ON}", "any system", r"takes one --system NAME or one --plan FILE"),
    Mistake("sweep degrees", "a sweep whose cells are printed", r"sweep writes its cells to a file: -o FILE\.jsonl"),
    Mistake("calibrate --nccl-tests out.txt", "costs of nccl-tests alone", r"--nccl-tests: add --base NAME\|FILE"),
]

NAMES = [
    Mistake("tune --cluster h100 --model olmoe-1b-7b --global-batch 64", "H100 GPUs",
            r'^dovetail: --cluster h100: .*"dgx-h100"\?'),
    Mistake("tune --cluster H100 --model olmoe-1b-7b --global-batch 64", "H100 GPUs", r'did you mean "dgx-h100"\?'),
    Mistake("tune --cluster a100 --model olmoe-1b-7b --global-batch 64", "A100 GPUs",
            r'did you mean "dgx-a100-40gb"\? .*dgx-a100-80gb'),
    Mistake("tune --cluster dgxh100 --model olmoe-1b-7b --global-batch 64", "dgx-h100", r'did you mean "dgx-h100"\?'),
    Mistake("tune --cluster 4090 --model olmoe-1b-7b --global-batch 64", "a GPU that nobody described",
            r'^dovetail: --cluster 4090: .*known: .*or a path that ends in \.json'),
    Mistake("compare --cluster dgx-h100 --model Qwen3-30B-A3B", "the model, as its makers write it",
            r'--model Qwen3-30B-A3B: .*did you mean "qwen3-30b-a3b"\?'),
    Mistake("plan --cluster dgx-h100 --model qwen3", "any model of the family",
            r'"qwen3", did you mean "qwen3-30b-a3b"\?'),
    Mistake("simulate --experiment mixtral-8x7b", "the experiment with that model",
            r'did you mean "mixtral-8x7b-64-h100"\?'),
    Mistake(f"simulate {ON} --system megatron", "megatron_lm",
            r'unknown system "megatron", did you mean "megatron_lm"\?'),
    Mistake(f"simulate {ON} --system fsdp", "FSDP", r'unknown system "fsdp" \(known: .*megatron_lm'),
    Mistake(f"simulate {ON} --system zb-h1", "zb_h1", r'unknown system "zb-h1", did you mean "zb_h1"\?'),
    Mistake(f"simulate {ON} --system dualpipe", "DualPipe without a pipeline",
            r"system dualpipe: .*needs a pipeline; expected parallelism\.pp of 2 or more"),
    Mistake(f"compare {ON} --systems 'tutel, fsmoe'", "two systems",
            r'unknown system " fsmoe", did you mean "fsmoe"\?'),
    Mistake(f"{ASK} --backend nccl", "how GPUs talk", r'--backend "nccl": unknown; expected analytic, simgrid'),
    Mistake(f"{ASK} --calibration h100", "costs of an H100", r'--calibration h100: .*did you mean "dgx-h100"\?'),
    Mistake(f"{ASK} --format yaml", "YAML", r'--format "yaml": unknown; expected table, json, csv'),
    Mistake(f"{TUNE} --for fsdp", "PyTorch's FSDP", r'--for "fsdp": unknown; expected megatron, deepspeed, tutel'),
    Mistake(f"{TUNE} --for Megatron-LM", "megatron", r'--for "Megatron-LM": unknown, did you mean "megatron"\?'),
    Mistake(f"{TUNE} --export nemo", "NeMo's arguments", r'--export "nemo": unknown; expected megatron, deepspeed'),
    Mistake(f"{TUNE} --confirm gpu", "this machine's GPU", r'--confirm "gpu": unknown; expected .*host, cuda'),
    Mistake(f"run {ON} --system tutel --device gpu", "cuda", r'--device "gpu": unknown; expected host, cuda'),
    Mistake(f"run {ON} --system tutel --transport gloo", "PyTorch's backend",
            r'--transport "gloo": unknown; expected inproc, mpi'),
    Mistake("calibrate --link nvlink --base dgx-h100 --nccl-tests x.txt", "links in a node",
            r'--link "nvlink": .*intra, inter'),
    Mistake("calibrate --collective allreduce --base dgx-h100 --nccl-tests x.txt", "all_reduce",
            r'did you mean "all_reduce"\?'),
    Mistake("calibrate --nccl-tests x.txt --base h100", "dgx-h100",
            r'unknown calibration "h100", did you mean "dgx-h100"\?'),
    Mistake("validate gpus", "the grid for GPUs", r'"gpus", did you mean "gpu"\?'),
    Mistake("validate olmoe-1b-7b", "a model to validate",
            r'unknown validation_grid "olmoe-1b-7b" \(known: gpu, .*host'),
    Mistake("sweep degree -o x.jsonl", "the shipped grid", r'unknown sweep "degree", did you mean "degrees"\?'),
]

NUMBERS = [
    Mistake("compare --cluster dgx-h100 --nodes two --model olmoe-1b-7b", "2",
            r'--nodes "two": expected a whole number from 1'),
    Mistake("compare --cluster dgx-h100 --nodes 2.5 --model olmoe-1b-7b", "20 GPUs",
            r'--nodes "2\.5": expected a whole number'),
    Mistake(f"tune {ON} --global-batch 4M", "four million tokens",
            r'--global-batch "4M": expected a whole number from 1'),
    Mistake(f"tune {ON} --global-batch -64", "64", r'--global-batch "-64": expected a whole number from 1'),
    Mistake(f"{TUNE} --sequence 8k", "8192", r'--sequence "8k": expected a whole number from 1'),
    Mistake("tune --cluster dgx-h100 --gpus 12 --model olmoe-1b-7b --global-batch 64", "a node and a half",
            r"--gpus 12: not whole nodes of dgx-h100, which have 8 GPUs"),
    Mistake("tune --cluster dgx-h100 --gpus 8-16 --model olmoe-1b-7b --global-batch 64", "8..16",
            r'--gpus "8-16": expected .* a range such as 64\.\.1024'),
    Mistake("tune --cluster dgx-h100 --gpus 16..8 --model olmoe-1b-7b --global-batch 64", "8..16",
            r'--gpus "16\.\.8": its end comes before its beginning'),
    Mistake(f"{TUNE} --gpus 16", "nodes and GPUs at once", r"--gpus contradicts --nodes"),
    Mistake("sweep degrees -o x.jsonl --shard 1-2", "the first of two", r'--shard "1-2": expected I/N, such as 1/4'),
    Mistake("validate host --rounds 0", "no repetition", r'--rounds "0": expected a whole number from 1'),
    Mistake("calibrate --ranks auto", "as many as there are cores", r'--ranks "auto": expected a whole number from 2'),
    Mistake(f"{ASK} --set tp", "--set tp=2", r"--set tp: expected key=value, such as workload\.batch=4"),
    Mistake(f"{ASK} --set tp:4", "--set tp=4", r"--set tp:4: expected key=value"),
    Mistake(f"{ASK} --set tp=", "an empty variable of the shell",
            r'--set tp=: expected a whole number, got the string ""'),
    Mistake(f"{ASK} --set tp=two", "2", r'--set tp=two: expected a whole number, got the string "two"'),
    Mistake(f"{ASK} --set tp=0", "no tensor parallelism", r"--set tp=0: expected at least 1, got 0"),
    Mistake(f"{ASK} --set tp=-4", "4", r"--set tp=-4: expected at least 1, got -4"),
    Mistake(f"{ASK} --set plan.zero=true", "ZeRO", r"--set plan\.zero=true: expected a whole number, got true"),
]

WORDS = [
    Mistake(f"{ASK} --set plan.zero=3", "ZeRO-3 or FSDP",
            r"--set plan\.zero=3: zero 3 is not built yet; built: 0 to 1"),
    Mistake(f"{ASK} --set plan.zero=2", "ZeRO-2", r"--set plan\.zero=2: zero 2 is not built yet; built: 0 to 1"),
    Mistake(f"{ASK} --set zero=3", "ZeRO-3", r'--set zero=3: unknown key "zero", did you mean "plan\.zero"\?'),
    Mistake(f"{ASK} --set cp=2", "context parallelism",
            r"--set cp=2: .*context parallelism.* is not built yet; expected 1"),
    Mistake(f"{ASK} --set dropless=true", "no token is dropped", r'did you mean "model\.dropless"\?'),
    Mistake(f"{ASK} --set capacity_factor=1.2", "tokens are dropped", r'did you mean "workload\.capacity_factor"\?'),
    Mistake(f"{ASK} --set recompute=full", "full recomputation", r'did you mean "plan\.recompute"\?'),
    Mistake(f"{ASK} --set plan.recompute=selective", "Megatron-LM's granularity",
            r'expected "none", "full", "attention"'),
    Mistake(f"{ASK} --set plan.recompute=mlp", "dense layers, of a model that has none",
            r"--set plan\.recompute=mlp: .*needs dense layers, which olmoe-1b-7b has not"),
    Mistake(f"{ASK} --set plan.all_to_all=allgather", "Megatron-LM's dispatcher",
            r"allgather is not built yet; built: linear"),
    Mistake(f"{ASK} --set plan.pipeline_schedule=zb-h1", "zb_h1",
            r'--set plan\.pipeline_schedule=zb-h1: .*did you mean "zb_h1"\?'),
    Mistake(f"{ASK} --set plan.pipeline_schedule=1F1B", "1f1b", r'did you mean "1f1b"\?'),
    Mistake(f"{ASK} --set pp=2 --set plan.pipeline_schedule=dualpipe", "DualPipe",
            r"--set plan\.pipeline_schedule=dualpipe: .*expected plan\.virtual_stages of 2"),
    Mistake(f"{ASK} --set vpp=2", "virtual stages without a pipeline",
            r"--set vpp=2: .*expected parallelism\.pp of 2 or more"),
    Mistake(f"{ASK} --set dtype=bfloat16", "bf16", r'--set dtype=bfloat16: .*did you mean "workload\.dtype"\?'),
    Mistake(f"{ASK} --set workload.dtype=bfloat16", "bf16", r'--set workload\.dtype=bfloat16: expected .*"bf16"'),
    Mistake(f"{ASK} --set workload.dtype=fp8", "products in fp8",
            r"fp8 is a format of products \(workload\.products\)"),
    Mistake(f"{ASK} --set workload.attention=sdpa", "flash attention",
            r'--set workload\.attention=sdpa: expected "flash" or "eager"'),
    Mistake(f"{ASK} --set batch=4", "workload.batch", r'--set batch=4: .*did you mean "workload\.batch"\?'),
    Mistake(f"{ASK} --set plan.degree=2", "chunks", r'unknown key "degree", did you mean "forward_degree"\?'),
    Mistake(f"{ASK} --set cluster.gpus=16", "two nodes", r'unknown key "gpus", did you mean "gpus_per_node"\?'),
    Mistake(f"{ASK} --set cluster.nic_bandwidth=400Gbps", "400 Gb/s", r'unit "Gbps" is unknown, did you mean "Gb/s"\?'),
    Mistake(f"{ASK} --set cluster.nic_bandwidth='50 GBps'", "50 GB/s",
            r'unit "GBps" is unknown, did you mean "GB/s"\?'),
    Mistake(f"{ASK} --set cluster.nic_bandwidth=400", "400 Gb/s",
            r'expected a string such as "200 Gb/s", got the number 400'),
    Mistake(f"{ASK} --set cluster.nic_bandwidth=400Gb", "400 Gb/s",
            r'such as "200 Gb/s", got "400Gb", which is an amount of data'),
    Mistake(f"{ASK} --set cluster.device.memory=80", "80 GiB", r'--set cluster\.device\.memory=80: .*such as "40 GiB"'),
    Mistake(f"{ASK} --set cluster.device.memory=80G", "80 GiB",
            r'such as "40 GiB", got "80G", whose unit "G" is unknown'),
    Mistake(f"{ASK} --set cluster.device.memory=-80GiB", "80 GiB", r'expected more than zero, got "-80GiB"'),
    Mistake(f"{ASK} --set cluster.device.peak.bf16=989TFLOPS", "989 TFLOP/s",
            r'such as "312 TFLOP/s", got "989TFLOPS"'),
]

SIZES = [
    Mistake(f"{MEGATRON} --model qwen1.5-moe-a2.7b --set tp=1 --set ep=8", "a GPU has a part of 60 experts",
            r"^dovetail: --set ep=8: ep 8 does not divide the model's 60 experts; 4 would$"),
    Mistake("simulate --cluster dgx-h100 --nodes 4 --model olmoe-1b-7b --system megatron_lm --set pp=32",
            "a deep pipeline", r"--set pp=32: .*more pipeline stages than the 16 layers"),
    Mistake(f"{ASK} --set tp=32", "more ranks than GPUs", r"--set tp=32: .* = 32 ranks, but the cluster has 8 GPUs"),
    Mistake(f"{ASK} --set workload.top_k=200", "8",
            r"--set workload\.top_k=200: 200, expected 1 to 64 \(the experts of"),
    Mistake(f"{MEGATRON} --model qwen3-30b-a3b --set model.attention.heads=30", "32 heads",
            r"--set model\.attention\.heads=30: 30, expected a multiple of the 4 kv_heads"),
    Mistake("compare --cluster dgx-h100 --nodes 1 --model llama-3.1-8b --systems megatron_lm --set ep=8",
            "experts of a dense model", r"--set ep=8: .*but llama-3\.1-8b has no experts"),
    Mistake(f"{TUNE} --set pp=5", "five stages on eight GPUs", r"expected other sizes than pp 5 \(4 would\)"),
    Mistake(f"{TUNE} --set ep=7", "seven ranks of experts", r"expected other sizes than ep 7 \(8 would\)"),
    Mistake(f"{TUNE} --set workload.batch=2", "the micro-batch",
            r"--set workload\.batch=2: .*give .* by --global-batch"),
    Mistake("tune --cluster dgx-h100 --nodes 1 --model deepseek-v3 --global-batch 64", "a model on too few GPUs",
            r"no plan fits .* of each H100.*fit 256 GPUs or fewer", code=3),
    Mistake("plan --cluster dgx-h100 --nodes 1 --model deepseek-v3 --system megatron_lm", "a model on too few GPUs",
            r"no plan fits: megatron_lm needs .*--nodes 32: .*fits", code=3),
]

JSON = [
    Mistake(FILE, "a comma at the end", r"^job\.json:6:36: trailing comma", files=job('"ep": 8}', '"ep": 8},')),
    Mistake(FILE, "a missing comma", r'^job\.json:5:3: .*expected "," or', files=job('"nodes": 1,', '"nodes": 1')),
    Mistake(FILE, "text as Python has it", r"^job\.json:2:3: .*expected text in double quotes",
            files={"job.json": JOB.replace('"', "'")}),
    Mistake(FILE, "a key without quotes", r'^job\.json:5:16: .*"batch", expected a key in double quotes',
            files=job('"batch"', "batch")),
    Mistake(FILE, "Python's True", r'^job\.json:4:12: unexpected "True", did you mean "true"\?',
            files=job("1,\n", "True,\n")),
    Mistake(FILE, "a key given twice", r'^job\.json:4:15: .*already given on line 4',
            files=job('"nodes": 1', '"nodes": 1, "nodes": 2')),
    Mistake(FILE, "a copy that was cut", r'^job\.json:6:\d+: .*ends too early, expected "}"',
            files={"job.json": JOB[:-3]}),
    Mistake(FILE, "nothing", r"^job\.json:1:1: the file is empty, expected a JSON object", files={"job.json": ""}),
    Mistake(FILE, "1", r'^job\.json:4:12: /nodes: expected a whole number, got the string "1"',
            files=job(": 1,\n", ': "1",\n')),
    Mistake(FILE, "4", r'^job\.json:5:25: /workload/batch: expected a whole number.*"4"',
            files=job('"batch": 4', '"batch": "4"')),
    Mistake(FILE, "nodes", r'^job\.json:4:3: /gpus: unknown key "gpus", expected .*nodes',
            files=job('"nodes": 1', '"gpus": 8')),
    Mistake(FILE, "micro_batch", r'^job\.json:5:16: .*did you mean "micro_batch"\?',
            files=job('"batch"', '"micro_batch_size"')),
    Mistake(FILE, "context parallelism", r"^job\.json:6:\d+: /parallelism/cp: .*not built yet; expected 1",
            files=job('"ep": 8', '"ep": 8, "cp": 2')),
    Mistake(FILE, "H100 GPUs", r'^job\.json:2:14: /cluster: .*did you mean "dgx-h100"\?',
            files=job("dgx-h100", "h100")),
    Mistake(OWN_CLUSTER, "100 Gb/s", r'^mine\.json:9:20: /nic_bandwidth: .*did you mean "Gb/s"\?',
            files=cluster("100 Gb/s", "100Gbps")),
    Mistake(OWN_CLUSTER, "11 GiB", r'^mine\.json:5:39: /device/memory: .*"40 GiB", got "11", which has no unit',
            files=cluster("11 GiB", "11")),
    Mistake(OWN_CLUSTER, "11 GiB", r'^mine\.json:5:39: .*such as "40 GiB", got the number 11',
            files=cluster('"11 GiB"', "11")),
    Mistake(OWN_CLUSTER, "fp32", r"^mine\.json:5:90: .*expected bf16, fp16, fp32",
            files=cluster('"fp32": "13', '"tf32": "13')),
    Mistake(OWN_CLUSTER, "gpus_per_node", r'^mine\.json:4:3: .*did you mean "gpus_per_node"\?',
            files=cluster("gpus_per_node", "gpus")),
    Mistake(OWN_MODEL, "gated", r'^mine\.json:10:18: .*expected "ffn" or "gated"', files=model('"ffn"', '"swiglu"')),
    Mistake(OWN_MODEL, "4", r"^mine\.json:6:26: .*5, expected a multiple of the 4 kv_heads",
            files=model('"heads": 4, "kv', '"heads": 5, "kv')),
    Mistake(OWN_MODEL, "2 of 4 experts", r"^mine\.json:8:12: /top_k: 8, expected at most the 4 experts",
            files=model('"top_k": 2', '"top_k": 8')),
    Mistake(OWN_PLAN, "forward_degree", r'^mine\.json:1:2: .*did you mean "forward_degree"\?',
            files={"mine.json": '{"degree": 2}'}),
    Mistake(OWN_PLAN, "layer", r'^mine\.json:1:11: /scope: .*did you mean "layer"\?',
            files={"mine.json": '{"scope": "Layer"}'}),
]

FILES = [
    Mistake("tune --cluster dgx-h100 --model config.json --global-batch 64", "a checkpoint's config.json as the model",
            r"^config\.json:1:1: .*not a model file; make one by: dovetail import config\.json",
            files={"config.json": CONFIG}),
    Mistake("simulate --experiment nosuch.json", "a file of another folder",
            r"^dovetail: nosuch\.json: .*No such file"),
    Mistake("simulate --experiment job.json", "a file of another user", r"^dovetail: job\.json: .*Permission denied",
            files={"job.json": JOB}, unreadable=("job.json",)),
    Mistake("explain folder.json", "a result in it", r"^dovetail: folder\.json: is a directory, expected a file"),
    Mistake("import nosuch/config.json", "a checkpoint of another folder",
            r"^dovetail: nosuch/config\.json: .*No such file"),
    Mistake("import config.json -o folder.json", "a file in it", r"cannot write folder\.json: Is a directory",
            files={"config.json": '{"model_type": "mixtral"}'}),
    Mistake("import --megatron run.sh", "a script that lacks sizes",
            r"run\.sh: --hidden-size is not given.*--model NAME takes", files={"run.sh": SCRIPT}),
    Mistake("import --megatron run.sh config.json", "the sizes of a checkpoint",
            r"import: expected one of a config\.json, --megatron FILE",
            files={"run.sh": SCRIPT, "config.json": CONFIG}),
    Mistake("import --megatron run.sh --var TP", "the script's variable", r'--var "TP": expected NAME=VALUE',
            files={"run.sh": SCRIPT}),
    Mistake("import --deepspeed ds_config.json", "the whole training",
            r"^ds_config\.json:1:1: .*says nothing of the model; --model NAME gives",
            files={"ds_config.json": DEEPSPEED}),
    Mistake("import config.json --experts eight", "8", r'--experts "eight": expected a whole number',
            files={"config.json": CONFIG}),
    Mistake("calibrate --base dgx-h100 --nccl-tests out.txt", "a job that did not start",
            r"^out\.txt:1:1: no output of nccl-tests: expected its header",
            files={"out.txt": "srun: command not found\n"}),
    Mistake("calibrate --base dgx-h100 --measurements runs", "files of another tool",
            r"^dovetail: runs: no measurements, expected gemm\.csv", files={"runs/readme.txt": "none"}),
    Mistake("sweep job.json -o x.jsonl", "an experiment as a grid",
            r'^job\.json:2:3: .*"cluster", expected axes, backend', files={"job.json": JOB}),
]

GOOD = COMMANDS + NAMES + NUMBERS + WORDS + SIZES + JSON + FILES

# Words of other tools that are no mistakes: the result, as JSON, has what they mean there.
UNDERSTOOD = [
    Mistake(f"{ASK} --set TP=2", "tp in capitals", r'"mp": 2,'),
    Mistake(f"{ASK} --set tensor_model_parallel_size=2", "Megatron-LM's option", r'"mp": 2,'),
    Mistake(f"{ASK} --set pipeline-model-parallel-size=2", "Megatron-LM's option", r'"pp": 2'),
    Mistake(f"{ASK} --set seq=2048", "what --seq-length is told", r'"sequence": 2048'),
    Mistake(f"{ASK} --set plan.recompute=moe_act", "a module of Megatron-LM", r'"recompute": \[?\s*"activation"'),
    Mistake(f"{ASK} --set plan.recompute=layernorm", "a module of Megatron-LM", r'"recompute": \[?\s*"norms"'),
    Mistake(f"{ASK} --set recompute_modules=core_attn", "a module of Megatron-LM", r'"recompute": \[?\s*"attention"'),
    Mistake(f"{ASK} --set plan.all_to_all=deepep", "DeepEP", r'"all_to_all": "node_deduplicated"'),
    Mistake(f"{ASK} --set plan.all_to_all=hybridep", "HybridEP", r'"all_to_all": "node_deduplicated"'),
    Mistake(f"{ASK} --set plan.dispatcher=alltoall", "Megatron-LM's dispatcher", r'"all_to_all": "linear"'),
]
