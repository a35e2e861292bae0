#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts in bench/ that developers use. Usage: tools_test.py DOVETAIL"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


def run(*arguments):
    return subprocess.run([str(each) for each in arguments], capture_output=True, text=True, check=False)


class SameResults(unittest.TestCase):
    def ask(self, new, only):
        return run(sys.executable, "-B", ROOT / "bench/same_results.py", PROGRAM, new, "--only", only)

    def test_a_build_gives_the_same_results_as_itself(self):
        done = self.ask(PROGRAM, "mix")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 refusals compared, 0 differ", done.stdout)

    def test_another_number_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other"
            other.write_text(f'#!/bin/sh\nexec "{PROGRAM}" "$@" --set workload.batch=2\n')
            other.chmod(0o755)
            done = self.ask(other, "mix")
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs: mix\n", done.stdout)

    def test_a_question_that_nobody_asks_is_named(self):
        self.assertEqual(self.ask(PROGRAM, "no such question").returncode, 2)


class SimGridOnDemand(unittest.TestCase):
    """SimGrid is opened by the commands that use it, from a shared object that lies beside the program."""

    QUESTION = ["simulate", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--system", "tutel", "--draws", "0"]

    def test_the_program_itself_needs_none_of_its_libraries(self):
        loaded = subprocess.run([str(PROGRAM)], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                                text=True, check=True).stdout
        self.assertIn("libstdc++", loaded)
        self.assertNotIn("simgrid", loaded)

    def test_without_the_shared_object_one_line_says_so_and_the_rest_works(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "bin" / "dovetail"
            alone.parent.mkdir()
            shutil.copy(PROGRAM, alone)
            data = {**os.environ, "DOVETAIL_DATA": str(ROOT / "data")}
            asked = [subprocess.run([str(alone), *self.QUESTION, "--backend", backend], env=data, capture_output=True,
                                    text=True, check=False) for backend in ("simgrid", "analytic")]
        self.assertEqual(asked[0].returncode, 4)
        self.assertRegex(asked[0].stderr, r"^dovetail: --backend simgrid: (cannot be loaded: .*simgrid\.so|not in this build).*\n$")
        self.assertEqual(asked[1].returncode, 0)


class BuildTime(unittest.TestCase):
    def test_the_time_of_a_build_is_shown_by_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "build.ninja").touch()
            log = ["# ninja log v5", "0\t1500\t0\tmodels/a.cpp.o\t1", "0\t9000\t0\tmodels/b.cpp.o\t2",
                   "100\t2600\t0\tmodels/b.cpp.o\t2", "0\t500\t0\tsim/c.cpp.o\t3"]
            (build / ".ninja_log").write_text("\n".join(log) + "\n")
            done = run(ROOT / "bench/build_time.sh", build)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 steps, 4 s of work", done.stdout)  # 1.5 + 2.5 (the last time counts) + .5 = 4.5
        self.assertRegex(done.stdout, r"4\.0 +2  models\n +0\.5 +1  sim")

    def test_a_preset_that_is_not_built_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "build.ninja").touch()
            done = run(ROOT / "bench/build_time.sh", folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not built yet", done.stderr)


class WholeQuestions(unittest.TestCase):
    def ask(self, *arguments):
        return run(sys.executable, "-B", ROOT / "bench/scale/questions.py", "--programs", PROGRAM.parent, "--repeat", "1", *arguments)

    def test_a_question_is_measured_beside_another_build(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "dovetail"
            other.write_text(f'#!/bin/sh\nsleep .2\nexec "{PROGRAM}" "$@"\n')
            other.chmod(0o755)
            done = self.ask("--only", "version", "--against", folder, "-o", pathlib.Path(folder) / "result.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads((pathlib.Path(folder) / "result.json").read_text())
        self.assertEqual(result["kind"], "measured")
        (question,) = result["questions"]
        self.assertEqual(question["command"], "dovetail --version")
        self.assertGreater(question["measured"]["peak_kib"], 0)
        self.assertGreater(question["against"]["wall_s"], .2)

    def test_a_build_that_cannot_answer_is_said_not_to(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "dovetail"
            other.write_text("#!/bin/sh\nexit 2\n")
            other.chmod(0o755)
            self.assertIn("not answered", self.ask("--only", "version", "--against", folder).stdout)

    def test_a_question_that_nobody_asks_is_named(self):
        self.assertEqual(self.ask("--only", "no such question").returncode, 2)


class LossCurves(unittest.TestCase):
    SCRIPT = ROOT / "bench/training/loss_curves.py"
    WITH_MICRO_BATCHES = {"dualpipe", "dualpipe_v", "megatron_ep_overlap", "zb_h1", "zb_v"}  # which a test of their own trains
    SYSTEMS = sorted({path.stem for path in (ROOT / "data/systems").glob("*.json")} - WITH_MICRO_BATCHES)

    def test_every_system_trains_and_is_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, "-B", self.SCRIPT, "--program", PROGRAM, "--steps", "3", "--keep", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            kept = json.loads((pathlib.Path(folder) / "loss-curves.json").read_text())
            drawn = xml.etree.ElementTree.parse(pathlib.Path(folder) / "loss-curves.svg")
        self.assertEqual(sorted(kept["systems"]), self.SYSTEMS)
        self.assertEqual({len(system["losses"]) for system in kept["systems"].values()}, {3})
        words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(set(self.SYSTEMS) <= set(words))

    def test_the_kept_curves_are_of_every_system_and_are_the_sequential_one(self):
        kept = json.loads((ROOT / "bench/training/loss-curves.json").read_text())
        self.assertEqual(sorted(kept["systems"]), self.SYSTEMS)
        self.assertEqual(len(kept["sequential"]), 200)
        self.assertLess(kept["sequential"][-1], kept["sequential"][0] - 1.5)
        for name, system in kept["systems"].items():
            worst = max(abs(loss / expected - 1) for loss, expected in zip(system["losses"], kept["sequential"], strict=True))
            self.assertLessEqual(worst, kept["tolerance"], name)


if __name__ == "__main__":
    unittest.main()
