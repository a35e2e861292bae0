# SPDX-License-Identifier: Apache-2.0
"""Results as they are kept in data/: a file for each mission, by device and revision, and the facts as CSV files."""
import csv
import io
import json
import pathlib
import re
import tarfile

from records import Refused, write_whole

# Files of the work folder that belong to a mission, beside its parts.
RESULTS = {1: ("probes.csv", "time-degree-*.json"), 2: ("drawn.csv", "points.csv", "baselines.json", "calibration.json"),
           3: ("validation.json",), 4: ("memory.json",), 5: ("torch-*.json", "time-bare-*.json"),
           6: ("time-restore-*.json", "time-chunks-*.json", "time-encoding-*.json", "time-layout-*.json", "time-gate-*.json",
               "time-all-to-all-*.json", "time-tutel-degree-*.json"),
           7: ("ranks-*.json",), 8: ("ncu.csv",)}  # fmt: skip
OF_A_RUN = ("kind", "system", "makespan_s", "ci95_s", "peak_bytes", "critical_path", "run")


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def short_name(device):
    """h100 of "NVIDIA H100 80GB HBM3, driver 580"."""
    found = re.search(r"\b[A-Z]+\d+\b", device)
    return found.group(0).lower() if found else "gpu"


def content(name, text):
    """Rows of a CSV file; of a run its times, also of the ops that it waits for; other JSON as it is."""
    if name.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(text)))
    data = json.loads(text)
    if isinstance(data, dict) and data.get("kind") == "run":
        return [{key: result.get(key) for key in OF_A_RUN} for result in data["results"]]
    return data


def matches(name, pattern):
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name)


def run(archive, folder):
    if not archive:
        raise Refused("--keep: the archive to keep is missing: --resume results.tar.gz")
    try:
        with tarfile.open(archive) as tar:
            files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
        summary = json.loads(files["summary.json"])
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise Refused(f"--keep: {archive}: {error}") from None
    calls = json.loads(files.get("provenance.json", b'{"calls": []}'))["calls"]
    for mission in summary["missions"]:
        if mission["number"] not in RESULTS or all(part["state"] in ("waiting", "skipped") for part in mission["parts"]):
            continue
        chosen = [n for n in sorted(files) for pattern in RESULTS[mission["number"]] if matches(n, pattern)]
        whole = {"mission": mission, "revision": summary["revision"], "device": summary["device"], "calls": calls,
                 "results": {name: content(name, files[name].decode()) for name in chosen}}  # fmt: skip
        name = f"{mission['number']}-{slug(mission['name'])}-{summary['revision']}.json"
        write(folder / "validation/gpu" / slug(summary["device"].split(",")[0]) / name, json.dumps(whole, indent=1).encode())
    for name, data in files.items():
        if name.startswith("facts/") and name.endswith(".csv"):
            write(folder / "measured" / f"{short_name(summary['device'])}-loan" / pathlib.PurePosixPath(name).name, data)
    return 0


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    print(path)
