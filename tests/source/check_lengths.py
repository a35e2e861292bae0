#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a source file has more than 500 lines beside that of its licence; tables (*_table.cpp, *_table.hpp) may be
longer. Usage: check_lengths.py ROOT"""
import pathlib
import sys

from check_spdx import LINE

LIMIT = 500
FOLDERS = ["models", "planners", "sim", "exec", "reports", "bench", "tests"]
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".py"}


def too_long(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and not path.stem.endswith("_table"):
                lines = sum(not line.endswith(LINE) for line in path.read_text(encoding="utf-8").splitlines())
                if lines > LIMIT:
                    yield f"{path.relative_to(root)}:{LIMIT + 1}: {lines} lines, {LIMIT} are allowed"


if __name__ == "__main__":
    found = list(too_long(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or f"no source file over {LIMIT} lines")
    sys.exit(bool(found))
