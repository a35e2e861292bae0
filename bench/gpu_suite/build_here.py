# SPDX-License-Identifier: Apache-2.0
"""Compiling where the GPU is: for a checkout, and where carried programs do not start and their sources were carried too."""
import os
import pathlib
import shutil
import subprocess

import machine
from missions import Mission, Part
from records import Refused

TARGETS = ("dovetail", "dovetail-exec", "test_gpu")
WITHOUT = ("NCCL", "MPI", "SIMGRID", "OPENBLAS", "NLOPT", "OPENSSL", "JEMALLOC", "YAMLCPP")  # one GPU needs none, and NCCL is 218 MB to load


def source_of(folder):
    """Of a checkout, or of what `--prepare --with-sources` carried."""
    return folder if (folder / "CMakeLists.txt").is_file() else folder / "sources"


def starts(programs):
    program = programs / "bin/dovetail-exec"
    try:
        return subprocess.run([program, "--help"], capture_output=True, timeout=120, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def programs_of(source, asked):
    """(folder, whether its programs are there and start): those asked for, those carried, else a build of this machine."""
    for folder in [pathlib.Path(asked).resolve()] if asked else [source]:
        if (folder / "bin").is_dir() and starts(folder):
            return folder, True
        if asked:
            raise Refused(f"--binaries {asked}: its bin/dovetail-exec does not start")
    if (source / "bin").is_dir() and not (source / "sources").is_dir():
        raise Refused("the carried bin/dovetail-exec does not start, and no sources were carried (--prepare --with-sources)")
    return source / "build/gpu", False


def configure_command(source, build, architecture, *more):
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DDOVETAIL_WITH_CUDA=ON", *(f"-DDOVETAIL_WITH_{each}=OFF" for each in WITHOUT)]
    options += [f"-DCMAKE_CUDA_ARCHITECTURES={architecture}", *more]
    headers = source / "headers"
    options += [f"-DDOVETAIL_HEADERS_PATH={headers}"] if headers.is_dir() else []
    if not machine.has(machine.toolkit(), "cublas_v2.h", "libcublas.so"):
        root = machine.in_pip("cublas_v2.h", "libcublas.so")
        options += [f"-DDOVETAIL_CUBLAS_ROOT={root}"] if root else []
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    return ["cmake", "-S", str(source), "-B", str(build), *generator, *options]


def build_command(build, jobs):
    return ["cmake", "--build", str(build), "-j", str(jobs), "--target", *TARGETS]


BUILD = Mission(0, "build", "programs, where none were carried that start", (
    Part("configure", 20, 120, lambda s, _: configure_command(source_of(s.source), s.programs, machine.architecture()), needs=("cmake", "nvcc")),
    Part("compile", 90, 530, lambda s, _: build_command(s.programs, os.cpu_count() or 1), needs=(), goes_on=9),
))  # fmt: skip
