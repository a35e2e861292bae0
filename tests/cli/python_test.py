#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module dovetail, its example, and the Python that documents show. Usage: python_test.py PROGRAM"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import examples

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
MODULE = ROOT / "bench/python/dovetail.py"
sys.path.insert(0, str(MODULE.parent))

import dovetail  # noqa: E402  after its folder is on the path

QUESTION = {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "draws": 0}
GRID = {"name": "mine", "base": {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b"}, "systems": ["tutel", "fsmoe"],
        "axes": [{"name": "workload.batch", "values": [1, 2]}]}


class Here(unittest.TestCase):
    """Each test works in an empty folder, and its temporary files go to another one, which must be empty afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.temporary = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.enterContext(mock.patch.object(tempfile, "tempdir", str(self.temporary)))
        self.enterContext(mock.patch.dict(os.environ, DOVETAIL=str(PROGRAM), DOVETAIL_DATA=str(ROOT / "data"),
                                          TMPDIR=str(self.temporary)))

    def enterContext(self, context):  # unittest has it since Python 3.11
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def tearDown(self):
        self.assertEqual(list(self.temporary.iterdir()), [])

    def script(self, text, name="fake"):
        """A program that knows the help of the real one, and else runs these lines of sh."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n[ "$2" = --help ] && exec "{PROGRAM}" "$@"\n{text}\n')
        path.chmod(0o755)
        return path

    def words(self, command, *arguments, **options):
        """The command line that a call makes, without the temporary output."""
        program = self.script('printf "%s\\n" "$@"')
        printed = dovetail.ask(command, *arguments, program=program, **options).text.splitlines()
        return [word for word in printed if word != "--output=result.json"]


class CommandLine(Here):
    def test_every_command_has_its_function(self):
        text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([a-z]+) ", text.partition("\nCommands:\n")[2], re.MULTILINE)
        others = {"DovetailError", "InputError", "Result", "ask", "find_program"}
        self.assertEqual({name.rstrip("_") for name in dovetail.__all__} - others, set(commands))
        for name in commands:
            function = getattr(dovetail, name, None) or getattr(dovetail, f"{name}_")
            self.assertEqual(function(help=True).text.splitlines()[1].split()[:3], ["Usage:", "dovetail", name])

    def test_keywords_are_options(self):
        for options, expected in (
                ({"cluster": "a"}, ["--cluster=a"]),
                ({"emulate_links": True, "ideal": False, "model": None}, ["--emulate-links"]),
                ({"systems": ["a", "b"]}, ["--systems=a,b"]),
                ({"system": ("a", "b")}, ["--system=a,b"]),
                ({"plan": ["a.json", pathlib.Path("b.json")]}, ["--plan=a.json", "--plan=b.json"]),
                ({"gpus": range(8, 33, 8)}, ["--gpus=8,16,24,32"]),
                ({"for_": "megatron", "memory_margin": 12.5}, ["--for=megatron", "--memory-margin=12.5"]),
                ({"set": "tp=8"}, ["--set=tp=8"]),
                ({"set": []}, [])):
            with self.subTest(**options):
                command = "tune" if {"gpus", "for_"} & set(options) else "compare"
                self.assertEqual(self.words(command, **options), [command, *expected])

    def test_settings_are_a_dictionary(self):
        settings = {"tp": 8, "plan.recompute": "full", "plan.graphs": True, "a": None, "b": [{"at": "1 ms"}], "c": .5}
        self.assertEqual(self.words("compare", set=settings), ["compare", *(f"--set={each}" for each in (
            "tp=8", "plan.recompute=full", "plan.graphs=true", "a=null", 'b=[{"at": "1 ms"}]', "c=0.5"))])
        self.assertEqual(self.words("run", alternate={"plan.a": 1, "plan.b": 2}),
                         ["run", "--alternate=plan.a=1", "--alternate=plan.b=2"])
        self.assertEqual(self.words("plan", step={"f": 1.5, "k": 2}), ["plan", "--step=f=1.5,k=2"])

    def test_other_dictionaries_are_files(self):
        program = self.script('for word; do case $word in *.json) cat "${word#--*=}"; echo;; esac; done')
        given = {"plan": [{"scope": "moe"}, {"scope": "block"}], "experiment": {"nodes": 2}, "output": "none"}
        printed = dovetail.compare({"first": None}, program=program, **given).text
        self.assertEqual([json.loads(line) for line in printed.splitlines()],
                         [{"first": None}, {"scope": "moe"}, {"scope": "block"}, {"nodes": 2}])
        self.assertEqual(self.words("sweep", {}, "b", csv="c.csv"), ["sweep", "sweep.json", "b", "--csv=c.csv"])
        self.assertEqual(self.words("compare", plan=[{}, {}]), ["compare", "--plan=plan.json", "--plan=plan-2.json"])

    def test_an_output_is_added_where_a_result_is_json(self):
        program = self.script('printf "%s\\n" "$@"')
        for command, options, output in (("compare", {}, "--output=result.json"), ("compare", {"format": "csv"}, None),
                                         ("compare", {"output": "my.json"}, "--output=my.json"), ("doctor", {}, None),
                                         ("validate", {}, "--output=result.json")):
            words = dovetail.ask(command, program=program, **options).text.splitlines()
            self.assertEqual(next((word for word in words if "output" in word), None), output, (command, options))


class Results(Here):
    def test_a_result_is_the_json_of_the_program_with_its_text_and_notes(self):
        result = dovetail.compare(**QUESTION, systems=["tutel", "fsmoe"], set={"plan.recompute": "moe"})
        asked = ["--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--draws", "0", "--systems", "tutel,fsmoe"]
        done = subprocess.run([PROGRAM, "compare", *asked, "--set", "plan.recompute=moe", "--format", "json"],
                              capture_output=True, check=True)
        for system, same in zip(result["results"], json.loads(done.stdout)["results"]):
            self.assertEqual(system["plan"]["recompute"], "moe")
            self.assertEqual({key: system[key] for key in system if key != "planner"},
                             {key: same[key] for key in same if key != "planner"})  # which has the time of its search
        self.assertRegex(result.text, r"(?m)^fastest: fsmoe")
        self.assertEqual(result.notes, result["notes"])
        self.assertEqual(result["provenance"]["command_line"][-1], "--output=result.json")
        self.assertIn("results", repr(result))

    def test_rows_are_flat(self):
        result = dovetail.compare(**QUESTION, systems=["tutel", "fsmoe"])
        rows = result.rows()
        self.assertEqual([row["system"] for row in rows], ["tutel", "fsmoe"])
        for row, system in zip(rows, result["results"]):
            self.assertEqual(row["plan.forward_degree"], system["plan"]["forward_degree"])
            self.assertEqual(row["links"], system["links"])
            self.assertFalse([key for key, value in row.items() if isinstance(value, dict)])
        links = result.rows("results.links")
        self.assertEqual([(row["results.system"], row["name"], row["bytes"]) for row in links],
                         [(system["system"], link["name"], link["bytes"])
                          for system in result["results"] for link in system["links"]])
        self.assertEqual(result.rows("inputs.model.attention")[0]["inputs.model.name"], "mixtral-8x7b")
        self.assertEqual(result.rows("notes")[0], {"value": result["notes"][0]})
        self.assertRaises(KeyError, result.rows, "no such list")

    def test_every_kind_of_result_has_its_rows(self):
        for kind, lists in dovetail._ROWS.items():
            schema = (ROOT / f"data/schemas/{kind}.schema.json").read_text(encoding="utf-8")
            for name in ".".join(lists).split("."):
                self.assertIn(f'"{name}"', schema, kind)
        operators = dovetail.reproduce(operators="a100-all-reduce", draws=0)
        self.assertEqual([row["name"] for row in operators.rows()],
                         [each["name"] for each in operators["operators"][0]["operators"]])
        self.assertEqual(operators.rows()[0]["operators.id"], "a100-all-reduce")
        trace = dovetail.plan(**QUESTION, online=True, trace="capacity-tutel")
        self.assertEqual(len(trace.rows()), len(trace["steps"]))
        self.assertEqual(dovetail.Result({"name": "one", "a": {"b": 1}}).rows(), [{"name": "one", "a.b": 1}])

    def test_an_experiment_may_be_a_dictionary(self):
        experiment = {"cluster": "fsmoe-testbed-b", "model": "mixtral-8x7b", "workload": {"batch": 2}}
        one = dovetail.simulate(experiment=experiment, plan={"scope": "moe", "forward_degree": 2}, draws=0)
        other = dovetail.simulate(**QUESTION, plan={"scope": "moe", "forward_degree": 2}, set={"workload.batch": 2})
        self.assertEqual(one.rows()[0]["iteration_s"], other.rows()[0]["iteration_s"])
        self.assertNotIn("dovetail_py_", json.dumps(one))

    def test_results_go_on_to_other_commands(self):
        model = dovetail.import_(ROOT / "tests/data/hf/mixtral-8x7b/config.json", name="mine")
        self.assertRegex(model.notes[0], "46.7 billion parameters")
        result = dovetail.simulate(cluster="fsmoe-testbed-b", model=model, system="tutel", draws=0)
        self.assertEqual(result["inputs"]["model"]["name"], "mine")
        text = " ".join(dovetail.explain(result).text.split())
        self.assertEqual(text, " ".join(" ".join(result["explanation"]["text"]).split()))

    def test_a_sweep_has_its_cells_as_results(self):
        cells = dovetail.sweep(GRID, output="cells.jsonl")
        self.assertEqual(cells["cells"], 4)
        self.assertEqual([(row["system"], row["values.workload.batch"]) for row in cells.rows()],
                         [("tutel", 1), ("fsmoe", 1), ("tutel", 2), ("fsmoe", 2)])
        self.assertEqual(cells["results"], [json.loads(line) for line in
                                            pathlib.Path("cells.jsonl").read_text().splitlines()[1:]])
        self.assertEqual(dovetail.sweep(GRID)["results"], cells["results"])

    def test_a_table_for_others_stays_a_file(self):
        self.assertEqual(dovetail.simulate(**QUESTION, system="tutel", output="mine.csv"), {})
        self.assertRegex(pathlib.Path("mine.csv").read_text(), r"\Asystem,kind,.*\ntutel,predicted,")
        self.assertRegex(dovetail.simulate(**QUESTION, system="tutel", format="csv").text, r"\Asystem,kind,")

    def test_some_commands_print_text_alone(self):
        self.assertEqual((dovetail.doctor(), dovetail.doctor().rows()), ({}, []))
        self.assertIn("built in", dovetail.doctor().text)
        self.assertRegex(dovetail.plan(knobs=True).text, "(?m)^  scope ")
        arguments = dovetail.plan(**QUESTION, system="tutel", export="megatron", quiet=True)
        self.assertIn("--expert-model-parallel-size 8", arguments.text)
        self.assertEqual(arguments["kind"], "plan")


class Frames(Here):
    RESULT = dovetail.Result({"results": [{"a": 1, "b": {"c": 2}}, {"a": 3, "b": {"c": 4}}], "front": [{"d": 5}]})

    def test_rows_become_a_frame(self):
        stand_in = types.SimpleNamespace(DataFrame=lambda rows: ("a frame", rows))
        with mock.patch.dict(sys.modules, pandas=stand_in):
            self.assertEqual(self.RESULT.frame(), ("a frame", [{"a": 1, "b.c": 2}, {"a": 3, "b.c": 4}]))
            self.assertEqual(self.RESULT.frame("front"), ("a frame", [{"d": 5}]))

    def test_without_pandas_one_sentence_says_so(self):
        with mock.patch.dict(sys.modules, pandas=None), self.assertRaisesRegex(ImportError, r"^frame\(\) needs pandas"):
            self.RESULT.frame()

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_pandas_itself_takes_them(self):
        frame = self.RESULT.frame()
        self.assertEqual((list(frame.columns), list(frame["b.c"])), (["a", "b.c"], [2, 4]))
        result = dovetail.compare(**QUESTION, systems=["tutel", "fsmoe"])
        self.assertEqual(list(result.frame()["iteration_s"]), [each["iteration_s"] for each in result["results"]])


class Errors(Here):
    def test_refused_input_is_the_line_of_the_program(self):
        done = subprocess.run([PROGRAM, "compare", "--nope=1"], capture_output=True, text=True, check=False)
        with self.assertRaises(dovetail.InputError) as raised:
            dovetail.compare(nope=1)
        self.assertEqual(str(raised.exception), done.stderr.strip())
        self.assertEqual((raised.exception.code, raised.exception.result), (2, {}))
        with self.assertRaisesRegex(dovetail.InputError, 'unknown command "nope"'):
            dovetail.ask("nope")
        with self.assertRaisesRegex(dovetail.InputError, r'^experiment\.json:1:.*"modell"'):
            dovetail.simulate(experiment={"modell": 1})

    def test_a_failure_after_the_result_has_both(self):
        with self.assertRaisesRegex(dovetail.DovetailError, "below the 3 of --fail-on") as raised:
            dovetail.compare(**QUESTION, systems="deepspeed_moe,tutel", fail_on="tutel:3")
        self.assertNotIsInstance(raised.exception, dovetail.InputError)
        self.assertEqual(raised.exception.code, 5)
        self.assertEqual([row["system"] for row in raised.exception.result.rows()], ["deepspeed_moe", "tutel"])
        self.assertEqual(raised.exception.result.notes[-1], str(raised.exception))

    def test_a_failure_does_not_pass_an_older_file_on(self):
        dovetail.simulate(**QUESTION, system="tutel", output="mine.json")
        with self.assertRaisesRegex(dovetail.DovetailError, "no plan fits") as raised:
            dovetail.plan(**QUESTION, system="tutel", set={"cluster.device.memory": "1 GiB"}, output="mine.json")
        self.assertEqual((raised.exception.code, raised.exception.result), (3, {}))

    def test_a_program_that_says_nothing_is_named(self):
        for text, code, expected in (("exit 1", 1, "dovetail compare ended with exit code 1"),
                                     ("kill -9 $$", -9, "dovetail compare was ended by signal 9"),
                                     ("echo a note >&2; echo the reason >&2; exit 4", 4, "the reason")):
            with self.assertRaises(dovetail.DovetailError) as raised:
                dovetail.compare(program=self.script(text))
            self.assertEqual((str(raised.exception), raised.exception.code), (expected, code))
        self.assertEqual(raised.exception.result.notes, ["a note", "the reason"])

    def test_an_interrupt_ends_the_program_and_passes_through(self):
        program = self.script('trap "echo interrupted >ended; exit 1" INT\necho >begun\nwhile :; do sleep .05; done')
        code = f"import dovetail; dovetail.compare(program={str(program)!r}, plan={{}})"
        caller = subprocess.Popen([sys.executable, "-B", "-c", code], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "PYTHONPATH": str(MODULE.parent)})
        deadline = time.monotonic() + 60
        while not pathlib.Path("begun").exists() and time.monotonic() < deadline:
            time.sleep(.02)
        caller.send_signal(signal.SIGINT)  # to Python alone, as a notebook does
        _, said = caller.communicate(timeout=60)
        self.assertEqual(caller.returncode, -signal.SIGINT, said)
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(pathlib.Path("ended").read_text(), "interrupted\n")


class Finding(Here):
    def find(self, module, **environment):
        """The program that a module in this folder finds, or what it says."""
        code = ("import dovetail\ntry: print(dovetail.find_program())\n"
                "except dovetail.DovetailError as error: print(error)")
        plain = {key: value for key, value in os.environ.items() if key != "DOVETAIL"}
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True,
                              env={**plain, "PYTHONPATH": str(module), **environment})
        return done.stdout.strip()

    def test_the_module_lies_beside_the_built_program(self):
        beside = PROGRAM.with_name("dovetail.py")
        self.assertEqual(beside.read_bytes(), MODULE.read_bytes())
        self.assertEqual(self.find(beside.parent, PATH=""), str(PROGRAM))

    def test_places_are_looked_at_in_their_order(self):
        folders = {name: self.folder / name for name in ("alone", "beside", "path")}
        for name, folder in folders.items():
            folder.mkdir()
            if name != "alone":
                shutil.copy(self.script("exit 0"), folder / "dovetail")
            if name != "path":
                shutil.copy(MODULE, folder)
        path, other = str(folders["path"]), str(self.script("exit 0", "other"))
        self.assertEqual(self.find(folders["beside"], PATH=path, DOVETAIL=other), other)
        self.assertEqual(self.find(folders["beside"], PATH=path), str(folders["beside"] / "dovetail"))
        self.assertEqual(self.find(folders["alone"], PATH=path), str(folders["path"] / "dovetail"))
        self.assertRegex(self.find(folders["alone"], PATH=""), "neither at .*/alone/dovetail nor on the PATH; set DOVE")
        self.assertRegex(self.find(folders["beside"], DOVETAIL="/no/such"), "^DOVETAIL=/no/such is no program")

    def test_an_argument_comes_first(self):
        other = self.script("exit 0", "other")
        self.assertEqual(dovetail.find_program(other), str(other))
        self.assertRaisesRegex(dovetail.DovetailError, "^program=/no/such is no", dovetail.compare, program="/no/such")


class Examples(Here):
    def run_example(self, *arguments):
        return subprocess.run([sys.executable, "-B", MODULE.with_name("example.py"), *arguments], capture_output=True,
                              text=True, check=False)

    def test_the_example_shows_that_faster_cards_help(self):
        done = self.run_example()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("network cards of 12.5 GB/s, and of 25 GB/s", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines()[2:]]
        self.assertEqual({row[0] for row in rows}, {"deepspeed_moe", "tutel", "fsmoe", "dovetail"})
        for _, now, then, gain, *_ in rows:
            self.assertAlmostEqual(float(now) / float(then), float(gain), delta=.01)
            self.assertGreater(float(gain), 1)

    def test_its_failure_is_one_line(self):
        done = self.run_example("--cluster", "nope")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r'\Adovetail: --cluster nope: unknown cluster "nope".*\n\Z')

    def test_the_python_of_documents_works(self):
        shown = []
        for document in sorted(ROOT.glob("README.md")) + sorted(ROOT.glob("*/README.md")):
            for words, lines in examples.blocks(document.read_text(encoding="utf-8")):
                if words == ["python"]:
                    shown.append("\n".join(lines))
        self.assertTrue(shown)
        stand_in = types.SimpleNamespace(DataFrame=lambda rows: {key: [row[key] for row in rows] for key in rows[0]})
        for block in shown:
            with self.subTest(block=block), mock.patch.dict(sys.modules, pandas=stand_in), mock.patch("builtins.print"):
                exec(compile(block, "a document", "exec"), {})  # a document of ours


if __name__ == "__main__":
    unittest.main()
