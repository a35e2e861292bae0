# SPDX-License-Identifier: Apache-2.0
"""A folder to carry to a machine with a GPU: programs that need nothing there but the C library, CUDA's runtime and cuBLAS;
data; these scripts; the revision."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import machine
from build_here import TARGETS, build_command, configure_command
from pack import copy_listed, copy_sources, header_folders, listed
from records import Refused

LIMIT = 48 << 20  # bytes
LONGEST_LINE = 1500  # characters
SPARE = 20  # seconds of a mission's limit, for its beginning and end
# The programs may need these there. The C library's parts are found by any program that starts.
ALLOWED = re.compile(r"libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-x86-64\.so\.2|libcudart\.so\.13|libcublas\.so\.13")
# No library that is not used, and no folder of this machine to look for them.
LINK = ("-DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++ -static-libgcc -Wl,--as-needed", "-DCMAKE_SKIP_RPATH=ON")
LEFT_OUT = ("data/published/", "data/measured/", "data/validation/gpu/")  # of data: what no mission reads


def add_options(p):
    group = p.add_argument_group("to carry")
    group.add_argument("--prepare", metavar="FOLDER", help="build for a machine with a GPU, and make this folder to carry there")
    group.add_argument("--with-sources", action="store_true", help="with sources and headers, to compile there if programs do not start")
    group.add_argument("--headers", metavar="PATH", help="folders of the header-only dependencies, separated by semicolons [the system's]")
    group.add_argument("--build", metavar="FOLDER", help="folder to build in [build/carry]")
    group.add_argument("--architecture", metavar="NUMBER", default="90", help="of the GPU, as CMake writes it [90, of H100 and H200]")
    group.add_argument("--jobs", metavar="COUNT", type=int, default=os.cpu_count(), help="processes of the build [all cores]")


def compile_programs(source, build, architecture, jobs, headers):
    """With headers alone, also of libraries that could be linked."""
    folders = sorted({str(folder.parent) for folder in header_folders(headers).values()})
    options = [*LINK, f"-DDOVETAIL_HEADERS_PATH={';'.join(folders)}"]
    for command in (configure_command(source, build, architecture, *options), build_command(build, jobs)):
        if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
            raise Refused("--prepare: " + " ".join(command[:6]) + " ... failed")


def needed(program):
    """Names of the libraries that a program loads at its start, and the newest version of the C library that it asks for."""
    def read(what):
        done = subprocess.run(["readelf", "-W", what, str(program)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(f"--prepare: readelf {what} {program}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", read("-V"))}
    return re.findall(r"\(NEEDED\).*\[(.+)\]", read("-d")), max(versions, default=(0, 0))


def check_needs(program):
    libraries, version = needed(program)
    other = [name for name in libraries if not ALLOWED.fullmatch(name)]
    if other:
        raise Refused(f"--prepare: {program.name} needs {', '.join(other)}, which the other machine may not have")
    return libraries, version


def copy_programs(build, folder):
    found, newest = set(), (0, 0)
    (folder / "bin").mkdir(parents=True)
    for name in TARGETS:
        program = build / "bin" / name
        if not program.is_file():
            raise Refused(f"--prepare: {program} is missing")
        target = folder / "bin" / name
        if subprocess.run(["strip", "-o", str(target), str(program)], check=False).returncode != 0:
            raise Refused(f"--prepare: strip {program} failed")
        libraries, version = check_needs(target)
        found.update(libraries)
        newest = max(newest, version)
    return sorted(found), ".".join(map(str, newest))


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def line_to_run(folder, missions="1", seconds=220, more=""):
    line = f'cd {shlex.quote(str(folder))} && ./mission {missions} -o "$OUT" --time {seconds}{more}'
    if len(line) > LONGEST_LINE:
        raise Refused(f"--prepare: the line to run has {len(line)} characters, more than {LONGEST_LINE}")
    return line


def make_empty(folder):
    if folder.exists() and any(folder.iterdir()) and not (folder / "REVISION").is_file():
        raise Refused(f"--prepare {folder}: holds something else already")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"--prepare {folder}: {error.strerror}") from None


def assemble(source, build, folder, with_sources=False, headers=()):
    """All but the compiling. Returns what the programs need."""
    make_empty(folder)
    libraries, version = copy_programs(build, folder)
    names = listed(source, "data", "bench/gpu_suite", "bench/gpu_suite.sh", "bench/peers")
    copy_listed(source, folder, [name for name in names if not name.startswith(LEFT_OUT)])
    shutil.copy(source / "bench/gpu_suite/mission.sh", folder / "mission")
    (folder / "mission").chmod(0o755)
    (folder / "REVISION").write_text(machine.revision(source) + "\n", encoding="utf-8")
    if with_sources:
        copy_sources(source, folder / "sources", headers)
    size = size_of(folder)
    if size > LIMIT:
        raise Refused(f"--prepare {folder}: {size / 2**20:.1f} MiB, more than {LIMIT >> 20} MiB")
    return libraries, version, size


def run(source, a, missions):
    """For these missions; earlier results that they go on with are carried too."""
    build = pathlib.Path(a.build or source / "build/carry").resolve()
    folder = pathlib.Path(a.prepare)
    headers = a.headers.split(";") if a.headers else ()
    compile_programs(source, build, a.architecture, a.jobs or 1, headers)
    libraries, version, size = assemble(source, build, folder, a.with_sources, headers)
    more = ""
    for file, name, option in ((a.calibration, "calibration.json", "--calibration"), (a.resume, "results.tar.gz", "--resume")):
        if file:
            shutil.copy(file, folder / name)
            more += f" {option} {name}"
    numbers, seconds = " ".join(str(m.number) for m in missions), sum(m.limit - SPARE for m in missions)
    line = line_to_run(folder, numbers, seconds, more)
    print(f"{folder}: {size / 2**20:.1f} MiB, revision {machine.revision(source)}")
    print(f"needs there: {', '.join(libraries)}; glibc {version}")
    print(f"on the other machine, in the folder that holds {folder.name} ({len(line)} characters):\n  {line}")
    return 0
