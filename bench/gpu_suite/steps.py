"""The steps of the suite in their order: what each runs, how long that may take, and what it needs."""
import dataclasses
import shutil
import typing

import machine

# A layer that fills a large GPU, one rank of eight; sequences of 1,024 tokens, since attention is not what it is about.
LAYER = ["--set", "workload.batch=32", "--hidden", "2048", "--expert-hidden", "8192", "--head-size", "128",
         "--tokens", "8192", "--experts", "8", "--layers", "1"]  # fmt: skip
SYSTEMS = ["tutel", "deepspeed_moe", "pipemoe", "fsmoe", "mpipemoe", "fastermoe"]
# Links and GPUs that the emulated exchanges are modelled on.
CLUSTER = ["--cluster", "dgx-h100", "--model", "mixtral-8x7b"]
TARGETS = ["dovetail", "dovetail-exec", "test_gpu"]
WITHOUT = ["MPI", "SIMGRID", "OPENBLAS", "NLOPT", "OPENSSL"]


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    minutes: float  # expected, on 16 cores and one GPU
    limit: int  # seconds, of each part
    parts: typing.Callable  # setup -> [(name, command)]; a step's only part is named ""
    needs: tuple = ()
    always: bool = False  # quick where nothing changed, so done in every call
    goes_on: int = 1  # calls that may work on a part which keeps what it has done
    result: str = ""  # a JSON file of the work folder; where it says "partial": true, the step goes on in the next call
    kept: int = 0  # an exit code with which the results count all the same
    unsupported: str = ""  # a pattern in the log of a part that failed because the machine cannot do it
    what: str = ""

    def worth_beginning(self, parts):
        """Seconds that must be left for a part. What a cut off part had done is lost, unless it goes on."""
        expected = 60 * self.minutes / parts
        return min(self.limit, max(20, expected if self.goes_on > 1 else 2 * expected))


@dataclasses.dataclass(frozen=True)
class Setup:
    """What the command line says, as paths."""
    source: object
    build: object
    work: object
    headers: str
    nccl: str
    jobs: int
    with_nccl: bool

    def dovetail(self, *arguments):
        return [str(self.build / "bin/dovetail"), *arguments]


def missing(need, setup):
    """Why a need is not met here; empty where it is."""
    if need == "GPU":
        return "" if machine.count_gpus() > 0 else "no GPU: the driver counts none"
    if need == "GPUs":
        return "" if machine.count_gpus() > 1 else "fewer than two GPUs"
    if need == "PyTorch":
        return "" if machine.has_module("torch") else "python3 has no PyTorch"
    if need == "program":
        return "" if (setup.build / "bin/dovetail").exists() else "nothing is compiled yet"
    if need == "schedule":
        return "" if (setup.work / "schedule.json").exists() else "no schedule.json, which the step times writes"
    return "" if machine.program(need) else f"{need} is neither on PATH nor in the toolkit"


def configure(s):
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DDOVETAIL_WITH_CUDA=ON", *(f"-DDOVETAIL_WITH_{each}=OFF" for each in WITHOUT)]
    options += [f"-DCMAKE_CUDA_ARCHITECTURES={machine.architecture()}"]
    options += [f"-DDOVETAIL_HEADERS_PATH={s.headers}"] if s.headers else []
    roots = {"NCCL": s.nccl if s.with_nccl else None}
    if not machine.has(machine.toolkit(), "cublas_v2.h", "libcublas.so"):
        roots["CUBLAS"] = machine.in_pip("cublas_v2.h", "libcublas.so")
    options += [f"-DDOVETAIL_{library}_ROOT={root}" for library, root in roots.items() if root]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    return [("", ["cmake", "-S", str(s.source), "-B", str(s.build), *generator, *options])]


def compile_all(s):
    return [("", ["cmake", "--build", str(s.build), "-j", str(s.jobs), "--target", *TARGETS])]


# The tests of test_gpu by the beginnings of their names. A fault that ends a process ends a part; those that nothing but
# a GPU can show come first.
GPU_TESTS = [("holds", "A hold on a GPU*,Two queues*"), ("clock", "The clock of a GPU*"), ("beside", "A product of a GPU*"),
             ("exchanges", "An exchange *"), ("one_rank", "One rank stands for all*"),
             ("nccl", "Every collective of NCCL*"), ("captured", "A captured step*"), ("kernels", "Every kernel leaves*"),
             ("gates", "Gates of a GPU*"), ("systems", "Shipped systems*"), ("plans", "Random plans*")]  # fmt: skip


def gpu_tests(s):
    return [(name, [str(s.build / "bin/test_gpu"), "--durations", "yes", tests]) for name, tests in GPU_TESTS
            if s.with_nccl or name != "nccl"]  # fmt: skip


def sanitizer(s):
    tool = machine.program("compute-sanitizer") or "compute-sanitizer"
    return [(check, [tool, "--error-exitcode", "9", "--tool", check, str(s.build / "bin/test_gpu"), "Every kernel leaves*,Gates of a GPU*"])
            for check in ("memcheck", "synccheck")]  # fmt: skip


def numerics(s):
    """All ranks on the GPU, small shapes, compared with the reference; exit code 1 where they differ."""
    return [(f"{dtype}-{system}", s.dovetail("run", "--device", "cuda", *CLUSTER, "--system", system, "--set", f"workload.dtype={dtype}",
                                             "--measure-time", "2", "-q", "-o", str(s.work / f"numerics-{dtype}-{system}.json")))
            for dtype in ("fp32", "bf16") for system in SYSTEMS]  # fmt: skip


def given(s, **files):
    """Options for those files of earlier steps that are there."""
    return [text for option, file in files.items() if (s.work / file).exists() for text in (f"--{option}", str(s.work / file))]


def calibrate(s):
    """One GPU cannot measure collectives: those stay as the base has them."""
    return [("", s.dovetail("calibrate", "--device", "cuda", "--base", CLUSTER[1], "--points", str(s.work / "points.csv"),
                            *given(s, baselines="baselines.json"), "-o", str(s.work / "calibration.json")))]  # fmt: skip


def times(s):
    """One GPU as one rank of eight; exchanges last as long as the model says. Beside exchanges products are also made for
    the multiprocessors that those leave of the 132 of an H100 or H200: else one has to wait for the other."""
    keep = lambda system: ["--save-schedule", str(s.work / "schedule.json")] if system == "tutel" else []  # noqa: E731
    left = ["--gemm-multiprocessors", "116"]
    runs = [(system, system, keep(system)) for system in SYSTEMS]
    runs += [(f"{system}-116", system, left) for system in SYSTEMS if system != "deepspeed_moe"]
    return [(name, s.dovetail("run", "--device", "cuda", "--emulate-links", "--no-check", *CLUSTER, "--system", system,
                              "--set", "workload.dtype=bf16", *LAYER, "--ranks", "8", "--measure-time", "5", "-q",
                              "-o", str(s.work / f"time-{name}.json"), *options))
            for name, system, options in runs]  # fmt: skip


def several_gpus(s):
    """A GPU for each rank, with NCCL between them; compared with the reference, then measured."""
    gpus = machine.count_gpus()
    common = ["run", "--device", "cuda", "--transport", "nccl", "--ranks", str(gpus - gpus % 2), *CLUSTER, "-q"]
    parts = []
    for system in SYSTEMS:
        parts += [(f"numerics-{system}", s.dovetail(*common, "--system", system, "--set", "workload.dtype=fp32", "--measure-time", "2",
                                                    "-o", str(s.work / f"nccl-numerics-{system}.json"))),
                  (f"time-{system}", s.dovetail(*common, "--system", system, "--no-check", "--set", "workload.dtype=bf16", *LAYER,
                                                "--measure-time", "5", "-o", str(s.work / f"nccl-time-{system}.json")))]  # fmt: skip
    return parts


def in_torch(s, script, output):
    return [("", ["python3", "-B", str(s.source / "bench/peers" / script), "--schedule", str(s.work / "schedule.json"),
                  "-o", str(s.work / output)])]  # fmt: skip


def validate(s):
    """Predicted against measured, and the regret of planners by measured times. The step numerics checks the results."""
    both = (s.work / "torch.json").exists() and (s.work / "time-deepspeed_moe.json").exists()
    beside = given(s, step="torch.json", run="time-deepspeed_moe.json") if both else []
    return [("", s.dovetail("validate", "gpu", "--no-check", "--rounds", "2", "--measure-time", "0.5", "--time-limit", "490",
                            *given(s, points="points.csv", baselines="baselines.json", labels="provenance.json"), *beside,
                            "-o", str(s.work / "validation.json"), "--html", str(s.work / "validation.html")))]  # fmt: skip


def profile(s):
    """What runs when, as nsys sees it, of one system."""
    nsys, report = machine.program("nsys") or "nsys", str(s.work / "tutel")
    return [("run", [nsys, "profile", "--trace", "cuda,cublas,nvtx", "--cuda-graph-trace", "node", "--force-overwrite", "true", "-o", report,
                     str(s.build / "bin/dovetail-exec"), str(s.work / "schedule.json"), "--device", "cuda", "--emulate-links", "--no-check",
                     "--limit", "2", "-o", str(s.work / "profiled.json")]),
            ("tables", [nsys, "stats", "--report", "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum", "--format", "csv", "-o", report,
                        report + ".nsys-rep"])]  # fmt: skip


ON_GPU = ("program", "GPU")
FROM_EARLIER_STEPS = ("program", "schedule")
STEPS = [
    Step("configure", 0.3, 120, configure, ("cmake", "nvcc"), always=True, what="CMake, with what this machine has"),
    Step("compile", 3, 530, compile_all, always=True, goes_on=9, what="the program and the tests of the GPU"),
    Step("gpu_tests", 2, 150, gpu_tests, ON_GPU, what="kernels, random plans and captured steps against the host"),
    Step("times", 4, 180, times, ON_GPU, kept=6, what="one rank of eight, a large layer, exchanges held"),
    Step("numerics", 2, 120, numerics, ON_GPU, what="all ranks on one GPU, small shapes, against the reference"),
    Step("several_gpus", 3, 180, several_gpus, ("program", "GPUs"), what="a GPU for each rank, NCCL between them"),
    Step("baselines", 1, 200, lambda s: in_torch(s, "torch_baselines.py", "baselines.json"), ("GPU", "PyTorch", "schedule"),
         what="PyTorch: products, attention and copies of the same shapes"),
    Step("peer", 1, 200, lambda s: in_torch(s, "torch_moe.py", "torch.json"), ("GPU", "PyTorch", "schedule"),
         what="PyTorch: the same layer of one rank"),
    Step("calibrate", 2, 300, calibrate, ON_GPU, what="costs of this GPU's kernels and copies"),
    Step("validate", 8, 520, validate, ON_GPU, goes_on=3, result="validation.json",
         what="predicted against measured; regret of the planners"),
    Step("sanitizer", 2, 150, sanitizer, (*ON_GPU, "compute-sanitizer"),
         unsupported=r"[Dd]evice not supported|LibraryNotLoaded|Failed to initialize", what="memory and barriers of the kernels"),
    Step("profile", 1, 200, profile, (*ON_GPU, "nsys", "schedule"), what="what runs when, of one system"),
]  # fmt: skip
