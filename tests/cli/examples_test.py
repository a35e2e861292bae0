#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line that a README or --help shows works as it stands. Usage: examples_test.py PROGRAM help|documents"""
import re
import tempfile

import examples
from program import SOURCE, Checks, Program, arguments

COMMANDS = ["tune", "compare", "plan", "simulate", "explain", "run", "reproduce", "calibrate", "import", "doctor"]

MARKDOWN = """
    dovetail not-in-a-block
```sh
dovetail compare --cluster x \\
  --model y   # why
build/release/bin/dovetail doctor && echo
ls
```
```sh long
dovetail run
```
```output measured
a  1.5 ms
b 2
```
"""


def check_extractor(checks):
    found = examples.in_markdown(MARKDOWN)
    checks.check(found == [["compare", "--cluster", "x", "--model", "y"], ["doctor", "&&", "echo"]], f"extracted {found}")
    shown = list(examples.outputs(MARKDOWN))
    checks.check(shown == [(["run"], ["a  1.5 ms", "b 2"], True)], f"shown {shown}")
    for lines, printed, measured, expected in ((["a", "", "b"], "x\na\ny\nb  \n", False, None),
                                               (["b", "a"], "a\nb\n", False, "a"), (["a 1"], "a 2\n", False, "a 1"),
                                               (["a  1.5 ms"], "a 20.25 ms\n", True, None), (["a 1"], "b 1\n", True, "a 1")):
        got = examples.unprinted(lines, printed, measured)
        checks.check(got == expected, f"{lines} of {printed!r}: {got}")


def run_all(checks, program, source, lines, done, shown=()):
    """Runs each command line once, and looks for the output that the document shows of it."""
    for line in lines:
        if line in done:
            continue
        done.append(line)
        quick = ["--measure-time", "1"] if line[:1] == ["run"] and "--measure-time" not in line else []
        result = program.run(*line, *quick)
        if result.returncode == 4 and re.search("not in this build|this machine has 0", result.stderr):
            print(f"skipped: {result.stderr}", end="")
            continue
        for misfit in ("does not fit", "mostly wait for one another"):
            checks.check(misfit not in result.stdout, f"{source}: dovetail {' '.join(line)}: {misfit}")
        for command, expected, measured in shown:
            missing = examples.unprinted(expected, result.stdout, measured) if command == line else None
            checks.check(missing is None, f"{source}: dovetail {' '.join(line)} does not print {missing!r}")
        checks.check(result.returncode == 0, f"{source}: dovetail {' '.join(line)}: exit {result.returncode}, {result.stderr!r}")


def helped(program, checks):
    for command in COMMANDS:
        lines = examples.in_help(program.run(command, "--help").stdout)
        checks.check(lines, f"{command} --help has an example")
        yield f"{command} --help", lines, ()


def documented():
    for readme in sorted(SOURCE.glob("README.md")) + sorted(SOURCE.glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        yield str(readme.relative_to(SOURCE)), examples.in_markdown(text), list(examples.outputs(text))


def main():
    asked = arguments(of=["help", "documents"])
    checks = Checks()
    check_extractor(checks)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(asked.program, folder)
        done = []
        for name in ("tests", "data"):  # paths in the examples are relative to the source
            (program.folder / name).symlink_to(SOURCE / name)
        for source, lines, shown in helped(program, checks) if asked.of == "help" else documented():
            for command, _, _ in shown:
                checks.check(command in lines, f"{source}: output is shown of {command}, which is not run")
            run_all(checks, program, source, lines, done, shown)
    checks.finish()


main()
