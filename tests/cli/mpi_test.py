#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dovetail run --transport mpi from outside: results, and that ranks which die or hang are named and leave nothing.
Usage: mpi_test.py PROGRAM"""
import json
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from program import Checks, Program, program_argument

RUN = ["run", "--transport", "mpi", "--ranks", "4", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b",
       "--system", "fsmoe", "--tokens", "64", "--hidden", "32", "--expert-hidden", "32"]
LONG = [*RUN, "--layers", "20", "--emulate-links", "--measure-time", "300", "-o", "never.json"]
OP = r"[a-z_]+\S*"  # dispatch.0 and the like


def processes_of(program):
    """Process to environment, of all that names this program's temporary folder: mpirun and the ranks."""
    mine, found = os.fsencode(str(program.folder / "tmp")), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mine in (process / "cmdline").read_bytes():
                found[int(process.name)] = (process / "environ").read_bytes()
        except OSError:  # it has just ended
            continue
    return found


def ranks_of(program):
    ranks = {process: re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", environment) for process, environment in processes_of(program).items()}
    return {int(rank.group(1)): process for process, rank in ranks.items() if rank}


def start(program, *arguments, **environment):
    """Returns once all ranks execute steps."""
    process = program.start(*arguments, **environment)
    deadline = time.monotonic() + 60
    while len(ranks_of(program)) < 4 and time.monotonic() < deadline:
        time.sleep(.05)
    time.sleep(1.5)
    return process


def segments():
    return sorted(p.name for p in Path("/dev/shm").iterdir() if "segment" in p.name)


def check_nothing_left(checks, program, what):
    checks.check(not processes_of(program), f"{what}: processes are left: {list(processes_of(program))}")
    checks.check(program.files() == [], f"{what}: files are left: {program.files()}")


def check_failure(checks, program, process, pattern, seconds, what):
    begin = time.monotonic()
    out, err = (text.decode() for text in process.communicate(timeout=60))
    took = time.monotonic() - begin
    checks.check(process.returncode == 4 and err.count("\n") == 1 and re.search(pattern, err), f"{what}: {process.returncode} {err!r}")
    checks.check(took < seconds, f"{what}: said after {took:.1f} s")
    check_nothing_left(checks, program, what)


def test_run(checks, program):
    result = program.run(*RUN, "--emulate-links", "--measure-time", "2", "-o", "run.json")
    checks.check(result.returncode == 0, f"run: {result.stderr!r}")
    checks.check("on host over mpi, 4 ranks" in result.stdout and "outputs and gradients equal the reference: yes" in result.stdout, result.stdout)
    rows = json.loads((program.folder / "run.json").read_text())["results"]
    print(f"predicted {rows[0]['makespan_s']:.4f} s, measured {rows[1]['makespan_s']:.4f} s, overruns {rows[1]['run']['overruns']}")
    checks.check([r["kind"] for r in rows] == ["predicted", "measured"], "predicted beside measured")
    checks.check(rows[1]["run"]["ranks"] == 4 and rows[1]["run"]["numerics"]["ok"] and rows[1]["samples_s"], "the report of the run")
    checks.check(program.files() == ["run.json"] and not processes_of(program), f"nothing but the result is left: {program.files()}")


def test_same_numerics_as_inproc(checks, program):
    errors = []
    for transport in ("mpi", "inproc"):
        program.run(*[transport if word == "mpi" else word for word in RUN], "--measure-time", "0.1", "-o", "run.json", "-q")
        errors.append(json.loads((program.folder / "run.json").read_text())["results"][1]["run"]["numerics"])
    checks.check(all(math.isclose(errors[0][key], errors[1][key], rel_tol=1e-9) for key in errors[0]), f"sums are taken in the same order: {errors}")


def test_model_without_experts(checks, program):
    dense = ["llama-3.1-8b" if word == "mixtral-8x7b" else word for word in RUN]
    result = program.run(*dense, "--measure-time", "0.1", "-q", "-o", "dense.json")
    checks.check(result.returncode == 0 and result.stderr == "", f"no experts: {result.returncode} {result.stderr!r}")
    (program.folder / "dense.json").unlink()
    check_nothing_left(checks, program, "no experts")


def test_training(checks, program):
    losses = []
    for transport in ("mpi", "inproc"):
        result = program.run(*[transport if word == "mpi" else word for word in RUN], "--measure-time", "0.1", "-o", "run.json", "-q",
                             "--train", "10", "--set", "workload.extent=model")
        training = json.loads((program.folder / "run.json").read_text())["results"][1]["run"]["training"]
        checks.check(result.returncode == 0 and training["ok"] and len(training["losses"]) == 10, f"training over {transport}: {training}")
        losses.append(training["losses"])
    # Means are summed by process here and over all ranks there.
    same = all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(*losses))
    checks.check(same, f"threads and processes have the same losses: {losses}")


def test_host_file(checks, program):
    (program.folder / "hosts").write_text("localhost slots=4\n")
    result = program.run(*RUN, "--hostfile", "hosts", "--measure-time", "0.1", "-q", "-o", "run.json")
    checks.check(result.returncode == 0, f"host file: {result.stderr!r}")


def test_executor_alone(checks, program):
    program.run(*[word for word in RUN if word not in ("--transport", "mpi")], "--measure-time", "0.1", "-q", "-o", "run.json", "--save-schedule", "schedule.json")
    for ranks, code, pattern in [(4, 0, "step "), (2, 2, "2 processes, but the schedule has 4 ranks: mpirun -n 4")]:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), program.path.with_name("dovetail-exec"), "schedule.json", "-o", f"{ranks}.json", "--transport", "mpi", "--limit", "0.1"]
        result = subprocess.run(command, cwd=program.folder, env=program.environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"), capture_output=True, text=True, timeout=60)
        checks.check(result.returncode == code and pattern in result.stderr, f"{ranks} processes: {result.returncode} {result.stderr!r}")
    checks.check(json.loads((program.folder / "4.json").read_text())["run"]["transport"] == "mpi", "a timeline")
    checks.check("2.json" not in program.files(), "none of the other")


def test_killed_rank(checks, program):
    process = start(program, *LONG)
    os.kill(ranks_of(program)[2], signal.SIGKILL)
    check_failure(checks, program, process, rf"^dovetail: rank 2 on \S+: ended by signal 9 \(Killed\), (last in {OP}|last between two ops|before its first step)$", 10, "killed rank")


def test_stopped_rank(checks, program):
    process = start(program, *LONG, "--hang-time", "3")
    os.kill(ranks_of(program)[1], signal.SIGSTOP)
    check_failure(checks, program, process, rf"rank 1 has said nothing for 3 s, (last in {OP}|last between two ops|before its first step)", 10, "stopped rank")


def test_hanging_op(checks, program):
    process = program.start(*LONG, "--hang-time", "3", DOVETAIL_TEST_FAULT="hang:3")
    check_failure(checks, program, process, r"no op has finished for 3 s: rank 3 does not get past dispatch\S*$", 20, "hanging op")


def test_failing_op(checks, program):
    process = program.start(*LONG, DOVETAIL_TEST_FAULT="fail:3")
    check_failure(checks, program, process, r"^dovetail: dovetail-exec: dispatch\S*: told to fail, rank 3$", 20, "failing op")


def run_slow_ranks(program):
    process = program.start(*RUN, "--layers", "2", "--emulate-links", "--no-check", "--measure-time", "10", "-q", "-o", "slow.json", DOVETAIL_TEST_FAULT="slow:0")
    out, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


def test_slow_ranks(checks, program):
    # Ranks become slow after a dozen steps. On a busy machine a stall before them may dilate the run so far that they
    # never come to that, so there are three tries.
    for _ in range(3):
        code, err = run_slow_ranks(program)
        if code != 0:
            break
    line = "dovetail: the run is not valid: too many ops outlasted their modelled times; see its notes\n"
    checks.check(code == 6 and err == line, f"slow ranks: {code} {err!r}")
    checks.check((program.folder / "slow.json").exists(), "a run that is not valid has a result")
    (program.folder / "slow.json").unlink()
    check_nothing_left(checks, program, "slow ranks")


def test_launcher_goes(checks, program):
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(program, *LONG)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        checks.check(process.returncode == -number and out == err == b"", f"ended by signal {number}: {process.returncode} {err!r}")
        check_nothing_left(checks, program, f"signal {number}")
    process = start(program, *LONG)
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while processes_of(program) and time.monotonic() < deadline:
        time.sleep(.1)
    checks.check(not processes_of(program), "the launcher killed: no process is left")
    checks.check(left(program, process), "the launcher killed: its folder stays until the next run")
    other = program.folder / "tmp" / "dovetail-1-1-abcdef"  # of a process that has another start
    other.mkdir()
    kept = program.folder / "tmp" / f"dovetail-{os.getpid()}-{start_of_this_process()}-abcdef"  # of one that lives
    kept.mkdir()
    program.run(*RUN, "--measure-time", "0.1", "-q", "-o", "run.json")
    checks.check(left(program, process) == [kept], f"the next run removes what killed ones left: {left(program, process)}")


def left(program, process):
    """Folders of runs in the temporary folder, and those of the process in shared memory."""
    return sorted([*(program.folder / "tmp").iterdir(), *Path("/dev/shm").glob(f"dovetail-{process.pid}-*")])


def start_of_this_process():
    return Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]


def test_rank_stopped_before_it_says_anything(checks, program):
    process = program.start(*LONG, "--hang-time", "3")
    deadline = time.monotonic() + 60
    while 2 not in ranks_of(program) and time.monotonic() < deadline:
        pass
    os.kill(ranks_of(program)[2], signal.SIGSTOP)
    check_failure(checks, program, process, r"rank 2 has said nothing for 3 s, (before its first step|last between two ops)", 20, "rank stopped at once")


def test_timeout(checks, program):
    # A rank that hangs keeps the run from ending by itself, however fast the machine is.
    result = program.run(*LONG, "--hang-time", "100", "--timeout", "3", DOVETAIL_TEST_FAULT="hang:3")
    checks.check(result.returncode == 1 and result.stderr.count("\n") == 1 and "--timeout" in result.stderr, f"timeout: {result.stderr!r}")
    check_nothing_left(checks, program, "timeout")


def test_what_cannot_start(checks, program):
    for arguments, code, pattern in [(["--mpirun", "no-such-mpirun"], 4, "no-such-mpirun: No such file"),
                                     (["--hostfile", "no-such-file"], 2, "no-such-file"),
                                     (["--mpirun", "false"], 4, "false: ended without a result")]:
        result = program.run(*RUN, *arguments)
        checks.check(result.returncode == code and result.stderr.count("\n") == 1 and pattern in result.stderr, f"{arguments}: {result.returncode} {result.stderr!r}")
        check_nothing_left(checks, program, pattern)


def main():
    path = program_argument()
    checks, before = Checks(), segments()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                program = Program(path, folder)
                (program.folder / "tmp").mkdir()
                kept = {"TMPDIR": str(program.folder / "tmp"), **{key: value for key, value in os.environ.items() if key.startswith("OMPI_MCA_")}}
                plain = program.environment
                program.environment = lambda **changes: plain(**{**kept, **changes})
                begin = time.monotonic()
                test(checks, program)
                print(f"{name}: {time.monotonic() - begin:.1f} s")
    checks.check(segments() == before, f"shared memory is left: {segments()}")
    checks.finish()


main()
