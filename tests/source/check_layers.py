#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes what its folder may not depend on, or when includes form a circle.
Usage: check_layers.py ROOT"""
import pathlib
import re
import sys

SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}

# The folders that a folder may include besides itself: the arrow points to models.
FOLDERS = {
    "models": set(),
    "planners": {"models"},
    "sim": {"models"},
    "exec": {"models"},
    "reports": {"models"},
    "bench": {"models", "planners", "sim", "exec", "reports"},
    "tests": {"models", "planners", "sim", "exec", "reports", "bench"},
}

# The layers inside a folder, lowest first: each may include itself and those below it.
LAYERS = {
    "models": ["base", "extend", "question", "plan", "schedule", "network", "price", "time", "results", "files"],
    "planners": ["limits.hpp", "steps", "task", "closed_form", "search", "layouts", "online", "catalog"],
    "reports": ["flags", "text", "data", "sections", "answer", "page"],
    "bench": ["dependencies.hpp", "cli", "imports", "pipeline", "reproduce", "sweep", "validate", "commands", "examples", "micro",
              "scale", "main.cpp"],
}

# Folders that a folder may not include although its layer may. Reports show what was computed.
CLOSED = {"reports": ("models/price/", "models/network/")}

# Who may include calibration.hpp in a header and so pass it on. Everyone else reads prices, not costs.
CALIBRATION = "models/price/calibration.hpp"
PASS_IT_ON = ("models/price/", "models/results/validation.hpp", "exec/run/calibrate.hpp",
              "bench/validate/kernel_fit.hpp", "tests/")

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
    "yaml-cpp/": {"bench"},
}

# Programs as others would write them, which build outside of this tree: they name their own files as they lie.
EXAMPLES = "bench/examples/"

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def above(file, header):
    """Why a file of one layer may not include a header of another, or None."""
    top, layer = file.split("/")[:2]
    layers = LAYERS.get(top, [])
    if not layers or not header.startswith(top + "/"):
        return None
    other = header.split("/")[1]
    for name, place in ((layer, file), (other, header)):
        if name not in layers:
            return None if name == "CMakeLists.txt" else f"{place} is in no layer of {top}/ ({', '.join(layers)})"
    if layers.index(other) > layers.index(layer):
        return f"{top}/{layer}/ may not include {top}/{other}/, which builds on it ({header})"
    return None


def problem(file, quote, header):
    """Why a file may not include `header`, or None."""
    folder, top = file.split("/")[0], header.split("/")[0]
    if "/" in header and top in FOLDERS:
        if top != folder and top not in FOLDERS[folder]:
            return f"{folder}/ may not include {top}/ ({header})"
        if header.startswith(CLOSED.get(folder, ())):
            return f"{folder}/ shows what was computed: it may not include {header}"
        if header == CALIBRATION and file.endswith(".hpp") and not file.startswith(PASS_IT_ON):
            return f"a header may not pass on {CALIBRATION}: declare what it needs, include it in the source"
        return above(file, header) or (None if quote == '"' else f'write "{header}", not <{header}>')
    for prefix, allowed in LIBRARIES.items():
        if header.startswith(prefix):
            return None if folder in allowed | {"tests"} else f"{folder}/ may not use <{header}>"
    if file.startswith(EXAMPLES):
        return None
    return f'include "{header}" from the root: "{folder}/..."' if quote == '"' else None


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8").splitlines()


def circle(edges):
    """The first circle of a graph {node: {other: where}} as a list of nodes, or None."""
    state = {}  # 1: on the way, 2: done

    def visit(node, way):
        state[node] = 1
        for other in edges.get(node, {}):
            if state.get(other) == 1:
                return way[way.index(other):] + [other]
            if other not in state and (found := visit(other, way + [other])):
                return found
        state[node] = 2
        return None

    for node in edges:
        if node not in state and (found := visit(node, [node])):
            return found
    return None


def violations(root):
    rooms = {}  # a header and its source are one room
    for file, lines in sources(root):
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            reason = problem(file, match[1], match[2])
            if reason:
                yield f"{file}:{number}: {reason}"
            here, there = file.rsplit(".", 1)[0], match[2].rsplit(".", 1)[0]
            if here != there and "/" in there:
                rooms.setdefault(here, {}).setdefault(there, f"{file}:{number}")
    way = circle(rooms)
    if way:
        yield f"{rooms[way[0]][way[1]]}: includes form a circle: {' -> '.join(way)}"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "no include against the dependency rule")
    sys.exit(bool(found))
