# SPDX-License-Identifier: Apache-2.0
"""The table that a call ends with: parts with their clocks, then the figures of what was measured, in at most LINES lines."""
import csv
import json
import re

LINES = 80
LEFT_OUT = ("flops", "bytes", "ci95_low_s", "ci95_high_s", "samples", "predicted_s", "per_second")  # of points


def aligned(rows):
    if not rows:
        return []
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([text.ljust(width) for text, width in zip(row, widths)] + [row[-1]]).rstrip() for row in rows]


def of_parts(summary):
    rows = [("part", "state", "seconds", "MHz", "W", "reason")]
    for mission in summary["missions"]:
        if mission["state"] == "waiting" and not mission["seconds"]:
            continue
        for part in mission["parts"]:
            clocks = part.get("clocks") or {}
            number = lambda key: f"{clocks[key]:.0f}" if key in clocks else "-"  # noqa: E731
            rows.append((part["name"], part["state"], f"{part['seconds']:.1f}", number("sm_mhz"), number("power_w"), part["reason"]))
    return rows


def of_runs(work):
    """Measured steps by the files of dovetail run."""
    rows = []
    for file in sorted(work.glob("time-*.json")) + sorted(work.glob("ranks-*.json")):
        try:
            results = json.loads(file.read_text(encoding="utf-8"))["results"]
            measured = next(r for r in results if r["kind"] == "measured")
            run = measured["run"]
            rows.append((file.stem, f"{measured['makespan_s'] * 1e3:.3f} ms", f"predicted {results[0]['makespan_s'] * 1e3:.3f} ms",
                         f"dilation {run['dilation']:.3f}, {run['overruns']} overruns"))  # fmt: skip
        except (ValueError, KeyError, StopIteration, TypeError, OSError):
            rows.append((file.stem, "-", "-", "not readable"))
    return rows


def of_points(file):
    """The columns of a CSV of points in which they differ, and their times: few, since it is the first light's."""
    if not file.exists():
        return []
    points = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    columns = [column for column in (points[0] if points else {}) if column not in LEFT_OUT and len({p[column] for p in points}) > 1]
    return [columns, *([short(p[column]) for column in columns] for p in points)] if columns else []


def short(text):
    try:
        return f"{float(text):.5g}" if "." in text else text or "-"
    except ValueError:
        return text


def of_tests(work):
    """What Catch2 said last of each part that failed, and how many tests passed."""
    passed, failed = 0, []
    for log in sorted((work / "logs").glob("1.*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        all_passed = re.search(r"All tests passed \(.* in (\d+) test cases?\)", text)
        some = re.search(r"test cases: +(\d+) \| +(?:(\d+) passed \| +)?(\d+) failed", text)
        passed += int(all_passed.group(1)) if all_passed else int(some.group(2) or 0) if some else 0
        if some:
            failed.append(f"{log.stem}: {some.group(3)} of {some.group(1)} tests failed")
    return [f"{passed} tests passed", *failed] if passed or failed else []


def table(summary, work):
    lines = [f"revision {summary['revision']}, {summary['device']}", ""]
    lines += aligned(of_parts(summary))
    for title, rows in (("Steps", aligned(of_runs(work))), ("Tests", of_tests(work)), ("Probes", aligned(of_points(work / "probes.csv")))):
        if rows:
            lines += ["", title, *rows]
    drawn = work / "logs/2.compare.log"
    if drawn.exists():
        lines += ["", "Shipped tables", *drawn.read_text(encoding="utf-8").splitlines()[1:]]
    left = len(lines) - LINES
    return "\n".join(lines[:LINES] + ([f"and {left} lines more"] if left > 0 else [])) + "\n"
