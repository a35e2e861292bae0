#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dovetail sweep from outside: killed and resumed, in parts, under mpirun. Usage: sweep_test.py PROGRAM"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from program import Checks, Program, program_argument

GRID = {"name": "many", "systems": ["tutel", "fsmoe"],
        "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload.layers": 1},
        "axes": [{"name": "workload.batch", "values": [1, 2, 3, 4, 5, 6, 7, 8]},
                 {"name": "workload.capacity_factor", "values": [1 + i / 8 for i in range(32)]}]}
SWEEP = ["sweep", "grid.json", "-o", "cells.jsonl"]


def cells_in(path):
    return [json.loads(line)["cell"] for line in path.read_text().splitlines()[1:] if line.endswith("}")] if path.exists() else []


def test_kill(checks, program):
    whole = program.folder / "cells.jsonl"
    checks.check(program.run(*SWEEP, "-q").returncode == 0, "the sweep")
    expected = whole.read_bytes()
    whole.unlink()
    inputs = json.loads(expected.splitlines()[0])["input_sha256"]
    read = {name for name in ("clusters/fsmoe-testbed-b", "models/mixtral-8x7b", "calibrations/fsmoe-testbed-b", "systems/tutel", "grid")
            if any(f"{name}.json" in path for path in inputs)}
    checks.check(len(read) == 5, f"the header has digests of {sorted(read)} alone: {sorted(inputs)}")
    part = program.folder / "cells.jsonl.part"
    process = program.start(*SWEEP, "-j", "2")
    while not part.exists() or part.read_bytes().count(b"\n") < 65:
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=30)
    kept = cells_in(part)
    checks.check(64 <= len(kept) < 512, f"killed in the middle: {len(kept)} of 512 cells")
    part.write_text(re.sub('"forward_s":[^,]*', '"forward_s":12345', part.read_text()))
    result = program.run(*SWEEP)
    checks.check(result.returncode == 0 and not part.exists(), f"resumed: {result.stderr!r}")
    lines = whole.read_text().splitlines()
    again = [i for i in kept if '"forward_s":12345,' not in lines[i + 1]]
    checks.check(not again and len(lines) == 513, f"finished cells computed again: {again[:5]}")
    whole.unlink()
    checks.check(program.run(*SWEEP, "-j", "1").returncode == 0 and whole.read_bytes() == expected, "the same bytes with one process")
    before = time.monotonic()
    again = program.run(*SWEEP)
    checks.check(again.returncode == 0 and "fastest at" in again.stdout, f"a finished sweep is read, not run ({time.monotonic() - before:.2f} s)")


def test_shards(checks, program):
    expected = (program.folder / "cells.jsonl").read_bytes()
    (program.folder / "cells.jsonl").unlink()
    first = program.run(*SWEEP, "--shard", "1/2")
    checks.check("shard 1 of 2 is finished" in first.stdout and not (program.folder / "cells.jsonl").exists(), first.stdout)
    second = program.run(*SWEEP, "--shard", "2/2")
    checks.check(second.returncode == 0 and (program.folder / "cells.jsonl").read_bytes() == expected, "the last shard merges")
    parts = "cells.2-of-2.jsonl,cells.1-of-2.jsonl"
    merged = program.run("sweep", "--merge", parts, "-o", "merged.jsonl", "--csv", "merged.csv")
    checks.check(merged.returncode == 0 and (program.folder / "merged.jsonl").read_bytes() == expected, "merged by hand")
    table = (program.folder / "merged.csv").read_text().splitlines()
    checks.check(len(table) == 513 and table[0].startswith("cell,system,workload.batch"), "as CSV")


def test_mpirun(checks, program):
    if not shutil.which("mpirun"):
        print("mpirun is missing: not tested under it")
        return
    expected = (program.folder / "cells.jsonl").read_bytes()
    for file in program.folder.glob("cells*"):
        file.unlink()
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", program.path, *SWEEP, "-j", "1"]
    result = subprocess.run(command, cwd=program.folder, env=program.environment(), capture_output=True, text=True, timeout=100)
    checks.check(result.returncode == 0, f"mpirun: {result.stderr!r}")
    checks.check((program.folder / "cells.jsonl").read_bytes() == expected, "the same bytes under mpirun")
    checks.check((program.folder / "cells.1-of-2.jsonl").exists(), "each process did its share")


def test_hardware(checks, program):
    grid = {**GRID, "name": "cards", "backend": "analytic",
            "axes": [{"name": "cluster.node_link", "values": ["pcie", "nvlink_pairs", "nvswitch"]}]}
    (program.folder / "cards.json").write_text(json.dumps(grid))
    text = " ".join(program.run("sweep", "cards.json", "-o", "cards.jsonl").stdout.split())
    said = "cluster.node_link nvlink_pairs, nvswitch (fsmoe-testbed-b: pcie) changes nothing: costs are those of calibration"
    checks.check("axis cluster.node_link changes nothing" in text and said in text, f"an axis that costs do not follow: {text!r}")


def peak_of(program, cells):
    """Peak memory in bytes of a sweep of so many cells, and the size of its result."""
    grid = {**GRID, "name": "memory", "backend": "analytic", "systems": ["deepspeed_moe"],
            "axes": [{"name": "workload.batch", "values": list(range(1, cells // 100 + 1))},
                     {"name": "workload.capacity_factor", "values": [1 + i / 100 for i in range(100)]}]}
    (program.folder / "memory.json").write_text(json.dumps(grid))
    process = program.start("sweep", "memory.json", "-o", "memory.jsonl", "--csv", "memory.csv", "-j", "1", "-q")
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.communicate()
    result = program.folder / "memory.jsonl"
    size = result.stat().st_size if process.returncode == 0 else 0
    result.unlink(missing_ok=True)
    return use.ru_maxrss * 1024, size


def test_memory(checks, program):
    if b"__asan_init" in program.path.read_bytes() or b"__tsan_init" in program.path.read_bytes():
        print("sanitizers keep freed memory: how it grows is not tested")
        return
    small, _ = peak_of(program, 200)
    large, size = peak_of(program, 4200)
    # 4,000 more cells at some 40 bytes each; no result stays in memory.
    checks.check(size > 1_200_000 and large - small < size / 2, f"{large - small} bytes more for {size} bytes of results")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(program_argument(), folder)
        (program.folder / "grid.json").write_text(json.dumps(GRID))
        test_kill(checks, program)
        test_shards(checks, program)
        test_mpirun(checks, program)
        test_hardware(checks, program)
        test_memory(checks, program)
    checks.finish()


if __name__ == "__main__":
    main()
