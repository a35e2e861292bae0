#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_suite.sh with stand-ins for the parts of its missions. Usage: gpu_suite_test.py DOVETAIL"""
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
if __name__ == "__main__":
    sys.argv.pop(1)

import keep  # noqa: E402
import later_missions  # noqa: E402
import machine  # noqa: E402
import missions  # noqa: E402
import overview  # noqa: E402
import processes  # noqa: E402
import records  # noqa: E402
import runner  # noqa: E402

STAND_IN = """#!/bin/sh
here=$(dirname "$0")
echo "$1" >> "$here/ran"
eval "$(cat "$here/behaviour" 2>/dev/null)"
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
        parts = [part for part in file.read_text().split() if part != "server"] if file.exists() else []
        file.unlink(missing_ok=True)
        return parts

    def command(self, *arguments, work="work"):
        return [str(SUITE), "-o", str(self.folder / "out"), "--work", str(self.folder / work), *arguments]

    def call(self, *arguments, work="work"):
        return subprocess.run(self.command(*arguments, work=work), env=self.environment(), capture_output=True, text=True, check=False)

    def environment(self):
        return {**os.environ, "DOVETAIL_SUITE_RUN": str(self.folder / "stand_in")}

    def states(self):
        summary = json.loads((self.folder / "out/summary.json").read_text())
        return {part["name"]: part["state"] for mission in summary["missions"] for part in mission["parts"]}

    def wait_for(self, file):
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            self.assertLess(time.monotonic(), until, file)
            time.sleep(0.02)


class Plan(unittest.TestCase):
    def test_the_plan_names_each_part_with_its_limit_and_runs_nothing(self):
        done = subprocess.run([SUITE, "--plan"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for mission in later_missions.MISSIONS:
            self.assertRegex(done.stdout, rf"(?m)^{mission.number}  {mission.name}: {mission.minutes():.1f} minutes, limit {mission.limit} s")
            for part in mission.parts:
                self.assertRegex(done.stdout, rf"(?m)^ +{part.name} +{part.seconds:g} s +limit {part.limit} s")

    def test_each_mission_fits_its_limit(self):
        self.assertEqual([m.number for m in later_missions.MISSIONS], list(range(1, 9)))
        for mission in later_missions.MISSIONS:
            self.assertLessEqual(mission.limit, missions.MISSION_LIMIT)
            self.assertLess(60 * mission.minutes(), mission.limit)
            names = [part.name for part in mission.parts]
            self.assertEqual(len(names), len(set(names)))
            for part in mission.parts:
                self.assertLess(part.limit, mission.limit, part.name)
                self.assertLessEqual(part.seconds, part.limit, part.name)

    def test_each_test_of_a_gpu_is_in_one_part(self):
        names = []
        for file in sorted((ROOT / "tests/exec_device").glob("*gpu*_test.cpp")):
            names += re.findall(r'TEST_CASE\(\s*"([^"]+)"', file.read_text())
        self.assertGreater(len(names), 8)
        known = missions.ALONE + missions.SIDE_BY_SIDE
        for name in names:
            parts = [part for part, tests in known if any(fnmatch.fnmatch(name, each) for each in tests.split(","))]
            self.assertEqual(len(parts), 1, f"{name}: {parts}")

    def test_what_is_wrong_is_said_in_one_line(self):
        for arguments, words in ((["99", "-o", "x"], "no mission 99; there are 1 to 8"), ([], "-o FOLDER is missing"),
                                 (["--binaries", "/nowhere", "1"], "does not start"),
                                 (["--keep", "x"], "--resume"), (["--keep", "x", "--resume", "/nowhere"], "--keep: /nowhere")):  # fmt: skip
            done = subprocess.run([SUITE, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(words, done.stderr)


class Verdicts(WithFolder):
    def test_a_run_that_is_not_valid_keeps_its_result_and_a_failure_is_shown(self):
        self.behave('case "$1" in 1.degree-1) echo not valid; exit 6;; 1.kernels) echo it broke; exit 6;; 1.nccl) echo No test cases matched;; esac')
        done = self.call("1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("1.degree-1: done, not valid", done.stdout)
        self.assertIn("1.kernels: failed, exit code 6: it broke", done.stdout)
        self.assertRegex(done.stdout, r"1\.nccl +skipped +.* this build has no such test")

    def test_a_failure_is_tried_again_only_when_asked(self):
        self.behave('[ "$1" != 1.probes ] || exit 3')
        self.assertEqual(self.call("1").returncode, 1)
        self.assertEqual(len(self.ran()), 2 + len(missions.FIRST_LIGHT.parts))
        self.assertEqual(self.call("1").returncode, 1)
        self.assertEqual(self.ran(), ["0.configure", "0.compile"])
        self.behave("")
        self.assertEqual(self.call("1", "--retry").returncode, 0)
        self.assertEqual(self.ran()[2:], ["1.probes"])

    def test_what_a_machine_cannot_do_is_skipped_with_the_reason(self):
        self.behave('case $1 in 8.memcheck) echo Device not supported; exit 1;; 8.counters) echo "skipped: no such thing"; exit 77;; esac')
        done = self.call("8")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"8\.counters +skipped .* no such thing")
        self.assertRegex(done.stdout, r"8\.memcheck +skipped .* not supported here: Device not supported")


class Together(WithFolder):
    def test_correctness_runs_side_by_side_and_times_alone(self):
        """Kernels end only once gates have begun. Each part leaves a line at its end, which probes look for."""
        self.behave('''case "$1" in
1.kernels) for i in $(seq 600); do grep -q 1.gates "$here/ran" && break; sleep .05; done; echo kernels >> "$here/ended";;
1.gates) echo gates >> "$here/ended";;
1.probes) sort "$here/ended" > "$here/before_probes";; esac''')
        self.assertEqual(self.call("1").returncode, 0)
        self.assertEqual((self.folder / "before_probes").read_text().split(), ["gates", "kernels"])

    def test_the_resident_executor_serves_what_measures_and_ends_at_the_end(self):
        self.behave('''case "$1" in
server) shift; while [ "$1" != --serve ]; do shift; done; touch "$2"; echo $$ > "$here/server"; exec sleep 60;;
1.degree-1|1.kernels) echo "${DOVETAIL_SERVER:-none}" > "$here/$1";; esac''')
        self.assertEqual(self.call("1").returncode, 0)
        self.assertIn("socket", (self.folder / "1.degree-1").read_text())
        self.assertEqual((self.folder / "1.kernels").read_text(), "none\n")
        self.assertFalse(pathlib.Path("/proc", (self.folder / "server").read_text().strip()).exists())

    def test_without_a_resident_executor_parts_run_by_themselves(self):
        self.behave('''case "$1" in server) exit 2;; 1.degree-1) echo "${DOVETAIL_SERVER:-none}" > "$here/$1";; esac''')
        self.assertEqual(self.call("1").returncode, 0)
        self.assertEqual((self.folder / "1.degree-1").read_text(), "none\n")


class GoingOn(WithFolder):
    def test_a_killed_call_goes_on_with_the_part_that_it_was_in(self):
        self.behave('[ "$1" != 1.degree-4 ] || { sleep 60 & echo $! >"$here/child"; wait; }')
        call = subprocess.Popen(self.command("1"), env=self.environment(), stdout=subprocess.DEVNULL)
        self.wait_for(self.folder / "child")
        call.send_signal(signal.SIGKILL)
        call.wait()
        child = pathlib.Path("/proc") / (self.folder / "child").read_text().strip() / "stat"
        until = time.monotonic() + 60
        while child.exists() and child.read_text().split()[2] != "Z":
            self.assertLess(time.monotonic(), until, "what a killed call had started works on")
            time.sleep(0.02)
        self.assertIn("1.degree-1", self.ran())
        self.assertEqual((self.states()["1.degree-4"], self.states()["1.probes"]), ("waiting", "done"))
        self.behave("")
        shutil.copytree(self.folder / "out", self.folder / "came_back")
        for arguments, work in (((), "work"), (("--resume", str(self.folder / "came_back/results.tar.gz")), "elsewhere")):
            done = self.call("1", *arguments, work=work)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ran = self.ran()
            self.assertEqual(ran[:3], ["0.configure", "0.compile", "1.degree-4"])
            self.assertNotIn("1.degree-1", ran)

    def test_the_first_mission_that_is_not_done_comes_next(self):
        self.assertEqual(self.call("1").returncode, 0)
        self.ran()
        self.assertEqual(self.call().returncode, 0)
        self.assertEqual({part[0] for part in self.ran()}, {"0", "2"})

    def test_parts_may_be_chosen(self):
        self.assertEqual(self.call("1", "2", "--parts", "probes,calibrate").returncode, 0)
        self.assertEqual(self.ran()[2:], ["1.probes", "2.calibrate"])
        self.assertEqual(self.states()["1.start"], "waiting")
        done = self.call("1", "--parts", "nothing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--parts: no part 'nothing'; there are ", done.stderr)

    def test_time_that_is_up_is_told_from_failure(self):
        done = self.call("1", "--time", "0")
        self.assertEqual((done.returncode, self.ran()), (75, []))

    def test_results_of_other_sources_or_another_gpu_are_not_mixed(self):
        self.call("8")
        summary = self.folder / "work/summary.json"
        text = summary.read_text()
        for was, other, words in ((machine.revision(ROOT), "0123456789ab", "has results of revision 0123456789ab"),
                                  (machine.device(), "NVIDIA X, driver 1", "has results of NVIDIA X, driver 1, this machine has")):  # fmt: skip
            summary.write_text(text.replace(json.dumps(was), json.dumps(other)))
            done = self.call("8")
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)

    def test_an_archive_that_leaves_its_folder_is_refused(self):
        (self.folder / "x").write_text("x")
        with tarfile.open(self.folder / "bad.tar.gz", "w:gz") as tar:
            tar.add(self.folder / "x", "../x")
        self.assertEqual(self.call("--resume", str(self.folder / "bad.tar.gz")).returncode, 2)


class Limits(WithFolder):
    def make(self, seconds=60, command=("sleep", "20"), **changes):
        part = dataclasses.replace(missions.Part("slow", 0, 1, lambda s, seconds: list(command), needs=()), **changes)
        mission = missions.Mission(9, "slow", "", (part,))
        setup = missions.Setup(ROOT, self.folder, self.folder / "work")
        (self.folder / "out").mkdir(exist_ok=True)
        setup.work.mkdir(exist_ok=True)
        return runner.Runner([mission], setup, records.Records(setup.work, self.folder / "out", "r", "no GPU"), seconds, False)

    def test_a_part_past_its_limit_is_ended_and_fails(self):
        made, begin = self.make(), time.monotonic()
        made.run()
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual((made.records.parts["9.slow"]["state"], made.records.parts["9.slow"]["reason"]), ("failed", "took longer than 1 s"))

    def test_a_part_gets_the_time_that_is_left(self):
        given = []
        made = self.make(seconds=30, limit=100)
        part = dataclasses.replace(made.missions[0].parts[0], command=lambda s, seconds: given.append(seconds) or ["true"])
        made.missions = [dataclasses.replace(made.missions[0], parts=(part,))]
        made.run()
        self.assertEqual(made.records.state("9.slow"), "done")
        self.assertTrue(0 < given[0] <= 30, given)
        for seconds, limit, at_least, begun in ((19, 100, 20, False), (25, 100, 30, False), (5, 3, 20, True)):
            made = self.make(seconds=seconds, limit=limit, at_least=at_least, command=("true",))
            made.run()
            self.assertEqual((made.records.state("9.slow"), made.up), ("done", False) if begun else ("waiting", True))

    def test_one_that_keeps_what_it_has_done_goes_on(self):
        made = self.make(goes_on=2)
        made.run()
        self.assertEqual(made.records.state("9.slow"), "unfinished")
        made.run()
        self.assertEqual(made.records.state("9.slow"), "failed")

    def test_one_without_time_for_a_result_goes_on(self):
        made = self.make(goes_on=2, command=("sh", "-c", "echo give the same command again to go on; exit 1"))
        made.run()
        self.assertEqual(made.records.state("9.slow"), "unfinished")

    def test_a_partial_result_goes_on_and_counts_in_the_end(self):
        made = self.make(goes_on=2, result="x.json", command=("true",))
        (made.setup.work / "x.json").write_text('{"partial": true}')
        made.run()
        self.assertEqual(made.records.state("9.slow"), "unfinished")
        made.run()
        self.assertEqual((made.records.state("9.slow"), made.records.parts["9.slow"]["reason"]), ("done", "partial"))

    def test_what_makes_the_archive_too_large_is_left_out_and_named(self):
        made = self.make()
        (made.setup.work / "small").write_text("small")
        (made.setup.work / "large").write_bytes(os.urandom(16 << 20))
        made.save()
        self.assertEqual(made.records.left_out, ["large"])
        self.assertEqual(sorted(file.name for file in (self.folder / "out").iterdir()), ["results.tar.gz", "summary.json", "table.txt"])
        self.assertLess((self.folder / "out/results.tar.gz").stat().st_size, 16 << 20)
        with tarfile.open(self.folder / "out/results.tar.gz") as tar:
            self.assertIn("small", tar.getnames())


class Surroundings(WithFolder):
    def test_products_are_computed_in_the_precision_that_they_are_asked_in(self):
        os.environ["NVIDIA_TF32_OVERRIDE"] = "1"
        self.addCleanup(os.environ.pop, "NVIDIA_TF32_OVERRIDE")
        self.assertNotIn("NVIDIA_TF32_OVERRIDE", processes.environment(ROOT))
        self.assertEqual(processes.environment(ROOT, "s")["DOVETAIL_SERVER"], "s")

    def test_clocks_of_a_part_are_medians_of_its_time(self):
        """Three lines, of which the last two are between the moments: (1500 + 1700) / 2 and (300 + 500) / 2."""
        clocks = processes.Clocks.__new__(processes.Clocks)
        clocks.file = self.folder / "clocks.csv"
        clocks.file.write_text("2026/01/02 03:04:05.000, 210, 70.5, 30, 0x01\nnonsense\n2026/01/02 03:04:06.000, 1500, 300, 50, 0x00\n"
                               "2026/01/02 03:04:07.000, 1700, 500, 52, 0x04\n")  # fmt: skip
        second = processes.clock_row("2026/01/02 03:04:06.000, 1, 1, 1, 0")[0]
        self.assertEqual(clocks.between(second - 0.5, second + 2),
                         {"lines": 2, "sm_mhz": 1600, "power_w": 400, "temperature_c": 51, "reasons": {"0x00": 0.5, "0x04": 0.5}})  # fmt: skip
        self.assertEqual(clocks.between(0, 1), {})

    def test_a_library_is_found_in_the_folders_of_pip(self):
        root = self.folder / "nvidia/cu13"
        for file in ("include/cublas_v2.h", "lib/libcublas.so.13"):
            (root / file).parent.mkdir(parents=True)
            (root / file).touch()
        ask = f"import sys; sys.path.insert(0, {str(ROOT / 'bench/gpu_suite')!r}); import machine; print(machine.in_pip('cublas_v2.h', {{!r}}))"
        for library, expected in (("libcublas.so", str(root)), ("libother.so", "None")):
            done = subprocess.run([sys.executable, "-B", "-S", "-c", ask.format(library)], env={"PYTHONPATH": str(self.folder)},
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(done.stdout.strip(), expected, done.stderr)


def parts_named(row):
    """By a row of "settled_by"."""
    if isinstance(row, str):
        return {row}
    below = row.values() if isinstance(row, dict) else row if isinstance(row, list) else []
    return set().union(*map(parts_named, below))


class Published(unittest.TestCase):
    def test_every_part_that_a_published_row_names_is_in_its_mission_and_kept(self):
        known = {m.number: m for m in later_missions.MISSIONS}
        texts = [file.read_text() for file in sorted((ROOT / "data/published").glob("*.json"))]
        settled = [json.loads(text)["settled_by"] for text in texts if '"settled_by"' in text]
        self.assertGreater(len(settled), 4)
        for each in settled:
            parts = {part.name for part in known[each["mission"]].parts}
            for row in each["rows"]:
                named = parts_named({k: v for k, v in row.items() if k not in ("value", "what", "ops")})
                self.assertGreater(len(named), 1, row)
                self.assertLessEqual(named, parts)
                for name in named:
                    self.assertTrue(any(keep.matches(f"time-{name}.json", pattern) for pattern in keep.RESULTS[each["mission"]]), name)


class Kept(WithFolder):
    def test_results_are_kept_by_device_mission_and_revision(self):
        self.behave('''case "$1" in
1.probes) printf 'what,rows,samples,median_s\\nproduct,8,1,0.5\\nproduct,16,2,0.7\\n' > "$here/work/probes.csv"; mkdir "$here/work/facts"; echo a > "$here/work/facts/x.csv";;
1.degree-1) printf '{"kind": "run", "results": [{"kind": "predicted", "makespan_s": 2}, {"kind": "measured", "makespan_s": 3, "run": {"dilation": 1, "overruns": 0}}]}' > "$here/work/time-degree-1.json";;
1.kernels) echo "All tests passed (9 assertions in 2 test cases)";; esac''')
        self.assertEqual(self.call("1").returncode, 0)
        table = (self.folder / "out/table.txt").read_text()
        self.assertRegex(table, r"time-degree-1 +3000\.000 ms +predicted 2000\.000 ms")
        self.assertIn("\n2 tests passed\n", table)
        self.assertIn("Probes\nrows  median_s\n8     0.5\n16    0.7\n", table)
        self.assertLessEqual(table.count("\n"), overview.LINES + 1)
        done = subprocess.run([SUITE, "--keep", self.folder / "data", "--resume", self.folder / "out/results.tar.gz"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        file = self.folder / f"data/validation/gpu/no-gpu/1-first-light-{machine.revision(ROOT)}.json"
        kept = json.loads(file.read_text())
        self.assertEqual(kept["results"]["probes.csv"], [{"what": "product", "rows": rows, "samples": samples, "median_s": median}
                                                          for rows, samples, median in (("8", "1", "0.5"), ("16", "2", "0.7"))])  # fmt: skip
        self.assertEqual([r["makespan_s"] for r in kept["results"]["time-degree-1.json"]], [2, 3])
        self.assertEqual((self.folder / "data/measured/gpu-loan/x.csv").read_text(), "a\n")

    def test_a_device_has_a_short_name(self):
        self.assertEqual(keep.short_name("NVIDIA H100 80GB HBM3, driver 580.159.04"), "h100")
        self.assertEqual(keep.slug("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3")


if __name__ == "__main__":
    unittest.main()
