#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a source file does not name its licence at its top. Usage: check_spdx.py [--add] ROOT

With --add, files without the line get it first: as a comment of their language, after the line of a script's interpreter."""
import pathlib
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = [".ci", ".cmake", "models", "planners", "sim", "exec", "reports", "bench", "data", "tests"]
COMMENTS = {"//": {".cpp", ".hpp", ".cu", ".cuh", ".js"}, "#": {".py", ".sh", ".bash", ".cmake"}}
NAMES = {"CMakeLists.txt", "Makefile"}
TEMPLATES = {".in"}  # by the suffix before it
SCRIPTS = {".ci"}    # every file in it without a suffix


def comment_of(path):
    """The sign that begins a comment in the file; None where it is no source."""
    name = path.with_suffix("") if path.suffix in TEMPLATES else path
    if name.name in NAMES or (not name.suffix and path.parent.name in SCRIPTS):
        return "#"
    return next((sign for sign, suffixes in COMMENTS.items() if name.suffix in suffixes), None)


def sources(root):
    tops = [path for path in root.iterdir() if path.is_file()]
    for path in sorted(tops) + [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]:
        if path.is_file() and not path.is_symlink() and comment_of(path):
            yield path


def is_named(lines, sign):
    return f"{sign} {LINE}" in lines[:2]


def with_line(lines, sign):
    at = 1 if lines and lines[0].startswith("#!") else 0
    return [*lines[:at], f"{sign} {LINE}", *lines[at:]]


def unnamed(root):
    for path in sources(root):
        if not is_named(path.read_text(encoding="utf-8").split("\n"), comment_of(path)):
            yield path


def add(root):
    for path in unnamed(root):
        lines = path.read_text(encoding="utf-8").split("\n")
        path.write_text("\n".join(with_line(lines, comment_of(path))), encoding="utf-8")


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[-1])
    if "--add" in sys.argv:
        add(place)
    found = [f"{path.relative_to(place)}:1: without \"{LINE}\"" for path in unnamed(place)]
    print("\n".join(found) or "every source names its licence")
    sys.exit(bool(found))
