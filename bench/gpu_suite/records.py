# SPDX-License-Identifier: Apache-2.0
"""What is done and what came of it: summary.json, which is read again to go on, and the archive of all results."""
import gzip
import io
import json
import os
import pathlib
import tarfile

ARCHIVE_LIMIT = 15 << 20  # bytes
SORTS = ("failed", "unfinished", "waiting", "done", "skipped")  # the first that any part has is the mission's


class Refused(Exception):
    """Something that the user has to change; one line."""


def write_whole(path, data):
    """Never half a file, even where this program is killed."""
    part = path.with_name("." + path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


class Records:
    """Of each part of a mission: its state, seconds, clocks, calls that left it unfinished, the reason where it is not done."""

    def __init__(self, work, output, revision, device):
        self.work, self.output, self.revision, self.device = work, output, revision, device
        self.parts, self.calls, self.left_out = {}, [], []

    def load(self):
        file = self.work / "summary.json"
        if not file.exists():
            return
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["revision"] != self.revision:
            raise Refused(f"{self.work} has results of revision {kept['revision']}, these sources are {self.revision}: "
                          "give another --work, or delete it")  # fmt: skip
        if kept["device"] != self.device:
            raise Refused(f"{self.work} has results of {kept['device']}, this machine has {self.device}: "
                          "give another --work, or delete it")  # fmt: skip
        self.parts = {p["name"]: p for mission in kept["missions"] for p in mission["parts"] if p["state"] != "waiting"}
        calls = self.work / "provenance.json"
        self.calls = json.loads(calls.read_text(encoding="utf-8"))["calls"] if calls.exists() else []

    def resume(self, archive):
        """From the archive of an earlier call, on a machine that knows nothing of it."""
        if (self.work / "summary.json").exists():
            print(f"{self.work} has results already: {archive} is not read")
            return
        try:
            with tarfile.open(archive) as tar:
                for member in tar.getmembers():
                    path = pathlib.PurePosixPath(member.name)
                    if not member.isfile() or path.is_absolute() or ".." in path.parts:
                        raise Refused(f"{archive}: {member.name} is nothing that this suite packed")
                    target = self.work / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
        except (OSError, tarfile.TarError) as error:
            raise Refused(f"--resume {archive}: {error}") from None

    def begin_call(self, provenance):
        self.calls.append(provenance)
        write_whole(self.work / "provenance.json", json.dumps({"calls": self.calls}, indent=1).encode())

    def state(self, part):
        return self.parts.get(part, {}).get("state", "waiting")

    def note(self, part, state, seconds=0.0, reason="", clocks=None):
        before = self.parts.get(part, {})
        attempts = before.get("attempts", 0) + 1 if state == "unfinished" else 0
        self.parts[part] = {"name": part, "state": state, "seconds": round(before.get("seconds", 0) + seconds, 1),
                            "attempts": attempts, "reason": reason, "call": len(self.calls), "clocks": clocks or {}}  # fmt: skip

    def summary(self, missions):
        """`missions`: [(number, name, names of parts)]."""
        rows = []
        for number, name, parts in missions:
            of_parts = [self.parts.get(p, {"name": p, "state": "waiting", "seconds": 0, "reason": "", "clocks": {}}) for p in parts]
            state = min((p["state"] for p in of_parts), key=SORTS.index, default="skipped")
            first = sorted(of_parts, key=lambda p: p["state"] != state)  # the reason of its own state before others
            reason = next((p["reason"] for p in first if p["reason"]), "")
            rows.append({"number": number, "name": name, "state": state, "seconds": round(sum(p["seconds"] for p in of_parts), 1),
                         "reason": reason, "parts": of_parts})  # fmt: skip
        return {"schema_version": 2, "revision": self.revision, "device": self.device, "calls": len(self.calls),
                "left_out": self.left_out, "missions": rows}  # fmt: skip

    def save(self, missions, table):
        """The summary, then the archive of everything and the table: after each part, so that a killed call loses one."""
        before = list(self.left_out)
        text = json.dumps(self.summary(missions), indent=1).encode()
        write_whole(self.work / "summary.json", text)
        write_whole(self.output / "results.tar.gz", self.packed())
        if self.left_out != before:
            text = json.dumps(self.summary(missions), indent=1).encode()
        write_whole(self.output / "summary.json", text)
        write_whole(self.output / "table.txt", table.encode())

    def packed(self):
        """Small files first; what no longer fits is left out and named."""
        files = [f for f in self.work.rglob("*") if f.is_file() and not f.name.startswith(".")]
        self.left_out, size, buffer = [], 0, io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
            for file in sorted(files, key=lambda f: f.stat().st_size):
                name = file.relative_to(self.work).as_posix()
                need = file.stat().st_size if file.stat().st_size > 8 * ARCHIVE_LIMIT else len(gzip.compress(file.read_bytes())) + 1024
                if size + need > ARCHIVE_LIMIT:
                    self.left_out.append(name)
                    continue
                size += need
                tar.add(file, name)
        return buffer.getvalue()
