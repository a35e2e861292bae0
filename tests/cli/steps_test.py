#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measured steps of one's own: predicted as simulate does, in every form of output. Usage: steps_test.py PROGRAM"""
import csv
import json

from program import run_every_test

QUESTION = {"cluster": "dgx-h100", "nodes": 2, "model": "olmoe-1b-7b", "workload.layers": 4, "tp": 2, "pp": 2, "ep": 4,
            "mbs": 1, "gbs": 32, "plan.recompute": "moe_act"}
STEPS = {"title": "mine", "source": "a cluster of my own", "system": "megatron_lm", "question": QUESTION,
         "steps": [{"name": "as it is", "step": "50 ms", "peak": "12.5 GiB"},
                   {"name": "longer", "question": {"gbs": 64}, "step": "100 ms"}]}


def write(program, name="own.json", **changes):
    path = program.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**STEPS, **changes}))


def simulate(question):
    parts = [word for key in ("cluster", "nodes", "model") for word in (f"--{key}", str(question[key]))]
    sets = [word for key, value in question.items() if key not in ("cluster", "nodes", "model") for word in ("--set", f"{key}={value}")]
    return ["simulate", *parts, *sets, "--system", "megatron_lm"]


def test_steps_are_those_of_simulate(checks, program):
    write(program)
    program.run("reproduce", "--steps", "own.json", "-q", "-o", "steps.json")
    for step, own in zip(json.loads((program.folder / "steps.json").read_text())["steps"][0]["steps"], STEPS["steps"]):
        program.run(*simulate({**QUESTION, **own.get("question", {})}), "-q", "-o", "one.json")
        one = json.loads((program.folder / "one.json").read_text())["results"][0]
        checks.check(step["predicted_s"] == one["makespan_s"], f"{own['name']}: {step['predicted_s']} is {one['makespan_s']}")
        checks.check([step["low_s"], step["high_s"]] == one["interval_s"], f"{own['name']}: the range is {one['interval_s']}")
        checks.check(step["predicted_peak_bytes"] == one["peak_bytes"], f"{own['name']}: the memory is {one['peak_bytes']}")
        checks.check(step["draws"] == one["draws"], f"{own['name']}: {step['draws']} draws are {one['draws']}")


def test_outputs(checks, program):
    write(program, "mine/own.json")
    result = program.run("reproduce", "--steps", "mine/own.json", "--draws", "20", "-o", "r.csv", "--html", "r.html")
    checks.check("measured steps" in result.stdout and "90 % of 20 draws" in result.stdout, "the table still goes to standard output")
    with open(program.folder / "r.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    checks.check([row["name"] for row in rows] == ["as it is", "longer"], f"a row for each step: {rows}")
    checks.check(rows[1]["measured_s"] == "0.1" and rows[1]["measured_peak_bytes"] == "", f"base units, or nothing: {rows[1]}")
    checks.check('<section id="own">' in (program.folder / "r.html").read_text(), "the page has a section")
    result = program.run("reproduce", "--steps", "mine/own.json", "--draws", "0")
    checks.check("range:" not in result.stdout and result.returncode == 0, f"no ranges: {result.stdout}")
    result = program.run("reproduce", "ampipe-table2", "--steps", "mine/own.json", "--draws", "20")
    checks.check("predictions met" in result.stdout and "measured steps" in result.stdout, "tables and steps")
    result = program.run("reproduce", "ampipe-table2", "--steps", "mine/own.json", "--format", "csv")
    checks.check(result.returncode == 2 and "one of them alone" in result.stderr, f"no csv of both: {result.stderr}")


def test_inputs_are_never_replaced(checks, program):
    write(program)
    model = {"name": "mine", "source": "s", "layers": 4, "hidden": 64, "attention": {"heads": 4, "kv_heads": 4, "head_size": 16},
             "experts": 0, "expert_kind": "ffn", "dense_hidden": 128, "vocabulary": 512}
    (program.folder / "model.json").write_text(json.dumps(model))
    question = {"cluster": "dgx-h100", "nodes": 1, "model": "model.json", "gbs": 8}
    write(program, "tiny.json", question=question, steps=[{"name": "a", "step": "1 ms"}])
    for read in ("tiny.json", "model.json"):
        before = (program.folder / read).read_text()
        result = program.run("reproduce", "--steps", "tiny.json", "--draws", "0", "-q", "-o", read)
        checks.check(result.returncode == 2 and (program.folder / read).read_text() == before, f"{read} stays: {result.stderr}")


def test_list(checks, program):
    listed = program.run("reproduce", "--list").stdout
    checks.check("\nsteps " in listed and "b200-8gpu" in listed, f"listed: {listed[-300:]}")


run_every_test(globals())
