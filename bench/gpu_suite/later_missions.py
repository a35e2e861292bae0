# SPDX-License-Identifier: Apache-2.0
"""Missions 6 to 8: what papers measured and one GPU can; eight ranks on one GPU; tools that look into kernels."""
import machine
from missions import CLUSTER, FIRST, Mission, Part, degree, step

MPIPEMOE = ("keep", "s1", "s2", "s3", "s4")

# Encoding and layout (Tutel), strategies (MPipeMoE) and all-to-alls in steps (Tutel's 2DH) as knobs, all else equal.
PAPERS = Mission(6, "papers", "figures of papers that one GPU can measure, as knobs of one step", (
    *(step(f"encoding-{encoding}-{tokens}", "tutel", tokens, *degree(1), "--set", f"plan.encoding={encoding}")
      for tokens in (1024, 4096) for encoding in ("sparse", "dense")),
    *(step(f"layout-{layout}", "tutel", 8192, *degree(1), "--set", f"plan.layout={layout}") for layout in ("expert_major", "rank_major")),
    *(step(f"restore-{restore}", "mpipemoe", 8192, *degree(4), "--set", f"plan.restore={restore}") for restore in MPIPEMOE),
    *(step(f"all-to-all-{kind}", "tutel", 8192, *degree(1), "--set", f"plan.all_to_all={kind}")
      for kind in ("linear", "naive_local", "two_dimensional")),
    *(step(f"tutel-degree-{count}", "tutel", 8192, *degree(count)) for count in (1, 2, 4, 8)),
))  # fmt: skip


def eight_ranks(name, system, *options):
    """All ranks with gates of their own and real copies between them. They share the whole GPU: no rank has multiprocessors
    of its own, so that the step is that of eight ranks one beside the other, not of eight GPUs."""
    def command(s, _):
        return s.dovetail("run", "--device", "cuda", *CLUSTER, "--system", system, "--ranks", 8, "--experts", 8, "--layers", 1,
                          "--tokens", 2048, "--hidden", 1024, "--expert-hidden", 4096, "--head-size", 128, "--set", "workload.dtype=bf16",
                          "--no-check", "--measure-time", 5, "-q", "-o", s.work / f"ranks-{name}.json", *options)  # fmt: skip

    return Part(name, 15, 60, command, kept=6)


# Messages are padded to the capacity: those of routed sizes do not run on devices.
RANKS = Mission(7, "eight ranks", "eight ranks on one GPU, without partitions of it: real copies, and gates that choose by themselves", (
    eight_ranks("deepspeed_moe", "deepspeed_moe"),
    eight_ranks("tutel", "tutel"),
    eight_ranks("fsmoe", "fsmoe"),
    eight_ranks("mpipemoe", "mpipemoe"),
    eight_ranks("tutel-degree-4", "tutel", *degree(4)),
    eight_ranks("tutel-2dh", "tutel_2dh"),
))  # fmt: skip

OWN_KERNELS = "run_"  # run_elements and run_rows (exec/device/cuda/launch.cuh); products are the library's
NOT_SUPPORTED = r"[Dd]evice not supported|LibraryNotLoaded|Failed to initialize|ERR_NVGPUCTRPERM"


def sanitizer(check):
    def command(s, _):
        return [machine.program("compute-sanitizer") or "compute-sanitizer", "--error-exitcode", "9", "--tool", check,
                "--kernel-regex", f"kns={OWN_KERNELS}", str(s.programs / "bin/test_gpu"), "Gates of a GPU*"]  # fmt: skip

    return Part(check, 30, 100, command, needs=("GPU", "compute-sanitizer"), unsupported=NOT_SUPPORTED)


def counters(s, _):
    """Shares of memory bandwidth of the first kernels of a step; the clock is left as it is."""
    return [machine.program("ncu") or "ncu", "--clock-control", "none", "--csv", "--log-file", str(s.work / "ncu.csv"),
            "--kernel-name", f"regex:{OWN_KERNELS}", "--launch-count", "60",
            "--metrics", "gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,dram__bytes.sum",
            str(s.programs / "bin/dovetail-exec"), str(s.work / "small-schedule.json"), "--device", "cuda", "--emulate-links", "--no-check",
            "--limit", "0.1", "-o", str(s.work / "profiled.json")]  # fmt: skip


TOOLS = Mission(8, "tools", "accesses and barriers of the kernels; counters of memory", (
    sanitizer("memcheck"),
    sanitizer("synccheck"),
    step("small", "tutel", 2048, *degree(1), "--save-schedule", "{work}/small-schedule.json", measure=0.5),
    Part("counters", 60, 120, counters, needs=("GPU", "ncu", "small-schedule.json"), unsupported=NOT_SUPPORTED),
))  # fmt: skip

MISSIONS = (*FIRST, PAPERS, RANKS, TOOLS)
