# SPDX-License-Identifier: Apache-2.0
"""Sources for a machine that has neither a package manager nor this repository's history."""
import pathlib
import re
import shutil
import subprocess

import machine
from records import Refused

# Header-only dependencies: a header by which they are found, and the folder that holds all of theirs.
HEADERS = {"fmt/format.h": "fmt", "nlohmann/json.hpp": "nlohmann", "valijson/validator.hpp": "valijson",
           "Eigen/Core": "Eigen", "CLI/CLI.hpp": "CLI", "catch2/catch.hpp": "catch2"}  # fmt: skip
LEFT_OUT = re.compile(r"data/.*\.json|tests/golden/|tests/data/|bench/training/")  # what no program is compiled from
PLACES = ("/usr/include", "/usr/include/eigen3", "/usr/local/include", "/usr/local/include/eigen3")


def header_folders(extra):
    folders = {}
    for header, folder in HEADERS.items():
        place = next((p for p in (*extra, *PLACES) if (pathlib.Path(p) / header).is_file()), None)
        if place is None:
            raise Refused(f"--prepare: no <{header}> on this machine; give its folder in --headers")
        folders[folder] = pathlib.Path(place) / folder
    return folders


def listed(source, *folders):
    """Files of the sources, as git lists them, with new ones."""
    done = subprocess.run(["git", "-C", str(source), "ls-files", "-z", "-co", "--exclude-standard", *folders], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"--prepare: {source} is no git repository: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name and (source / name).is_file()]


def copy_listed(source, target, names):
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def copy_sources(source, target, extra_headers):
    """With headers and the revision."""
    headers = header_folders(extra_headers)
    copy_listed(source, target, [name for name in listed(source) if not LEFT_OUT.match(name)])
    for folder, path in headers.items():
        shutil.copytree(path, target / "headers" / folder)
    (target / "REVISION").write_text(machine.revision(source) + "\n", encoding="utf-8")
