#!/usr/bin/env python3
"""Builds, tests and measures on a machine with a GPU and a CUDA toolkit, but perhaps no package manager: tests, numerics,
calibration, times of the shipped systems, the same work in PyTorch, validation. Each step has a time limit. Results are kept
after each step, so that the same call goes on where an earlier one ended, on this machine or another."""
import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import machine
from pack import pack
from records import Records, Refused
from steps import FROM_EARLIER_STEPS, STEPS, Setup, missing

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIME_IS_UP = 75
EXIT_CODES = "Exit codes: 0 all steps are done or skipped, 1 a step failed, 2 wrong usage, 75 the time is up: call again."
SKIPPED = 77  # a script that says why it has nothing to do


def parse(arguments):
    names = ",".join(step.name for step in STEPS)
    p = argparse.ArgumentParser(prog="gpu_suite.sh", description=__doc__, epilog=EXIT_CODES)
    p.add_argument("-o", "--output", metavar="FOLDER", help="write results.tar.gz and summary.json to this folder after each step")
    p.add_argument("--work", metavar="FOLDER", help="folder for logs and single results [build/gpu-suite]")
    p.add_argument("--build", metavar="FOLDER", help="folder to build in [build/gpu]")
    p.add_argument("--steps", metavar="A,B", help=f"do only these steps, in this order; there are {names} [all]")
    p.add_argument("--time", metavar="SECONDS", type=float, default=540, help="stop after this time; the next call does the rest [540]")
    p.add_argument("--resume", metavar="FILE", help="go on from the results.tar.gz of an earlier call on another machine")
    p.add_argument("--retry", action="store_true", help="also do failed parts again, not only missing ones")
    p.add_argument("--headers", metavar="PATH", help="folders of the header-only dependencies, separated by semicolons [headers]")
    p.add_argument("--nccl", metavar="ROOT", help="folder with include/nccl.h and lib/libnccl.so* [the toolkit's, else pip's]")
    p.add_argument("--without-nccl", action="store_true", help="go on without NCCL if there is none")
    p.add_argument("--jobs", metavar="COUNT", type=int, default=os.cpu_count(), help="processes of the build [all cores]")
    p.add_argument("--plan", action="store_true", help="print the steps with their minutes, limits and needs, and run nothing")
    p.add_argument("--pack", metavar="FILE", help="write an archive to carry to a machine without packages: sources, headers, revision")
    return p.parse_args(arguments)


def chosen_steps(text):
    if not text:
        return STEPS
    by_name = {step.name: step for step in STEPS}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise Refused(f"--steps: no step '{unknown[0]}'; there are {', '.join(by_name)}")
    return [by_name[name] for name in text.split(",")]


def make_setup(a):
    headers = a.headers or (str(SOURCE / "headers") if (SOURCE / "headers").is_dir() else "")
    found, root = (True, a.nccl) if a.nccl else machine.root_of("nccl.h", "libnccl.so")
    if not found and not a.without_nccl and not a.plan:
        raise Refused("NCCL is neither in the toolkit nor in pip's folders: give --nccl ROOT, or --without-nccl to go on")
    absolute = lambda path: pathlib.Path(path or "").resolve()  # noqa: E731
    return Setup(SOURCE, absolute(a.build or SOURCE / "build/gpu"), absolute(a.work or SOURCE / "build/gpu-suite"), headers,
                 root, a.jobs or 1, found)  # fmt: skip


def part_name(step, suffix):
    return f"{step.name}.{suffix}" if suffix else step.name


def unmet(needs, setup):
    if "DOVETAIL_SUITE_RUN" in os.environ:  # steps are stand-ins and need nothing
        return ""
    return next((reason for reason in (missing(need, setup) for need in needs) if reason), "")


def print_plan(steps, setup):
    rows = [("step", "minutes", "limit", "needs", "here", "what")]
    for step in steps:
        parts = len(step.parts(setup))
        needs = [need for need in step.needs if need not in FROM_EARLIER_STEPS]
        rows.append((step.name, f"{step.minutes:g}", f"{step.limit} s" + (f" x {parts}" if parts > 1 else ""), ", ".join(needs),
                     unmet(needs, setup) or "ready", step.what))  # fmt: skip
    print_table(rows)
    print(f"about {sum(step.minutes for step in steps):.0f} minutes in all on 16 cores")


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([text.ljust(width) for text, width in zip(row, widths)] + [row[-1]]).rstrip())


class Guard:
    """Ends a process group when this program dies, however that comes: else its work would go on beside the next call's."""

    def __init__(self, group):
        ours, self.end = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.end)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            if os.read(ours, 1) == b"":
                os.killpg(group, signal.SIGKILL)
            os._exit(0)
        os.close(ours)

    def dismiss(self):
        os.write(self.end, b"x")
        os.close(self.end)
        os.waitpid(self.process, 0)


class Suite:
    def __init__(self, steps, setup, records, arguments):
        self.steps, self.setup, self.records, self.arguments = steps, setup, records, arguments
        self.begin, self.child = time.monotonic(), None
        self.names = [(step.name, [part_name(step, suffix) for suffix, _ in step.parts(setup)]) for step in STEPS]

    def time_left(self):
        return self.arguments.time - (time.monotonic() - self.begin)

    def save(self):
        self.records.save(self.names)

    def run(self):
        for step in self.steps:
            reason = unmet(step.needs, self.setup)
            parts = step.parts(self.setup)
            for suffix, command in parts:
                name = part_name(step, suffix)
                state = self.records.state(name)
                if state == "done" and not step.always or state == "failed" and not step.always and not self.arguments.retry:
                    continue
                if reason:
                    self.records.note(name, "skipped", 0, reason)
                    continue
                if self.time_left() < step.worth_beginning(len(parts)):
                    print(f"time is up before {name}")
                    return
                self.run_part(step, name, command)
                if step.always and self.records.state(name) != "done":
                    return  # nothing works without
            self.save()

    def run_part(self, step, name, command):
        limit, begin = min(step.limit, self.time_left()), time.monotonic()
        log = self.setup.work / "logs" / (name + ".log")
        with self.clocks(step, log):
            code = self.call(name, command, log, limit)
        seconds = time.monotonic() - begin
        text = log.read_text(encoding="utf-8", errors="replace").strip()
        state, reason = self.judge(step, name, code, limit, text)
        self.records.note(name, state, seconds, reason)
        print(f"{name}: {state}{', ' + reason if reason else ''}, {seconds:.0f} s", flush=True)
        if state == "failed":
            print("\n".join("    " + line for line in text.split("\n")[-12:]), flush=True)
        self.save()

    def judge(self, step, name, code, limit, text):
        last = text.split("\n")[-1][:120]
        more_calls = self.records.parts.get(name, {}).get("attempts", 0) + 1 < step.goes_on
        if code == 0 and self.is_partial(step):
            return ("unfinished", "partial, goes on in the next call") if more_calls else ("done", "partial")
        if code == 0:
            return "done", ""
        if code == step.kept and code != 0:
            return "done", last
        if code == SKIPPED:
            return "skipped", last.removeprefix("skipped: ")
        if code is None and limit < step.limit:
            return "unfinished", "time was up"
        if code is None and more_calls:
            return "unfinished", f"goes on after its {step.limit} s"
        if code is None:
            return "failed", f"took longer than {step.limit} s"
        if step.unsupported and re.search(step.unsupported, text):
            return "skipped", f"not supported here: {last}"
        return "failed", f"exit code {code}: {last}"

    def is_partial(self, step):
        file = self.setup.work / step.result
        return file.is_file() and json.loads(file.read_text(encoding="utf-8")).get("partial", False)

    def call(self, name, command, log, limit):
        """The exit code; None where the limit ended it."""
        stand_in = os.environ.get("DOVETAIL_SUITE_RUN")  # for tests of the suite itself
        command = [stand_in, name, *command] if stand_in else command
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as out:
            out.write(("$ " + " ".join(command) + "\n").encode())
            out.flush()
            try:
                self.child = subprocess.Popen(command, cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                              start_new_session=True)  # fmt: skip
            except OSError as error:
                out.write(f"{command[0]}: {error.strerror}\n".encode())
                return 127
            guard = Guard(self.child.pid)
            try:
                return self.child.wait(limit)
            except subprocess.TimeoutExpired:
                self.end_child()
                return None
            finally:
                guard.dismiss()

    @contextlib.contextmanager
    def clocks(self, step, log):
        """Writes down beside a log how fast and hot the GPU runs, twice a second, and by what it is held back."""
        tool = machine.program("nvidia-smi")
        if "GPU" not in step.needs or tool is None or "DOVETAIL_SUITE_RUN" in os.environ:
            yield
            return
        log.parent.mkdir(parents=True, exist_ok=True)
        fields = "timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
        with open(log.with_suffix(".clocks.csv"), "wb") as out:
            watch = subprocess.Popen([tool, f"--query-gpu={fields}", "--format=csv", "-lms", "500"], stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=out, start_new_session=True)  # fmt: skip
            guard = Guard(watch.pid)
            try:
                yield
            finally:
                watch.kill()
                watch.wait()
                guard.dismiss()

    def end_child(self):
        """With all that it started; politely first, so that it can keep what it has."""
        for how, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            if self.child is None or self.child.poll() is not None:
                return
            os.killpg(self.child.pid, how)
            try:
                self.child.wait(patience)
            except subprocess.TimeoutExpired:
                pass

    def report(self):
        summary = self.records.summary(self.names)
        print_table([("step", "state", "seconds", "reason")] + [
            (s["name"], s["state"], f"{s['seconds']:.0f}", s["reason"]) for s in summary["steps"]])  # fmt: skip
        for name in summary["left_out"]:
            print(f"too large for results.tar.gz: {self.setup.work / name}")
        chosen = {step.name for step in self.steps}
        states = {s["name"]: s["state"] for s in summary["steps"] if s["name"] in chosen}
        stuck = any(states.get(step.name) == "failed" for step in STEPS if step.always)
        if not stuck and {"waiting", "unfinished"} & set(states.values()):
            return TIME_IS_UP
        return 1 if "failed" in states.values() else 0


def lock(work):
    file = open(work / ".lock", "w", encoding="utf-8")  # noqa: SIM115  # held until the end
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refused(f"another call works in {work}") from None
    return file


def main(arguments):
    a = parse(arguments)
    steps = chosen_steps(a.steps)
    if a.pack:
        return pack(SOURCE, a.pack, (a.headers or "").split(";") if a.headers else ())
    setup = make_setup(a)
    if a.plan:
        return print_plan(steps, setup)
    if not a.output:
        raise Refused("-o FOLDER is missing; see --help")
    output = pathlib.Path(a.output)
    try:
        output.mkdir(parents=True, exist_ok=True)
        setup.work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None
    held = lock(setup.work)
    records = Records(setup.work, output, machine.revision(SOURCE))
    if a.resume:
        records.resume(a.resume)
    records.load()
    records.begin_call(machine.provenance(SOURCE))
    suite = Suite(steps, setup, records, a)

    def stopped(number, _):
        suite.end_child()
        suite.save()
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    suite.run()
    suite.save()
    code = suite.report()
    held.close()
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as refused:
        print(f"gpu_suite.sh: {refused}", file=sys.stderr)
        sys.exit(2)
