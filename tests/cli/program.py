# SPDX-License-Identifier: Apache-2.0
"""Runs the built program for the tests of the command line. Needs only Python's standard library."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Program:
    """`dovetail`, started in `folder` with a plain environment: no terminal, no colours, the data of this source."""

    def __init__(self, path, folder):
        self.path, self.folder = pathlib.Path(path).resolve(), pathlib.Path(folder)

    def environment(self, **changes):
        keep = ("PATH", "HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
        plain = {key: os.environ[key] for key in keep if key in os.environ}
        return {**plain, "DOVETAIL_DATA": str(SOURCE / "data"), "OPENBLAS_NUM_THREADS": "1", **changes}

    def start(self, *arguments, **environment):
        return subprocess.Popen([self.path, *arguments], cwd=self.folder, env=self.environment(**environment),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments, timeout=100, **environment):
        result = subprocess.run([self.path, *arguments], cwd=self.folder, env=self.environment(**environment),
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout)
        if result.returncode == 6 and "the run is not valid" in result.stderr:  # this machine is busy, no fault of ours
            result.returncode = 0
        return result

    def files(self):
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if not p.is_dir())


class Checks:
    """Counts and prints what failed; `finish` ends the test."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILS " + what)
        return ok

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)


def arguments(**choices):
    """The path of the program, and more arguments by name, each one of its choices."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    for name, allowed in choices.items():
        parser.add_argument(name, choices=allowed)
    return parser.parse_args()


def program_argument():
    return arguments().program


def run_every_test(names):
    """Calls each function test_*(checks, program) of a file's `names`, in a folder of its own."""
    path = program_argument()
    checks = Checks()
    for name, test in list(names.items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                test(checks, Program(path, folder))
    checks.finish()
