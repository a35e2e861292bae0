#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the last real features cost: the files that their commits touched. Usage: feature_cost.py [COUNT]

A commit counts as a feature where a table that says what there is has more lines after it: knobs, programs, kinds of op,
fields, systems, planners. Nobody picks the commits by hand."""
import subprocess
import sys
from pathlib import Path
from statistics import median

TABLES = {
    "models/plan/knob_table.cpp": "knob",
    "models/plan/program_names.hpp": "program",
    "models/schedule/op_kind.hpp": "kind of op",
    "models/question/workload_fields.cpp": "field",
    "models/question/model_fields.cpp": "field",
    "models/question/cluster_fields.cpp": "field",
    "models/question/parallelism_fields.cpp": "field",
    "models/price/calibration_fields.cpp": "field",
    "models/question/framework.hpp": "field",
    "planners/catalog/registry.cpp": "planner",
}
# Fields before they had tables.
OLD_STRUCTS = ("workload.hpp", "model.hpp", "cluster.hpp", "parallelism.hpp")
CODE = {".cpp", ".hpp", ".cu", ".cuh", ".in"}


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def kind_of(path, more):
    """The kind of thing that a table holds, where it has `more` lines than before."""
    if more < 1:
        return None
    if path in TABLES:
        return TABLES[path]
    if path.startswith("models/question/") and path.endswith(OLD_STRUCTS):
        return "field"
    if path.startswith("data/systems/"):
        return "system"
    return None


def features(count):
    """(commit, subject, kinds, code files, tests, other files, added lines of code) of the newest features."""
    found = []
    for block in git("log", "--no-merges", "--numstat", "--format=%x00%h\t%s").split("\0")[1:]:
        head, *lines = block.strip().split("\n")
        commit, subject = head.split("\t", 1)
        changed = [line.split("\t") for line in lines if line.count("\t") == 2]
        changed = [(path, *(int(lines) if lines != "-" else 0 for lines in counts))
                   for *counts, path in changed if "=>" not in path]
        kinds = sorted({kind for path, added, removed in changed if (kind := kind_of(path, added - removed))})
        if not kinds:
            continue
        tests = [path for path, _, _ in changed if path.startswith("tests/")]
        code = [(path, added) for path, added, _ in changed if path not in tests and Path(path).suffix in CODE]
        found.append((commit, subject, kinds, len(code), len(tests), len(changed) - len(code) - len(tests),
                      sum(added for _, added in code)))
        if len(found) == count:
            break
    return found


def main():
    if subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=False).returncode != 0:
        print("skipped: this folder has no history of commits")
        return 77
    found = features(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print("| commit | what | adds | code files | tests | other | + lines of code |")
    print("|---|---|---|---|---|---|---|")
    for commit, subject, kinds, code, tests, other, added in found:
        print(f"| {commit} | {subject} | {', '.join(kinds)} | {code} | {tests} | {other} | {added} |")
    if not found:
        print("no commit added to a table")
        return 1
    print(f"\nMedian of {len(found)}: {median(row[3] for row in found):g} code files.")
    return 0


sys.exit(main())
