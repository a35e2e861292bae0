#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures on this machine how much time and memory simulations of 8 to 100,000 GPUs take. It simulates an MoE layer
(dispatch of 32 MiB from each GPU, 1 ms of experts, combine, all-reduce of 64 MiB) and a training step of all 32 layers
of Mixtral-8x7B. The layer's times are the least of 20 in one process. All other times are of whole processes, the least
of --repeat."""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

SIZES = [8, 64, 256, 1024, 4096, 16384, 100000]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def machine():
    return {"machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}", "load": os.getloadavg()[0]}


def run(command, fails=False):
    """Its output, wall and CPU seconds, and peak memory in KiB. `fails`: it may, and says nothing then."""
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if fails else None, text=True)
    output = process.stdout.read()
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 and not fails:
        sys.exit(f"{' '.join(str(word) for word in command)}: exit code {process.returncode}")
    return {"output": output, "wall_s": time.perf_counter() - start, "cpu_s": use.ru_utime + use.ru_stime, "peak_kib": use.ru_maxrss,
            "exit_code": process.returncode}


def least(command, repeat):
    runs = [run(command) for _ in range(repeat)]
    return {"output": runs[0]["output"], **{key: min(r[key] for r in runs) for key in ("wall_s", "cpu_s", "peak_kib")}}


def measure(options, gpus):
    layer = least([options.programs / "scale_layer", options.cluster, gpus], options.repeat)
    said = json.loads(layer.pop("output"))
    step = least([options.programs / "dovetail", "simulate", "--cluster", options.cluster, "--nodes", said["nodes"], "--model", "mixtral-8x7b",
                  "--system", options.system, "--backend", "simgrid", "--set", "workload.layers=32"], options.repeat)
    step.pop("output")
    return {"gpus": said["gpus"], "nodes": said["nodes"],
            "layer": {"first_s": said["first_s"], "again_s": said["again_s"], "simulated_makespan_s": said["makespan_s"], **layer},
            "step": step}


def show(result):
    print(f"{result['cluster']}, {result['system']}; measured on {result['machine']}, load {result['load']:.1f}")
    print(f"{'':>8} | {'one MoE layer':^47} | {'32 layers, whole process':^29}")
    print(f"{'GPUs':>8} | {'simulation':>11} {'first':>8} {'process':>9} {'its CPU':>9} {'MiB':>6} | {'wall':>9} {'CPU':>9} {'MiB':>9}")
    for row in result["sizes"]:
        layer, step = row["layer"], row["step"]
        print(f"{row['gpus']:>8} | {layer['again_s'] * 1e3:8.3f} ms {layer['first_s'] * 1e3:5.2f} ms {layer['wall_s'] * 1e3:6.0f} ms {layer['cpu_s'] * 1e3:6.0f} ms {layer['peak_kib'] / 1024:6.1f} |"
              f" {step['wall_s'] * 1e3:6.0f} ms {step['cpu_s'] * 1e3:6.0f} ms {step['peak_kib'] / 1024:9.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="ndv4", help="a shipped cluster or a file [ndv4]")
    parser.add_argument("--system", default="fsmoe", help="system of the training step [fsmoe]")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="the folder with dovetail and scale_layer [build/release/bin]")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of GPUs, rounded up to whole nodes [%(default)s]")
    parser.add_argument("--repeat", type=int, default=3, help="how often each process is measured [3]")
    parser.add_argument("-o", "--output", help="also write the table as JSON")
    options = parser.parse_args()
    result = {"kind": "measured", **machine(), "cluster": options.cluster, "system": options.system, "sizes": []}
    for size in options.sizes.split(","):
        row = measure(options, int(size))
        if all(row["gpus"] != other["gpus"] for other in result["sizes"]):
            result["sizes"].append(row)
    show(result)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
