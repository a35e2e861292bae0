#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a sentence of a comment opens with a word that leaves out its subject ("Of ...", "What ...").
Usage: check_comments.py ROOT"""
import pathlib
import re
import sys

FOLDERS = ["models", "planners", "sim", "exec", "reports", "bench", "tests"]
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}
OPENING = re.compile(r"(?:^|[.:!?] )(Of|What|That|Those|Where|Else|Which|Whose) ")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def openings(text):
    """(line number, word) of each such sentence."""
    for number, line in enumerate(text.splitlines(), 1):
        comment = STRING.sub('""', line).partition("//")[2].strip()
        for match in OPENING.finditer(comment):
            yield number, match[1]


def violations(root):
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES):
        name = path.relative_to(root).as_posix()
        for number, word in openings(path.read_text(encoding="utf-8")):
            yield f"{name}:{number}: a sentence opens with \"{word}\"; begin with its subject"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "no sentence of a comment leaves out its subject")
    sys.exit(bool(found))
