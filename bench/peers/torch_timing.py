# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch functions on one GPU: captured as a graph where that is possible, median and interval of samples. The GPU is
warm before the first sample and busy without a pause in each, as in training, with its clock and power beside the times."""
import importlib.util
import json
import math
import platform
import random
import statistics
import sys
import time

import gpu_clock

SKIPPED = 77  # exit code
WARM_UP = 0.3  # seconds under load before the first sample
SAMPLE = 0.05  # seconds of calls back to back that one sample has at least


def require_gpu():
    """Ends the program with a line that says why, where PyTorch or a GPU is missing."""
    reason = "python3 has no PyTorch"
    if importlib.util.find_spec("torch"):
        import torch

        reason = "" if torch.cuda.is_available() else "PyTorch finds no GPU"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)


def sizes_of_rank(schedule):
    """As models/question/volumes.cpp has them; of layers with as many query heads for each key head on every rank."""
    model, workload, parallel = schedule["model"], schedule["workload"], schedule["parallelism"]
    mp, ep, esp = parallel["mp"], parallel["ep"], parallel["esp"]
    attention, experts = model["attention"], model["experts"]
    kv_heads = math.ceil(attention["kv_heads"] / mp)
    tokens = workload["batch"] * workload["sequence"] // mp
    factor = workload["capacity_factor"]
    rows = math.ceil(workload["top_k"] * factor * tokens / experts * (1 - 1e-12))
    return {
        "batch": workload["batch"], "sequence": workload["sequence"], "hidden": model["hidden"],
        "heads": kv_heads * (attention["heads"] // attention["kv_heads"]), "kv_heads": kv_heads,
        "head_size": attention["head_size"], "tokens": tokens, "experts": experts, "top_k": workload["top_k"],
        "capacity": rows if factor > 0 else workload["capacity_rows"],
        "local_experts": experts // ep, "row_copies": ep * esp, "expert_hidden": model["expert_hidden"] // esp,
        "kind": model["expert_kind"],
    }  # fmt: skip


def capture(step):
    """(a function, whether it is a CUDA graph): the step, launched at once where it can be captured."""
    import torch

    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay, True
    except RuntimeError as error:
        print(f"not captured: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return step, False


def calls_of_sample(one):
    """How many calls of so many seconds fill a sample."""
    return max(1, math.ceil(SAMPLE / one))


def warmed_up(step):
    """Seconds of a call, after WARM_UP of them back to back."""
    import torch

    step()
    torch.cuda.synchronize()
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < WARM_UP:
        for _ in range(1 + calls // 4):  # waits are few beside calls
            step()
        calls += 1 + calls // 4
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def seconds(step, samples):
    """(seconds of a call, of each sample, by events on the GPU; clock and power): each sample is SAMPLE of calls back to back."""
    import torch

    calls = calls_of_sample(warmed_up(step))
    times = []
    with gpu_clock.Sampler() as clock:
        for _ in range(samples):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(calls):
                step()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1000 / calls)
    return times, {**clock.medians(), "calls_per_sample": calls}


def interval(times, seed=1):
    """95 % percentile bootstrap of the median."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(times, k=len(times))) for _ in range(2000))
    return medians[50], medians[1949]


def described(times, clock):
    return {"median_s": statistics.median(times), "ci95_s": list(interval(times)), "samples": len(times), **clock}


def versions():
    import torch

    return {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}


def write(result, output):
    text = json.dumps(result, indent=1) + "\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
