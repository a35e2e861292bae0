# SPDX-License-Identifier: Apache-2.0
"""The missions of the suite: what each runs on a GPU, part by part, how long that may take, and what it needs. All fit one
call of minutes; missions 6 to 8 stand in later_missions.py."""
import dataclasses
import typing

import machine

SHORTEST = 20  # seconds that must be left to begin a part
MISSION_LIMIT = 360  # seconds
CLUSTER = ["--cluster", "dgx-h100", "--model", "mixtral-8x7b"]  # links and GPUs that held exchanges are modelled on
# One rank of eight with whole experts and attention of its own, and nothing but layers: what the PyTorch layer computes.
BARE = ["--set", "workload.extent=layers", "--set", "parallelism.mp=1", "--set", "parallelism.esp=1", "--set", "workload.dtype=bf16",
        "--ranks", "8", "--experts", "8", "--layers", "1"]  # fmt: skip
NOT_VALID = 6  # exit code of a run with too many overruns, whose times are kept and marked


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    seconds: float  # expected
    limit: int  # seconds
    command: typing.Callable  # (setup, seconds that it has) -> words
    needs: tuple = ("GPU",)
    at_least: int = SHORTEST  # seconds that must be left
    beside: bool = False  # may run beside its neighbours that say so too; whatever measures time may not
    served: bool = False  # the resident executor runs what it measures
    goes_on: int = 1  # calls that may work on it, where it keeps what it has done
    result: str = ""  # a JSON file of the work folder; where it says "partial": true, the part goes on in the next call
    kept: int = 0  # an exit code with which the results count all the same
    unsupported: str = ""  # a pattern in the log of a part that failed because the machine cannot do it


@dataclasses.dataclass(frozen=True)
class Mission:
    number: int
    name: str
    what: str
    parts: tuple
    limit: int = MISSION_LIMIT  # seconds

    def minutes(self):
        """Expected: what runs side by side shares four processes."""
        return sum(part.seconds / (4 if part.beside else 1) for part in self.parts) / 60


@dataclasses.dataclass(frozen=True)
class Setup:
    """What the command line says, as paths."""
    source: object  # holds bench/ and data/
    programs: object  # holds bin/
    work: object

    def dovetail(self, *arguments):
        return [str(self.programs / "bin/dovetail"), *map(str, arguments)]

    def python(self, script, *arguments):
        return ["python3", "-B", str(self.source / "bench" / script), *map(str, arguments)]

    def given(self, **files):
        """Options for those results of earlier parts that are there."""
        return [word for option, file in files.items() if (self.work / file).exists() for word in (f"--{option}", str(self.work / file))]


def is_result(need):
    """Of an earlier part."""
    return need.endswith((".json", ".csv"))


def missing(need, setup):
    """Why a need is not met here; empty where it is."""
    if need == "GPU":
        return "" if machine.count_gpus() > 0 else "no GPU: the driver counts none"
    if need == "PyTorch":
        return "" if machine.has_module("torch") else "python3 has no PyTorch"
    if is_result(need):
        return "" if (setup.work / need).exists() else f"no {need}, which an earlier part writes"
    return "" if machine.program(need) else f"{need} is neither on PATH nor in the toolkit"


# The tests of test_gpu by the beginnings of their names. A fault that ends a process ends a part. Those that look at clocks
# run alone.
ALONE = [("holds", "A hold on a GPU*,Two queues*"), ("exchanges", "An exchange *"), ("one_rank", "One rank stands for all*"),
         ("clock", "The clock of a GPU*"), ("beside", "A product of a GPU*")]  # fmt: skip
SIDE_BY_SIDE = [("kernels", "Every kernel leaves*"), ("gates", "Gates of a GPU*"), ("systems", "Shipped systems*"),
                ("captured", "A captured step*"), ("plans", "Random plans*"), ("nccl", "Every collective of NCCL*")]  # fmt: skip


def gpu_tests(tests, beside):
    def command(names):
        return lambda s, _: [str(s.programs / "bin/test_gpu"), "--durations", "yes", names]

    return [Part(name, 15, 120, command(names), beside=beside) for name, names in tests]


def sizes(tokens, hidden=4096, expert_hidden=14336):
    """Mixtral's widths, in samples of 1,024 tokens."""
    return ["--tokens", tokens, "--hidden", hidden, "--expert-hidden", expert_hidden, "--head-size", 128, "--set", f"workload.batch={tokens // 1024}"]


def degree(count):
    return ["--set", f"plan.forward_degree={count}", "--set", f"plan.backward_degree={count}"]


def held(name, question, *options, seconds, measure):
    """One GPU as one rank, with exchanges held to their modelled times."""
    def command(s, _):
        return s.dovetail("run", "--device", "cuda", "--emulate-links", "--no-check", *question, "--measure-time", measure, "-q",
                          "-o", s.work / f"time-{name}.json",
                          *(option.format(work=s.work) if isinstance(option, str) else option for option in options))  # fmt: skip

    return Part(name, seconds, 60, command, served=True, kept=NOT_VALID)


def step(name, system, tokens, *options, seconds=7, measure=2):
    """One rank of eight."""
    return held(name, [*CLUSTER, "--system", system, *BARE, *sizes(tokens)], *options, seconds=seconds, measure=measure)


def calibrate(*options):
    """One GPU cannot measure collectives: those stay as the base has them."""
    return lambda s, _: s.dovetail("calibrate", "--device", "cuda", "--base", CLUSTER[1],
                                   *(s.work / option[1:] if option.startswith("@") else option for option in options),
                                   *(s.given(baselines="asked.json") if "@points.csv" in options else []))  # fmt: skip


def validate(grid, output):
    """Predicted against measured, and the regret of planners by measured times."""
    def command(s, seconds):
        both = (s.work / "torch-8192.json").exists() and (s.work / "time-bare-8192.json").exists()
        beside = s.given(step="torch-8192.json", run="time-bare-8192.json") if both else []
        beside += s.given(points="points.csv", baselines="baselines.json")
        return s.dovetail("validate", grid, *s.given(calibration="calibration.json"), "--no-check", "--rounds", 2, "--measure-time", 0.5,
                          "--time-limit", max(5, int(seconds) - 15), *s.given(labels="provenance.json"), *(beside if grid == "gpu" else []),
                          "-o", s.work / f"{output}.json", "--html", s.work / f"{output}.html")  # fmt: skip

    return command


FIRST_LIGHT = Mission(1, "first light", "programs start, tests, probes, one step with and without room for exchanges", (
    Part("start", 5, 60, lambda s, _: s.dovetail("doctor")),
    *gpu_tests(ALONE, False),
    *gpu_tests(SIDE_BY_SIDE, True),
    Part("probes", 25, 90, calibrate("--grid", "first_light", "--points", "@probes.csv", "-o", "@first-light.json"), served=True),
    step("degree-1", "tutel", 8192, *degree(1)),
    step("degree-4", "tutel", 8192, *degree(4)),
    step("degree-1-of-132", "tutel", 8192, *degree(1), "--gemm-multiprocessors", "132"),
    step("degree-4-of-132", "tutel", 8192, *degree(4), "--gemm-multiprocessors", "132"),
), limit=240)  # fmt: skip

SHAPES = "gpu_suite/drawn_shapes.py"
COSTS = Mission(2, "costs", "products, memory, copies, what kernels keep beside one another; 60 shapes of the shipped tables", (
    Part("shapes", 1, 30, lambda s, _: s.python(SHAPES, "draw", "--calibration", s.source / "data/calibrations/dgx-h100.json",
                                                "-o", s.work / "shapes.json"), needs=()),
    step("schedule", "tutel", 8192, *degree(1), "--save-schedule", "{work}/schedule.json", seconds=5, measure=0.5),
    Part("baselines", 80, 150, lambda s, _: s.python("peers/torch_baselines.py", "--schedule", s.work / "schedule.json",
                                                     "--shapes", s.work / "shapes.json", "-o", s.work / "baselines.json"),
         needs=("GPU", "PyTorch", "schedule.json", "shapes.json")),
    Part("asked", 1, 30, lambda s, _: s.python(SHAPES, "merge", "--shapes", s.work / "shapes.json",
                                               *s.given(baselines="baselines.json"), "-o", s.work / "asked.json"), needs=("shapes.json",)),
    Part("calibrate", 180, 300, calibrate("--points", "@points.csv", "-o", "@calibration.json"), served=True, at_least=90),
    Part("compare", 1, 30, lambda s, _: s.python(SHAPES, "compare", "--shapes", s.work / "shapes.json", "--points", s.work / "points.csv",
                                                 *s.given(baselines="baselines.json"), "-o", s.work / "drawn.csv"),
         needs=("shapes.json", "points.csv"), at_least=1),
))  # fmt: skip

PREDICTED = Mission(3, "predicted", "predicted against measured; regret of the planners", (
    Part("validate", 300, 345, validate("gpu", "validation"), served=True, goes_on=4, result="validation.json", at_least=40),
))  # fmt: skip

MEMORY = Mission(4, "memory", "strategies that free memory, over the real link to the host", (
    Part("validate", 240, 345, validate("gpu-memory", "memory"), served=True, goes_on=4, result="memory.json", at_least=40),
))  # fmt: skip


def beside_torch(tokens):
    name = f"bare-{tokens}"
    return [step(name, "deepspeed_moe", tokens, *degree(1), "--save-schedule", f"{{work}}/{name}-schedule.json"),
            Part(f"torch-{tokens}", 10, 60,
                 lambda s, _: s.python("peers/torch_moe.py", "--schedule", s.work / f"{name}-schedule.json",
                                       "-o", s.work / f"torch-{tokens}.json"),
                 needs=("GPU", "PyTorch", f"{name}-schedule.json"))]  # fmt: skip


TORCH = Mission(5, "PyTorch", "the same bare layer at three sizes; facts that simulations of training need", (
    *beside_torch(2048), *beside_torch(4096), *beside_torch(8192),
    Part("facts", 160, 220, lambda s, seconds: s.python("peers/torch_facts.py", "--time", max(10, int(seconds) - 15), "--revision",
                                                        machine.revision(s.source), "-o", s.work / "facts"),
         needs=("GPU", "PyTorch"), goes_on=2, at_least=60),
))  # fmt: skip
FIRST = (FIRST_LIGHT, COSTS, PREDICTED, MEMORY, TORCH)
