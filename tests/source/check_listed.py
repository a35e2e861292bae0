#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a source file stands in no CMakeLists.txt: it would never be compiled. Usage: check_listed.py ROOT"""
import fnmatch
import pathlib
import sys

FOLDERS = ["models", "planners", "sim", "exec", "reports", "bench", "tests"]


def unlisted(root):
    words = {path.parent: set(path.read_text(encoding="utf-8").split())
             for folder in FOLDERS for path in (root / folder).rglob("CMakeLists.txt")}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cpp", ".cu"}:
                continue
            # Listed by its own folder or by one above it, relative to that one, by name or by a pattern.
            lists = [(up, words.get(up, set())) for up in path.parents if root in up.parents]
            if not any(fnmatch.fnmatchcase(path.relative_to(up).as_posix(), word.strip("()"))
                       for up, listed in lists for word in listed):
                yield f"{path.relative_to(root)}:1: in no CMakeLists.txt"


if __name__ == "__main__":
    found = list(unlisted(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every source is listed")
    sys.exit(bool(found))
