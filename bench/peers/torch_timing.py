"""Times of PyTorch functions on one GPU: captured as a graph where that is possible, median and interval of samples."""
import importlib.util
import json
import math
import platform
import random
import statistics
import sys

SKIPPED = 77  # exit code


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


def seconds(step, samples):
    """Of each of so many calls, by events on the GPU."""
    import torch

    for _ in range(5):
        step()
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(1_000_000)  # cycles, in which the host launches what is timed
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return times


def interval(times, seed=1):
    """95 % percentile bootstrap of the median."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(times, k=len(times))) for _ in range(2000))
    return medians[50], medians[1949]


def described(times):
    return {"median_s": statistics.median(times), "ci95_s": list(interval(times)), "samples": len(times)}


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
