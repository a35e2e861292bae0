# SPDX-License-Identifier: Apache-2.0
"""Runs the program on one wrong input, for bad_input_test.py and mistakes_test.py: the exit code, one line that says
what is wrong and where, nothing left behind."""
import os
import re
import tempfile

import bad_input_cases as table
from program import Program

RESULT = "result.json"


def write(folder, files):
    """`files` by their names; None makes a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def prepare(program, files, unreadable=()):
    write(program.folder, {"good.json": table.CLUSTER, "tiny.json": table.MODEL, "folder.json": None, **files})
    for name in unreadable:
        os.chmod(program.folder / name, 0)


def run_wrong_input(checks, path, name, arguments, expected, code=2, files=None, unreadable=()):
    """Checks the answer to `arguments`, and returns its one line, without a line break."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, folder)
        prepare(program, files or {}, unreadable)
        before = program.files()
        result = program.run(*arguments)
        line = result.stderr.removesuffix("\n")
        what = f"{name} (dovetail {' '.join(arguments)}): exit {result.returncode}, {line[:300]!r}"
        left = [f for f in program.files() if f not in before]
        checks.check(result.returncode == code, f"exit code {code}: {what}")
        checks.check(line != "" and "\n" not in line and line.isprintable(), f"exactly one line: {what}")
        checks.check(re.search(expected, line), f"the line has /{expected}/: {what}")
        allowed = [RESULT] if code == 5 else []
        checks.check(left == allowed, f"nothing left behind, found {left}: {what}")
        checks.check(code == 5 or result.stdout == "", f"nothing on standard output: {what}")
        return line
