# SPDX-License-Identifier: Apache-2.0
"""Processes that end with this program, whatever ends it: parts of missions, the resident executor, the watch of clocks."""
import datetime
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import machine


class Guard:
    """Ends a process group when this program dies, however that comes: else its work would go on beside the next call's."""

    def __init__(self, group):
        ours, self.end = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.closerange(0, ours)  # neither locks nor other guards' pipes outlive the parent
            os.closerange(ours + 1, 1 << 16)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            try:
                if os.read(ours, 1) == b"":
                    os.killpg(group, signal.SIGKILL)  # fails where the group has ended by itself
            finally:
                os._exit(0)
        os.close(ours)

    def dismiss(self):
        os.write(self.end, b"x")
        os.close(self.end)
        os.waitpid(self.process, 0)


class Child:
    """A guarded process in a group of its own."""

    def __init__(self, command, out, error=None, **how):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=error or out, start_new_session=True, **how)
        self.guard = Guard(self.process.pid)

    def running(self):
        return self.process.poll() is None

    def code(self):
        """Once it has ended."""
        if self.guard is not None:
            self.guard.dismiss()
            self.guard = None
        return self.process.returncode

    def end(self):
        """With all that it started; politely first, so that it can keep what it has."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            if not self.running():
                break
            os.killpg(self.process.pid, how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        return self.code()


def environment(source, served=None):
    """Of every part: products in the precision that they are asked in, data of this folder."""
    variables = {k: v for k, v in os.environ.items() if k not in ("NVIDIA_TF32_OVERRIDE", "DOVETAIL_SERVER")}
    variables["DOVETAIL_DATA"] = str(source / "data")
    return {**variables, "DOVETAIL_SERVER": served} if served else variables


class Server:
    """The resident executor, which keeps one context from the beginning of a mission. Without it each measurement starts a
    process of its own."""

    PATIENCE = 10  # seconds

    def __init__(self, command, source, log):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dovetail-"))  # short: a socket's name has 107 characters
        self.socket = self.folder / "socket"
        self.end_of_patience = time.monotonic() + self.PATIENCE
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(log, "wb") as out:
                self.child = Child([*command, "--device", "cuda", "--serve", str(self.socket)], out, env=environment(source))
        except OSError:
            self.child = None

    def ready(self):
        """The socket's name once it is there; None where there will be none."""
        while self.child is not None and self.child.running() and time.monotonic() < self.end_of_patience and not self.socket.exists():
            time.sleep(0.05)
        return str(self.socket) if self.child is not None and self.child.running() and self.socket.exists() else None

    def end(self):
        if self.child is not None:
            self.child.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_ahead():
    """Half a GiB of libraries come from the disk while other things begin. Null where there are none."""
    files = [file for file in machine.libraries().values() if file]
    return Child(["cat", *files], subprocess.DEVNULL) if files else None


class Clocks:
    """Writes down ten times a second how fast and hot the GPU runs, and by what it is held back."""

    FIELDS = ("clocks.sm", "power.draw", "temperature.gpu", "clocks_event_reasons.active")

    def __init__(self, file, source):
        self.file = file
        tool = machine.program("nvidia-smi")
        command = [tool, "--query-gpu=timestamp," + ",".join(self.FIELDS), "--format=csv,noheader,nounits", "-lms", "100"]
        with open(file, "wb") as out:
            self.child = Child(command if tool else ["python3", "-B", str(source / "bench/peers/gpu_clock.py")], out)

    def end(self):
        self.child.end()

    def between(self, begin, end):
        """Medians of the lines of that time (seconds since 1970), and how often each reason was given; {} without any."""
        if not self.file.exists():
            return {}
        rows = [row for row in map(clock_row, self.file.read_text(errors="replace").splitlines()) if row and begin <= row[0] <= end]
        if not rows:
            return {}
        reasons = [row[4] for row in rows]
        return {"lines": len(rows), "sm_mhz": statistics.median(r[1] for r in rows), "power_w": statistics.median(r[2] for r in rows),
                "temperature_c": statistics.median(r[3] for r in rows),
                "reasons": {each: round(reasons.count(each) / len(rows), 3) for each in sorted(set(reasons))}}  # fmt: skip


def clock_row(line):
    """(moment, MHz, watts, degrees, reasons) of a line of nvidia-smi; None of one that says something else."""
    words = [word.strip() for word in line.split(",")]
    try:
        moment = datetime.datetime.strptime(words[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
        return (moment, *map(float, words[1:4]), words[4])
    except (ValueError, IndexError):
        return None
