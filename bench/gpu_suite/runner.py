# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of missions within their limits, correctness side by side and whatever measures time alone, and writes down
each result before the next part begins."""
import json
import os
import re
import time

import overview
from later_missions import MISSIONS
from missions import missing
from processes import Child, Clocks, Server, environment, read_ahead

SIDE_BY_SIDE = 4  # processes
SKIPPED = 77  # a script that says why it has nothing to do
NO_TESTS = "No test cases matched"  # as Catch2 says, with exit code 0
AGAIN = "give the same command again"  # a program that keeps what it did, before its first result
STAND_IN = "DOVETAIL_SUITE_RUN"  # a program that is called in place of each part, for tests of the suite itself


def part_name(mission, part):
    return f"{mission.number}.{part.name}"


def unmet(part, setup):
    if STAND_IN in os.environ:  # stand-ins need nothing
        return ""
    return next((reason for reason in (missing(need, setup) for need in part.needs) if reason), "")


def stand_in_for(name, command):
    return [os.environ[STAND_IN], name, *command] if STAND_IN in os.environ else command


class Begun:
    """A part that runs."""

    def __init__(self, name, part, limit, command, log, variables, source):
        self.name, self.part, self.limit, self.log = name, part, limit, log
        self.begin, self.since, self.child = time.monotonic(), time.time(), None
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as out:
            out.write(("$ " + " ".join(command) + "\n").encode())
            out.flush()
            try:
                self.child = Child(command, out, cwd=source, env=variables)
            except OSError as error:
                out.write(f"{command[0]}: {error.strerror}\n".encode())

    def ended(self):
        return self.child is None or not self.child.running()

    def too_long(self):
        return time.monotonic() - self.begin > self.limit

    def seconds(self):
        return time.monotonic() - self.begin

    def code(self):
        return 127 if self.child is None else self.child.code()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace").strip()


class Runner:
    def __init__(self, missions, setup, records, seconds, retry):
        self.missions, self.setup, self.records, self.seconds, self.retry = missions, setup, records, seconds, retry
        self.begin, self.running, self.up = time.monotonic(), [], False
        self.server = self.clocks = self.reader = None
        others = [m for m in missions if m.number not in {known.number for known in MISSIONS}]
        self.names = [(m.number, m.name, [part_name(m, p) for p in m.parts]) for m in (*others, *MISSIONS)]

    def time_left(self):
        return self.seconds - (time.monotonic() - self.begin)

    def save(self):
        summary = self.records.summary(self.names)
        self.records.save(self.names, overview.table(summary, self.setup.work))

    def run(self):
        """All missions, as far as the time goes."""
        self.reader = read_ahead() if STAND_IN not in os.environ else None
        try:
            for mission in self.missions:
                if not self.up:
                    self.run_mission(mission)
        finally:
            self.end()

    def run_mission(self, mission):
        waiting = [part for part in mission.parts if self.is_open(mission, part)]
        if not waiting:
            return
        if STAND_IN not in os.environ:
            self.clocks = self.clocks or Clocks(self.setup.work / f"clocks-{len(self.records.calls)}.csv", self.setup.source)
        if self.server is None and mission.number and any(part.served for part in waiting):
            command = stand_in_for("server", [str(self.setup.programs / "bin/dovetail-exec")])
            self.server = Server(command, self.setup.source, self.setup.work / "logs/server.log")
        for part in waiting:
            self.wait(SIDE_BY_SIDE - 1 if part.beside and all(b.part.beside for b in self.running) else 0)
            reason = unmet(part, self.setup)
            if reason:
                self.records.note(part_name(mission, part), "skipped", 0, reason)
            elif self.time_left() < min(part.at_least, part.limit):
                self.up = True
                print(f"time is up before {part_name(mission, part)}", flush=True)
                break
            else:
                self.start(mission, part)
        self.wait(0)
        self.save()

    def is_open(self, mission, part):
        state = self.records.state(part_name(mission, part))
        return not mission.number or state not in ("done", "failed", "skipped") or (state != "done" and self.retry)

    def start(self, mission, part):
        name, limit = part_name(mission, part), min(part.limit, self.time_left())
        served = self.server.ready() if part.served and self.server else None
        command = stand_in_for(name, part.command(self.setup, limit))
        log = self.setup.work / "logs" / (name + ".log")
        self.running.append(Begun(name, part, limit, command, log, environment(self.setup.source, served), self.setup.source))

    def wait(self, most):
        """Until at most so many parts run."""
        while len(self.running) > most:
            for begun in [b for b in self.running if b.ended() or b.too_long()]:
                self.running.remove(begun)
                self.finish(begun)
            if len(self.running) > most:
                time.sleep(0.02)

    def finish(self, begun):
        code = begun.code() if begun.ended() else None
        if code is None:
            begun.child.end()
        text, seconds = begun.text(), begun.seconds()
        state, reason = self.judge(begun, code, text)
        clocks = self.clocks.between(begun.since, begun.since + seconds) if self.clocks else {}
        self.records.note(begun.name, state, seconds, reason, clocks)
        print(f"{begun.name}: {state}{', ' + reason if reason else ''}, {seconds:.1f} s", flush=True)
        if state == "failed":
            print("\n".join("    " + line for line in text.split("\n")[-12:]), flush=True)
        self.save()

    def judge(self, begun, code, text):
        part, last = begun.part, text.split("\n")[-1][:120]
        more_calls = self.records.parts.get(begun.name, {}).get("attempts", 0) + 1 < part.goes_on
        if code == 0 and self.is_partial(part):
            return ("unfinished", "partial, goes on in the next call") if more_calls else ("done", "partial")
        if code == 0 and NO_TESTS in text:
            return "skipped", "this build has no such test"
        if code == 0:
            return "done", ""
        if code == part.kept and code != 0:
            return "done", last
        if code == SKIPPED:
            return "skipped", last.removeprefix("skipped: ")
        if more_calls and AGAIN in text:
            return "unfinished", "no time for a result yet"
        if code is None and begun.limit < part.limit:
            return "unfinished", "time was up"
        if code is None and more_calls:
            return "unfinished", f"goes on after its {part.limit} s"
        if code is None:
            return "failed", f"took longer than {part.limit} s"
        if part.unsupported and re.search(part.unsupported, text):
            return "skipped", f"not supported here: {last}"
        return "failed", f"exit code {code}: {last}"

    def is_partial(self, part):
        file = self.setup.work / part.result
        return file.is_file() and json.loads(file.read_text(encoding="utf-8")).get("partial", False)

    def end(self):
        """Whatever still runs; the server last, since parts ask it."""
        for begun in self.running:
            if begun.child is not None:
                begun.child.end()
        self.running = []
        for helper in (self.server, self.clocks):
            if helper is not None:
                helper.end()
        if self.reader is not None:
            self.reader.end()
        self.server = self.clocks = self.reader = None
