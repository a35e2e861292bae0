#!/usr/bin/env python3
"""bench/gpu_suite.sh with stand-ins for its steps, and the archive that it is carried in. Usage: gpu_suite_test.py DOVETAIL"""
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITE = ROOT / "bench/gpu_suite.sh"
sys.path.insert(0, str(ROOT / "bench/gpu_suite"))
sys.argv.pop(1)

import machine  # noqa: E402
import pack  # noqa: E402
import records  # noqa: E402
import steps  # noqa: E402
import suite  # noqa: E402

STAND_IN = """#!/bin/sh
echo "$1" >> "$(dirname "$0")/ran"
eval "$(cat "$(dirname "$0")/behaviour" 2>/dev/null)"
"""


class WithFolder(unittest.TestCase):
    def setUp(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        self.folder = pathlib.Path(own.name)
        stand_in = self.folder / "stand_in"
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)

    def behave(self, text):
        (self.folder / "behaviour").write_text(text)

    def ran(self):
        file = self.folder / "ran"
        parts = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return parts

    def command(self, *arguments, work="work"):
        return [str(SUITE), "-o", str(self.folder / "out"), "--work", str(self.folder / work), "--without-nccl", *arguments]

    def call(self, *arguments, work="work"):
        return subprocess.run(self.command(*arguments, work=work), env=self.environment(), capture_output=True, text=True, check=False)

    def environment(self):
        return {**os.environ, "DOVETAIL_SUITE_RUN": str(self.folder / "stand_in")}

    def states(self):
        summary = json.loads((self.folder / "out/summary.json").read_text())
        return {step["name"]: step["state"] for step in summary["steps"]}


class Plan(unittest.TestCase):
    def test_the_plan_names_each_step_with_its_limit_and_runs_nothing(self):
        done = subprocess.run([SUITE, "--plan"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for step in steps.STEPS:
            self.assertRegex(done.stdout, rf"(?m)^{step.name} +{step.minutes:g} +{step.limit} s")

    def test_each_part_fits_into_one_call(self):
        default = suite.parse([]).time
        for step in steps.STEPS:
            self.assertLess(step.limit, default, step.name)

    def test_each_test_of_a_gpu_is_in_one_part(self):
        text = (ROOT / "tests/exec_device/gpu_test.cpp").read_text()
        names = re.findall(r'TEST_CASE\("([^"]+)"', text)
        self.assertGreater(len(names), 8)
        for name in names:
            parts = [part for part, tests in steps.GPU_TESTS if any(fnmatch.fnmatch(name, each) for each in tests.split(","))]
            self.assertEqual(len(parts), 1, f"{name}: {parts}")

    def test_what_is_wrong_is_said_in_one_line(self):
        for arguments, words in ((["--steps", "nothing", "-o", "x"], "no step 'nothing'"), (["--without-nccl"], "-o FOLDER is missing"),
                                 (["--pack", "/nowhere/x"], "--pack")):  # fmt: skip
            done = subprocess.run([SUITE, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(words, done.stderr)


class Libraries(WithFolder):
    def test_a_library_is_found_in_the_folders_of_pip(self):
        root = self.folder / "nvidia/nccl"
        for file in ("include/nccl.h", "lib/libnccl.so.2"):
            (root / file).parent.mkdir(parents=True)
            (root / file).touch()
        ask = f"import sys; sys.path.insert(0, {str(ROOT / 'bench/gpu_suite')!r}); import machine; print(machine.in_pip('nccl.h', {{!r}}))"
        for library, expected in (("libnccl.so", str(root)), ("libother.so", "None")):
            done = subprocess.run([sys.executable, "-B", "-S", "-c", ask.format(library)], env={"PYTHONPATH": str(self.folder)},
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(done.stdout.strip(), expected, done.stderr)


class Verdicts(WithFolder):
    def test_a_run_that_is_not_valid_keeps_its_result(self):
        self.behave('case "$1" in times.fsmoe) echo not valid; exit 6;; numerics.*) exit 6;; esac')
        done = self.call("--steps", "configure,compile,times")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("times.fsmoe: done, not valid", done.stdout)
        self.assertEqual(self.call("--steps", "configure,compile,numerics").returncode, 1)


class GoingOn(WithFolder):
    def test_a_killed_call_goes_on_with_the_part_that_it_was_in(self):
        self.behave('[ "$1" != times.fsmoe ] || { sleep 60 & echo $! >"$(dirname "$0")/child"; wait; }')
        call = subprocess.Popen(self.command(), env=self.environment(), stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not (self.folder / "child").exists() or not (self.folder / "child").read_text():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        call.send_signal(signal.SIGKILL)
        call.wait()
        child = pathlib.Path("/proc") / (self.folder / "child").read_text().strip() / "stat"
        while child.exists() and child.read_text().split()[2] != "Z":
            self.assertLess(time.monotonic(), until, "what a killed call had started works on")
            time.sleep(0.05)
        self.assertIn("times.tutel", self.ran())
        self.assertEqual(self.states()["times"], "waiting")
        self.assertEqual(self.states()["gpu_tests"], "done")
        self.behave("")
        shutil.copytree(self.folder / "out", self.folder / "came_back")
        for arguments, work in (((), "work"), (("--resume", str(self.folder / "came_back/results.tar.gz")), "elsewhere")):
            done = self.call(*arguments, work=work)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ran = self.ran()
            self.assertEqual(ran[:3], ["configure", "compile", "times.fsmoe"])
            self.assertNotIn("times.tutel", ran)
            self.assertEqual(set(self.states().values()), {"done"})

    def test_a_failure_is_shown_and_tried_again_only_when_asked(self):
        self.behave('[ "$1" != numerics.bf16-tutel ] || { echo it broke; exit 3; }')
        done = self.call("--steps", "numerics")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 3: it broke", done.stdout)
        self.assertEqual(len(self.ran()), 12)
        self.assertEqual(self.call("--steps", "numerics").returncode, 1)
        self.assertEqual(self.ran(), [])
        self.behave("")
        self.assertEqual(self.call("--steps", "numerics", "--retry").returncode, 0)
        self.assertEqual(self.ran(), ["numerics.bf16-tutel"])

    def test_what_a_machine_cannot_do_is_skipped_with_the_reason(self):
        self.behave('case $1 in sanitizer*) echo Device not supported; exit 1;; peer) echo "skipped: no such thing"; exit 77;; esac')
        done = self.call("--steps", "peer,sanitizer")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"peer +skipped +0 +no such thing")
        self.assertRegex(done.stdout, r"sanitizer +skipped +0 +not supported here: Device not supported")

    def test_time_that_is_up_is_told_from_failure(self):
        done = self.call("--time", "0")
        self.assertEqual(done.returncode, 75)
        self.assertEqual(self.ran(), [])

    def test_results_of_other_sources_are_not_mixed(self):
        self.call("--steps", "configure")
        summary = self.folder / "work/summary.json"
        summary.write_text(summary.read_text().replace(machine.revision(ROOT), "0123456789ab"))
        done = self.call()
        self.assertEqual(done.returncode, 2)
        self.assertIn("has results of revision 0123456789ab", done.stderr)

    def test_an_archive_that_leaves_its_folder_is_refused(self):
        (self.folder / "x").write_text("x")
        with tarfile.open(self.folder / "bad.tar.gz", "w:gz") as tar:
            tar.add(self.folder / "x", "../x")
        self.assertEqual(self.call("--resume", str(self.folder / "bad.tar.gz")).returncode, 2)


class Limits(WithFolder):
    def make(self, **changes):
        step = dataclasses.replace(steps.Step("slow", 0, 1, lambda _: [("", ["sleep", "20"])]), **changes)
        setup = steps.Setup(self.folder, self.folder, self.folder / "work", "", None, 1, False)
        (self.folder / "out").mkdir(exist_ok=True)
        setup.work.mkdir(exist_ok=True)
        kept = records.Records(setup.work, self.folder / "out", "r")
        return suite.Suite([step], setup, kept, suite.parse([]))

    def test_a_step_past_its_limit_is_ended_and_fails(self):
        made, begin = self.make(), time.monotonic()
        made.run()
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(made.records.parts["slow"]["state"], "failed")
        self.assertEqual(made.records.parts["slow"]["reason"], "took longer than 1 s")

    def test_one_that_keeps_what_it_has_done_goes_on(self):
        made = self.make(goes_on=2)
        made.run()
        self.assertEqual(made.records.state("slow"), "unfinished")
        made.run()
        self.assertEqual(made.records.state("slow"), "failed")

    def test_a_partial_result_goes_on_and_counts_in_the_end(self):
        made = self.make(goes_on=2, result="x.json", parts=lambda _: [("", ["true"])])
        (made.setup.work / "x.json").write_text('{"partial": true}')
        made.run()
        self.assertEqual(made.records.state("slow"), "unfinished")
        made.run()
        self.assertEqual((made.records.state("slow"), made.records.parts["slow"]["reason"]), ("done", "partial"))

    def test_what_makes_the_archive_too_large_is_left_out_and_named(self):
        made = self.make()
        (made.setup.work / "small").write_text("small")
        (made.setup.work / "large").write_bytes(os.urandom(16 << 20))
        made.save()
        self.assertEqual(made.records.left_out, ["large"])
        self.assertLess((self.folder / "out/results.tar.gz").stat().st_size, 16 << 20)
        with tarfile.open(self.folder / "out/results.tar.gz") as tar:
            self.assertIn("small", tar.getnames())
        self.assertEqual(json.loads((self.folder / "out/summary.json").read_text())["left_out"], ["large"])


def why_not_packed():
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return "no git repository"
    try:
        pack.header_folders(())
    except records.Refused as refused:
        return str(refused)
    return ""


@unittest.skipIf(why_not_packed(), why_not_packed())
class Packed(WithFolder):
    def test_the_archive_configures_with_nothing_but_its_headers(self):
        archive = self.folder / "carry.tar.gz"
        done = subprocess.run([SUITE, "--pack", archive], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tar xzf carry.tar.gz && dovetail/bench/gpu_suite.sh -o results", done.stdout)
        self.assertLess(archive.stat().st_size, 64 << 20)
        with tarfile.open(archive) as tar:
            tar.extractall(self.folder)
        source, build = self.folder / "dovetail", self.folder / "build"
        self.assertEqual(machine.revision(source), machine.revision(ROOT))
        without = ["fmt", "nlohmann_json", "valijson", "Eigen3", "CLI11", "Catch2", "PkgConfig"]
        off = [*steps.WITHOUT, "CUDA"]
        done = subprocess.run(["cmake", "-S", source, "-B", build, f"-DDOVETAIL_HEADERS_PATH={source}/headers",
                               *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in without),
                               *(f"-DDOVETAIL_WITH_{name}=OFF" for name in off)], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        tests = {test["name"]: {p["name"]: p["value"] for p in test["properties"]} for test in json.loads(listed.stdout)["tests"]}
        self.assertIn(f"DOVETAIL_DATA={source}/data", tests["models"]["ENVIRONMENT"])
        subprocess.run(["cmake", f"-DSOURCE={source}", f"-DOUTPUT={build}/r.hpp", "-P", source / ".cmake/git_revision.cmake"], check=True)
        self.assertIn(machine.revision(ROOT).removesuffix("-dirty"), (build / "r.hpp").read_text())


if __name__ == "__main__":
    unittest.main()
