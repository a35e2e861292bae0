#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every wrong input of bad_input_cases.py: the exit code, one line that says what is wrong and where, nothing left
behind. Usage: bad_input_test.py PROGRAM"""
import re
import tempfile

import bad_input_cases as table
from program import Checks, Program, program_argument

RESULT = "result.json"


def prepare(program, case):
    (program.folder / "good.json").write_text(table.CLUSTER)
    (program.folder / "tiny.json").write_text(table.MODEL)
    (program.folder / "folder.json").mkdir()
    if case.bad is None:
        return
    content = case.bad() if callable(case.bad) else case.bad
    (program.folder / "bad.json").write_bytes(content.encode() if isinstance(content, str) else content)


def run_case(checks, path, case):
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, folder)
        prepare(program, case)
        before = program.files()
        arguments = case.arguments.split() + case.more
        takes_output = bool(arguments) and arguments[0] in ("compare", "plan", "simulate", "run", "calibrate", "import")
        if takes_output and "-o" not in arguments:
            arguments += ["-o", RESULT]
        result = program.run(*arguments)
        line = result.stderr.removesuffix("\n")
        what = f"{case.name} (dovetail {' '.join(arguments)}): exit {result.returncode}, {line[:300]!r}"
        left = [f for f in program.files() if f not in before]
        checks.check(result.returncode == case.code, f"exit code {case.code}: {what}")
        checks.check(line != "" and "\n" not in line and line.isprintable(), f"exactly one line: {what}")
        checks.check(re.search(case.expected, line), f"the line has /{case.expected}/: {what}")
        allowed = [RESULT] if case.code == 5 else []
        checks.check(left == allowed, f"nothing left behind, found {left}: {what}")
        checks.check(case.code == 5 or result.stdout == "", f"nothing on standard output: {what}")


def main():
    path = program_argument()
    checks = Checks()
    for case in table.CASES:
        run_case(checks, path, case)
    print(f"{len(table.CASES)} wrong inputs")
    checks.finish()


main()
