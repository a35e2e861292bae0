"""One archive for a machine that has neither a package manager nor this repository's history."""
import gzip
import io
import pathlib
import shlex
import subprocess
import tarfile

import machine
from records import Refused

LIMIT = 64 << 20  # bytes
# Header-only dependencies: a header by which they are found, and the folder that holds all of theirs.
HEADERS = {"fmt/format.h": "fmt", "nlohmann/json.hpp": "nlohmann", "valijson/validator.hpp": "valijson",
           "Eigen/Core": "Eigen", "CLI/CLI.hpp": "CLI", "catch2/catch.hpp": "catch2"}  # fmt: skip
PLACES = ("/usr/include", "/usr/include/eigen3", "/usr/local/include", "/usr/local/include/eigen3")


def header_folders(extra):
    folders = {}
    for header, folder in HEADERS.items():
        place = next((p for p in (*extra, *PLACES) if (pathlib.Path(p) / header).is_file()), None)
        if place is None:
            raise Refused(f"--pack: no <{header}> on this machine; give its folder in --headers")
        folders[folder] = pathlib.Path(place) / folder
    return folders


def add_text(tar, name, text):
    info = tarfile.TarInfo(name)
    info.size = len(text)
    tar.addfile(info, io.BytesIO(text.encode()))


def pack(source, archive, extra_headers):
    """Sources as git lists them, headers, and a file with the revision."""
    listed = subprocess.run(["git", "-C", str(source), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise Refused(f"--pack: {source} is no git repository: {listed.stderr.strip()}")
    headers = header_folders(extra_headers)
    own = lambda info: (setattr(info, "uid", 0), setattr(info, "gid", 0), info)[2]  # noqa: E731
    try:
        with open(archive, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
            with tarfile.open(fileobj=zipped, mode="w", dereference=True) as tar:
                for name in listed.stdout.split("\0"):
                    if name and (source / name).exists():
                        tar.add(source / name, "dovetail/" + name, filter=own)
                for folder, path in headers.items():
                    tar.add(path, "dovetail/headers/" + folder, filter=own)
                add_text(tar, "dovetail/REVISION", machine.revision(source) + "\n")
    except OSError as error:
        raise Refused(f"--pack {archive}: {error.strerror}") from None
    size = pathlib.Path(archive).stat().st_size
    if size > LIMIT:
        raise Refused(f"--pack {archive}: {size / 2**20:.1f} MiB, more than {LIMIT >> 20} MiB")
    print(f"{archive}: {size / 2**20:.1f} MiB, revision {machine.revision(source)}")
    print("on the other machine, beside the archive:")
    print(f"  tar xzf {shlex.quote(pathlib.Path(archive).name)} && dovetail/bench/gpu_suite.sh -o results")
