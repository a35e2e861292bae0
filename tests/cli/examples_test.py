#!/usr/bin/env python3
"""Every command line that a README or --help shows works as it stands. Usage: examples_test.py PROGRAM"""
import re
import tempfile

import examples
from program import SOURCE, Checks, Program, program_argument

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
"""


def check_extractor(checks):
    found = examples.in_markdown(MARKDOWN)
    checks.check(found == [["compare", "--cluster", "x", "--model", "y"], ["doctor", "&&", "echo"]], f"extracted {found}")


def run_all(checks, program, source, lines, done):
    """Runs each command line once: documents and --help share some."""
    for arguments in lines:
        if arguments in done:
            continue
        done.append(arguments)
        quick = ["--measure-time", "1"] if arguments[:1] == ["run"] and "--measure-time" not in arguments else []
        result = program.run(*arguments, *quick)
        if result.returncode == 4 and re.search("not in this build|this machine has 0", result.stderr):
            print(f"skipped: {result.stderr}", end="")
            continue
        for misfit in ("does not fit", "mostly wait for one another"):
            checks.check(misfit not in result.stdout, f"{source}: dovetail {' '.join(arguments)}: {misfit}")
        checks.check(result.returncode == 0, f"{source}: dovetail {' '.join(arguments)}: exit {result.returncode}, {result.stderr!r}")


def main():
    checks = Checks()
    check_extractor(checks)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(program_argument(), folder)
        done = []
        for name in ("tests", "data"):  # paths in the examples are relative to the source
            (program.folder / name).symlink_to(SOURCE / name)
        for command in COMMANDS:
            lines = examples.in_help(program.run(command, "--help").stdout)
            checks.check(lines, f"{command} --help has an example")
            run_all(checks, program, f"{command} --help", lines, done)
        for readme in sorted(SOURCE.glob("README.md")) + sorted(SOURCE.glob("*/README.md")):
            lines = examples.in_markdown(readme.read_text(encoding="utf-8"))
            run_all(checks, program, str(readme.relative_to(SOURCE)), lines, done)
    checks.finish()


main()
