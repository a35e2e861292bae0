#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The folder that bench/gpu_suite.sh --prepare makes, and the scripts around it that need no GPU: shapes drawn from tables, facts
measured with PyTorch. Usage: gpu_carry_test.py DOVETAIL"""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/gpu_suite"), str(ROOT / "bench/peers")]
DOVETAIL = sys.argv.pop(1)

import build_here  # noqa: E402
import drawn_shapes  # noqa: E402
import facts_shapes  # noqa: E402
import gpu_clock  # noqa: E402
import machine  # noqa: E402
import pack  # noqa: E402
import prepare  # noqa: E402
import records  # noqa: E402
import torch_timing  # noqa: E402

COMPILER = shutil.which("cc")
GIT = shutil.which("git") and (ROOT / ".git").exists()
# Says its data folder, and needs what the real programs need.
PROGRAM = """#include <stdio.h>
#include <stdlib.h>
int runtime(void), products(void);
int main(int count, char** words) {
  printf("%s %d %s\\n", words[count - 1], runtime() + products(), getenv("DOVETAIL_DATA"));
  return 0;
}
"""


class WithFolder(unittest.TestCase):
    def setUp(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        self.folder = pathlib.Path(own.name)

    def compile(self, text, output, *options):
        output.parent.mkdir(parents=True, exist_ok=True)
        source = self.folder / "source.c"
        source.write_text(text)
        subprocess.run([COMPILER, "-o", output, *(options[:1] if options[:1] == ("-shared",) else ()), source, *options], check=True)

    def library(self, name, text):
        self.compile(text, self.folder / "real" / name, "-shared", f"-Wl,-soname,{name}")
        return str(self.folder / "real" / name)

    def build(self, *more):
        """A build folder with programs that need CUDA's libraries, which lie in a folder that nobody searches."""
        libraries = [self.library("libcudart.so.13", "int runtime(void) { return 13; }"),
                     self.library("libcublas.so.13", "int products(void) { return 0; }"), *more]  # fmt: skip
        self.library("libcublasLt.so.13", "int light(void) { return 0; }")
        for name in build_here.TARGETS:
            self.compile(PROGRAM, self.folder / "build/bin" / name, "-Wl,--no-as-needed", *libraries)
        return self.folder / "build"


@unittest.skipIf(not COMPILER or not GIT, "no C compiler, or no git repository")
class Prepared(WithFolder):
    def test_the_folder_starts_with_nothing_but_libraries_in_the_folders_of_pip(self):
        folder = self.folder / "carry"
        libraries, _, size = prepare.assemble(ROOT, self.build(), folder)
        self.assertLessEqual({"libcudart.so.13", "libcublas.so.13"}, set(libraries))
        self.assertLess(size, prepare.LIMIT)
        self.assertEqual(machine.revision(folder), machine.revision(ROOT))
        self.assertTrue((folder / "data/calibrations/dgx-h100.json").is_file())
        self.assertFalse((folder / "data/published").exists())
        packages = self.folder / "site/nvidia/cu13/lib"
        packages.mkdir(parents=True)
        for file in (self.folder / "real").iterdir():
            (packages / file.name).symlink_to(file)
        with_pip = {"PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin", "PYTHONPATH": str(self.folder / "site")}
        done = subprocess.run([folder / "mission", "--check"], env=with_pip, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines(), [f"libraries from {packages}", "bin/dovetail --version: starts",
                                                    "bin/dovetail-exec --help: starts", "bin/test_gpu --list-tests: starts"])  # fmt: skip
        done = subprocess.run([folder / "mission", "--with", folder / "bin/dovetail", "x"], env=with_pip, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, f"x 13 {folder}/data\n")
        done = subprocess.run([folder / "mission", "--plan"], env=with_pip, capture_output=True, text=True, check=False)
        self.assertIn("1  first light", done.stdout, done.stderr)
        own = {**with_pip, "LD_LIBRARY_PATH": str(self.folder / "real")}  # whatever the caller says comes first
        done = subprocess.run([folder / "mission", "--check"], env=own, capture_output=True, text=True, check=False)
        self.assertTrue(done.stdout.startswith(f"libraries from {self.folder}/real:"), done.stdout)

    def test_what_cannot_start_there_is_refused(self):
        build = self.build(self.library("libother.so.1", "int other(void) { return 0; }"))
        with self.assertRaisesRegex(records.Refused, "dovetail needs libother.so.1, which"):
            prepare.assemble(ROOT, build, self.folder / "carry")
        (build / "bin/test_gpu").unlink()
        with self.assertRaises(records.Refused):
            prepare.assemble(ROOT, build, self.folder / "carry")

    def test_a_folder_of_something_else_is_left_alone(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/file").write_text("x")
        with self.assertRaisesRegex(records.Refused, "holds something else"):
            prepare.assemble(ROOT, self.folder, self.folder / "mine")
        self.assertTrue((self.folder / "mine/file").exists())

    def test_what_is_too_large_is_refused_with_its_size(self):
        build = self.build()
        limit, prepare.LIMIT = prepare.LIMIT, 1 << 20
        self.addCleanup(setattr, prepare, "LIMIT", limit)
        with self.assertRaisesRegex(records.Refused, r"\d\.\d MiB, more than 1 MiB"):
            prepare.assemble(ROOT, build, self.folder / "carry")

    def test_the_line_to_run_is_short(self):
        line = prepare.line_to_run(pathlib.Path("build/carry here"))
        self.assertEqual(line, "cd 'build/carry here' && ./mission 1 -o \"$OUT\" --time 220")
        with self.assertRaisesRegex(records.Refused, r"15\d\d characters"):
            prepare.line_to_run(pathlib.Path("x" * 1500))


def why_no_headers():
    try:
        pack.header_folders(())
    except records.Refused as refused:
        return str(refused)
    return "" if GIT else "no git repository"


@unittest.skipIf(why_no_headers(), why_no_headers())
class Sources(WithFolder):
    def test_carried_sources_say_their_revision_and_where_their_headers_are(self):
        """That they configure is shown by a compile in the folder itself, where programs do not start."""
        source = self.folder / "sources"
        pack.copy_sources(ROOT, source, ())
        self.assertEqual(machine.revision(source), machine.revision(ROOT))
        for header in pack.HEADERS:
            self.assertTrue(any((source / "headers" / place / header).is_file() for place in ("", "eigen3")), header)
        self.assertIn(f"-DDOVETAIL_HEADERS_PATH={source}/headers", build_here.configure_command(source, self.folder, "90"))
        self.assertEqual(build_here.source_of(self.folder), source)
        self.assertEqual(build_here.programs_of(self.folder, None), (self.folder / "build/gpu", False))
        subprocess.run(["cmake", f"-DSOURCE={source}", f"-DOUTPUT={self.folder}/r.hpp", "-P", source / ".cmake/git_revision.cmake"], check=True)
        self.assertIn(machine.revision(ROOT).removesuffix("-dirty"), (self.folder / "r.hpp").read_text())


class DrawnShapes(WithFolder):
    def calibration(self):
        return json.loads((ROOT / "data/calibrations/dgx-h100.json").read_text())

    def test_sixty_shapes_are_drawn_from_small_to_large_and_always_the_same(self):
        drawn = drawn_shapes.draw(self.calibration(), 40, 20, 1)["measurements"]
        self.assertEqual([m["kind"] for m in drawn], ["product"] * 40 + ["attention"] * 20)
        self.assertEqual(len({drawn_shapes.key_of(m) for m in drawn}), 60)
        self.assertEqual(drawn, drawn_shapes.draw(self.calibration(), 40, 20, 1)["measurements"])
        self.assertNotEqual(drawn, drawn_shapes.draw(self.calibration(), 40, 20, 2)["measurements"])
        flops = [m["flops"] for m in drawn[:40]]
        self.assertEqual(flops, sorted(flops))

    def test_measured_times_are_compared_with_shipped_ones(self):
        """Rows 4, columns 6, inner 5: shipped 10 us, measured 12 us, so 20 % more. Attention: 50 us and 40 us, 20 % less."""
        table = lambda kernel, point: {"kernel": kernel, "dtype": "bf16", "points": [point]}  # noqa: E731
        shapes = drawn_shapes.draw({"name": "c", "tables": [table("gemm", "4,6,5,1,10"), table("attention", "1,8,4,2,64,50")]}, 1, 1, 1)
        self.assertEqual(shapes["measurements"][0]["flops"], 2 * 4 * 6 * 5)
        self.assertEqual(shapes["measurements"][1]["flops"], 2 * 4 * 8 * 8 * 64)
        point = {"what": "product", "layout": "plain", "dtype": "bf16", "batch": "1", "rows": "4", "inner": "5", "columns": "6", "median_s": "12e-6"}
        torch = {"measurements": [{**shapes["measurements"][1], "median_s": 40e-6}], "gpu": "g", "versions": {}}
        rows = drawn_shapes.compare(shapes, [point, {**point, "layout": "left_transposed"}], torch)
        self.assertEqual([(row[0], row[1], row[2], round(row[5], 9)) for row in rows],
                         [("product", "dovetail", "1 4 5 6", 0.2), ("attention", "PyTorch", "1 8 4 2 64", -0.2)])  # fmt: skip
        self.assertEqual(list(drawn_shapes.summary(rows))[1],
                         "product by dovetail: 1 shapes, median +20.0%, median size 20.0%, worst +20.0% at 1 4 5 6")  # fmt: skip
        merged = drawn_shapes.merge(shapes, torch)["measurements"]
        self.assertEqual([m["kind"] for m in merged], ["product"])  # a fused kernel is nothing to measure with products
        self.assertEqual(drawn_shapes.merge(shapes, None)["measurements"], merged)

    def test_the_program_takes_them_as_sizes_to_measure(self):
        drawn, asked = self.folder / "shapes.json", self.folder / "asked.json"
        calibration = ROOT / "data/calibrations/dgx-h100.json"
        self.assertEqual(drawn_shapes.main(["draw", "--calibration", str(calibration), "-o", str(drawn)]), 0)
        self.assertEqual(drawn_shapes.main(["merge", "--shapes", str(drawn), "-o", str(asked)]), 0)
        done = subprocess.run([DOVETAIL, "calibrate", "--device", "cuda", "--base", "dgx-h100", "--points", self.folder / "p.csv",
                               "--baselines", asked, "-o", self.folder / "c.json"], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertNotEqual(done.returncode, 2, done.stderr)  # no GPU, or a build without, is another exit code


class Facts(WithFolder):
    def test_shapes_are_those_of_shipped_models(self):
        for model, heads, kv_heads, head_size in facts_shapes.ATTENTION:
            attention = json.loads((ROOT / f"data/models/{model}.json").read_text())["attention"]
            if attention.get("kind") == "latent":
                self.assertEqual((heads, head_size), (attention["heads"], attention["nope_size"] + attention["rope_size"]))
            else:
                self.assertEqual((heads, kv_heads, head_size), tuple(attention[key] for key in ("heads", "kv_heads", "head_size")))
        for model, *numbers in facts_shapes.EXPERTS:
            known = json.loads((ROOT / f"data/models/{model}.json").read_text())
            self.assertEqual(numbers, [known[key] for key in ("experts", "top_k", "hidden", "expert_hidden")])
        mixtral = json.loads((ROOT / "data/models/mixtral-8x7b.json").read_text())
        self.assertEqual(mixtral["vocabulary"], facts_shapes.VOCABULARY)

    def test_calls_have_the_sizes_that_they_say(self):
        shapes = list(facts_shapes.attention_shapes())
        self.assertEqual(len(shapes), 25)
        self.assertEqual(shapes[0], ("mixtral-8x7b", 8, 2048, 32, 8, 128))  # 8 x 2,048 = 16,384 tokens
        self.assertEqual(shapes[4], ("mixtral-8x7b", 1, 32768, 32, 8, 128))
        # 8,192 tokens, each to 2 of 8 experts: 2,048 rows for each.
        self.assertEqual(list(facts_shapes.expert_shapes())[:2],
                         [("mixtral-8x7b", 8, 2048, 4096, 14336), ("mixtral-8x7b", 8, 2048, 14336, 4096)])  # fmt: skip

    def test_work_is_counted_by_hand(self):
        # Two products of 3 x 8 x 8 x 4 multiplications and additions, of which a causal mask leaves half: 2 x 2 x 768 / 2.
        self.assertEqual(facts_shapes.attention_flops(1, 8, 3, 4), (1536, 1536 * 3.5))
        self.assertEqual(facts_shapes.product_flops(2, 3, 4, 5), 240)
        self.assertEqual(facts_shapes.permute_bytes(10, 4), 10 * (8 + 8 + 8))  # read 8 bytes, write 8, an index of 8
        self.assertEqual(facts_shapes.unpermute_bytes(10, 2, 4), 10 * (2 * (8 + 8 + 4) + 8))
        self.assertEqual(facts_shapes.norm_bytes(10, 4), (160, 240))
        self.assertEqual(facts_shapes.cross_entropy_bytes(10, 100), (2120, 4080))
        self.assertEqual(facts_shapes.adam_bytes(100), 2800)

    def test_a_table_says_on_each_line_where_it_was_measured_and_has_its_name_once_it_is_whole(self):
        provenance = {key: f"its {key}" for key in facts_shapes.PROVENANCE}
        table = facts_shapes.Table(self.folder, "x", ("a", "b"), provenance)
        table.add("one", 0.123456789)
        self.assertFalse((self.folder / "x.csv").exists())
        self.assertIn("one,0.123457,its gpu", (self.folder / "x.csv.part").read_text())
        with self.assertRaises(ValueError):
            table.add("too few")
        table.add("two", None)
        table.close(True)
        rows = list(csv.DictReader((self.folder / "x.csv").read_text().splitlines()))
        self.assertEqual([(row["a"], row["b"], row["driver"], row["created"]) for row in rows],
                         [("one", "0.123457", "its driver", "its created"), ("two", "", "its driver", "its created")])  # fmt: skip

    def test_a_sample_lasts_fifty_milliseconds(self):
        self.assertEqual([torch_timing.calls_of_sample(one) for one in (0.2, 0.05, 0.03, 1e-5)], [1, 1, 2, 5000])

    def test_a_clock_without_a_driver_has_no_samples(self):
        with gpu_clock.Sampler(0.001) as clock:
            pass
        if clock.library is None:
            self.assertEqual((clock.medians(), clock.near(0)), ({"clock_mhz": None, "power_w": None}, (None, None)))
        clock.samples = [(1, 1500, 300), (2, 1700, 500), (3, 1900, 600)]
        self.assertEqual((clock.medians(), clock.near(1.2)), ({"clock_mhz": 1700, "power_w": 500}, (1500, 300)))

    def test_every_part_runs_where_pytorch_is(self):
        python = next((p for p in (sys.executable, "/usr/bin/python3") if pathlib.Path(p).exists() and
                       subprocess.run([p, "-c", "import torch"], capture_output=True, check=False).returncode == 0), None)  # fmt: skip
        if python is None:
            self.skipTest("no PyTorch")
        script = [python, "-B", ROOT / "bench/peers/torch_facts.py", "--device", "cpu", "--quick", "-o", self.folder]
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("refused", done.stdout)
        for name in ("products", "attention", "grouped", "memory", "host"):
            rows = list(csv.DictReader((self.folder / f"{name}.csv").read_text().splitlines()))
            self.assertGreater(len(rows), 1, name)
            self.assertTrue(all(row["gpu"] == "cpu" and row["created"] for row in rows))
        again = subprocess.run(script, capture_output=True, text=True, check=False)
        self.assertEqual(re.findall("measured before", again.stdout), ["measured before"] * 5)


if __name__ == "__main__":
    unittest.main()
