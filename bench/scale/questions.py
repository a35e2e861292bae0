#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long whole questions take, from starting the program to its answer, and the most memory they take: those
that were once slow, the reference that sends every message, and searches over all layouts of a cluster. With --against
a second build is measured beside the first, question by question. Times are the least of --repeat; a question that
takes more than --patience seconds is asked once."""
import argparse
import json
import pathlib

from scale import ROOT, least, machine, run

ON_H100 = "--cluster dgx-h100 --nodes"
QWEN = f"{ON_H100} 32 --model qwen3-235b-a22b --set workload.batch=16 --set plan.micro_batches=16"

GPT_1T = (f"--cluster dgx-a100-40gb --nodes 64 --model {ROOT}/data/steps/models/megatron-gpt-1t.json --set workload.extent=model --set tp=8 "
          "--set pp=64 --set plan.pipeline_schedule=1f1b --set mbs=1 --set gbs=512 --set plan.recompute=mp_gather")
PUBLISHED = ",".join(sorted(path.stem for path in (ROOT / "data/systems").glob("*.json") if path.stem != "dovetail"))


def flows(nodes):
    """An MoE layer whose experts lie on all GPUs."""
    gpus = nodes * 8
    return (f"simulate --cluster dgx-h100-2to1 --nodes {nodes} --model mixtral-8x7b --system deepspeed_moe --backend simgrid-flow --draws 0 "
            f"--set workload.layers=1 --set model.experts={gpus} --set parallelism.ep={gpus} --set parallelism.esp=1 --set parallelism.mp=1")


# Each question has a name, a command, and its goals in seconds and MiB; 0 stands for no goal.
QUESTIONS = [
    ("version", "--version", .01, 0),
    ("one step of Qwen3-235B, 256 H100, 16 micro-batches", f"simulate {QWEN} --system fsmoe", 1, 200),
    ("the same with 8 stages", f"simulate {QWEN} --system fsmoe --set parallelism.pp=8", 1, 200),
    ("its plan, 16 micro-batches", f"plan {QWEN} --system dovetail", 1, 200),
    ("the same with 8 stages", f"plan {QWEN} --system dovetail --set parallelism.pp=8", 1, 200),
    ("plan of DeepSeek-V3, 256 H100, 8 stages", f"plan {ON_H100} 32 --model deepseek-v3 --system dovetail --set parallelism.pp=8", 1, 200),
    ("Qwen3-235B, 256 H100, 512 micro-batches, explained", "simulate --experiment qwen3-235b-a22b-256-h100 --system megatron_lm --format json", 10, 500),
    ("DeepSeek-V3, 1,024 H100, 256 micro-batches, explained", "simulate --experiment deepseek-v3-1024-h100 --system megatron_lm --format json", 10, 500),
    ("GPT 1T, 64 stages, 512 micro-batches, explained", f"simulate {GPT_1T} --system megatron_lm --format json", 10, 500),
    ("17 systems on Qwen3-235B, 8 stages", f"compare {QWEN} --set parallelism.pp=8 --systems {PUBLISHED}", 5, 0),
    ("messages of an MoE layer on 128 GPUs", flows(16), .3, 500),
    ("messages of an MoE layer on 1,024 GPUs", flows(128), 30, 500),
    ("tune Qwen3-30B, 16 H100", f"tune {ON_H100} 2 --model qwen3-30b-a3b --global-batch 128 --sequence 4096", 5, 500),
    ("tune Mixtral 8x22B, 128 H100", f"tune {ON_H100} 16 --model mixtral-8x22b --global-batch 512 --sequence 4096", 5, 500),
    ("tune Qwen3-235B, 256 H100", f"tune {ON_H100} 32 --model qwen3-235b-a22b --global-batch 1024 --sequence 4096", 5, 500),
    ("tune DeepSeek-V3, 256 H100", f"tune {ON_H100} 32 --model deepseek-v3 --global-batch 2048 --sequence 4096", 5, 500),
    ("tune Qwen3-235B, 4 racks of 72 GB200", "tune --cluster gb200-nvl72 --nodes 4 --model qwen3-235b-a22b --global-batch 1152 --sequence 4096", 5, 500),
    ("tune DeepSeek-V3, 4 racks of 72 GB200", "tune --cluster gb200-nvl72 --nodes 4 --model deepseek-v3 --global-batch 2304 --sequence 4096", 5, 500),
    ("tune DeepSeek-V3, 4,096 H100", f"tune {ON_H100} 512 --model deepseek-v3 --global-batch 15360 --sequence 4096", 20, 500),
]

# Each rate has a name, the micro-benchmark that counts it, and its goal a second.
RATES = [
    ("whole models estimated, none known", "whole_model_configurations/0", 5000),
    ("whole models estimated, parts known", "whole_model_configurations/1", 5000),
    ("layouts that do not fit ruled out", "layouts_that_do_not_fit", 100000),
]


def show_rates(programs):
    found = run([programs / "bench_micro", "--benchmark_format=json", f"--benchmark_filter=^({'|'.join(name for _, name, _ in RATES)})$"])
    rates = {each["name"]: each["items_per_second"] for each in json.loads(found["output"])["benchmarks"]}
    for what, name, goal in RATES:
        print(f"{what:<52} | {rates[name]:14,.0f} a second | {goal:10,} a second {'met' if rates[name] >= goal else 'missed'}", flush=True)
    return [{"rate": what, "benchmark": name, "goal_per_s": goal, "measured_per_s": rates[name]} for what, name, goal in RATES]


def measure(programs, arguments, options):
    """Times and memory of a question, or nothing where this build cannot answer it."""
    command = [programs / "dovetail", *arguments.split()]
    first = run(command, fails=True)
    if first["exit_code"] != 0:
        return None
    if first["wall_s"] < options.patience and options.repeat > 1:
        again = least(command, options.repeat - 1)
        first = {key: min(first[key], again[key]) for key in ("wall_s", "cpu_s", "peak_kib")}
    return {key: first[key] for key in ("wall_s", "cpu_s", "peak_kib")}


def seconds(value):
    return f"{value * 1e3:.1f} ms" if value < .1 else f"{value:.2f} s"


def columns(measured):
    if measured is None:
        return f"{'not answered':>32}"
    return f"{seconds(measured['wall_s']):>10} {seconds(measured['cpu_s']):>10} {measured['peak_kib'] / 1024:6.0f} MiB"


def line(row, goals):
    met = row["measured"]["wall_s"] <= row["goal_s"] and (row["goal_mib"] == 0 or row["measured"]["peak_kib"] / 1024 <= row["goal_mib"])
    text = f"{row['question']:<52} | {columns(row['measured'])} |"
    if "against" in row:
        text += f" {columns(row['against'])} |"
        text += f" {row['against']['wall_s'] / row['measured']['wall_s']:6.1f} x |" if row["against"] else f" {'':>8} |"
    return text + f" {goals:>18} {'met' if met else 'missed'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="the folder with dovetail and bench_micro [build/release/bin]")
    parser.add_argument("--against", type=pathlib.Path, help="the folder with dovetail of another build, measured beside the first; a much older one may answer another question")
    parser.add_argument("--only", default="", help="questions whose name has this in it [all]")
    parser.add_argument("--repeat", type=int, default=3, help="how often each question is asked [3]")
    parser.add_argument("--patience", type=float, default=5, help="seconds; a question that takes longer is asked once [5]")
    parser.add_argument("-o", "--output", help="also write the table as JSON")
    options = parser.parse_args()
    if not any(options.only in name for name, *_ in QUESTIONS):
        parser.error(f"--only {options.only}: no question has this in its name")
    result = {"kind": "measured", **machine(), "questions": []}
    print(f"whole questions; measured on {result['machine']}, load {result['load']:.1f}: wall time, its CPU time, memory at the most, goal")
    for name, arguments, goal_s, goal_mib in QUESTIONS:
        if options.only not in name:
            continue
        row = {"question": name, "command": "dovetail " + arguments, "goal_s": goal_s, "goal_mib": goal_mib,
               "measured": measure(options.programs, arguments, options)}
        if row["measured"] is None:
            raise SystemExit(f"dovetail {arguments}: failed")
        if options.against:
            row["against"] = measure(options.against, arguments, options)
        result["questions"].append(row)
        print(line(row, f"{seconds(goal_s)}{f', {goal_mib} MiB' if goal_mib else ''}"), flush=True)
    if not options.only:
        result["rates"] = show_rates(options.programs)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
