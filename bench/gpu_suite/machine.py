# SPDX-License-Identifier: Apache-2.0
"""What is on this machine: GPUs, the CUDA toolkit, libraries in pip's folders, and how it is named in results."""
import ctypes
import datetime
import glob
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess

LIBRARY_FOLDERS = ("lib", "lib64", "targets/*/lib", "lib/*-linux-gnu")


def first_line(*command, pattern=".*"):
    """The first match in what a program says; empty where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(pattern, done.stdout.strip())
    return found.group(0) if found and done.returncode == 0 else ""


def driver():
    """NVIDIA's, ready to be asked; None where it is missing or refuses. No nvidia-smi is needed."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == 0 else None


def count_gpus():
    library, count = driver(), ctypes.c_int(0)
    return count.value if library and library.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def gpu_name():
    """Of the first GPU; empty where there is none."""
    library, name = driver(), ctypes.create_string_buffer(256)
    if count_gpus() == 0:
        return ""
    ask = getattr(library, "cuDeviceGetName", None)  # a driver for tests may not have it
    return name.value.decode() if ask and ask(name, 256, 0) == 0 else f"unnamed GPU of architecture {architecture()}"


def driver_version():
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    version = ctypes.create_string_buffer(96)
    known = library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(version, 96) == 0
    return version.value.decode() if known else ""


def device():
    """GPU and driver, which results belong to."""
    return f"{gpu_name()}, driver {driver_version() or 'unknown'}" if gpu_name() else "no GPU"


def architecture():
    """Of the first GPU, as CMake writes it; that of Hopper where there is none."""
    library, digits = driver(), []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int(0)
        if not library or library.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) != 0:
            return "90"
        digits.append(str(value.value))
    return "".join(digits)


def program(name):
    """Its path, on PATH or in the toolkit; None where it is missing."""
    return shutil.which(name) or shutil.which(name, path=str(toolkit() / "bin"))


def toolkit():
    nvcc = shutil.which("nvcc")
    home = pathlib.Path(nvcc).resolve().parents[1] if nvcc else os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return pathlib.Path(home)


def has(root, header, library):
    found = [glob.glob(f"{root}/{folder}/{library}*") for folder in LIBRARY_FOLDERS]
    return any(glob.glob(f"{root}/{folder}/{header}") for folder in ("include", "targets/*/include")) and any(found)


def has_module(name):
    return importlib.util.find_spec(name) is not None


def in_pip(header, library):
    """The folder of NVIDIA's Python packages that has both, as PyTorch brings them; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for packages in spec.submodule_search_locations if spec else []:
        for root in sorted(pathlib.Path(packages).iterdir()):
            if has(root, header, library):
                return root
    return None


def root_of(header, library):
    """(found, root): where a library lies; the root is None where CMake finds it without being told."""
    for root in (toolkit(), in_pip(header, library)):
        if root is not None and has(root, header, library):
            return True, root
    return has("/usr", header, library), None


def revision(source):
    """Of git, or of the file that `--prepare` wrote."""
    if (source / ".git").exists():
        return first_line("git", "-C", str(source), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*") or "unknown"
    carried = source / "REVISION"
    return carried.read_text(encoding="utf-8").strip() if carried.exists() else "unknown"


def libraries():
    """The files that programs load: as the folder's script or the caller set LD_LIBRARY_PATH, else the toolkit's."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), str(toolkit() / "lib64")]
    names = ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13")
    return {name: next((f"{f}/{name}" for f in folders if f and os.path.exists(f"{f}/{name}")), "") for name in names}


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def provenance(source):
    """Of one call. Results of several calls may come from several machines, but from GPUs of one kind."""
    def ask_gpu(what):
        return first_line("nvidia-smi", "--query-gpu=" + what, "--format=csv,noheader")

    return {
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "git_revision": revision(source),
        "host": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
        "gpus": count_gpus(),
        "device": device(),
        "gpu": ask_gpu("name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"),
        "clocks_now": ask_gpu("clocks.sm,clocks.mem,temperature.gpu"),
        "libraries": libraries(),
        "packages": {name: version_of(name) for name in ("nvidia-cublas", "nvidia-cuda-runtime", "nvidia-nccl-cu13", "torch")},
        "nvcc": first_line(program("nvcc") or "nvcc", "--version", pattern=r"release .*"),
        "python": platform.python_version(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if re.fullmatch(r"(NCCL|CUDA|CUBLAS)_[A-Z_]+", k)},
    }
