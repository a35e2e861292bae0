#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What commands promise beside their results: determinism, whole files, quiet, colours, signals, exit codes.
Usage: behaviour_test.py PROGRAM"""
import csv
import io
import json
import os
import re
import signal
import time
from pathlib import Path

from program import run_every_test

SYSTEMS = list((Path(__file__).parents[2] / "data/systems").glob("*.json"))
SHIPPED = ["--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b"]
QUICK_RUN = ["run", *SHIPPED, "--system", "tutel", "--ranks", "2", "--tokens", "64", "--hidden", "32", "--measure-time", "1"]
LONG_RUN = ["run", *SHIPPED, "--system", "tutel", "--ranks", "2", "--tokens", "20000", "--hidden", "512"]


def load(program, name):
    return json.loads((program.folder / name).read_text())


def without_provenance(report):
    report.pop("provenance")
    for row in report["results"]:
        row["planner"].pop("seconds")
    return report


def test_two_runs_give_the_same_result(checks, program):
    for name in ("a.json", "b.json"):
        program.run("compare", *SHIPPED, "--seed", "7", "-o", name)
    checks.check(without_provenance(load(program, "a.json")) == without_provenance(load(program, "b.json")), "two runs differ")


def test_provenance(checks, program):
    program.run("compare", *SHIPPED, "--seed", "7", "-o", "a.json")
    report = load(program, "a.json")
    checks.check(report["provenance"]["seed"] == 7, "the seed is kept")
    checks.check(report["provenance"]["command_line"][1] == "compare", "the command line is kept")
    checks.check("data/clusters/fsmoe-testbed-b.json" in report["inputs"]["sha256"], "the files read are named")


def test_outputs(checks, program):
    result = program.run("compare", *SHIPPED, "-o", "r.json", "--html", "r.html", "--trace", "t.json")
    checks.check("deepspeed_moe" in result.stdout and result.stderr == "", "the table still goes to standard output")
    checks.check(program.files() == ["r.html", "r.json", "t.json"], f"three files: {program.files()}")
    checks.check(load(program, "t.json")["traceEvents"], "the trace is JSON")
    checks.check("<canvas" in (program.folder / "r.html").read_text() or "<svg" in (program.folder / "r.html").read_text(), "the page draws")
    result = program.run("compare", *SHIPPED, "-q", "-o", "r.json")
    checks.check(result.stdout == "" and result.stderr == "", "quiet")


def test_standard_output(checks, program):
    result = program.run("simulate", *SHIPPED, "--system", "tutel", "--format", "json")
    checks.check(json.loads(result.stdout)["kind"] == "simulate", "JSON alone")
    result = program.run("simulate", *SHIPPED, "--system", "tutel", "--trace", "-")
    checks.check(json.loads(result.stdout)["traceEvents"], "a trace alone")
    result = program.run("compare", *SHIPPED, "--systems", "tutel,fsmoe", "--format", "csv", "-o", "-")
    checks.check(len(list(csv.DictReader(io.StringIO(result.stdout)))) == 2, "two rows of CSV")


def test_earlier_result_survives_a_failure(checks, program):
    (program.folder / "r.json").write_text("old")
    program.run("plan", *SHIPPED, "--system", "tutel", "--set", "workload.batch=64", "--set", "plan.micro_batches=1", "-o", "r.json")
    program.run("compare", *SHIPPED, "-o", "r.json", "--html", "nowhere/x.html")
    checks.check((program.folder / "r.json").read_text() == "old", "the earlier result is kept")


def test_full_disk(checks, program):
    result = program.run("compare", *SHIPPED, "-o", "/dev/full", "--format", "json")
    checks.check(result.returncode != 0 and result.stderr.count("\n") == 1 and "/dev/full" in result.stderr, f"disk full: {result.stderr!r}")


def test_colours(checks, program):
    command = ["compare", *SHIPPED]
    checks.check("\033[" not in program.run(*command).stdout, "no colours into a pipe")
    checks.check("\033[" in program.run(*command, "--color", "always").stdout, "colours when told")
    checks.check("\033[" in program.run(*command, "--color", "always", NO_COLOR="1").stdout, "the option is stronger than NO_COLOR")
    checks.check("\033[" not in program.run(*command, "--color", "never").stdout, "none when told")


def on_terminal(program, arguments, **environment):
    master, terminal = os.openpty()
    with open(terminal, "wb", buffering=0) as out:
        import subprocess
        subprocess.run([program.path, *arguments], cwd=program.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                       env=program.environment(TERM="xterm", **environment), timeout=60)
    text = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:
            break
        text += piece
        if not piece:
            break
    os.close(master)
    return text


def test_terminal(checks, program):
    command = ["compare", *SHIPPED, "--systems", "deepspeed_moe,tutel"]
    text = on_terminal(program, command)
    checks.check(b"compare 0/2: deepspeed_moe" in text, "progress on a terminal")
    checks.check(b"\033[3" in text or b"\033[1" in text, "colours on a terminal")
    text = on_terminal(program, command, NO_COLOR="1")
    checks.check(b"\033[3" not in text and b"\033[1" not in text, "NO_COLOR")
    checks.check(b"compare 0/2" not in on_terminal(program, [*command, "-q"]), "no progress when quiet")


def test_progress_in_lines(checks, program):
    result = program.run("compare", *SHIPPED, "-v", "--systems", "deepspeed_moe,tutel")
    checks.check(result.stderr == "dovetail: compare 1/2\ndovetail: compare 2/2\n", f"lines: {result.stderr!r}")


def test_plan_can_be_used_again(checks, program):
    program.run("plan", *SHIPPED, "--system", "fsmoe", "--save-plan", "plan.json", "-o", "chosen.json", "-q")
    program.run("simulate", *SHIPPED, "--plan", "plan.json", "-o", "again.json", "-q")
    chosen, again = load(program, "chosen.json")["results"][0], load(program, "again.json")["results"][0]
    checks.check(chosen["makespan_s"] == again["makespan_s"] and chosen["plan"] == again["plan"], "the same plan, the same time")
    checks.check(again["system"] == "plan", "named after its file")


def test_plan_of_an_experiment(checks, program):
    where = ["--cluster", "fsmoe-testbed-b", "--nodes", "2", "--model", "mixtral-8x7b", "--global-batch", "16", "--sequence", "256"]
    result = program.run("tune", *where, "--set", "workload.layers=2", "--count", "1", "--draws", "0", "--systems", "tutel", "--save", "best.json", "-q",
                         "-o", "tuned.json")  # fmt: skip
    checks.check(result.returncode == 0, f"tune: {result.stderr!r}")
    program.run("simulate", "--experiment", "best.json", "-o", "again.json", "-q")
    again = load(program, "again.json")["results"]
    checks.check(len(again) == 1 and again[0]["system"] == "plan of best.json", "one plan, named after its file")
    checks.check(abs(again[0]["makespan_s"] / load(program, "tuned.json")["best"][0]["makespan_s"] - 1) < 1e-3, "with the same time")
    for option in ("--system", "--plan"):
        result = program.run("simulate", "--experiment", "best.json", option, "tutel")
        checks.check(result.returncode == 2 and f"{option} tutel has no say: the plan of best.json gives every knob" in result.stderr,
                     f"{option}: {result.stderr!r}")  # fmt: skip


def test_spellings_have_one_effect(checks, program):
    times = []
    for number, spelling in enumerate((["--nodes", "4"], ["--set", "nodes=4"], ["--set", "cluster.nodes=4"], ["--experiment", "four.json"])):
        (program.folder / "four.json").write_text('{"nodes": 4}')
        program.run("simulate", *SHIPPED, "--system", "tutel", "--draws", "0", *spelling, "-q", "-o", f"{number}.json")
        times.append(load(program, f"{number}.json")["results"][0]["makespan_s"])
    checks.check(len(set(times)) == 1, f"four nodes: {times}")
    program.run("simulate", *SHIPPED, "--system", "tutel", "--draws", "0", "--experiment", "four.json", "--set", "nodes=2", "-q", "-o", "2.json")
    checks.check(load(program, "2.json")["inputs"]["cluster"]["nodes"] == 2, "options override the file")
    (program.folder / "batch.json").write_text('{"workload": {"batch": 4}, "plan": {"micro_batches": 4}}')
    program.run("simulate", *SHIPPED, "--system", "tutel", "--draws", "0", "--experiment", "batch.json", "--set", "gbs=64", "--set", "mbs=4",
                "-q", "-o", "gbs.json")  # fmt: skip
    saved = load(program, "gbs.json")
    checks.check(saved["inputs"]["workload"]["batch"] * saved["inputs"]["parallelism"]["dp"] == 64, "other spellings of its batch too")
    checks.check(saved["results"][0]["plan"]["micro_batches"] * 4 == saved["inputs"]["workload"]["batch"], "and of its micro-batches")


def test_totals_add_up(checks, program):
    stages = ["--cluster", "a10g-4", "--model", "glm-4.5-air", "--nodes", "4", "--system", "tutel_adaptive", "--set", "workload.layers=2"]
    stages += ["--set", "workload.batch=8", "--set", "pp=2", "--set", "mp=4", "--set", "ep=2", "--set", "esp=2", "--set", "plan.pipeline_schedule=1f1b"]
    twins = ["--cluster", "gb200-nvl72-8", "--model", "minimax-m2", "--nodes", "2", "--system", "tutel", "--set", "workload.layers=2"]
    twins += ["--set", "workload.sequence=4096", "--set", "workload.batch=16", "--set", "plan.micro_batches=4", "--set", "workload.capacity_factor=2"]
    for question in (stages, twins):
        program.run("simulate", *question, "--set", "workload.routing.kind=zipf", "--draws", "0", "-q", "-o", "x.json")
        saved = load(program, "x.json")
        result, best = saved["results"][0], saved["explanation"]["best"]
        step, shares = result["makespan_s"], result["throughput"]
        path = sum(part["time_s"] for part in result["critical_path"])
        checks.check(0.5 * step < path <= step * (1 + 1e-9), f"the critical path takes {path} of {step}")
        checks.check(shares["exposed_share"] + shares["waiting_share"] <= 1, f"shares: {shares}")
        parts = best["computation_s"] + best["exposed_communication_s"] + best["waiting_s"]
        checks.check(abs(parts / best["step_s"] - 1) < 1e-9, f"parts of the step: {best}")
        checks.check(abs(shares["exposed_share"] * step - best["exposed_communication_s"]) < 1e-3 * step, f"one base: {shares}, {best}")


def test_plan_of_all_systems(checks, program):
    program.run("plan", *SHIPPED, "-o", "all.json", "-q")
    times = [row["makespan_s"] for row in load(program, "all.json")["results"]]
    left_out = load(program, "all.json")["refused"]  # they need stages, or bf16
    checks.check(len(times) + len(left_out) == len(SYSTEMS) and len(left_out) == 5 and times == sorted(times), "the fastest first")


def test_online_planning_is_kept_between_runs(checks, program):
    command = ["plan", "--online", "--trace", "capacity-tutel", *SHIPPED, "--state", "s.json", "--format", "json"]
    first, second = (json.loads(program.run(*command).stdout) for _ in range(2))
    checks.check(not first["resumed"] and second["resumed"], "the second run goes on")
    checks.check(second["regret"] < first["regret"], f"and knows more: {first['regret']}, {second['regret']}")
    result = program.run(*command, "--planner", "granularity_search")
    checks.check(result.returncode == 2 and "s.json:4:" in result.stderr and "learned by bucketed_search" in result.stderr, f"another planner: {result.stderr!r}")
    checks.check(program.files() == ["s.json"], f"only the state: {program.files()}")


def test_any_plans_are_strategies(checks, program):
    for degree in ("2", "4"):
        program.run("plan", *SHIPPED, "--system", "tutel_improved", "--set", f"plan.forward_degree={degree}", "--save-plan", f"p{degree}.json", "-q", "-o", "r.json")
    result = program.run("plan", "--online", "--trace", "capacity-tutel", *SHIPPED, "--plan", "p2.json", "--plan", "p4.json", "--system", "pipemoe_lina", "--planner", "granularity_search", "--format", "json")
    names = [s["name"] for s in json.loads(result.stdout)["strategies"]]
    checks.check(names[0] == "pipemoe_lina 1" and names[-2:] == ["p2", "p4"], f"degrees of systems and plans: {names}")


def test_online_planning_from_outside(checks, program):
    command = ["plan", "--online", *SHIPPED, "--state", "s.json", "-q"]
    times = {"linear 1": 4.0, "linear 2": 3.0, "linear 4": 2.0, "linear 8": 2.5}
    chosen = [program.run(*command, "--step", "f=2").stdout.strip()]
    for _ in range(6):
        chosen.append(program.run(*command, "--report", str(times[chosen[-1]]), "--step", "f=2").stdout.strip())
    checks.check(chosen == [*times, "linear 4", "linear 4", "linear 4"], f"each once, then the best: {chosen}")
    half = program.run(*command, "--step", "f=4,k=1").stdout.strip()
    checks.check(half == "linear 4", f"half the choices at twice the factor are the same load: {half}")
    choice = json.loads(program.run(*command, "--step", "f=2.1", "--format", "json", "--save-plan", "p.json").stdout)
    checks.check(choice["strategy"] == "linear 4" and choice["plan"] == load(program, "p.json"), "as JSON, with its plan")
    checks.check(program.run(*command, "--report", "2").returncode == 0, "a report alone")
    result = program.run(*command, "--report", "2")
    checks.check(result.returncode == 2 and "nothing was chosen" in result.stderr, "and not twice")
    result = program.run("plan", "--online", "--trace", "capacity-tutel", *SHIPPED, "--state", "s.json")
    checks.check(result.returncode == 2 and "another experiment" in result.stderr, f"times of a model are not mixed in: {result.stderr!r}")


def test_user_values_hold(checks, program):
    program.run("simulate", *SHIPPED, "--system", "fsmoe", "--set", "plan.backward_degree=2", "-o", "a.json", "-q")
    row = load(program, "a.json")["results"][0]
    checks.check(row["plan"]["backward_degree"] == 2 and not row["plan"]["backward_degrees"], "the degree set")
    checks.check("as the user set" in row["planner"]["reason"], "and said so")


# DualPipeV on two pipeline ranks, as PyTorch writes it but for the comment.
DUALPIPE_V = """# written by hand
0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3
1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,1W3
"""


def test_program_of_a_file(checks, program):
    (program.folder / "mine.csv").write_text(DUALPIPE_V)
    stages = ["--set", "parallelism.pp=2", "--set", "plan.micro_batches=4", "--set", "plan.virtual_stages=2"]
    listed = ["--set", "plan.pipeline_schedule=listed", "--set", "plan.program=mine.csv"]
    question = ["--cluster", "dgx-h100", "--model", "mixtral-8x7b", "--system", "megatron_lm", "--set", "workload.layers=8",
                "--set", "workload.global_batch=32"]
    for scope in ("layer", "batch"):
        for backend in ("analytic", "simgrid"):
            results = []
            for order in (listed, ["--set", "plan.pipeline_schedule=dualpipe_v"]):
                program.run("simulate", *question, *stages, *order, "--set", f"plan.scope={scope}", "--backend", backend, "-o", "r.json", "-q")
                results.append(load(program, "r.json")["results"][0])
            mine, named = results
            checks.check(len(mine["plan"]["program"]) == 2, "the program is in the result")
            same = all(mine[key] == named[key] for key in ("makespan_s", "exposed_communication_s", "stage_peak_bytes"))
            checks.check(same, f"{backend}, {scope}: as the named one")
    result = program.run("run", *SHIPPED, "--system", "tutel", "--ranks", "4", "--layers", "4", "--tokens", "64", "--hidden", "32",
                         "--measure-time", "1", "--set", "workload.batch=4", *stages, *listed)
    checks.check("4 listed" in result.stdout and "equal the reference: yes" in result.stdout, "it runs, and computes what it must")


def test_what_does_not_fit_is_shown(checks, program):
    result = program.run("compare", *SHIPPED, "--systems", "deepspeed_moe,tutel,fsmoe", "--set", "workload.batch=64", "--set", "plan.micro_batches=1", "-o", "a.json", "-q")
    rows = load(program, "a.json")["results"]
    checks.check(result.returncode == 0 and all(not r["feasible"] and r["missing_bytes"] > 0 for r in rows), "infeasible rows")


def test_a_terminal_holds_the_answer(checks, program):
    for command in (["compare", *SHIPPED], ["compare", "--cluster", "dgx-h100", "--nodes", "1", "--model", "olmoe-1b-7b"],
                    ["tune", *SHIPPED, "--nodes", "2", "--global-batch", "16", "--set", "workload.layers=2"]):
        lines = program.run(*command, "-q").stdout.splitlines()
        checks.check(10 < len(lines) <= 40 and max(map(len, lines)) <= 100,
                     f"{command[0]} prints {len(lines)} lines of up to {max(map(len, lines), default=0)} columns")


def test_threshold(checks, program):
    command = ["compare", *SHIPPED, "--systems", "deepspeed_moe,fsmoe", "-q", "-o", "a.json", "--fail-on"]
    checks.check(program.run(*command, "fsmoe:1.01").returncode == 0, "threshold kept")
    checks.check(program.run(*command, "fsmoe:9").returncode == 5, "threshold crossed")
    checks.check(len(load(program, "a.json")["results"]) == 2, "the result is there all the same")


def test_run(checks, program):
    result = program.run(*QUICK_RUN, "--emulate-links", "-o", "run.json")
    checks.check(result.returncode == 0, f"run: {result.stderr!r}")
    checks.check("outputs and gradients equal the reference: yes (error" in result.stdout, "numerics")
    rows = load(program, "run.json")["results"]
    checks.check([r["kind"] for r in rows] == ["predicted", "measured"], "predicted beside measured")
    checks.check(rows[1]["run"]["ranks"] == 2 and len(rows[1]["samples_s"]) >= 1, "samples")


def test_switching_between_plans(checks, program):
    sharing = [*QUICK_RUN, "--rank-nodes", "1", "--set", "workload.extent=model", "--set", "plan.expert_sharding=ep_dp"]
    result = program.run(*sharing, "--alternate", "plan.expert_sharding=ep_mp", "-o", "run.json", "--html", "run.html")
    checks.check(result.returncode == 0, f"switching: {result.stderr!r}")
    switching = load(program, "run.json")["results"][1]["run"]["switching"]
    checks.check(switching["settings"] == ["plan.expert_sharding=ep_mp"] and switching["repeats"] >= 10, f"what was measured: {switching}")
    checks.check(switching["moved_bytes"] == 0 < switching["kept_bytes"], "parameters stay where they are")
    checks.check(switching["ok"] and switching["checked_switches"] == 5, "numerics after each switch")
    checks.check([t["before"] + t["plan"] for t in switching["turns"]] == ["AA", "AB", "BA", "BB"], "gaps with and without a switch")
    checks.check("moved at a switch: 0 B of" in result.stdout and "equal the sequential training: yes" in result.stdout, "and the text says so")
    checks.check("switching between plans" in (program.folder / "run.html").read_text(), "and the page")
    checks.check("switching" not in load_plain(program, sharing), "no switches without being asked")


def load_plain(program, command):
    program.run(*command, "-o", "plain.json")
    return load(program, "plain.json")["results"][1]["run"]


def test_plan_by_running(checks, program):
    result = program.run("plan", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--system", "tutel", "--evaluator", "host",
                         "--ranks", "2", "--tokens", "64", "--hidden", "32", "--expert-hidden", "32", "--measure-time", "0.05", "-o", "p.json", "-v")
    planner = load(program, "p.json")["results"][0]["planner"]
    checks.check(result.returncode == 0 and planner["evaluations"] == 4 and planner["regret"] == 0, f"plans really run: {planner}")
    checks.check("planners chose by measured times" in result.stdout, "and the notes say so")


GRID = {"name": "small", "cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "ranks": 2, "systems": ["deepspeed_moe", "tutel"],
        "degrees": [1, 2], "calibrate": [{"tokens": 32, "hidden": 32, "expert_hidden": 32}, {"tokens": 64, "hidden": 32, "expert_hidden": 64}],
        "predict": [{"tokens": 48, "hidden": 32, "expert_hidden": 48}]}
VALIDATE = ["validate", "grid.json", "-o", "v.json", "--html", "v.html", "--measure-time"]


def test_validate(checks, program):
    (program.folder / "grid.json").write_text(json.dumps(GRID))
    result = program.run(*VALIDATE, "0.05")
    checks.check(result.returncode == 0, f"validate: {result.stderr!r}")
    checks.check("mean absolute error" in result.stdout and "regret of each planner" in result.stdout, "the summary")
    checks.check(program.files() == ["grid.json", "v.html", "v.json"], f"no journal is left: {program.files()}")
    plans = load(program, "v.json")["cells"][0]["plans"]
    checks.check([p["system"] for p in plans] == ["deepspeed_moe", "tutel", "tutel"], "every plan considered")
    checks.check(all(len(p["samples_s"]) == 5 for p in plans), "five rounds")
    origins = {(op["op"], op["origin"]) for p in plans for op in p["ops"]}
    checks.check(("dispatch", "emulated") in origins and ("expert", "measured") in origins, "each op says how it got its time")
    checks.check("<svg" in (program.folder / "v.html").read_text(), "a parity plot")


def test_validation_resumes(checks, program):
    (program.folder / "grid.json").write_text(json.dumps(GRID))
    journal = program.folder / "v.json.journal"
    process = program.start(*VALIDATE, "1")
    while not journal.exists() or journal.read_text().count("\n") < 4:  # what it is, and three plans
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=30)
    kept = [json.loads(line) for line in journal.read_text().splitlines()[1:4]]
    result = program.run(*VALIDATE, "0.05")
    checks.check(result.returncode == 2 and "v.json.journal" in result.stderr and journal.exists(), f"other settings: {result.stderr!r}")
    result = program.run(*VALIDATE, "1")
    checks.check(result.returncode == 0 and not journal.exists(), f"resumed: {result.stderr!r}")
    kernels = load(program, "v.json")["kernels"]
    checks.check(len(kept) == 3 and all(part["key"].startswith("calibrate") for part in kept) and kernels, "from what was kept")


def test_validation_within_a_time_limit(checks, program):
    (program.folder / "grid.json").write_text(json.dumps(GRID))
    result = program.run(*VALIDATE, "0.2", "--time-limit", "0.000001")
    expected = "over before any plan was measured; 0 of 20 measurements were made, which v.json.journal keeps: give the same command"
    checks.check(result.returncode == 1 and expected in result.stderr, f"nothing measured: {result.stderr!r}")
    result = program.run("validate", "./grid.json", "--time-limit", "0.000001", "-q")
    checks.check(result.returncode == 1 and "are lost: with a file after --output" in result.stderr, f"nor kept: {result.stderr!r}")
    checks.check(program.files() == ["grid.json"], f"nothing is written: {program.files()}")
    journal = program.folder / "v.json.journal"
    process = program.start(*VALIDATE, "0.2")
    while not journal.exists() or journal.read_text().count("\n") < 23:  # what it is, 20 to calibrate on, two plans
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=30)
    made = journal.read_text().count("\n") - 1
    result = program.run(*VALIDATE, "0.2", "--time-limit", "0.000001")
    checks.check(result.returncode == 0 and journal.exists(), f"partial: {result.stderr!r}")
    partial = load(program, "v.json")
    checks.check(partial["partial"] and partial["measurements"] == {"made": made, "all": 35}, f"{partial['measurements']}, {made}")
    samples = sum(len(p["samples_s"]) for p in partial["cells"][0]["plans"])
    checks.check(samples == made - 20 and "Partial" in (program.folder / "v.html").read_text(), f"{samples} samples of {made}")
    result = program.run(*VALIDATE, "0.2")
    checks.check(result.returncode == 0 and not journal.exists() and not load(program, "v.json")["partial"], "the whole")


def test_calibrate(checks, program):
    for _ in range(5):  # on a machine that is too busy, times do not grow with size: exit code 4
        result = program.run("calibrate", "--quick", "--ranks", "2", "--measure-time", "0.02", "--name", "here", "-o", "own.json",
                             "--points", "p.csv")  # fmt: skip
        if result.returncode != 4:
            break
    # Short measurements on a busy machine may lie far from a line, which is told.
    quiet = all(line.startswith("warning: here: measured times far from") for line in result.stderr.splitlines())
    checks.check(result.returncode == 0 and quiet, f"calibrate: {result.stderr!r}")
    checks.check("GEMM fp32" in result.stdout and "compute/inter" in result.stdout, "the table has fits and pairs")
    own = load(program, "own.json")
    checks.check(own["measurement"]["ranks"] == 2 and own["measurement"]["command_line"][1] == "calibrate", "how it was measured")
    costs = [*own["collectives"], *own["gemms"], own["memory"], own["copy"]]
    checks.check(len(own["collectives"]) == 14 and all(c["provenance"]["origin"] == "measured" for c in costs), "all is measured")
    checks.check(all(len(c["provenance"]["fit"]["points"]) >= 3 for c in costs), "with the points of each fit")
    checks.check(len(own["interference"]) == 6, "every pair of kinds")
    points = (program.folder / "p.csv").read_text().splitlines()
    fitted = sum(len(c["provenance"]["fit"]["points"]) for c in [*own["gemms"], own["memory"], own["strided_copy"], own["copy"]])
    checks.check(len(points) == 1 + fitted + 2 * 3, f"every size, products and copies in each of their pairs: {len(points)}")
    (program.folder / "grid.json").write_text(json.dumps({**GRID, "kernels": "held", "systems": ["tutel"]} | {"calibrate": None}).replace('"calibrate": null, ', ""))
    result = program.run(*VALIDATE, "0.02", "--points", "p.csv")
    checks.check(result.returncode == 0 and len(load(program, "v.json")["device"]["points"]) == len(points) - 1, f"beside plans: {result.stderr!r}")
    result = program.run("simulate", *SHIPPED, "--calibration", "own.json", "--system", "tutel", "-o", "r.json")
    checks.check(result.returncode == 0, f"other commands take it: {result.stderr!r}")
    checks.check(load(program, "r.json")["inputs"]["calibration"]["name"] == "here", "and name it")
    result = program.run("calibrate", "--quick", "--ranks", "64", "--measure-time", "0.001", "--timeout", "0.3", "-o", "never.json")
    checks.check(result.returncode == 1 and "never.json" not in program.files(), f"interrupted it leaves nothing: {program.files()}")


def test_stopped_by_signals(checks, program):
    for number in (signal.SIGINT, signal.SIGTERM):
        process = program.start(*LONG_RUN, "-o", "never.json")
        time.sleep(1)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        checks.check(process.returncode == -number, f"ended by signal {number}: {process.returncode}")
        checks.check(out == b"" and err == b"" and program.files() == [], f"nothing said or left: {err!r} {program.files()}")


def test_timeout(checks, program):
    result = program.run(*LONG_RUN, "--timeout", "0.5", "-o", "never.json")
    checks.check(result.returncode == 1 and result.stderr.count("\n") == 1 and "--timeout" in result.stderr, f"timeout: {result.stderr!r}")
    checks.check(program.files() == [], "nothing left")


def test_import(checks, program):
    config = {"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
              "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 100, "hidden_act": "silu"}
    (program.folder / "config.json").write_text(json.dumps(config))
    result = program.run("import", "config.json", "--name", "small", "-o", "small.json")
    checks.check(result.returncode == 0 and result.stdout == "", f"import: {result.stderr!r}")
    result = program.run("simulate", "--cluster", "fsmoe-testbed-b", "--model", "small.json", "--system", "tutel", "--nodes", "2")
    checks.check(result.returncode == 0, f"the imported model works: {result.stderr!r}")
    config |= {"a_new_part": 2, "use_cache": True, "another": [0, "LIMIT"]}
    (program.folder / "config.json").write_text(json.dumps(config).replace('"LIMIT"', "Infinity"))
    result = program.run("import", ".", "-o", "again.json")
    checks.check(result.returncode == 0 and "does not know, so that what they say is not in the model: a_new_part, another\n"
                 in result.stderr, f"a checkpoint's folder: {result.stderr!r}")
    (program.folder / "config.json").write_text(json.dumps(config))
    result = program.run("simulate", "--cluster", "fsmoe-testbed-b", "--model", "./config.json", "--system", "tutel")
    checks.check(result.returncode == 2 and "dovetail import ./config.json -o model.json" in result.stderr, f"{result.stderr!r}")


def test_plans_are_named_by_what_they_are(checks, program):
    """A plan whose every knob is given is no system's, whatever system is named beside it."""
    program.run("plan", *SHIPPED, "--system", "fsmoe", "--save-plan", "p.json")
    experiment = {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "plan": load(program, "p.json")}
    (program.folder / "best.json").write_text(json.dumps(experiment))
    for more in ([], ["--set", "plan.forward_degree=2"]):
        program.run("simulate", "--experiment", "./best.json", "-o", "r.json", *more)
        name = load(program, "r.json")["results"][0]["system"]
        checks.check(name == "plan of best.json" + (", changed" if more else ""), f"called {name}")
    part = {**experiment, "plan": {"forward_degree": 2}}
    (program.folder / "part.json").write_text(json.dumps(part))
    program.run("simulate", "--experiment", "part.json", "--system", "tutel", "-o", "r.json")
    checks.check(load(program, "r.json")["results"][0]["system"] == "tutel", "a system that chooses the rest")


def test_exports_say_what_they_take(checks, program):
    """The step of the plan, or that of what the arguments make of it."""
    def last_line(*more):
        return program.run("plan", *SHIPPED, "--systems", "fsmoe", "--export", "megatron", "-q", "--set", "parallelism.esp=1",
                           "--set", "cluster.device.memory=99 GiB", *more).stdout.splitlines()[-1]
    own = ["--set", "plan.scope=layer", "--set", "plan.forward_degree=1", "--set", "plan.backward_degree=1", "--set", "plan.scores_at=experts",
           "--set", "plan.grad_sync=with_dense", "--set", "plan.recompute=mp_gather", "--set", "plan.comm_streams=by_group",
           "--set", "plan.order=dispatch_first"]
    checks.check(re.fullmatch(r"# [\d.]+ m?s a step", last_line(*own)), f"all of it: {last_line(*own)!r}")
    taken = last_line()
    checks.check(re.fullmatch(r"# [\d.]+ m?s a step with these arguments, not the [\d.]+ m?s of the plan", taken), f"some of it: {taken!r}")


def test_missing_data_folder(checks, program):
    result = program.run("compare", *SHIPPED, DOVETAIL_DATA="/nowhere")
    checks.check(result.returncode == 2 and result.stderr.count("\n") == 1, f"{result.stderr!r}")
    checks.check(program.run("compare", "--help", DOVETAIL_DATA="/nowhere").returncode == 0, "help needs no data")
    result = program.run("doctor", DOVETAIL_DATA="/nowhere")
    checks.check(result.returncode == 0 and "/nowhere" in result.stdout, "doctor says that the data is missing")


def main():
    run_every_test(globals())


main()
