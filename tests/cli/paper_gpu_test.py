#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA path without a GPU: on the paper GPU (tests/README.md). Usage: paper_gpu_test.py DOVETAIL PART FOLDER"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from program import SOURCE, Checks, Program

CLUSTER = ["--cluster", "dgx-h100", "--model", "mixtral-8x7b"]
SYSTEMS = ["tutel", "fsmoe", "mpipemoe", "pipemoe", "fastermoe", "deepspeed_moe"]
SMALL = ["--ranks", "4", "--hidden", "64", "--expert-hidden", "128", "--tokens", "64", "--measure-time", "0.02"]
LARGE = ["--set", "workload.batch=8", "--ranks", "8", "--hidden", "2048", "--expert-hidden", "4096", "--head-size", "128",
         "--tokens", "2048", "--experts", "8", "--measure-time", "0.05"]  # fmt: skip

# Mistakes that paper_mistakes makes, and what the report says of each.
MISTAKES = {
    "allocation in a capture": "cudaMalloc in a capture",
    "wait in a capture": "cudaStreamSynchronize in a capture",
    "copy in a capture": "cudaMemcpy in a capture",
    "cuBLAS in a capture": "cublasCreate in a capture",
    "workspace": "a captured product without a workspace",
    "shared workspace": "products that do not wait for each other share a workspace",
    "shared workspace in a capture": "products that do not wait for each other share a workspace",
    "outside of a capture": "work on a stream outside of the capture that goes on: fill",
    "event of no capture": "a captured stream waits for an event of no capture",
    "unjoined": "a capture ends before all its streams have joined again",
    "default stream": "use of the default stream",
    "grid": "a launch of body with a grid of 1 x 65536 x 1 blocks",
    "block": "a launch of body with blocks of 1025 x 1 x 1 threads",
    "shared memory": "a launch of body with 50000 bytes of shared memory where 49152 were asked for",
    "too much shared memory": "body asks for 232449 bytes of shared memory",
    "leading dimension": "the leading dimension of A is too small: 63 for columns of 64",
    "short operand": "cuBLAS writes C, 2 bytes past the end of an allocation of 24574 bytes",
    "long copy": "a copy writes 1 bytes past the end of an allocation of 64 bytes",
    "long fill": "a fill writes 16 bytes past the end of an allocation of 64 bytes",
    "no memory": "a fill writes 8 bytes of nobody's memory",
    "pageable memory": "cudaMemcpyAsync from pageable memory",
    "mark": "mark writes 4 bytes past the end of an allocation of 4 bytes",
    "rows past the end": "run_rows<FillSlots<Bf16> > writes 64 bytes past the end of an allocation of 192 bytes",
    "unrecorded event": "the time of an event that was never recorded",
    "unrecorded event, waited for": "a stream waits for an event that was never recorded",
    "freed memory": "a fill writes freed memory",
    "memory freed before its graph runs": "a fill writes freed memory",
    "freed twice": "cudaFree of memory that is not allocated",
    "long hold": "a hold waits for more than a second",
    "long exchange": "an exchange of 64 bytes on 16 blocks waits for more than a second",
    "exchange past the end": "an exchange of 4096 bytes on 16 blocks writes 96 bytes past the end of an allocation of 4000 bytes",
    "exchange of other pieces": "an exchange of 4095 bytes on 16 blocks has pieces of 4096 bytes",
}
# Others, and what is printed.
OUTPUTS = {"nothing": "arrived", "too large": "refused", "large": "given", "misaligned": ""}


class OnPaper(Program):
    """`dovetail` with the paper GPU in place of CUDA; a mistake ends the process that made it."""

    def __init__(self, path, folder, libraries):
        super().__init__(path, folder)
        self.libraries = libraries
        self.report = self.folder / "paper_report.txt"

    def environment(self, **changes):
        before = os.environ.get("LD_LIBRARY_PATH")
        paper = {"LD_LIBRARY_PATH": ":".join(filter(None, [str(self.libraries), before])), "PAPER_STRICT": "1", "PAPER_REPORT": str(self.report)}
        return super().environment(**{**paper, **changes})

    def reports(self):
        """Text of the processes that used the GPU since the last call."""
        text = self.report.read_text(encoding="utf-8") if self.report.exists() else ""
        self.report.unlink(missing_ok=True)
        return text


def succeeds(checks, program, *command, most=100, **environment):
    """The command, on the GPU and without a mistake."""
    done = program.run(*command, timeout=most, **environment)
    report = program.reports()
    fine = done.returncode == 0 and "paper GPU: " in report and "PROBLEM" not in report
    checks.check(fine, f"{' '.join(map(str, command))}: exit code {done.returncode}, {done.stderr[-500:]!r}, {report[-1500:]}")
    return report if fine else ""


def launches(report):
    """(cuBLAS products, launches of graphs) of the last process."""
    return int(re.findall(r"(\d+) products of", report)[-1]), int(re.findall(r"(\d+) launches of graphs", report)[-1])


def part_mistakes(checks, program):
    made = program.path.parent / "paper_mistakes"

    def run(name, **environment):
        done = subprocess.run([made, name], env=program.environment(**environment), capture_output=True, text=True, check=False)
        return done, program.reports()

    names = subprocess.run([made], env=program.environment(), capture_output=True, text=True, check=False).stdout.splitlines()
    checks.check(sorted(names) == sorted([*MISTAKES, *OUTPUTS, "physics"]), f"others are made than looked for: {names}")
    for name, words in MISTAKES.items():
        done, report = run(name, PAPER_STRICT="0")
        found = re.findall(r"PROBLEM x 1: (.*)", report)
        checks.check(done.returncode == 0 and len(found) == 1 and words in found[0], f"{name}: {done}, {report}")
        done, report = run(name)
        lines = done.stderr.splitlines()
        checks.check(done.returncode == 99 and len(lines) == 1 and words in lines[0] and words in report, f"{name}, strict: {done}, {report}")
    for name, words in OUTPUTS.items():
        done, report = run(name)
        checks.check(done.returncode == 0 and done.stdout.strip() == words and "PROBLEM" not in report, f"{name}: {done}, {report}")
    checks.check("(1 in bf16 not aligned for tensor cores)" in run("misaligned")[1], "a misaligned product is counted")
    checks.check("(0 in bf16 not aligned for tensor cores)" in run("nothing")[1], "no other product counts as misaligned")
    physics(checks, run)


# 2 x 8192^3 flop at 620 TFLOP/s are 1773.4 us, and a kernel takes 2.5 us more. On 116 of 132 multiprocessors they are 2018.0.
# Beside an exchange of 16 blocks, 16 of the 132 blocks of a product come after all others, so that it takes twice as long.
def physics(checks, run):
    done, _ = run("physics")
    times = {tuple(line.split()[1:3]): float(line.split()[3]) for line in done.stdout.splitlines()}
    expected = {("0", "alone"): 1775.9, ("0", "beside"): 2 * 1775.9, ("116", "alone"): 2020.5, ("116", "beside"): 2020.5}
    near = times.keys() == expected.keys() and all(abs(times[key] - expected[key]) < 1 for key in expected)
    checks.check(near, f"times of products: {times}")
    done, _ = run("physics", PAPER_TFLOPS="310", PAPER_BESIDE="0.8")
    times = [float(line.split()[3]) for line in done.stdout.splitlines()]
    checks.check(abs(times[0] - 3549.3) < 1 and abs(times[1] - 3549.3 / 0.8) < 1, f"other physics: {times}")


def part_libraries(checks, program):
    """The driver and the management library, as scripts ask them."""
    ask = "import machine; print(machine.count_gpus(), machine.architecture())"
    done = subprocess.run([sys.executable, "-B", "-c", ask], env=program.environment(PYTHONPATH=str(SOURCE / "bench/gpu_suite")),
                          capture_output=True, text=True, check=False)  # fmt: skip
    checks.check(done.stdout.split() == ["1", "90"], f"one GPU of architecture 90: {done}")
    management, device, clock = ctypes.CDLL(str(program.libraries / "libnvidia-ml.so.1")), ctypes.c_void_p(), ctypes.c_uint()
    name = ctypes.create_string_buffer(80)
    calls = [management.nvmlInit_v2(), management.nvmlDeviceGetHandleByPciBusId_v2(b"00000000:01:00.0", ctypes.byref(device)),
             management.nvmlDeviceGetClockInfo(device, 1, ctypes.byref(clock)), management.nvmlSystemGetDriverVersion(name, 80)]  # fmt: skip
    checks.check(calls == [0] * 4 and 1755 <= clock.value <= 1980 and name.value, f"clocks: {calls}, {clock}, {name.value}")
    checks.check(management.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) != 0, "there is no second GPU")
    power, heat = ctypes.c_uint(), ctypes.c_uint()
    calls = [management.nvmlDeviceGetPowerUsage(device, ctypes.byref(power)), management.nvmlDeviceGetTemperature(device, 0, ctypes.byref(heat))]
    checks.check(calls == [0, 0] and 4e5 < power.value < 7e5 and 50 < heat.value < 67, f"power and heat: {calls}, {power}, {heat}")


def part_runs(checks, program):
    for system in SYSTEMS:
        report = succeeds(checks, program, "run", "--device", "cuda", "--emulate-links", "--no-check", *CLUSTER, "--system", system,
                                "--set", "workload.dtype=bf16", *SMALL, "-o", f"{system}.json")  # fmt: skip
        if not report:
            continue
        checks.check(min(launches(report)) > 0, f"{system} computes, in a graph: {report}")
        run = json.loads((program.folder / f"{system}.json").read_text(encoding="utf-8"))
        checks.check("Paper H100" in json.dumps(run), f"{system} names its device")
    succeeds(checks, program, "run", "--device", "cuda", "--emulate-links", "--no-check", *CLUSTER, "--system", "tutel",
             "--set", "workload.dtype=bf16", *LARGE, "--gemm-multiprocessors", "116")  # fmt: skip
    for system in SYSTEMS:  # all ranks on the GPU
        succeeds(checks, program, "run", "--device", "cuda", "--no-check", *CLUSTER, "--system", system, *SMALL)


def part_gpu_tests(checks, program):
    """Those cases of test_gpu that compare no computed numbers."""
    names = ["A hold on a GPU*", "Two queues of a GPU*", "An exchange of one rank*", "An exchange beside products*", "One rank stands for all*"]
    done = subprocess.run([program.path.parent / "test_gpu", ",".join(names)], env=program.environment(), capture_output=True, text=True, check=False)
    report = program.reports()
    fine = done.returncode == 0 and "PROBLEM" not in report and f"{len(names)} test cases" in done.stdout
    checks.check(fine, f"test_gpu: exit code {done.returncode}, {done.stdout[-3000:]}{done.stderr[-500:]}{report}")


def part_calibrate(checks, program):
    report = succeeds(checks, program, "calibrate", "--device", "cuda", "--quick", "--base", "dgx-h100", "--points", "points.csv",
                            "-o", "calibration.json", most=280, PAPER_REAL="1")  # fmt: skip
    if not report:
        return
    checks.check(len((program.folder / "points.csv").read_text(encoding="utf-8").splitlines()) > 50, "points are written")
    measured = json.loads((program.folder / "calibration.json").read_text(encoding="utf-8"))
    checks.check("Paper H100" in measured["source"], f"the source of costs: {measured['source']}")
    checks.check(min(launches(report)) > 0, f"it measures products, in graphs: {report}")


def part_validate(checks, program):
    """The grid for GPUs, with sizes that need little host memory, fewer systems and degrees."""
    grid = {"name": "paper", "description": "small", "source": "small", "cluster": "dgx-h100", "model": "mixtral-8x7b",
            "device": "cuda", "ranks": 8, "systems": ["tutel", "mpipemoe"], "planners": ["exhaustive"], "degrees": [1, 2],
            "measured_plans": 1, "strategies": True,
            "calibrate": [{"tokens": 512, "hidden": 256, "head_size": 64, "expert_hidden": 512},
                          {"tokens": 1024, "hidden": 256, "head_size": 64, "expert_hidden": 1024}],
            "predict": [{"tokens": 768, "hidden": 256, "head_size": 64, "expert_hidden": 768}]}  # fmt: skip
    (program.folder / "grid.json").write_text(json.dumps(grid), encoding="utf-8")
    if not succeeds(checks, program, "validate", "grid.json", "--no-check", "--rounds", "1", "--measure-time", "0.05",
                    "-o", "validation.json", "--html", "validation.html", most=280):  # fmt: skip
        return
    result = json.loads((program.folder / "validation.json").read_text(encoding="utf-8"))
    measured = [plan for plan in plans_of(result) if plan.get("measured_s", 0) > 0]
    checks.check(len(measured) > 3, f"{len(measured)} plans were measured: {json.dumps(result)[:3000]}")
    checks.check(not result.get("partial", False), "all was measured")
    checks.check("<svg" in (program.folder / "validation.html").read_text(encoding="utf-8"), "the page has its plot")


def part_online(checks, program):
    """A planner that learns from steps of the GPU, whose strategies really run once at each size."""
    (program.folder / "trace.json").write_text(json.dumps({"name": "trace", "steps": [{"capacity_factor": f} for f in (1, 2, 1, 2)]}), encoding="utf-8")
    report = succeeds(checks, program, "plan", "--online", "--trace", "trace.json", "--evaluator", "cuda", *CLUSTER, "--system", "tutel",
                      *SMALL, "-o", "online.json")  # fmt: skip
    if not report:
        return
    run = json.loads((program.folder / "online.json").read_text(encoding="utf-8"))
    times = [step["times_s"] for step in run["steps"]]
    checks.check((run["backend"], run["result_kind"]) == ("cuda", "measured"), f"times are the GPU's: {run['backend']}, {run['result_kind']}")
    checks.check("links are held" in json.dumps(run["notes"]), f"the notes say what is real: {run['notes']}")
    checks.check(min(map(min, times)) > 0 and times[:2] == times[2:] and times[0] != times[1], f"each size is measured once: {times}")
    checks.check(min(launches(report)) > 0, f"it computes, in graphs: {report}")


def plans_of(node):
    """All objects with a measured time, wherever they stand."""
    if isinstance(node, dict):
        if "measured_s" in node:
            yield node
        node = list(node.values())
    for each in node if isinstance(node, list) else []:
        yield from plans_of(each)


def part_tune(checks, program):
    if not succeeds(checks, program, "tune", "--cluster", "dgx-h100", "--nodes", "2", "--model", "qwen3-30b-a3b", "--global-batch", "128",
                    "--set", "workload.layers=6", "--set", "framework=bare", "--set", "plan.all_to_all=linear", "--systems", "tutel", "--count", "2", "--draws", "0", "--confirm", "cuda",
                    "--measure-time", "0.05", "-o", "tuning.json", most=280):  # fmt: skip
        return
    confirmed = json.loads((program.folder / "tuning.json").read_text(encoding="utf-8"))["confirmation"]
    times = [plan["confirmed_s"] for plan in confirmed["plans"]]
    checks.check(len(times) == 2 and min(times) > 0, f"confirmed: {json.dumps(confirmed)[:2000]}")


if __name__ == "__main__":
    dovetail, part, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as own:
        all_checks = Checks()
        globals()["part_" + part](all_checks, OnPaper(dovetail, own, pathlib.Path(folder).resolve()))
        all_checks.finish()
