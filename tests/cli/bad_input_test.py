#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every wrong input of bad_input_cases.py: the exit code, one line that says what is wrong and where, nothing left
behind. Usage: bad_input_test.py PROGRAM"""
import bad_input_cases as table
from program import Checks, program_argument
from wrong_input import RESULT, run_wrong_input


def run_case(checks, path, case):
    files = {} if case.bad is None else {"bad.json": case.bad() if callable(case.bad) else case.bad}
    arguments = case.arguments.split() + case.more
    takes_output = bool(arguments) and arguments[0] in ("compare", "plan", "simulate", "run", "calibrate", "import")
    if takes_output and "-o" not in arguments:
        arguments += ["-o", RESULT]
    run_wrong_input(checks, path, case.name, arguments, case.expected, case.code, files)


def main():
    path = program_argument()
    checks = Checks()
    for case in table.CASES:
        run_case(checks, path, case)
    print(f"{len(table.CASES)} wrong inputs")
    checks.finish()


main()
