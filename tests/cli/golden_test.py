#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the program prints, compared with golden/*.txt. With DOVETAIL_UPDATE_GOLDEN=1 it approves what is printed now.
Usage: golden_test.py PROGRAM"""
import difflib
import os
import pathlib
import re
import tempfile

from program import Checks, Program, program_argument

GOLDEN = pathlib.Path(__file__).parent / "golden"
NCCL_TESTS = [word for name in ("alltoall.txt", "all_gather.json")
              for word in ("--nccl-tests", str(GOLDEN.parents[1] / "data/nccl-tests" / name))]
SHIPPED = ["--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b"]


def timeless(text):
    """Without how long planning took, and broken into lines anew there."""
    text = re.sub(r"\n {4}(?=\S)", " ", text)
    return re.sub(r"evaluated in [0-9.]+ [a-z]+", "evaluated in TIME", text)


def unlisted(text):
    """Without the names of backends, which the help of `simulate` shows."""
    return re.sub(r"(what computes the times: |how long a plan takes: )[^[]*", r"\1NAMES ", text)


def shape(text):
    """Of doctor: the headings and names, each once, whatever this machine has; libraries in one list."""
    sections, heading = {}, ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            heading = line.split()[0] if not sections else line
            heading = "libraries" if heading in ("built in", "missing", "for later versions") else heading
            sections.setdefault(heading, [])
        elif re.match(r"  \S", line) and line.strip() != "nothing":
            sections[heading].append(line.split()[0])
    return "".join(f"{heading}: {' '.join(sorted(set(names)))}\n" for heading, names in sections.items())


def same(text):
    return text


CASES = [
    ("help", ["--help"], same),
    ("help_compare", ["compare", "--help"], unlisted),
    ("help_plan", ["plan", "--help"], unlisted),
    ("help_tune", ["tune", "--help"], same),
    ("tune", ["tune", *SHIPPED, "--nodes", "2", "--global-batch", "16", "--set", "workload.layers=2",
              "--systems", "deepspeed_moe,tutel,fsmoe,mpipemoe"], same),
    ("tune_for", ["tune", *SHIPPED, "--nodes", "2", "--global-batch", "16", "--set", "workload.layers=2", "--count", "2", "--draws", "0",
                  "--for", "megatron"], same),
    ("help_explain", ["explain", "--help"], same),
    ("help_simulate", ["simulate", "--help"], same),
    ("help_run", ["run", "--help"], unlisted),
    ("help_calibrate", ["calibrate", "--help"], same),
    ("calibrate_nccl_tests", ["calibrate", *NCCL_TESTS, "--base", "dgx-h100", "-o", "/dev/null"], same),
    ("help_sweep", ["sweep", "--help"], unlisted),
    ("help_validate", ["validate", "--help"], same),
    ("help_reproduce", ["reproduce", "--help"], same),
    ("reproduce", ["reproduce", "fsmoe-table2", "ampipe-appendix-c"], same),
    ("help_import", ["import", "--help"], same),
    ("help_doctor", ["doctor", "--help"], same),
    ("compare", ["compare", *SHIPPED], timeless),
    ("compare_explain", ["compare", *SHIPPED, "--systems", "tutel,fsmoe", "--explain"], timeless),
    ("compare_does_not_fit", ["compare", *SHIPPED, "--systems", "deepspeed_moe,tutel", "--set", "workload.batch=32", "--set", "plan.micro_batches=1"], timeless),
    ("plan", ["plan", *SHIPPED, "--system", "fsmoe", "-v"], timeless),
    ("plan_online", ["plan", "--online", "--trace", "capacity-tutel", *SHIPPED, "--noise", "0.02"], same),
    ("plan_online_step", ["plan", "--online", "--state", "state.json", "--step", "f=1.5", *SHIPPED], same),
    ("plan_granularity", ["plan", *SHIPPED, "--system", "pipemoe", "--planner", "granularity_search"], timeless),
    ("plan_router", ["plan", *SHIPPED, "--system", "tutel", "--planner", "parallelism_router"], timeless),
    ("simulate", ["simulate", *SHIPPED, "--system", "fsmoe", "-v"], timeless),
    ("simulate_csv", ["simulate", *SHIPPED, "--system", "tutel", "--format", "csv"], same),
    ("doctor_shape", ["doctor"], shape),
]


def main():
    checks = Checks()
    update = "DOVETAIL_UPDATE_GOLDEN" in os.environ
    with tempfile.TemporaryDirectory() as folder:
        program = Program(program_argument(), folder)
        for name, arguments, normalize in CASES:
            result = program.run(*arguments, timeout=500)  # under sanitizers
            checks.check(result.returncode == 0 and result.stderr == "", f"{name}: exit {result.returncode}, {result.stderr!r}")
            file, now = GOLDEN / f"{name}.txt", normalize(result.stdout)
            if update:
                file.write_text(now, encoding="utf-8")
            approved = file.read_text(encoding="utf-8") if file.exists() else ""
            difference = difflib.unified_diff(approved.splitlines(), now.splitlines(), "approved", "now", lineterm="", n=1)
            checks.check(approved == now, f"{name}:\n" + "\n".join(difference))
        checks.check(program.files() == ["state.json"], f"no files left but what was asked for: {program.files()}")
    checks.finish()


main()
