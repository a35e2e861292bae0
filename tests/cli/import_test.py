#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports of trainings from outside: launch scripts, lists, YAML, JSON and DeepSpeed's files become experiments that
other commands take. Usage: import_test.py PROGRAM"""
import json
import random

from program import SOURCE, run_every_test

LAUNCH = SOURCE / "tests/data/launch"
STEPS = SOURCE / "data/steps"


def imported(checks, program, *arguments):
    result = program.run("import", *map(str, arguments), "-o", "out.json")
    if not checks.check(result.returncode == 0, f"{arguments}: {result.stderr}"):
        return None, result.stderr
    return json.loads((program.folder / "out.json").read_text()), result.stderr


def value(experiment, path):
    for key in path.split("."):
        experiment = experiment.get(key) if isinstance(experiment, dict) else None
    return experiment


def same(checks, experiment, expected):
    for path, want in expected.items():
        got = value(experiment, path)
        checks.check(got == want, f"{path}: {got!r}, expected {want!r}")


def test_a_launch_script_becomes_an_experiment_that_runs(checks, program):
    experiment, said = imported(checks, program, "--megatron", LAUNCH / "moe-16b.sh", "--cluster", "dgx-h100")
    # 4 nodes of 8; ep 32 / 2 / 2; 1 x 32 x 8 samples in micro-batches of 1 on dp 8
    same(checks, experiment, {"nodes": 4, "parallelism.mp": 2, "parallelism.pp": 2, "parallelism.ep": 8, "parallelism.esp": 1,
                              "parallelism.dp": 8, "workload.batch": 32, "plan.micro_batches": 32, "plan.virtual_stages": 7,
                              "model.first_dense": 1, "model.layers": 28, "workload.dtype": "bf16",
                              "plan.recompute": ["mp_gather", "norms", "activation"], "workload.products": None})
    checks.check("unknown:" not in said and "not expressed" not in said, said)
    result = program.run("simulate", "--experiment", "out.json")
    checks.check(result.returncode == 0 and "predicted" in result.stdout, result.stderr)
    result = program.run("import", "--megatron", str(LAUNCH / "moe-16b.sh"), "--cluster", "dgx-h100", "--var", "TP=1")
    checks.check('"mp": 1' in result.stdout and '"dp": 16' in result.stdout, result.stderr)


def test_lists_and_json(checks, program):
    experiment, said = imported(checks, program, "--megatron", LAUNCH / "list.txt")
    same(checks, experiment, {"model.first_dense": 1, "workload.global_batch": 64, "workload.micro_batch": 2,
                              "plan.micro_batches": None, "parallelism.dp": None})
    checks.check("nothing says how many GPUs there are" in said, said)
    result = program.run("simulate", "--experiment", "out.json", "--cluster", "dgx-h100", "--nodes", "1", "--system", "megatron_lm")
    checks.check(result.returncode == 0, result.stderr)
    experiment, said = imported(checks, program, "--megatron", LAUNCH / "metadata.json", "--cluster", "dgx-h100")
    same(checks, experiment, {"nodes": 1, "workload.message_sizes": "padded", "workload.capacity_factor": 1.25,
                              "model.vocabulary": 50304, "framework.options.aux_loss": True, "plan.zero": 1})


def reads_yaml(program):
    return "yaml-cpp" in program.run("doctor").stdout.partition("\nmissing")[0]


def test_yaml(checks, program):
    if not reads_yaml(program):
        refused = program.run("import", "--megatron", str(LAUNCH / "recipe.yaml"))
        checks.check(refused.returncode == 4 and "no yaml-cpp" in refused.stderr, refused.stderr)
        return
    experiment, said = imported(checks, program, "--megatron", LAUNCH / "recipe.yaml", "--cluster", "dgx-h100", "--nodes", "4")
    same(checks, experiment, {"model.attention.kv_heads": 8, "model.first_dense": 2, "model.experts": 32, "model.sequence": 4096,
                              "plan.all_to_all": "node_deduplicated", "plan.virtual_stages": 4, "plan.zero": 1,
                              "framework.options.hybridep": True, "framework.options.dropout": False,
                              "workload.gradients": "fp32", "workload.batch": 16})
    checks.check("recipe.yaml:4:13: the defaults of megatron.bridge" in said, said)
    (program.folder / "bad.yaml").write_text("model:\n  num_layers: [1\n")
    result = program.run("import", "--megatron", "bad.yaml")
    checks.check(result.returncode == 2 and result.stderr.startswith("bad.yaml:"), result.stderr)


def test_deepspeed(checks, program):
    experiment, said = imported(checks, program, "--deepspeed", LAUNCH / "ds_config.json", "--model", "olmoe-1b-7b",
                                "--cluster", "dgx-h100", "--nodes", "2")
    same(checks, experiment, {"model": "olmoe-1b-7b", "workload.batch": 16, "plan.micro_batches": 8, "plan.zero": 1,
                              "framework": "deepspeed", "plan.gradient_chunk_bytes": 800_000_000})
    checks.check("not expressed: zero_optimization.stage 2" in said, said)
    result = program.run("simulate", "--experiment", "out.json")
    checks.check(result.returncode == 0, result.stderr)


def stated(step, shared):
    """The settings of a measured step in the names of an experiment."""
    names = {"tp": "parallelism.mp", "pp": "parallelism.pp", "ep": "parallelism.ep", "etp": "parallelism.esp",
             "mbs": "workload.micro_batch", "gbs": "workload.global_batch", "vpp": "plan.virtual_stages"}
    settings = {names.get(key, key): each for key, each in {**shared, **step["question"]}.items()}
    recompute = settings.get("plan.recompute")
    if isinstance(recompute, list) and len(recompute) == 1:
        settings["plan.recompute"] = recompute[0]
    return settings


def test_lists_of_functional_tests(checks, program):
    lists = json.loads((LAUNCH / "megatron-tests.json").read_text())["lists"]
    steps = json.loads((STEPS / "megatron-functional-tests.json").read_text())
    checks.check(len(lists) == 31, f"{len(lists)} lists")
    compared = 0
    for entry in lists:
        experiment, said = imported(checks, program, "--megatron", LAUNCH / "megatron-tests.json", "--entry", entry["name"])
        if experiment is None:
            continue
        checks.check("unknown:" not in said, said)
        test, platform = entry["name"].rsplit("@", 1)
        for step in steps["steps"]:
            if step["source_name"] != test or platform.replace("h100", "dgx-h100") not in step["question"]["cluster"]:
                continue
            settings = stated(step, steps["question"])
            for path, want in settings.items():
                part, _, key = path.partition(".")
                if path == "plan.zero" and "--num-distributed-optimizer-instances 2" in said:
                    continue  # said to be missing; by hand it is ZeRO-0 where each rank has the whole optimizer
                if part in ("parallelism", "workload", "plan"):
                    got = value(experiment, path)
                    checks.check(got == want, f"{entry['name']}: {path}: {got!r}, expected {want!r}")
                if path.startswith("framework.options."):
                    got = value(experiment, path)
                    checks.check(got == want, f"{entry['name']}: {path}: {got!r}, expected {want!r}")
            model = json.loads((STEPS / settings["model"]).read_text())
            model |= {path.removeprefix("model."): each for path, each in settings.items() if path.startswith("model.")}
            for key in ("layers", "hidden", "attention", "experts", "top_k", "expert_hidden", "expert_kind", "vocabulary",
                        "norms", "learned_positions", "tied_embeddings", "first_dense", "dense_hidden", "mtp_layers"):
                got = experiment["model"].get(key)
                checks.check(got == model.get(key), f"{entry['name']}: model.{key}: {got!r}, expected {model.get(key)!r}")
            compared += 1
    checks.check(compared >= 20, f"{compared} lists compared with steps that were stated by hand")


def test_exports_are_read_back(checks, program):
    groups = "--set tp=2 --set pp=2 --set ep=8 --set etp=1 --set mbs=1 --set gbs=32".split()
    question = ("--cluster", "dgx-h100", "--nodes", "2", "--model", "qwen3-30b-a3b", "--system", "megatron_lm", *groups)
    exported = program.run("plan", *question, "--export", "megatron", "-q")
    (program.folder / "exported.sh").write_text(exported.stdout)
    experiment, said = imported(checks, program, "--megatron", "exported.sh", "--cluster", "dgx-h100", "--nodes", "2")
    checks.check("unknown:" not in said, said)
    planned = program.run("plan", *question, "--format", "json", "-o", "plan.json", "-q")
    checks.check(planned.returncode == 0, planned.stderr)
    result = json.loads((program.folder / "plan.json").read_text())
    plan = result["results"][0]["plan"]
    for knob in ("zero", "grad_sync", "parameter_gather", "recompute", "all_to_all", "micro_batches", "pipeline_schedule",
                 "virtual_stages", "expert_kernel", "scope"):
        checks.check(experiment["plan"][knob] == plan[knob], f"{knob}: {experiment['plan'][knob]}, expected {plan[knob]}")


def test_mistakes(checks, program):
    (program.folder / "bad.sh").write_text("ARGS=(\n  --num-layers twelve\n)\npretrain_gpt.py ${ARGS[@]}\n")
    cases = [(["--megatron", "bad.sh"], r"bad.sh:2:3: --num-layers: \"twelve\", expected a whole number"),
             (["--megatron", "missing.sh"], "missing.sh"),
             (["--megatron", "bad.sh", "--deepspeed", "x.json"], "expected one of"),
             (["--megatron", "bad.sh", "--var", "X"], "--var"),
             (["--megatron", "bad.sh", "--entry", "1"], "no JSON file"),
             (["--megatron", "bad.sh", "--experts", "2"], "--experts"),
             ([str(SOURCE / "tests/data/hf/mixtral-8x7b/config.json"), "--nodes", "2"], "belong to"),
             (["--deepspeed", str(LAUNCH / "ds_config.json")], "--model NAME")]
    for arguments, expected in cases:
        result = program.run("import", *arguments)
        checks.check(result.returncode == 2 and expected.replace("\\", "") in result.stderr and result.stderr.count("\n") == 1,
                     f"{arguments}: {result.returncode} {result.stderr!r}")


def test_damaged_files_never_crash(checks, program):
    draw = random.Random(7)
    noise = ["$", "${", "}", "(", ")", "\"", "'", "`", "$((", "))", "\\", "\n", " --", "[", "]", ":", "- ", "{", "\x00", "é", "99999999999", "if ", "fi\n", "<<", "*", "&"]
    for name in ("moe-16b.sh", "list.txt", "recipe.yaml", "metadata.json", "ds_config.json"):
        if name.endswith(".yaml") and not reads_yaml(program):
            continue
        text = (LAUNCH / name).read_text()
        option = "--deepspeed" if name.startswith("ds_") else "--megatron"
        for trial in range(24):
            damaged = text
            for _ in range(draw.randint(1, 6)):
                at, length = draw.randrange(len(damaged)), draw.randint(0, 40)
                damaged = damaged[:at] + draw.choice(noise) + damaged[at + length * draw.randint(0, 1):]
            (program.folder / name).write_text(damaged)
            more = ["--model", "olmoe-1b-7b"] if option == "--deepspeed" else []
            result = program.run("import", option, name, *more, timeout=60)
            if not checks.check(result.returncode in (0, 2), f"{name} {trial}: {result.returncode} {result.stderr[-300:]!r}"):
                print(damaged)


run_every_test(globals())
