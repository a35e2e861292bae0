# SPDX-License-Identifier: Apache-2.0
"""Missions 6 to 8: what papers measured and one GPU can; eight ranks on one GPU; tools that look into kernels."""
import machine
from missions import CLUSTER, FIRST, Mission, Part, degree, held, step

STRATEGIES = ("s1", "s2", "s3", "s4")
GATES = ("gshard", "sigmoid", "x_moe", "cosine", "expert_choice", "soft_moe")
LAYOUTS = ("expert_major", "rank_major")
BRIEF = {"seconds": 3, "measure": 0.4}  # many parts in four minutes


def layer(name, model, system, ranks, nodes, tokens, *options, sample=1024, hidden=2048, expert_hidden=2048, experts=64, top_k=1):
    """A layer of a paper's table in its widths, with the paper's groups and top-k, on links of DGX H100."""
    question = [*CLUSTER[:2], "--model", model, "--system", system, "--ranks", ranks, "--rank-nodes", nodes, "--tokens", tokens,
                "--set", f"workload.batch={tokens // sample}", "--hidden", hidden, "--expert-hidden", expert_hidden, "--experts", experts,
                "--head-size", 64, "--layers", 1, "--set", f"workload.top_k={top_k}", "--set", "workload.capacity_factor=1",
                "--set", "workload.extent=layers", "--set", "workload.dtype=bf16", "--set", "parallelism.mp=1", "--set", "parallelism.esp=1"]  # fmt: skip
    return held(name, question, *options, **BRIEF)


def of_mpipemoe(name, system, ranks, tokens, *options):
    """MPipeMoE's GPT3-XL, on whole nodes."""
    return layer(name, "moe-gpt3-xl", system, ranks, ranks // 8, tokens, *options, expert_hidden=8192)


def of_tutel(name, ranks, tokens, experts, top_k, *options, sample=1024):
    """Tutel's single layer (its figures 7 and 23)."""
    return layer(name, "moe-bert-l", "fairseq", ranks, ranks // 8, tokens, *degree(1), *options, experts=experts, top_k=top_k, sample=sample)


def of_fsmoe(gate):
    """A layer of GPT2-XL with 256 tokens on each of eight ranks. Soft slots know no sparse encoding."""
    dense = ["--set", "plan.encoding=dense"] if gate == "soft_moe" else []
    return layer(f"gate-{gate}", "gpt2-xl-moe", "deepspeed_moe", 8, 2, 256, *degree(1), "--set", f"workload.gate.kind={gate}", *dense,
                 sample=256, hidden=1600, expert_hidden=6400, experts=8, top_k=2)  # fmt: skip


# First the parts that rows of data/published name ("settled_by"), then knobs of Mixtral's layer, all else equal.
PAPERS = Mission(6, "papers", "figures of papers that one GPU can measure, and knobs of one step", (
    *(of_mpipemoe(f"restore-{ranks}-{restore}-{tokens}", "mpipemoe", ranks, tokens, *degree(4), "--set", f"plan.restore={restore}")
      for ranks, tokens in ((8, 16384), (64, 16384), (8, 8192), (8, 4096)) for restore in STRATEGIES),
    *(of_mpipemoe(f"chunks-{count}-{tokens}", "pipemoe_micro", 64, tokens, *degree(count))
      for tokens in (4096, 8192, 12288, 16384, 22528, 32768) for count in (1, 2, 4, 8)),
    *(of_tutel(f"encoding-{encoding}-{tokens}", 16, tokens, 32, 2, "--set", f"plan.encoding={encoding}")
      for tokens in (16384, 4096, 1024) for encoding in ("sparse", "dense")),
    *(of_tutel(f"layout-{layout}-1024", 1024, 8192, 1024, 1, "--set", f"plan.layout={layout}", sample=64) for layout in LAYOUTS),
    *map(of_fsmoe, GATES),
    *(step(f"layout-{layout}", "tutel", 8192, *degree(1), "--set", f"plan.layout={layout}", **BRIEF) for layout in LAYOUTS),
    step("restore-keep", "mpipemoe", 8192, *degree(4), "--set", "plan.restore=keep", "--set", "plan.buffers=per_chunk", **BRIEF),
    *(step(f"restore-{restore}", "mpipemoe", 8192, *degree(4), "--set", f"plan.restore={restore}", **BRIEF) for restore in STRATEGIES),
    *(step(f"all-to-all-{kind}", "tutel", 8192, *degree(1), "--set", f"plan.all_to_all={kind}", **BRIEF)
      for kind in ("linear", "naive_local", "two_dimensional")),
    *(step(f"tutel-degree-{count}", "tutel", 8192, *degree(count), **BRIEF) for count in (1, 2, 4, 8)),
), limit=240)  # fmt: skip


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
