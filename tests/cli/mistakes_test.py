#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every mistake of mistakes.py: the exit code, and one line that names the place and a way on. Words of other tools
that are no mistakes must be taken as what they mean there. `poor` runs the mistakes of mistakes_poor.py instead: it
shows which of them are answered as wanted now, and which are answered otherwise than their list says.
Usage: mistakes_test.py PROGRAM good|poor"""
import os
import re
import shlex
import tempfile

import mistakes
import mistakes_poor
from program import Checks, Program, arguments
from wrong_input import prepare, run_wrong_input

# Each answer leads on by one of these; "see dovetail COMMAND --help" alone does not.
WAY_ON = re.compile(
    r"did you mean|expected|known: |built: |\bwould\b|make one by|is missing|needs |\bfit|given twice|contradicts|"
    r"takes|No such file|Is a directory|Permission denied|but .* has|\bgives?\b|whole nodes|more .* than|"
    r"is a format of|add --|comes before|FILE\.|is empty|trailing comma|no experts|already given")


def names_place(line, mistake, typed):
    """A line and column of a file, or an option, or else something that the user typed."""
    if re.match(r"\S+:\d+:\d+: |dovetail: --\w", line) or mistake.code == 3:  # a model that does not fit is no fault
        return True
    words = [word for argument in typed for word in re.split("[=,]", argument) if len(word) > 1]
    return line.startswith("dovetail: ") and any(word in line for word in words)


def run_mistake(checks, path, mistake):
    if mistake.unreadable and os.geteuid() == 0:  # who reads every file
        return
    typed = shlex.split(mistake.typed)
    line = run_wrong_input(checks, path, mistake.meant, typed, mistake.answer, mistake.code, mistake.files,
                           mistake.unreadable)
    checks.check(names_place(line, mistake, typed), f"names the place: dovetail {mistake.typed}: {line[:300]!r}")
    checks.check(WAY_ON.search(line), f"names a way on: dovetail {mistake.typed}: {line[:300]!r}")


def run_understood(checks, path, word):
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, folder)
        result = program.run(*shlex.split(word.typed), "--draws", "0", "-q", "-o", "-", "--format", "json")
        what = f"dovetail {word.typed}: exit {result.returncode}, {result.stderr[:300]!r}"
        checks.check(result.returncode == 0, f"{word.meant} is understood: {what}")
        checks.check(re.search(word.answer, result.stdout), f"the result has /{word.answer}/: {what}")


def answer_of(path, mistake):
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, folder)
        prepare(program, mistake.files, mistake.unreadable)
        result = program.run(*shlex.split(mistake.typed))
        return result.returncode, result.stderr.removesuffix("\n") or "(nothing)"


def show_poor(path):
    """Mistakes to move to mistakes.py, and those whose answer is another one than the list says."""
    states = {"as wanted": 0, "otherwise": 0, "poor": 0}
    for mistake in mistakes_poor.POOR:
        code, line = answer_of(path, mistake)
        state = "poor"
        if code == mistake.code and re.search(mistake.answer, line):
            state = "as wanted"
        elif mistake.present not in line:
            state = "otherwise"
        states[state] += 1
        if state != "poor":
            print(f"{state}: dovetail {mistake.typed}\n  exit {code}: {line[:300]}")
    print(", ".join(f"{count} {state}" for state, count in states.items()))


def main():
    given = arguments(which=["good", "poor"])
    if given.which == "poor":
        show_poor(given.program)
        return
    checks = Checks()
    for mistake in mistakes.GOOD:
        run_mistake(checks, given.program, mistake)
    for word in mistakes.UNDERSTOOD:
        run_understood(checks, given.program, word)
    for mistake in mistakes_poor.POOR:
        checks.check(re.search(mistake.answer, mistake.wanted), f"/{mistake.answer}/ finds the wanted: {mistake.typed}")
    print(f"{len(mistakes.GOOD)} mistakes are answered well, {len(mistakes.UNDERSTOOD)} words of other tools are "
          f"understood; {len(mistakes_poor.POOR)} mistakes still have a poor answer, which mistakes_poor.py lists")
    checks.finish()


main()
