#!/usr/bin/env python3
"""Fails when a file includes what its folder may not depend on. Usage: check_layers.py ROOT"""
import pathlib
import re
import sys

SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}

# Which folders a folder may include, besides itself: the arrow points to models.
FOLDERS = {
    "models": set(),
    "planners": {"models"},
    "sim": {"models"},
    "exec": {"models"},
    "reports": {"models"},
    "bench": {"models", "planners", "sim", "exec", "reports"},
    "tests": {"models", "planners", "sim", "exec", "reports", "bench"},
}

# Headers of libraries that only some folders (and tests) may know.
LIBRARIES = {
    "simgrid/": {"sim"},
    "mpi.h": {"exec"},
    "cuda": {"exec"},
    "cublas": {"exec"},
    "nccl": {"exec"},
    "cblas.h": {"exec"},
    "nlopt": {"planners"},
    "CLI/": {"bench"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def problem(folder, quote, header):
    """Why a file of `folder` may not include `header`, or None."""
    top = header.split("/")[0]
    if "/" in header and top in FOLDERS:
        if top != folder and top not in FOLDERS[folder]:
            return f"{folder}/ may not include {top}/ ({header})"
        return None if quote == '"' else f'write "{header}", not <{header}>'
    for prefix, allowed in LIBRARIES.items():
        if header.startswith(prefix):
            return None if folder in allowed | {"tests"} else f"{folder}/ may not use <{header}>"
    return f'include "{header}" from the root: "{folder}/..."' if quote == '"' else None


def violations(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                reason = match and problem(folder, match[1], match[2])
                if reason:
                    yield f"{path.relative_to(root)}:{number}: {reason}"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "no include against the dependency rule")
    sys.exit(bool(found))
