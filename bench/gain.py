#!/usr/bin/env python3
"""How much the unified planner gains over the best single published system, on a grid of experiments.
Usage: gain.py PROGRAM [GRID [RESULTS]]. RESULTS gets one JSON object a line; cells that are in it are not run again."""
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

OURS = "dovetail"
UNPUBLISHED = {OURS, "ampipe_code"}


def cells(grid):
    for cluster, model, sequence, batch in itertools.product(grid["clusters"], grid["models"], grid["sequences"],
                                                             grid["batches"]):
        yield {"cluster": cluster, "model": model, "sequence": sequence, "batch": batch}


def run(program, grid, cell):
    command = [program, "compare", "--cluster", cell["cluster"], "--model", cell["model"], "--backend", grid["backend"],
               "--format", "json", "-q"]
    for setting in grid["set"] + [f"workload.sequence={cell['sequence']}", f"workload.batch={cell['batch']}"]:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {**cell, "error": done.stderr.strip()}
    results = {r["system"]: r for r in json.loads(done.stdout)["results"]}
    ours = results[OURS]
    rivals = [r for r in results.values() if r["system"] not in UNPUBLISHED and r["feasible"]]
    if not rivals or not ours["feasible"]:
        return {**cell, "error": "no published system's plan fits" if not rivals else "no plan fits"}
    best = min(rivals, key=lambda r: r["makespan_s"])
    knobs = {k: [best["plan"][k], v] for k, v in ours["plan"].items()
             if v != best["plan"][k] and k not in ("gradient_slices", "backward_degrees")}
    return {**cell, "best": best["system"], "best_s": best["makespan_s"], "ours_s": ours["makespan_s"],
            "gain": best["makespan_s"] / ours["makespan_s"] - 1, "optimal": ours["planner"]["proof"]["optimal"],
            "planning_s": ours["planner"]["seconds"], "knobs": knobs}


def summary(rows):
    good = [r for r in rows if "gain" in r]
    print(f"{len(good)} cells, {len(rows) - len(good)} without a result")
    if not good:
        return
    gains = sorted(r["gain"] for r in good)
    at = lambda share: 100 * gains[min(int(share * len(gains)), len(gains) - 1)]
    print(f"gain over the best published system: mean {100 * statistics.mean(gains):.2f} %, least {at(0):.2f}, "
          f"quartiles {at(.25):.2f} {at(.5):.2f} {at(.75):.2f}, most {at(1):.2f} %")
    print(f"proven optimal by the analytic model: {sum(r['optimal'] for r in good)} cells; "
          f"planning took {statistics.median(r['planning_s'] for r in good):.3f} s in the median")
    for name, row in (("least", min(good, key=lambda r: r["gain"])), ("most", max(good, key=lambda r: r["gain"]))):
        print(f"{name}: {row['cluster']} {row['model']} sequence {row['sequence']} batch {row['batch']}: "
              f"{100 * row['gain']:.2f} % over {row['best']}; {row['knobs']}")
    for what in ("best", "knobs"):
        counts = {}
        for row in good:
            for key in ([row[what]] if what == "best" else row[what]):
                counts.setdefault(key, []).append(row["gain"])
        print(f"by {'best published system' if what == 'best' else 'knob that differs from it'}:")
        for key, of_key in sorted(counts.items(), key=lambda item: -len(item[1])):
            print(f"  {key:<28} {len(of_key):4} cells, mean gain {100 * statistics.mean(of_key):6.2f} %")


def main():
    program = sys.argv[1]
    default = pathlib.Path(__file__).resolve().parents[1] / "data/sweeps/gain.json"
    grid = json.loads(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else default).read_text(encoding="utf-8"))
    path = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else "gain.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    known = {tuple(r[k] for k in ("cluster", "model", "sequence", "batch")) for r in rows}
    with path.open("a", encoding="utf-8") as out:
        for cell in cells(grid):
            if tuple(cell.values()) in known:
                continue
            rows.append(run(program, grid, cell))
            out.write(json.dumps(rows[-1]) + "\n")
            out.flush()
    summary(rows)


if __name__ == "__main__":
    main()
