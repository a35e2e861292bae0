#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Missions of bench/gpu_suite.sh to their ends, by the unchanged programs on a CUDA runtime without a GPU, whose kernels do
nothing: what is left out are tests of their numbers, and what needs PyTorch. Prints the seconds of each part.
Usage: gpu_rehearsal_test.py DOVETAIL FOLDER_OF_LIBRARIES"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# (mission, its parts, whether the time may be up before its end)
REHEARSED = [
    (1, "start,beside,holds,exchanges,one_rank,probes,degree-4-of-132", False),
    (2, "shapes,schedule,asked", False),
    (3, "validate", True),
    (4, "validate", True),
    (6, "restore-8-s1-4096,chunks-8-4096,encoding-dense-1024,layout-rank_major-1024,layout-expert_major-1024,gate-x_moe,restore-keep", False),
    (7, "tutel", False),
]
SECONDS = 45  # of a mission that may go on


def beside_published(program, archive, folder):
    """What is wrong of the row that the two layouts settle, once results are kept in a copy of the data; empty: nothing."""
    for name in (ROOT / "data").iterdir():
        if name.name != "validation":
            (folder / name.name).symlink_to(name)
    keep = subprocess.run([ROOT / "bench/gpu_suite.sh", "--keep", folder, "--resume", archive], capture_output=True, text=True, check=False)
    done = subprocess.run([program, "reproduce", "tutel-layout", "--format", "json"], env={**os.environ, "DOVETAIL_DATA": str(folder)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    if keep.returncode or done.returncode:
        return f"results that are kept: {keep.stderr}{done.stderr}"
    row = json.loads(done.stdout)["tables"][0]["values"][-1]
    seen = [(each["value"] > 0, "paper" in each["device"]) for each in row["measured"]]
    return "" if seen == [(True, True)] else f"beside a published row: {row['measured']}"


def main():
    program, libraries = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        for mission, parts, may_go_on in REHEARSED:
            command = [ROOT / "bench/gpu_suite.sh", str(mission), "--parts", parts, "--time", str(SECONDS if may_go_on else 240),
                       "--binaries", program.parents[1], "--work", f"{folder}/work", "-o", out]  # fmt: skip
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            allowed = (0, 75) if may_go_on else (0,)
            if done.returncode not in allowed:
                wrong.append(f"mission {mission}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        (pathlib.Path(folder) / "data").mkdir()
        wrong += filter(None, [beside_published(program, out / "results.tar.gz", pathlib.Path(folder) / "data")])
        summary = json.loads((out / "summary.json").read_text())
        begun = {part["name"]: part for each in summary["missions"] for part in each["parts"] if part["state"] != "waiting"}
        for part in begun.values():
            print(f"{part['name']}: {part['state']}, {part['seconds']:.1f} s")
        expected = {f"{mission}.{part}" for mission, parts, _ in REHEARSED for part in parts.split(",")}
        if set(begun) != expected:
            wrong.append(f"begun {sorted(begun)}, expected {sorted(expected)}")
        if not all(part["clocks"] for name, part in begun.items() if part["seconds"] > 1):
            wrong.append("a part of more than a second without a clock")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
