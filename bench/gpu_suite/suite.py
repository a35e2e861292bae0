#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Missions for a machine with a GPU that is at hand for minutes: tests, probes, costs, predicted against measured, the same
work in PyTorch. Programs are built where there is no GPU and carried (--prepare). Each part has a time limit, and results are
kept after each, so that the same call goes on where an earlier one ended, on this machine or another."""
import argparse
import dataclasses
import fcntl
import os
import pathlib
import shutil
import signal
import sys

import machine
import prepare
from build_here import BUILD, programs_of
from later_missions import MISSIONS
from missions import Setup, is_result, missing
from overview import aligned
from records import Records, Refused
from runner import Runner, part_name

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIME_IS_UP = 75
EXIT_CODES = "Exit codes: 0 all parts are done or skipped, 1 a part failed, 2 wrong usage, 75 the time is up: call again."


def parse(arguments):
    p = argparse.ArgumentParser(prog="gpu_suite.sh", description=__doc__, epilog=EXIT_CODES)
    p.add_argument("missions", metavar="MISSION", nargs="*", type=int, help="numbers of missions, see --plan [the first that is not done]")
    p.add_argument("-o", "--output", metavar="FOLDER", help="write results.tar.gz, summary.json and table.txt to this folder after each part")
    p.add_argument("--work", metavar="FOLDER", help="folder for logs and single results [build/gpu-suite]")
    p.add_argument("--binaries", metavar="FOLDER", help="folder with bin/ of a build [this one, else compile in build/gpu]")
    p.add_argument("--parts", metavar="A,B", help="only these parts of the missions [all]")
    p.add_argument("--time", metavar="SECONDS", type=float, help="stop after this time; the next call does the rest [the missions' limits]")
    p.add_argument("--resume", metavar="FILE", help="go on from the results.tar.gz of an earlier call on another machine")
    p.add_argument("--calibration", metavar="FILE", help="the calibration.json of an earlier mission 2, for missions 3 and 4")
    p.add_argument("--retry", action="store_true", help="also do failed and skipped parts again, not only missing ones")
    p.add_argument("--plan", action="store_true", help="print missions and parts with their seconds, limits and needs, and run nothing")
    p.add_argument("--keep", metavar="DATA", help="write the results of --resume into this data folder (data/validation/gpu/README.md)")
    prepare.add_options(p)
    return p.parse_args(arguments)


def chosen(numbers):
    by_number = {mission.number: mission for mission in MISSIONS}
    unknown = [number for number in numbers if number not in by_number]
    if unknown:
        raise Refused(f"no mission {unknown[0]}; there are 1 to {len(MISSIONS)}, see --plan")
    return [by_number[number] for number in numbers]


def only(missions, names):
    """The missions with no other parts than these."""
    known = {part.name for mission in missions for part in mission.parts}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Refused(f"--parts: no part '{unknown[0]}'; there are {', '.join(sorted(known))}")
    return [dataclasses.replace(m, parts=tuple(p for p in m.parts if p.name in names)) for m in missions]


def first_open(records, names):
    states = {row["number"]: row["state"] for row in records.summary(names)["missions"]}
    return next((m for m in MISSIONS if states.get(m.number) in ("waiting", "unfinished")), MISSIONS[0])


def print_plan(missions, setup):
    for mission in missions:
        print(f"{mission.number}  {mission.name}: {mission.minutes():.1f} minutes, limit {mission.limit} s; {mission.what}")
        rows = [(f"   {part.name}", f"{part.seconds:g} s", f"limit {part.limit} s", "side by side" if part.beside else "alone",
                 next(filter(None, (missing(need, setup) for need in part.needs if not is_result(need))), "ready"))
                for part in mission.parts]  # fmt: skip
        print("\n".join(aligned(rows)))


def locked(work):
    file = open(work / ".lock", "w", encoding="utf-8")  # noqa: SIM115  # held until the end
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refused(f"another call works in {work}") from None
    return file


def made(*folders):
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None


def give_calibration(file, work):
    """Where mission 2 of this work has none of its own."""
    if not (work / "calibration.json").exists():
        try:
            shutil.copy(file, work / "calibration.json")
        except OSError as error:
            raise Refused(f"--calibration {file}: {error.strerror}") from None


def exit_code(runner, records):
    states = {records.state(part_name(mission, part)) for mission in runner.missions for part in mission.parts}
    if runner.up or "unfinished" in states:
        return TIME_IS_UP
    return 1 if states & {"failed", "waiting"} else 0


def call(a, setup, missions, compiled):
    output = pathlib.Path(a.output)
    made(output, setup.work)
    held = locked(setup.work)
    records = Records(setup.work, output, machine.revision(SOURCE), machine.device())
    if a.resume:
        records.resume(a.resume)
    records.load()
    records.begin_call(machine.provenance(SOURCE))
    if a.calibration:
        give_calibration(a.calibration, setup.work)
    if not missions:
        missions = [first_open(records, Runner([], setup, records, 0, False).names)]
    if a.parts:
        missions = only(missions, a.parts.split(","))
    seconds = a.time if a.time is not None else sum(m.limit for m in missions)
    runner = Runner([*([] if compiled else [BUILD]), *missions], setup, records, seconds, a.retry)

    def stopped(number, _):
        runner.end()
        runner.save()
        sys.stdout.flush()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    runner.run()
    runner.save()
    print((output / "table.txt").read_text(encoding="utf-8"), end="")
    held.close()
    return exit_code(runner, records)


def main(arguments):
    a = parse(arguments)
    if a.prepare:
        return prepare.run(SOURCE, a, chosen(a.missions) or MISSIONS[:1])
    if a.keep:
        import keep

        return keep.run(a.resume, pathlib.Path(a.keep))
    missions = chosen(a.missions)
    programs, compiled = programs_of(SOURCE, a.binaries)
    setup = Setup(SOURCE, programs, pathlib.Path(a.work or SOURCE / "build/gpu-suite").resolve())
    if a.plan:
        return print_plan(missions or MISSIONS, setup)
    if not a.output:
        raise Refused("-o FOLDER is missing; see --help")
    return call(a, setup, missions, compiled)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as refused:
        print(f"gpu_suite.sh: {refused}", file=sys.stderr)
        sys.exit(2)
