#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files stay whole when something else is there, several programs write, a program is killed, or a disk or stream is full.
 Usage: files_test.py PROGRAM"""
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

from program import SOURCE, run_every_test

SHIPPED = ["--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--set", "workload.layers=1"]
SIMULATE = ["simulate", *SHIPPED, "--system", "tutel"]
HELD = {"name": "v", "description": "x", "source": "y", "kernels": "held", "cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b",
        "ranks": 2, "systems": ["deepspeed_moe"], "degrees": [1, 2], "predict": [{"tokens": 16, "hidden": 8, "expert_hidden": 8}]}
MANY = {"name": "many", "systems": ["tutel", "fsmoe"],
        "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 2},
        "axes": [{"name": "workload.batch", "values": list(range(1, 9))},
                 {"name": "workload.capacity_factor", "values": [1 + i / 32 for i in range(32)]}]}
VALIDATE = ["validate", "./held.json", "--rounds", "2", "--measure-time", "0.05", "-q", "-o", "v.json"]


def put(program, name, content):
    path = program.folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def refused(checks, result, expected, what, code=2):
    line = result.stderr.removesuffix("\n")
    checks.check(result.returncode == code and expected in line and "\n" not in line, f"{what}: exit {result.returncode}, {line[:300]!r}")


def test_journal_of_something_else(checks, program):
    put(program, "held.json", HELD)
    journal = put(program, "v.json.journal", "important\n")
    refused(checks, program.run(*VALIDATE), "v.json.journal:1:1: this is not a journal of dovetail", "a file of the user's")
    checks.check(journal.read_text() == "important\n", "and it is as it was")
    journal.unlink()
    important = put(program, "important", "x")
    journal.symlink_to("important")
    refused(checks, program.run(*VALIDATE), "symbolic link", "a link")
    checks.check(important.read_text() == "x" and journal.is_symlink(), "and what it leads to is as it was")
    journal.unlink()
    put(program, "v.json.lock", "important")
    refused(checks, program.run(*VALIDATE), "v.json.lock is not a lock of dovetail", "a lock of the user's")
    (program.folder / "v.json.lock").unlink()
    checks.check(program.files() == ["held.json", "important"], f"nothing is left: {program.files()}")


def killed_validation(program):
    """The journal of a validation that was killed after some parts."""
    grid = {**HELD, "systems": ["deepspeed_moe", "tutel", "fsmoe"]}
    put(program, "held.json", grid)
    journal = program.folder / "v.json.journal"
    process = program.start(*VALIDATE)
    while process.poll() is None and not (journal.exists() and journal.read_text().count("\n") >= 3):
        time.sleep(0.001)
    process.kill()
    process.communicate()
    return journal


def test_damaged_journal(checks, program):
    journal = killed_validation(program)
    lines = journal.read_text().splitlines()
    part = json.loads(lines[1])
    damages = {"an operation that is none": ("/ops/0/op", lambda p: p["ops"][0].update(op=99)),
               "a phase of another operation": ("/ops/0: expected", lambda p: p["ops"][0].update(phase="update")),
               "fewer operations": ("/ops", lambda p: p["ops"].pop()),
               "a negative time": ("/sample", lambda p: p.update(sample=-1)),
               "no key": ('missing key "key"', lambda p: p.pop("key"))}
    for what, (expected, damage) in damages.items():
        broken = json.loads(lines[1])
        damage(broken)
        text = "\n".join([lines[0], json.dumps(broken), *lines[2:]]) + "\n"
        journal.write_text(text)
        result = program.run(*VALIDATE)
        refused(checks, result, expected, what)
        checks.check(result.stderr.startswith("v.json.journal:2:"), f"{what}: with its line: {result.stderr!r}")
        checks.check(journal.read_text().startswith(text), f"{what}: the journal is kept")
    result = program.run(*VALIDATE[:2], "--rounds", "3", *VALIDATE[4:])
    refused(checks, result, "work/rounds is 2 there and 3 here", "a journal of other options")
    part["sample"] = 123.0
    journal.write_text("\n".join([lines[0], json.dumps(part), *lines[2:], '{"key": "cut o']))
    checks.check(program.run(*VALIDATE).returncode == 0, "the undamaged one is gone on with")
    samples = json.loads((program.folder / "v.json").read_text())
    checks.check("123" in json.dumps(samples), "with what it had")
    checks.check(program.files() == ["held.json", "v.json"], f"and removed: {program.files()}")


def test_refusals_leave_nothing(checks, program):
    put(program, "held.json", HELD)
    put(program, "no.json", {"name": "no", "systems": ["deepspeed_moe"], "base": {**MANY["base"], "plan.forward_degree": 2}})
    refused(checks, program.run("sweep", "./no.json", "-o", "no.jsonl"), "every cell is refused; the first:", "a sweep without a result")
    refused(checks, program.run(*VALIDATE, "--html", "nowhere/x.html"), "nowhere/x.html", "a page that cannot be written")
    refused(checks, program.run("sweep", "./no.json", "-o", "-"), "sweep writes its cells to a file", "a sweep to standard output")
    checks.check(program.files() == ["held.json", "no.json"], f"left: {program.files()}")


def test_one_file_once(checks, program):
    """Two outputs that are one file, and outputs that are inputs: nothing is changed."""
    put(program, "held.json", HELD)
    put(program, "grid.json", MANY)
    put(program, "e.json", {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b"})
    shutil.copy(SOURCE / "tests/data/hf/mixtral-8x7b/config.json", program.folder / "config.json")
    shutil.copy(SOURCE / "data/clusters/fsmoe-testbed-b.json", program.folder / "cluster.json")
    shutil.copy(SOURCE / "tests/data/nccl-tests/alltoall.txt", program.folder / "log.txt")
    (program.folder / "link.json").symlink_to("config.json")
    os.link(program.folder / "config.json", program.folder / "hard.json")
    (program.folder / "sub").mkdir()
    data = program.folder / "data"
    shutil.copytree(SOURCE / "data", data)
    online = ["plan", "--online", *SHIPPED, "--step", "f=1"]
    twice, read = "both write to", "this command reads that file"
    cases = [([*online, "--state", "s.json", "-o", "s.json"], twice),
             ([*online, "--state", "s.json", "--save-plan", "./s.json"], twice),
             (["plan", "--online", *SHIPPED, "--trace", "capacity-tutel", "--state", "s.json", "--html", "sub/../s.json"], twice),
             (["plan", *SHIPPED, "--save-plan", "a.json", "-o", "a.json"], twice),
             (["compare", *SHIPPED, "-o", "a.json", "--html", "sub/../a.json"], twice),
             (["run", *SHIPPED, "--system", "tutel", "--save-schedule", "a.json", "--trace", "a.json"], twice),
             (["sweep", "./grid.json", "-o", "s.jsonl", "--csv", "s.jsonl"], twice),
             (["sweep", "./grid.json", "-o", "s.jsonl", "--csv", "s.jsonl.part"], twice),
             (["sweep", "./grid.json", "-o", "s.jsonl", "--shard", "1/2", "--csv", "s.1-of-2.jsonl"], twice),
             (["validate", "./held.json", "-o", "v.json", "--html", "v.json.journal"], twice),
             (["sweep", "./grid.json", "-o", "grid.json"], read),
             (["sweep", "--merge", "a.jsonl,b.jsonl", "-o", "config.json", "--csv", "a.jsonl"], read),
             (["validate", "./held.json", "-o", "held.json"], read),
             (["import", "config.json", "-o", "config.json"], read),
             (["import", "config.json", "-o", "link.json"], read),
             (["import", "config.json", "-o", "hard.json"], read),
             (["calibrate", "--base", "fsmoe-testbed-b", "--nccl-tests", "log.txt", "-o", "./log.txt"], read),
             (["simulate", "--experiment", "e.json", "--system", "tutel", "-o", "e.json"], read),
             (["simulate", "--experiment", "e.json", "--system", "tutel", "--trace", "./e.json"], read),
             (["simulate", "--cluster", "cluster.json", "--model", "mixtral-8x7b", "--system", "tutel", "--html", "cluster.json"], read),
             ([*SIMULATE, "-o", "data/models/mixtral-8x7b.json"], read),
             (["reproduce", "ampipe-table2", "-o", "./data/published/ampipe-table2.json"], read)]
    before = {name: (program.folder / name).read_bytes() for name in program.files()}
    for arguments, expected in cases:
        refused(checks, program.run(*arguments, DOVETAIL_DATA=str(data)), expected, " ".join(arguments))
    after = {name: (program.folder / name).read_bytes() for name in program.files()}
    checks.check(after == before, f"files changed: {sorted(set(after) ^ set(before))}")
    checks.check(program.run(*SIMULATE, "-o", "/dev/null", "--html", "/dev/null", "-q").returncode == 0, "devices keep nothing")
    executor = program.path.parent / "dovetail-exec"
    if executor.exists():
        result = subprocess.run([executor, "e.json", "-o", "./e.json"], cwd=program.folder, capture_output=True, text=True)
        refused(checks, result, read, "dovetail-exec")


def test_sweeps_side_by_side(checks, program):
    put(program, "many.json", MANY)
    sweep = ["sweep", "./many.json", "-o", "s.jsonl", "-j", "2", "-q"]
    first = program.start(*sweep)
    while not (program.folder / "s.jsonl.part").exists():
        time.sleep(0.002)
    refused(checks, program.run(*sweep), f"s.jsonl is in use by process {first.pid}", "a second sweep")
    _, error = first.communicate(timeout=100)
    checks.check(first.returncode == 0 and error == b"", f"the first one ends well: {error!r}")
    checks.check((program.folder / "s.jsonl").read_bytes().count(b"\n") == 513, "with all cells")
    (program.folder / "s.jsonl").unlink()
    killed = program.start(*sweep)
    while not (program.folder / "s.jsonl.part").exists():
        time.sleep(0.002)
    killed.kill()
    checks.check(program.run(*sweep).returncode == 0, "the lock of a killed one stops nobody, even while its workers end")
    killed.communicate()
    checks.check(program.files() == ["many.json", "s.jsonl"], f"only the result: {program.files()}")


def test_reports_side_by_side(checks, program):
    step = ["plan", "--online", *SHIPPED, "--state", "state.json", "-q", "--step", "f=1.5"]
    checks.check(program.run(*step).returncode == 0, "a first choice")
    reports = [program.start(*step, "--report", f"0.4{i}") for i in range(8)]
    codes = [process.wait(timeout=100) for process in reports]
    for process in reports:
        process.communicate()
    loads = json.loads((program.folder / "state.json").read_text())["loads"]
    kept = sum(timing[0] for load in loads for timing in load["timings"])
    checks.check(codes == [0] * 8 and kept == 8, f"{kept} of 8 reports are kept, exit codes {codes}")
    checks.check(program.files() == ["state.json"], f"only the state: {program.files()}")


def test_state_of_something_else(checks, program):
    trace = ["plan", "--online", "--trace", "capacity-tutel", *SHIPPED, "--state", "s.json", "-q"]
    checks.check(program.run(*trace).returncode == 0, "a state of computed times")
    state = json.loads((program.folder / "s.json").read_text())
    version = program.run("--version").stdout.split()[1]
    checks.check(f"times analytic by dovetail {version}" in state["context"], f"says whose they are: {state['context']}")
    for key, value, expected in [("schema_version", "0.9", "0.9, expected 1.0"), ("strategies", ["a"], "other strategies (a), expected linear 1"),
                                 ("context", "gpt on A", "another experiment (gpt on A), expected mixtral-8x7b on fsmoe-testbed-b")]:
        text = json.dumps({**state, key: value})
        put(program, "s.json", text)
        refused(checks, program.run(*trace), expected, f"another {key}")
        checks.check((program.folder / "s.json").read_text() == text, "the state is kept")


def test_killed_writers(checks, program):
    command = ["compare", *SHIPPED, "-q", "-o", "a.json", "--html", "a.html"]
    start = time.monotonic()
    program.run(*command)
    whole = time.monotonic() - start
    for i in range(10):
        process = program.start(*command)
        time.sleep(whole * i / 10)
        process.kill()
        process.communicate()
    put(program, ".dovetail.1-0.tmp", "of a writer that needed a name")
    checks.check(program.run(*command).returncode == 0 and program.files() == ["a.html", "a.json"], f"left: {program.files()}")


def limited(program, size, *arguments):
    """Runs with a limit on the size of files."""
    return subprocess.run([program.path, *arguments], cwd=program.folder, env=program.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))


def test_no_room(checks, program):
    put(program, "many.json", MANY)
    refused(checks, limited(program, 8192, "compare", *SHIPPED, "-q", "-o", "a.json", "--html", "a.html"), "File too large", "a page", code=4)
    checks.check(program.files() == ["many.json"], f"left: {program.files()}")
    refused(checks, limited(program, 65536, "sweep", "./many.json", "-o", "s.jsonl", "-j", "1", "-q"), "File too large", "a sweep", code=4)
    checks.check(program.run("sweep", "./many.json", "-o", "s.jsonl", "-q").returncode == 0, "goes on with room")
    checks.check(program.files() == ["many.json", "s.jsonl"], f"left: {program.files()}")


def with_streams(program, redirection, *arguments):
    return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", program.path, *arguments], cwd=program.folder,
                          env=program.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_streams(checks, program):
    program.run(*SIMULATE, "-q", "-o", "saved.json")
    for arguments in (["--help"], ["--version"], ["doctor"], ["reproduce", "--list"], ["compare", "--help"],
                      ["plan", "--knobs"], ["explain", "saved.json"], SIMULATE):
        for redirection in ("> /dev/full", ">&-"):
            result = with_streams(program, redirection, *arguments)
            refused(checks, result, "cannot write standard output", f"{' '.join(arguments)} {redirection}", code=4)
    for redirection in ("2>&-", "2> /dev/full", "0<&- 2>&-", "<&- >&- 2>&-"):
        result = with_streams(program, redirection, "simulate", "--cluster", "nope", "--model", "x")
        checks.check(result.returncode == 2, f"a refusal with {redirection}: {result.returncode}")
        result = with_streams(program, redirection, *SIMULATE, "-q", "-o", "a.json")
        checks.check(result.returncode == 0, f"a result with {redirection}: {result.returncode}")
        checks.check(json.loads((program.folder / "a.json").read_text())["kind"] == "simulate", "the file has the result alone")
    checks.check(with_streams(program, "2>&-", "plan", *SHIPPED, "--system", "tutel", "--set", "workload.batch=4096", "--set", "plan.micro_batches=1").returncode == 3, "no plan fits, unsaid")


def main():
    run_every_test(globals())


if __name__ == "__main__":
    main()
