#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs over threads that cannot start or never end: one line and an exit code. Usage: run_failures_test.py PROGRAM"""
import resource
import subprocess

from program import run_every_test

RUN = ["run", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--system", "fsmoe", "--tokens", "64", "--hidden", "64",
       "--expert-hidden", "64", "--layers", "1", "--no-check", "-q", "-o", "run.json", "--measure-time", "0.01"]


def limited(kind, amount):
    return lambda: resource.setrlimit(kind, (amount, amount))


def check_line(checks, result, code, words, what):
    checks.check(result.returncode == code and result.stderr.count("\n") == 1 and words in result.stderr, f"{what}: {result.returncode} {result.stderr!r}")


def test_threads_without_room(checks, program):
    for ranks, kilobytes in ((64, 1_000_000), (64, 600_000), (32, 700_000)):
        result = subprocess.run([program.path, *RUN, "--ranks", str(ranks)], cwd=program.folder, env=program.environment(), capture_output=True,
                                text=True, timeout=100, preexec_fn=limited(resource.RLIMIT_AS, kilobytes * 1024))
        checks.check(result.returncode in (1, 4) and result.stderr.count("\n") == 1, f"{ranks} ranks in {kilobytes} kB: {result.returncode} {result.stderr!r}")
        checks.check("run.json" not in program.files(), "no result of a run that did not start")


def test_hanging_thread(checks, program):
    program.run(*RUN, "--ranks", "4", "--save-schedule", "schedule.json")
    result = subprocess.run([program.path.with_name("dovetail-exec"), "schedule.json", "-o", "timeline.json", "--no-check", "--limit", "0", "--hang-time", "1"],
                            cwd=program.folder, env=program.environment(DOVETAIL_TEST_FAULT="hang:3"), capture_output=True, text=True, timeout=100)
    check_line(checks, result, 4, "dovetail-exec: run: no op has finished for 1 s: rank 3 does not get past dispatch", "hanging thread")
    checks.check("timeline.json" not in program.files(), "no timeline of a run that hung")


run_every_test(globals())
