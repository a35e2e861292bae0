#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one small model under every shipped system, each beside the same training in sequence and in double precision,
and keeps the losses (loss-curves.json) and a picture of them (loss-curves.svg) in the folder of --keep. Exit code 1 if a
system's losses are not those of the sequential training. --draw draws the kept losses again and trains nothing."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Experts have room for every token: otherwise systems drop different tokens by design, and learn different things.
QUESTION = ["run", "--cluster", "fsmoe-testbed-b", "--model", "mixtral-8x7b", "--ranks", "4", "--layers", "2", "--experts", "8",
            "--hidden", "16", "--expert-hidden", "16", "--head-size", "8", "--tokens", "64", "--set", "workload.extent=model",
            "--set", "workload.capacity_factor=4", "--set", "model.vocabulary=8192", "--measure-time", "0.1"]
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d",
           "#2f62b5", "#a05a00", "#1c7c3c", "#b3261e", "#2a8c86", "#7a4fb0", "#8a6100", "#5c6575", "#d67195",
           "#3a3f8f"]


def systems():
    """Those that run a batch at once: the others need micro-batches, and stages of a pipeline."""
    for path in sorted((ROOT / "data/systems").glob("*.json")):
        plan = json.loads(path.read_text())["plan"]
        if plan["scope"] != "batch" and plan.get("pipeline_schedule", "1f1b") == "1f1b":
            yield path.stem


def options_of(system):
    """Messages this small are not worth splitting: systems that split rows are told to, so that they differ at all."""
    plan = json.loads((ROOT / "data/systems" / f"{system}.json").read_text())["plan"]
    splits = plan["scope"] != "layer" and plan.get("split", "capacity") == "capacity"
    return ["--set", "plan.forward_degree=2", "--set", "plan.backward_degree=2"] if splits else []


def trained(program, system, steps, seed):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "run.json"
        command = [program, *QUESTION, "--system", system, *options_of(system), "--train", str(steps), "--seed", str(seed),
                   "-q", "-o", result]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not result.exists():
            sys.exit(f"{system}: {done.stderr.strip()}")
        return json.loads(result.read_text())


def measure(options):
    kept = {}
    for system in systems():
        report = trained(options.program, system, options.steps, options.seed)
        run = report["results"][-1]["run"]
        training = run["training"]
        if not kept:
            provenance = report["provenance"]
            kept = {"what": "losses of every shipped system, by step, in nats; seen before the step's update",
                    "command": "bench/training/loss_curves.py",
                    "question": " ".join(["dovetail", *QUESTION, "--train", str(options.steps), "--seed", str(options.seed)]),
                    **{key: provenance[key] for key in ("version", "git_revision", "compiler", "created")},
                    "tolerance": training["tolerance"], "sequential": training["reference_losses"], "systems": {}}
        kept["systems"][system] = {"options": " ".join(options_of(system)), "losses": training["losses"],
                                      "loss_error": float(f"{training['loss_error']:.3g}"),
                                      "weight_error": float(f"{training['weight_error']:.3g}"), "equal": training["ok"]}
        print(f"{system:16} loss {training['losses'][0]:.4f} at step 1, {training['losses'][-1]:.4f} at step {options.steps}; "
              f"differs by {training['loss_error']:.1e} at most: {'equal' if training['ok'] else 'NOT EQUAL'}", flush=True)
    return kept


def text(x, y, words, anchor="start", style="quiet"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{words}</text>'


def line(points, colour, width, extra=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round" {extra}/>'


class Panel:
    """A plot over steps; `at` turns a value into a share of the height."""
    LEFT, WIDTH = 70, 560

    def __init__(self, top, height, steps, at):
        self.top, self.height, self.steps, self.at = top, height, steps, at

    def x(self, step):
        return self.LEFT + (step - 1) / max(self.steps - 1, 1) * self.WIDTH

    def y(self, value):
        return self.top + self.height * (1 - min(max(self.at(value), 0), 1))

    def grid(self, ticks):
        for value, words in ticks:
            yield f'<line x1="{self.LEFT}" x2="{self.LEFT + self.WIDTH}" y1="{self.y(value):.1f}" y2="{self.y(value):.1f}" stroke="#dde1e8"/>'
            yield text(self.LEFT - 8, self.y(value) + 4, words, "end")

    def steps_axis(self):
        apart = max(1, self.steps // 8)
        for step in range(apart, self.steps + 1, apart):
            yield text(self.x(step), self.top + self.height + 18, f"step {step}" if step == apart else str(step), "middle")


def losses_panel(kept, largest):
    """All curves are one: the sequential one is a band, and each system marks steps of its own on it."""
    steps, systems = len(kept["sequential"]), kept["systems"]
    panel = Panel(70, 300, steps, lambda loss: loss / largest)
    yield text(panel.LEFT, 56, "Loss (nats) by step: every system marks its own steps on the sequential curve", style="title")
    yield from panel.grid([(tick, str(tick)) for tick in range(math.floor(largest) + 1)])
    yield from panel.steps_axis()
    yield line([(panel.x(i + 1), panel.y(loss)) for i, loss in enumerate(kept["sequential"])], "#c9ced8", 7)
    for colour, (number, system) in zip(COLOURS, enumerate(systems.values())):
        yield line([(panel.x(i + 1), panel.y(loss)) for i, loss in enumerate(system["losses"])], colour, 0.4)
        for i in range(number, steps, len(systems)):
            yield f'<circle cx="{panel.x(i + 1):.1f}" cy="{panel.y(system["losses"][i]):.1f}" r="2.6" fill="{colour}"/>'


def differences_panel(kept):
    least, most = -17, math.log10(kept["tolerance"]) + 0.5
    panel = Panel(440, 170, len(kept["sequential"]), lambda d: (math.log10(max(d, 1e-300)) - least) / (most - least))
    yield text(panel.LEFT, 426, "Largest relative difference from the sequential loss up to each step", style="title")
    yield from panel.grid([(10.0**power, f"1e{power}") for power in range(least, math.floor(most) + 1) if power % 2 == 0])
    yield from panel.steps_axis()
    yield line([(panel.x(1), panel.y(kept["tolerance"])), (panel.x(panel.steps), panel.y(kept["tolerance"]))], "#b3261e", 1.5,
               'stroke-dasharray="6 4"')
    yield text(panel.LEFT + panel.WIDTH - 6, panel.y(kept["tolerance"]) - 5, "tolerance", "end", "bad")
    for colour, system in zip(COLOURS, kept["systems"].values()):
        points, worst = [], 0.0
        for i, (loss, expected) in enumerate(zip(system["losses"], kept["sequential"])):
            worst = max(worst, abs(loss / expected - 1))
            points.append((panel.x(i + 1), panel.y(worst)))
        yield line(points, colour, 1.3)


def legend(kept):
    yield text(700, 56, "system", style="title") + text(905, 56, f"step {len(kept['sequential'])}", "end", "title")
    yield text(1000, 56, "differs by", "end", "title")
    rows = [("#c9ced8", "in sequence, in double", kept["sequential"][-1], None)]
    rows += [(colour, name, system["losses"][-1], system["loss_error"]) for colour, (name, system) in zip(COLOURS, kept["systems"].items())]
    for row, (colour, name, last, error) in enumerate(rows):
        y = 82 + 24 * row
        yield f'<rect x="680" y="{y - 10}" width="12" height="12" rx="3" fill="{colour}"/>' + text(700, y, name, style="ink")
        yield text(905, y, f"{last:.4f}", "end", "ink") + text(1000, y, "" if error is None else f"{error:.1e}", "end", "ink")


def picture(kept):
    """One SVG without scripts, on a white ground."""
    largest = 1.05 * max(max(curve) for curve in [kept["sequential"], *(s["losses"] for s in kept["systems"].values())])
    about = f"Dovetail {kept['version']}, {kept['git_revision']}, {kept['created']}: {kept['command']}"
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1030 660" width="1030" height="660" role="img">',
        "<title>Losses of a small model that every shipped system trains, and of the same training in sequence</title>",
        "<style>text { font: 12.5px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif } .quiet { fill: #5c6575 } .ink { fill: #1d2330 } "
        ".bad { fill: #b3261e } .title { fill: #1d2330; font-weight: 600 } .head { fill: #1d2330; font-size: 17px; font-weight: 650 }</style>",
        '<rect width="1030" height="660" fill="#ffffff"/>',
        text(20, 28, "One model of 2 layers and 8 experts, trained by every shipped system on 4 ranks", style="head"),
        *losses_panel(kept, largest), *differences_panel(kept), *legend(kept), text(20, 650, about), "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/dovetail", help="the program [build/release/bin/dovetail]")
    parser.add_argument("--steps", type=int, default=200, help="steps of each training [200]")
    parser.add_argument("--seed", type=int, default=1, help="of weights and language [1]")
    parser.add_argument("--keep", type=pathlib.Path, default=HERE, help="folder of both files [bench/training]")
    parser.add_argument("--draw", action="store_true", help="draw the kept losses again")
    options = parser.parse_args()
    losses = options.keep / "loss-curves.json"
    kept = json.loads(losses.read_text()) if options.draw else measure(options)
    if not options.draw:
        losses.write_text(json.dumps(kept, indent=1) + "\n")
    (options.keep / "loss-curves.svg").write_text(picture(kept))
    return 0 if all(system["equal"] for system in kept["systems"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
