#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks two builds of dovetail the same questions and compares their result files byte by byte.

For changes that must not change a number. Simulated and predicted results only: measured ones differ from run to run.
Where, when and by which build a file was made is left out ("provenance", and how long a planner took).

Usage: bench/same_results.py OLD NEW [--only TEXT] [--keep FOLDER] [--jobs N]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
PASSING = {"provenance", "seconds"}  # "seconds": how long a planner took


def names(kind):
    return sorted(path.stem for path in (DATA / kind).glob("*.json"))


def backends(program):
    """Those of this build, as its doctor lists them. One that computes every message is slow: one question asks it."""
    done = subprocess.run([program, "doctor"], capture_output=True, text=True, check=True)
    lines = re.findall(r"^  backend +(\S+) +(.*)$", done.stdout, re.MULTILINE)
    return [name for name, text in lines if "not in this build" not in text and "every message" not in text]


def questions(program):
    """(name, arguments of dovetail): simulated and predicted results alone, one file each."""
    for cluster in names("clusters"):
        for backend in backends(program):
            yield f"compare-{cluster}-{backend}", ["compare", "--cluster", cluster, "--model", "mixtral-8x7b", "--systems",
                                                   "deepspeed_moe,tutel,tutel_improved,fsmoe,ampipe", "--backend", backend]
    for system in names("systems"):
        yield f"system-{system}", ["simulate", "--cluster", "fsmoe-testbed-b", "--model", "gpt2-xl-moe", "--system", system,
                                   "--backend", "simgrid"]
        yield f"training-{system}", ["plan", "--cluster", "dgx-h100", "--nodes", "4", "--model", "mixtral-8x7b", "--system",
                                     system, "--set", "workload.layers=4", "--set", "workload.batch=4"]
    for model in names("models"):
        yield f"model-{model}", ["simulate", "--cluster", "dgx-h100", "--nodes", "8", "--model", model, "--system", "tutel",
                                 "--set", "cluster.device.memory=640 GiB"]
    one = ["simulate", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--system", "fsmoe"]
    for name, setting in {
            "ready-first": "plan.order=ready_first", "with-dense": "plan.grad_sync=with_dense", "s4": "plan.restore=s4",
            "zipf": "workload.routing={\"kind\": \"zipf\", \"exponent\": 1}", "bf16-wire": "plan.dispatch_wire=bf16",
            "events": "events=[{\"at\": \"10 ms\", \"until\": \"60 ms\", \"resource\": \"inter\", \"speed\": 0.25}]",
            "forward": "workload.phases=forward_only"}.items():
        yield f"knob-{name}", [*one, "--set", setting]
    yield "pipeline", ["simulate", "--cluster", "dgx-h100", "--nodes", "4", "--model", "mixtral-8x7b", "--system", "tutel",
                       "--set", "parallelism.pp=2", "--set", "workload.batch=4", "--set", "plan.micro_batches=4",
                       "--set", "workload.layers=4", "--set", "plan.pipeline_schedule=1f1b"]
    yield "flow", ["simulate", "--cluster", "dgx-h100-2to1", "--model", "mixtral-8x7b", "--system", "tutel", "--set",
                   "workload.layers=1", "--backend", "simgrid-flow"]
    yield "slow-card", ["simulate", "--cluster", "dgx-h100-rails", "--model", "mixtral-8x7b", "--system", "fsmoe", "--set",
                        "workload.layers=2", "--set", "cluster.network.slow=[{\"nodes\": [0], \"nic_speed\": 0.25}]"]
    yield "mix", ["simulate", "--cluster", "dgx-h100", "--model", "mixtral-8x7b", "--plan", str(DATA / "plans/mix.json")]
    yield "online", ["plan", "--online", "--trace", "capacity-tutel", "--cluster", "fsmoe-testbed-b", "--model",
                     "mixtral-8x7b", "--noise", "0.02"]
    for table in names("published"):
        yield f"reproduce-{table}", ["reproduce", table]


def settled(value):
    if isinstance(value, dict):
        return {key: settled(each) for key, each in value.items() if key not in PASSING}
    return [settled(each) for each in value] if isinstance(value, list) else value


def ask(program, name, arguments, folder):
    """The answer of a program: the text of its result file, or its exit code and complaint."""
    out = folder / f"{name}.json"
    out.unlink(missing_ok=True)  # an earlier answer must not stand for one that fails
    done = subprocess.run([program, *arguments, "-o", str(out), "-q"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env={**os.environ, "DOVETAIL_DATA": str(DATA)}, check=False)
    if not out.exists():
        return f"exit {done.returncode}: {done.stderr.strip()}\n"
    text = json.dumps(settled(json.loads(out.read_text())), indent=1)
    out.write_text(text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="ask only questions with this in their names")
    parser.add_argument("--keep", help="folder for the result files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = pathlib.Path(options.keep or temporary)
        folders = [base / "old", base / "new"]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)

        def compare(question):
            return question[0], *(ask(program, *question, folder)
                                  for program, folder in zip((options.old, options.new), folders))

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            answers = list(pool.map(compare, [question for question in questions(options.old) if options.only in question[0]]))
    if not answers:
        print(f"no question has {options.only!r} in its name", file=sys.stderr)
        return 2
    other = [name for name, old, new in answers if old != new]
    refused = [f"{name}: {old}" for name, old, _ in answers if old.startswith("exit ")]
    print("".join(f"differs: {name}\n" for name in other) + "".join(f"refused by both or one: {line}" for line in refused)
          + f"{len(answers) - len(refused)} result files and {len(refused)} refusals compared, {len(other)} differ, "
          f"{sum(len(old) for _, old, _ in answers) / 1e6:.1f} MB")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
