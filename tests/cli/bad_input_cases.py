"""The table of bad_input_test.py: wrong inputs, and what the program must say about each."""
from dataclasses import dataclass, field

CLUSTER = """{
  "name": "small",
  "nodes": 2,
  "gpus_per_node": 2,
  "device": {"name": "GPU", "memory": "11 GiB", "memory_bandwidth": "616 GB/s", "peak": {"fp32": "13 TFLOP/s"}},
  "node_link": "pcie",
  "node_bandwidth": "15.75 GB/s",
  "nics_per_node": 1,
  "nic_bandwidth": "100 Gb/s",
  "calibration": "fsmoe-testbed-b",
  "default_workload": {"sequence": 256, "dtype": "fp32"}
}
"""
MODEL = """{
  "name": "tiny",
  "source": "made up",
  "layers": 2,
  "hidden": 64,
  "attention": {"heads": 4, "kv_heads": 4, "head_size": 16},
  "experts": 4,
  "top_k": 2,
  "expert_hidden": 128,
  "expert_kind": "ffn"
}
"""
PLATFORM = """<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="all" routing="Full">
<host id="a" speed="lots"/></zone></platform>
"""
SHIPPED = "--cluster fsmoe-testbed-b --model mixtral-8x7b"
TINY = "--cluster good.json --model tiny.json"  # both written beside every case
SIMULATE = f"simulate {TINY} --system tutel"
WITH_BAD_CLUSTER = "simulate --cluster bad.json --model tiny.json --system tutel"
WITH_BAD_MODEL = "simulate --cluster good.json --model bad.json --system tutel"
NCCL_HEADER = "# size count type redop root time algbw busbw #wrong\n"
WITH_BAD_NCCL = "calibrate --base dgx-h100 --link inter --collective all_reduce --nccl-tests bad.json"
WITH_BAD_PLAN = f"simulate {TINY} --plan bad.json"


@dataclass
class Case:
    name: str
    arguments: str          # split at spaces
    expected: str           # regular expression, searched in the one line on standard error
    code: int = 2
    bad: object = None      # content of bad.json: text, bytes or a function that makes it
    more: list = field(default_factory=list)  # arguments with spaces in them


def cluster(old, new):
    assert old in CLUSTER
    return CLUSTER.replace(old, new)


def model(old, new):
    assert old in MODEL
    return MODEL.replace(old, new)


FILES = [
    Case("unknown key", WITH_BAD_CLUSTER, r'^bad\.json:3:3: /nodez: .*did you mean "nodes"', bad=cluster('"nodes"', '"nodez"')),
    Case("missing key", WITH_BAD_CLUSTER, r"^bad\.json:1:1: .*nodes", bad=cluster('  "nodes": 2,\n', "")),
    Case("wrong unit", WITH_BAD_CLUSTER, r"^bad\.json:7:\d+: /node_bandwidth: .*GiB", bad=cluster("15.75 GB/s", "15.75 GiB")),
    Case("unknown unit", WITH_BAD_CLUSTER, r"^bad\.json:7:\d+: /node_bandwidth: ", bad=cluster("15.75 GB/s", "15.75 furlongs")),
    Case("missing unit", WITH_BAD_CLUSTER, r"^bad\.json:7:\d+: /node_bandwidth: .*unit", bad=cluster("15.75 GB/s", "15.75")),
    Case("number for a quantity", WITH_BAD_CLUSTER, r"^bad\.json:7:\d+: /node_bandwidth: .*Gb/s", bad=cluster('"15.75 GB/s"', "15.75")),
    Case("negative size", WITH_BAD_CLUSTER, r"^bad\.json:5:\d+: /device/memory: .*-11 GiB", bad=cluster("11 GiB", "-11 GiB")),
    Case("zero nodes", WITH_BAD_CLUSTER, r"^bad\.json:3:\d+: /nodes: .*at least 1", bad=cluster('"nodes": 2', '"nodes": 0')),
    Case("fraction of a node", WITH_BAD_CLUSTER, r"^bad\.json:3:\d+: /nodes: ", bad=cluster('"nodes": 2', '"nodes": 1.5')),
    Case("more nodes than an int holds", WITH_BAD_CLUSTER, r"^bad\.json:3:\d+: /nodes: ", bad=cluster('"nodes": 2', '"nodes": 99999999999')),
    Case("too many GPUs in all", WITH_BAD_CLUSTER, r"^bad\.json:\d+:\d+: ", bad=cluster('"nodes": 2', '"nodes": 2147483647')),
    Case("text for a number", WITH_BAD_CLUSTER, r"^bad\.json:3:\d+: /nodes: .*\"two\"", bad=cluster('"nodes": 2', '"nodes": "two"')),
    Case("NaN", WITH_BAD_CLUSTER, r"^bad\.json:3:\d+: ", bad=cluster('"nodes": 2', '"nodes": NaN')),
    Case("not finite", WITH_BAD_CLUSTER, r"^bad\.json:7:\d+: /node_bandwidth: ", bad=cluster("15.75 GB/s", "1e308 GB/s")),
    Case("wrong enumerator", WITH_BAD_CLUSTER, r'^bad\.json:6:\d+: /node_link: .*did you mean "nvswitch"', bad=cluster('"pcie"', '"nvswich"')),
    Case("truncated", WITH_BAD_CLUSTER, r"^bad\.json:\d+:\d+: ", bad=CLUSTER[:100]),
    Case("empty file", WITH_BAD_CLUSTER, r"^bad\.json:1:1: ", bad=""),
    Case("not JSON", WITH_BAD_CLUSTER, r"^bad\.json:1:\d+: ", bad="nodes: 3\n"),
    Case("an array", WITH_BAD_CLUSTER, r"^bad\.json:1:1: .*object", bad="[1, 2]"),
    Case("text behind the end", WITH_BAD_CLUSTER, r"^bad\.json:13:1: ", bad=CLUSTER + "}"),
    Case("100 MB", WITH_BAD_CLUSTER, r"bad\.json.*64", bad=lambda: '{"name": "' + "x" * 100_000_000 + '"}'),
    Case("nested too deep", WITH_BAD_CLUSTER, r"^bad\.json:1:\d+: .*64", bad=lambda: "[" * 100_000 + "]" * 100_000),
    Case("key given twice", WITH_BAD_CLUSTER, r'^bad\.json:4:3: .*"?nodes"?', bad=cluster('"nodes": 2,', '"nodes": 2,\n  "nodes": 3,')),
    Case("invalid UTF-8", WITH_BAD_CLUSTER, r"^bad\.json:2:\d+: .*UTF-8", bad=CLUSTER.encode().replace(b"small", b"sm\xff\xfell")),
    Case("zero bytes", WITH_BAD_CLUSTER, r"^bad\.json:1:1: ", bad=b"\0" * 100),
    Case("line breaks in a key", WITH_BAD_CLUSTER, r"^bad\.json:2:3: .*unknown key", bad=cluster('"name": "small"', '"name\\n\\u001b[31m": "small"')),
    Case("more choices than experts", WITH_BAD_MODEL, r"^bad\.json:8:\d+: /top_k: ", bad=model('"top_k": 2', '"top_k": 5')),
    Case("missing file", "simulate --cluster none.json --model tiny.json --system tutel", r"none\.json.*No such file"),
    Case("folder as file", "simulate --cluster folder.json --model tiny.json --system tutel", r"folder\.json.*irectory"),
    Case("event on a resource that is not there", SIMULATE,
         r'--set events=.*: /0/resource: resource "nics", expected one of compute, inter',
         more=["--set", 'events=[{"at": "1 ms", "resource": "nics", "speed": 0.5}]']),
    Case("event on such a resource in an experiment", "simulate --experiment bad.json --system tutel",
         r'^bad\.json:2:40: /events/0/resource: resource "nics", expected one of compute, inter',
         bad='{"cluster": "good.json", "model": "tiny.json",\n "events": [{"at": "1 ms", "resource": "nics", "speed": 0.5}]}'),
    Case("event that ends before it begins", SIMULATE,
         r'--set events=.*: /0/until: not after "at"',
         more=["--set", 'events=[{"at": "2 ms", "until": "1 ms", "resource": "inter", "speed": 0.5}]']),
    Case("flows without a network", f"{SIMULATE} --backend simgrid-flow", r'simgrid-flow: .*no "network"'),
    Case("platform that is no XML", f"{SIMULATE} --backend simgrid-flow --platform bad.json", r"^bad\.json:1:1: .*XML", bad="hosts"),
    Case("platform that is a shared object", f"{SIMULATE} --backend simgrid-flow --platform bad.json", r"^bad\.json:1:1: .*XML", bad=b"\x7fELF\x02\x01\x01"),
    Case("platform with settings", f"{SIMULATE} --backend simgrid-flow --platform bad.json", r"^bad\.json:2:25: <config>", bad=PLATFORM.replace("<zone", "<config><prop id=\"tracing\" value=\"yes\"/></config><zone")),
    Case("platform with a wrong speed", f"{SIMULATE} --backend simgrid-flow --platform bad.json", r"^bad\.json:3:14: speed: .*lots", bad=PLATFORM),
    Case("missing platform", f"{SIMULATE} --backend simgrid-flow --platform none.xml", r"none\.xml"),
    Case("missing experiment file", "compare --experiment none.json", r"none\.json.*No such file"),
    Case("unknown key in an experiment", "compare --experiment bad.json", r'^bad\.json:1:\d+: .*did you mean "cluster"',
         bad='{"clutser": "good.json", "model": "tiny.json"}'),
    Case("unknown cluster in an experiment", "compare --experiment bad.json", r'^bad\.json:1:13: /cluster: unknown cluster "nowhere"',
         bad='{"cluster": "nowhere", "model": "mixtral-8x7b"}'),
    Case("slices in a plan for another experiment", WITH_BAD_PLAN, r"^bad\.json:3:\d+: /gradient_slices: slices add up to 12 ",
         bad='{"scope": "moe",\n"grad_sync": "partitioned",\n"gradient_slices": [{"window": "tail", "elements": 12}]}'),
    Case("contradictory plan", WITH_BAD_PLAN, r"^bad\.json:1:\d+: /forward_degree: 2 contradicts plan\.scope layer",
         bad='{"scope": "layer", "forward_degree": 2}'),
    Case("contradictory plan in an experiment", "simulate --experiment bad.json --system deepspeed_moe", r"^bad\.json:2:29: /plan/forward_degree: 2 contradicts plan\.scope layer",
         bad='{"cluster": "good.json", "model": "tiny.json",\n "plan": {"forward_degree": 2}}'),
    Case("contradictory system", f"simulate {TINY} --system bad.json", r"^bad\.json:1:\d+: /plan/forward_degree: 2 contradicts",
         bad='{"name": "x", "plan": {"scope": "layer", "forward_degree": 2}, "planner": {"name": "fixed"}}'),
    Case("knob not built yet", WITH_BAD_PLAN, r"^bad\.json:1:\d+: /delay_weight_gradient: true is not built yet", bad='{"delay_weight_gradient": true}'),
    Case("knob that does not exist", WITH_BAD_PLAN, r'^bad\.json:1:2: .*"?forward_degre"?.*did you mean "forward_degree"', bad='{"forward_degre": 1}'),
    Case("a result as a plan", WITH_BAD_PLAN, r"^bad\.json:1:2: ", bad='{"schema_version": "1.0", "results": []}'),
    Case("unknown planner in a system", f"simulate {TINY} --system bad.json", r'exhaustiv.*did you mean "exhaustive"',
         bad='{"name": "x", "plan": {}, "planner": {"name": "exhaustiv"}}'),
    Case("nccl-tests of nothing", WITH_BAD_NCCL, r"^bad\.json:1:1: no output of nccl-tests", bad=""),
    Case("nccl-tests without rows", WITH_BAD_NCCL, r"^bad\.json:1:1: no rows", bad=NCCL_HEADER),
    Case("nccl-tests with a broken row", WITH_BAD_NCCL, r'^bad\.json:2:18: "1o\.9": expected a time in us', bad=NCCL_HEADER + "8 2 float sum -1 1o.9 0 0 0\n"),
    Case("nccl-tests cut short", WITH_BAD_NCCL, r"^bad\.json:2:17: the line ends", bad=NCCL_HEADER + "8 2 float sum -1"),
    Case("nccl-tests with wrong results", WITH_BAD_NCCL, r"^bad\.json:2:27: wrong elements", bad=NCCL_HEADER + "8 2 float sum -1 10.9 0 0 7\n"),
    Case("nccl-tests in seconds", WITH_BAD_NCCL, r"^bad\.json:2:1: 0\.03328 us for 65536 bytes are 1969 GB/s", bad=NCCL_HEADER + "65536 16384 float sum -1 0.03328 1.97 1.97 0\n"),
    Case("nccl-tests that miscount", WITH_BAD_NCCL, r"^bad\.json:2:1: 4 elements of 4 bytes do not make 8 bytes", bad=NCCL_HEADER + "8 4 float sum -1 10.9 0 0 0\n"),
    Case("nccl-tests of one size", WITH_BAD_NCCL, r"^bad\.json:1:1: .*two different sizes", bad=NCCL_HEADER + "8 2 float sum -1 10.9 0 0 0\n"),
    Case("nccl-tests as JSON without results", WITH_BAD_NCCL, r"^bad\.json:1:1: .*results", bad='{"args": ["all_reduce_perf"]}'),
    Case("nccl-tests as broken JSON", WITH_BAD_NCCL, r"^bad\.json:1:\d+: ", bad='{"args": ["all_reduce_perf"'),
    Case("another test of nccl-tests", WITH_BAD_NCCL, r'^bad\.json:1:11: /args/0: "gather_perf": .*alltoall_perf', bad='{"args": ["gather_perf"], "results": []}'),
    Case("nccl-tests that are not there", "calibrate --base dgx-h100 --nccl-tests none.txt", r"none\.txt.*No such file"),
    Case("fit of a calibration without points", f"simulate {TINY} --system tutel --calibration bad.json", r"^bad\.json:2:\d+: .*points",
         bad='{"name": "x", "collectives": [], "gemms": [{"dtype": "fp32", "alpha": "1 us", "beta": "1 fs/flop",\n'
             ' "provenance": {"origin": "measured", "source": "x", "fit": {"r2": 1}}}],\n'
             ' "memory": {"alpha": "1 us", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "x"}}}'),
    Case("import of a model that is no mixture", "import bad.json", r"^bad\.json:1:\d+: ", bad='{"model_type": "bert"}'),
    Case("import of something else", "import bad.json", r"^bad\.json:1:1: ", bad="[]"),
]

VALUES = [
    Case("dense order beyond integers", f"{SIMULATE} --set plan.encoding=dense --set plan.micro_batches=1 --set workload.batch=1000 --set workload.sequence=1000000", r"plan\.encoding=dense: .*at most 2\^53"),
    Case("groups that do not divide", f"simulate {SHIPPED} --system tutel --set parallelism.ep=3", r"--set parallelism\.ep=3: .*3"),
    Case("sequence that does not divide", f"{SIMULATE} --set workload.batch=1 --set workload.sequence=1023", r"--set workload\.sequence=1023: .*divide"),
    Case("open capacity of soft_moe", f"{SIMULATE} --set workload.gate.kind=soft_moe --set workload.capacity_factor=0",
         r"--set workload\.capacity_factor=0: 0: soft_moe fills any capacity"),
    Case("sparse soft_moe", f"{SIMULATE} --set workload.gate.kind=soft_moe", r"sparse contradicts the gate soft_moe"),
    Case("step after the trace", f"{SIMULATE} --set workload.routing.kind=trace "
         "--set workload.routing.trace=skewed-8-experts --set workload.step=3", r"--set workload\.step=3: 3, expected 0 to 2"),
    Case("more choices than experts, as an option", f"{SIMULATE} --set workload.top_k=5", r"--set workload\.top_k=5: .*1 to 4"),
    Case("more layers than the model", f"{SIMULATE} --set workload.layers=3", r"--set workload\.layers=3: .*1 to 2"),
    Case("infinite tokens", f"{SIMULATE} --set workload.batch=1000000 --set workload.sequence=4000000", r"tokens"),
    Case("--set of nothing", f"{SIMULATE} --set workload.batch", r"--set workload\.batch: .*key=value"),
    Case("--set without a key", f"{SIMULATE} --set =4", r"--set =4: .*key=value"),
    Case("--set of an unknown path", f"{SIMULATE} --set workload.bach=4", r'--set workload\.bach=4: .*did you mean "batch"'),
    Case("--set of an unknown part", f"{SIMULATE} --set wrkload.batch=4", r'--set wrkload\.batch=4: .*did you mean "workload"'),
    Case("--set through a number", f"{SIMULATE} --set workload.batch.x=4", r"--set workload\.batch\.x=4: "),
    Case("--set without unit", f"{SIMULATE} --set cluster.node_bandwidth=5", r"--set cluster\.node_bandwidth=5: .*Gb/s"),
    Case("--set of a wrong enumerator", f"{SIMULATE} --set plan.scope=mo", r"--set plan\.scope=mo: .*did you mean \"moe\""),
    Case("--set of a knob not built yet", f"{SIMULATE} --set plan.scope=batch", r"--set plan\.scope=batch: .*not built yet; built: layer, moe"),
    Case("degree 0", f"{SIMULATE} --set plan.forward_degree=0", r"--set plan\.forward_degree=0: .*at least 1"),
    Case("degree above the capacity", f"{SIMULATE} --set plan.forward_degree=60000", r"--set plan\.forward_degree=60000: .*rows"),
    Case("unknown cluster", "compare --cluster fsmoe-testbed-x --model mixtral-8x7b", r'unknown cluster "fsmoe-testbed-x", did you mean "fsmoe-testbed-a".*fsmoe-testbed-b'),
    Case("unknown model", "compare --cluster fsmoe-testbed-b --model mixtrol-8x7b", r'unknown model "mixtrol-8x7b", did you mean "mixtral-8x7b"'),
    Case("unknown calibration", f"compare {SHIPPED} --calibration x", r'unknown calibration "x".*fsmoe-testbed-a'),
    Case("unknown system", f"compare {SHIPPED} --systems tutel,tutell", r'unknown system "tutell", did you mean "tutel"'),
    Case("system given twice", f"compare {SHIPPED} --systems tutel,tutel", r'"tutel"'),
    Case("no cluster", "compare --model mixtral-8x7b", r"no cluster given.*fsmoe-testbed-a, fsmoe-testbed-b"),
    Case("no model", "compare --cluster fsmoe-testbed-b", r"no model given.*mixtral-8x7b"),
    Case("no system", f"simulate {SHIPPED}", r"one --system NAME or one --plan FILE"),
    Case("two systems where one is wanted", f"simulate {SHIPPED} --system tutel,fsmoe", r"one --system NAME"),
]

USAGE = [
    Case("no command", "", r"no command given.*compare, plan"),
    Case("mistyped command", "simulat", r'unknown command "simulat", did you mean "simulate"'),
    Case("command of a later version", "report", r'unknown command "report"'),
    Case("sweep of nothing", "sweep -o x.jsonl", r"sweep takes a grid"),
    Case("sweep to nowhere", "sweep degrees", r"sweep writes its cells to a file: -o"),
    Case("unknown sweep", "sweep degres -o x.jsonl", r'unknown sweep "degres".*did you mean "degrees"'),
    Case("wrong shard", "sweep degrees -o x.jsonl --shard 3/2", r'--shard "3/2": expected I/N'),
    Case("grid and merge", "sweep degrees --merge a.jsonl -o x.jsonl", r"a grid or --merge, not both"),
    Case("no grid", "validate", r"validate takes a grid"),
    Case("a GPU's calibration on CPUs", "validate host --calibration dgx-h100", r"--calibration: of a GPU, but grid host runs on the host's CPUs"),
    Case("unknown calibration of a GPU", "validate gpu --calibration dgx-h10", r'unknown calibration "dgx-h10", did you mean "dgx-h100"'),
    Case("unknown grid", "validate hots", r'unknown validation_grid "hots"'),
    Case("unknown published table", "reproduce fsmoe-table3", r'"fsmoe-table3": unknown, did you mean "fsmoe-table2"'),
    Case("option before the command", "--nodes 3 compare", r'unknown option "--nodes"'),
    Case("mistyped option", f"compare {SHIPPED} --systms tutel", r'unknown option "--systms", did you mean "--systems"'),
    Case("option of Megatron-LM", f"tune {SHIPPED} --tensor-model-parallel-size 4", r'unknown option "--tensor-model-parallel-size", did you mean --set tp=N\?'),
    Case("unknown framework", f"plan {TINY} --export megatrn", r'--export "megatrn": unknown, did you mean "megatron"\?'),
    Case("export below no table", f"plan {TINY} --system tutel --export json --format json -o -", r"--export prints below the table"),
    Case("explanation in csv", f"compare {TINY} --explain --format csv -o -", r"--explain has no place in csv"),
    Case("explanation of planning online", f"plan {TINY} --online --trace capacity-tutel --explain", r"--explain and --export are about one best plan"),
    Case("GPUs that are no whole nodes", f"tune {TINY} --global-batch 8 --gpus 3", r"--gpus 3: not whole nodes of good\.json, which have 2 GPUs"),
    Case("GPUs and nodes", f"tune {TINY} --global-batch 8 --gpus 4 --nodes 2", r"--gpus contradicts --nodes"),
    Case("GPUs in words", f"tune {TINY} --global-batch 8 --gpus many", r'--gpus "many": expected a count'),
    Case("explanation of several clusters", f"tune {TINY} --global-batch 8 --gpus 2,4 --explain", r"--explain is about one best plan"),
    Case("confirmed by nobody", f"tune {TINY} --global-batch 8 --confirm simgird", r'--confirm "simgird": unknown, did you mean "simgrid"\?'),
    Case("time to measure what is not measured", f"tune {TINY} --global-batch 8 --confirm simgrid --measure-time 3", r"--measure-time is for --confirm host and cuda"),
    Case("confirmation of several clusters", f"tune {TINY} --global-batch 8 --gpus 2,4 --confirm simgrid", r"--confirm is about one best plan"),
    Case("one of several clusters unknown", "tune --cluster dgx-h100,dgx-h101 --model tiny.json --global-batch 8", r'unknown cluster "dgx-h101", did you mean "dgx-h100"'),
    Case("explanation of nothing", "explain", r"explain: expected the path of a saved result"),
    Case("explanation of what has none", "explain bad.json", r"^bad\.json:1:1: no explanation in it", bad='{"kind": "run"}'),
    Case("global batch that does not divide", f"simulate {TINY} --system tutel --set gbs=3", r"--set workload\.global_batch=3: 3 samples do not divide over dp 2"),
    Case("mistyped option with a value", f"compare {SHIPPED} --bakend=simgrid", r'unknown option "--bakend", did you mean "--backend"'),
    Case("one argument too many", f"compare {SHIPPED} tutel", r'compare: "tutel" is one argument too many'),
    Case("missing value at the end", f"compare {SHIPPED} --systems", r"--systems.*: its value is missing"),
    Case("missing value before an option", f"compare {SHIPPED} --systems --backend simgrid", r"--systems.*: its value is missing"),
    Case("empty value", f"compare {SHIPPED}", r"--output: its value is missing", more=["-o", ""]),
    Case("empty part of a list", f"compare {SHIPPED} --systems tutel,,fsmoe", r"--systems.*: its value is missing"),
    Case("option given twice", f"compare {SHIPPED} --nodes 2 --nodes 4", r"--nodes: given twice"),
    Case("unknown backend", f"compare {SHIPPED} --backend simgird", r'"simgird": unknown, did you mean "simgrid"'),
    Case("unknown format", f"compare {SHIPPED} --format jsn", r'--format "jsn": unknown, did you mean "json"'),
    Case("unknown colour", f"compare {SHIPPED} --color pink", r'--color "pink": unknown; expected auto, always, never'),
    Case("zero nodes as an option", f"compare {SHIPPED} --nodes 0", r'--nodes "0": expected a whole number from 1'),
    Case("negative nodes", f"compare {SHIPPED} --nodes -2", r'--nodes "-2": expected a whole number from 1'),
    Case("nodes with a unit", f"compare {SHIPPED} --nodes 4x", r'--nodes "4x"'),
    Case("NaN as an option", f"compare {SHIPPED} --timeout nan", r'--timeout "nan": expected a number'),
    Case("quiet and verbose", f"compare {SHIPPED} -q -v", r"--quiet contradicts --verbose"),
    Case("threshold without a number", f"compare {SHIPPED} --fail-on fsmoe", r'--fail-on "fsmoe": expected SYSTEM:SPEEDUP'),
    Case("threshold of an unknown system", f"compare {SHIPPED} --fail-on fsmo:1", r'--fail-on: "fsmo" .*did you mean "fsmoe"'),
    Case("unknown planner", f"plan {SHIPPED} --planner for_case", r'"for_case", did you mean "four_case"'),
    Case("online without a trace", f"plan {SHIPPED} --online", r"--online: expected --trace FILE, or --step and --report with --state FILE"),
    Case("online options without --online", f"plan {SHIPPED} --state s.json", r"go with --online"),
    Case("trace to read without --online", f"plan {SHIPPED} --trace capacity-tutel", r"--trace capacity-tutel: this is a trace to read; add --online"),
    Case("trace file to read without --online", f"plan {SHIPPED} --trace bad.json", r"--trace bad\.json: this is a trace to read", bad='{"name": "t", "steps": [{"capacity_factor": 1}]}'),
    Case("online by another evaluator", f"plan {SHIPPED} --online --trace capacity-tutel --evaluator simgrid", r"--evaluator simgrid: with --online times come from --backend"),
    Case("online over a trace saves no plan", f"plan {SHIPPED} --online --trace capacity-tutel --save-plan p.json", r"--save-plan: with --online it goes with --step"),
    Case("step that really runs", f"plan {SHIPPED} --online --state s.json --step f=1 --evaluator host", r"--evaluator host goes with --trace, not with --step"),
    Case("step without a state", f"plan {SHIPPED} --online --step f=1", r"--step and --report: add --state FILE"),
    Case("step and a trace", f"plan {SHIPPED} --online --trace capacity-tutel --state s.json --step f=1", r"--trace contradicts --step"),
    Case("step of nothing", f"plan {SHIPPED} --online --state s.json --step f", r'--step f: "", expected a number above 0'),
    Case("step of an unknown size", f"plan {SHIPPED} --online --state s.json --step g=1", r'--step "g=1": expected f=NUMBER, k=NUMBER, batch=NUMBER or sequence=NUMBER'),
    Case("step of more choices than experts", f"plan {SHIPPED} --online --state s.json --step f=1,k=65", r"/workload/top_k: 65"),
    Case("step of a negative size", f"plan {SHIPPED} --online --state s.json --step f=-1", r'--step f=-1: "-1", expected a number above 0'),
    Case("report of nothing chosen", f"plan {SHIPPED} --online --state s.json --report 1", r"--report: nothing was chosen since the last report to s\.json"),
    Case("report of no time", f"plan {SHIPPED} --online --state s.json --report 0", r'--report "0": expected a number'),
    Case("unknown online planner", f"plan {SHIPPED} --online --trace capacity-tutel --planner bucket_search", r'no online planner "bucket_search", did you mean "bucketed_search"'),
    Case("planner that does not learn", f"plan {SHIPPED} --online --trace capacity-tutel --planner four_case", r'no online planner "four_case".*granularity_search'),
    Case("unknown trace", f"plan {SHIPPED} --online --trace capacity", r'unknown trace "capacity", did you mean "capacity-tutel"'),
    Case("trace of an unknown key", f"plan {SHIPPED} --online --trace bad.json", r'^bad\.json:3:4: /steps/0/capacity_facto: .*did you mean "capacity_factor"', bad='{"name": "t", "steps": [\n\n  {"capacity_facto": 1}]}'),
    Case("trace of an empty step", f"plan {SHIPPED} --online --trace bad.json", r"^bad\.json:1:\d+: /steps/1: an empty step", bad='{"name": "t", "steps": [{"capacity_factor": 1}, {}]}'),
    Case("trace that does not fit the experiment", f"plan {SHIPPED} --online --trace bad.json", r"^bad\.json:1:\d+: /steps/1: .*top_k: 9, expected 1 to 8", bad='{"name": "t", "steps": [{"capacity_factor": 1}, {"top_k": 9}]}'),
    Case("state that is none", f"plan {SHIPPED} --online --trace capacity-tutel --state bad.json", r"^bad\.json:1:1: .*schema_version", bad='{"name": "t"}'),
    Case("state of other strategies", f"plan {SHIPPED} --online --state bad.json --step f=1", r"^bad\.json:2:\d+: /strategies: this state was learned for other strategies.*remove it", bad='{"schema_version": "1.0", "kind": "online_state", "planner": "bucketed_search", "context": "",\n "strategies": ["a"], "pending": null}'),
    Case("import of nothing", "import", r"import: expected the path of a config\.json"),
    Case("one rank to calibrate", "calibrate --ranks 1", r'--ranks "1": expected a whole number from 2'),
    Case("device to calibrate", "calibrate --device cudo", r'--device "cudo": unknown.*expected host, cuda'),
    Case("no GPU to calibrate", "calibrate --device cuda --base dgx-h100", r"no CUDA device 0: this machine has 0|--device cuda: not in this build", code=4),
    Case("a GPU and ranks", "calibrate --device cuda --ranks 4", r"--device cuda: one GPU is one rank.*not with --ranks"),
    Case("a GPU and nccl-tests", "calibrate --device cuda --base dgx-h100 --nccl-tests x.txt", r"nothing is measured here"),
    Case("quick and a grid", "calibrate --quick --grid fsmoe", r"--quick contradicts --grid, which names"),
    Case("base without nccl-tests", "calibrate --base dgx-h100", r"--base goes with --nccl-tests"),
    Case("nccl-tests without a base", "calibrate --nccl-tests x.txt", r"--nccl-tests: add --base"),
    Case("nccl-tests and ranks", "calibrate --nccl-tests x.txt --base dgx-h100 --ranks 4", r"nothing is measured here"),
    Case("unknown base", "calibrate --nccl-tests x.txt --base dgx-h10", r'unknown calibration "dgx-h10", did you mean "dgx-h100"'),
    Case("odd ranks", f"run {SHIPPED} --system tutel --ranks 3", r"3 ranks, expected a multiple of 2"),
    Case("no ranks", f"run {SHIPPED} --system tutel --ranks 0", r'--ranks "0": expected a whole number from 2'),
    Case("unknown device", f"run {SHIPPED} --system tutel --device hosts", r'--device "hosts": unknown, did you mean "host"'),
    Case("heads that do not fit", f"run {SHIPPED} --system tutel --ranks 4 --tokens 0", r'--tokens "0"'),
    Case("heads wider than tokens", f"run {SHIPPED} --system tutel --hidden 64 --head-size 65",
         r"head_size is 65, expected at most the 64 elements of a token"),
    Case("heads of nothing", f"run {SHIPPED} --system tutel --head-size 0", r'--head-size "0"'),
    Case("no such device", f"run {SHIPPED} --system tutel --device cuda", r"no CUDA device 0: this machine has 0|--device cuda: not in this build", code=4),
    Case("a GPU and processes", f"run {SHIPPED} --system tutel --device cuda --transport mpi", r"--device cuda: not with --transport mpi.*nccl"),
    Case("host file for threads", f"run {SHIPPED} --system tutel --hostfile x", r"--hostfile: only with --transport mpi"),
    Case("NCCL without GPUs", f"run {SHIPPED} --system tutel --transport nccl", r"--transport nccl: only with --device cuda"),
    Case("NCCL and emulated links", f"run {SHIPPED} --system tutel --device cuda --transport nccl-mpi --emulate-links", r"links are real"),
    Case("fewer GPUs than ranks", f"run {SHIPPED} --system tutel --device cuda --transport nccl", r"a GPU for each rank: 4 asked for, this machine has 0|not in this build", code=4),
    Case("a GPU's grid without a GPU", "validate gpu -q", r"no CUDA device 0: this machine has 0|not in this build", code=4),
    Case("tune without a batch", f"tune {SHIPPED}", r"--global-batch is missing: how many samples a step trains"),
    Case("tune with a batch of ranks", f"tune {SHIPPED} --global-batch 32 --set workload.batch=4", r"--set workload\.batch=4: tune chooses it; give the samples of a step by --global-batch"),
    Case("tune with a size that divides nothing", f"tune {SHIPPED} --global-batch 32 --set parallelism.pp=5", r"no layout divides 32 GPUs, 32 samples and the model as asked"),
    Case("tune with a batch of a file", "tune --experiment bad.json --global-batch 32", r"^bad\.json:1:\d+: /workload/batch: tune chooses it",
         bad='{"cluster": "good.json", "model": "tiny.json", "workload": {"batch": 4}}'),
    Case("tune with stages of a file", "tune --experiment bad.json --global-batch 32", r"^bad\.json:1:\d+: /parallelism/pipeline_layout: tune lays groups and stages out itself",
         bad='{"cluster": "good.json", "model": "tiny.json", "parallelism": {"pipeline_layout": "Et|tL"}}'),
    Case("tune with events", f"tune {SHIPPED} --global-batch 32", r"/events: tune searches steps without events; leave them out",
         more=["--set", 'events=[{"at": "1 ms", "resource": "inter", "speed": 0.5}]']),
    Case("tune with a wrong knob", f"tune {SHIPPED} --global-batch 32 --set plan.scope=moo", r"--set plan\.scope=moo: .*did you mean \"moe\""),
    Case("tune with a knob that nothing takes", f"tune {SHIPPED} --global-batch 32 --set plan.scope=batch", r"the settings can be built on none of \d+ layouts: .*batch is not built yet"),
    Case("tune that does not fit", f"tune {SHIPPED} --nodes 2 --global-batch 16", r"no plan fits 9\.90 GiB of each RTX 2080 Ti: 180 layouts divide everything.* none holds less than", code=3),
    Case("plan that does not fit", f"plan {SHIPPED} --system tutel --set workload.batch=64 --set plan.micro_batches=1", r"no plan fits: tutel needs .* GiB.*11\.0 GiB.*\(\d+ bytes\) are missing", code=3),
    Case("threshold crossed", f"compare {SHIPPED} --systems deepspeed_moe,tutel --fail-on tutel:100 -q", r"tutel has a speed-up of 1\.\d+, below the 100", code=5),
]

OUTPUTS = [
    Case("output in no folder", f"{SIMULATE} -o nowhere/x.json", r"cannot write nowhere/x\.json: No such file or directory"),
    Case("output that cannot be", f"{SIMULATE} -o /proc/x/y.json", r"cannot write /proc/x/y\.json: "),
    Case("output below a file", f"{SIMULATE} -o good.json/x.json", r"cannot write good\.json/x\.json: Not a directory"),
    Case("output to a folder", f"{SIMULATE} -o folder.json", r"cannot write folder\.json: Is a directory"),
    Case("second output that cannot be", f"{SIMULATE} -o x.json --html nowhere/x.html --trace y.json", r"cannot write nowhere/x\.html: No such"),
    Case("two outputs to one file", f"{SIMULATE} -o x.json --trace ./x.json", r"--output and --trace both write to \./x\.json"),
    Case("page by the wrong option", f"{SIMULATE} -o x.html", r"use --html x\.html"),
    Case("plan to nowhere", f"plan {TINY} --system tutel --save-plan nowhere/p.json -o x.json", r"cannot write nowhere/p\.json"),
    Case("calibration to nowhere", "calibrate --quick -o nowhere/c.json", r"cannot write nowhere/c\.json"),
    Case("import to nowhere", "import bad.json -o nowhere/m.json", r"cannot write nowhere/m\.json", bad="{}"),
]

CASES = FILES + VALUES + USAGE + OUTPUTS
