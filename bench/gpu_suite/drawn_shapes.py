#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shapes drawn from the shipped tables of kernels: drawn to be measured again, merged with what PyTorch measured, compared."""
import argparse
import csv
import json
import random
import statistics
import sys

DRAWN = "drawn"  # the name of their product


def parse(arguments=None):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("what", choices=["draw", "merge", "compare"])
    p.add_argument("--calibration", help="draw: a calibration file with tables of products and attention")
    p.add_argument("--products", type=int, default=40, help="draw: number of products [40]")
    p.add_argument("--attentions", type=int, default=20, help="draw: number of attention kernels [20]")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--shapes", help="merge, compare: what draw wrote")
    p.add_argument("--baselines", help="merge, compare: what torch_baselines.py wrote")
    p.add_argument("--points", help="compare: the points of dovetail calibrate")
    p.add_argument("-o", "--output", required=True)
    return p.parse_args(arguments)


def strata(rows, count, seed):
    """One row of each of `count` equal parts of the rows, which are sorted by work: small and large shapes alike."""
    chance = random.Random(seed)
    ends = [len(rows) * i // count for i in range(count + 1)]
    return [rows[chance.randrange(begin, end)] for begin, end in zip(ends, ends[1:]) if end > begin]


def table_rows(calibration, kernel):
    """Sizes and microseconds of the bf16 table of a kernel."""
    table = next(t for t in calibration["tables"] if t["kernel"] == kernel and t["dtype"] == "bf16")
    rows = [point.split(",") for point in table["points"]]
    return [(tuple(map(int, row[:-1])), float(row[-1])) for row in rows]


def product_of(size, microseconds):
    rows, columns, inner, groups = size
    return {"kind": "product", "product": DRAWN, "pass": "forward", "dtype": "bf16", "batch": groups, "rows": rows, "inner": inner,
            "columns": columns, "flops": 2 * groups * rows * inner * columns, **published(microseconds)}  # fmt: skip


def attention_of(size, microseconds):
    """Causal: two products over half of the scores."""
    batch, sequence, heads, kv_heads, head_size = size
    return {"kind": "attention", "product": DRAWN, "pass": "forward", "dtype": "bf16", "batch": batch, "sequence": sequence, "heads": heads,
            "kv_heads": kv_heads, "head_size": head_size, "causal": True, "flops": 2 * batch * heads * sequence**2 * head_size,
            **published(microseconds)}  # fmt: skip


def published(microseconds):
    seconds = microseconds * 1e-6
    return {"median_s": seconds, "ci95_s": [seconds, seconds], "samples": 1}


def draw(calibration, products, attentions, seed):
    gemms = sorted(table_rows(calibration, "gemm"), key=lambda row: row[0][0] * row[0][1] * row[0][2] * row[0][3])
    flash = sorted(table_rows(calibration, "attention"), key=lambda row: row[0][0] * row[0][2] * row[0][1] ** 2 * row[0][4])
    drawn = [product_of(*row) for row in strata(gemms, products, seed)] + [attention_of(*row) for row in strata(flash, attentions, seed)]
    return {"what": f"shapes drawn from the tables of {calibration['name']}, with the times that these say", "gpu": calibration["name"],
            "versions": {}, "measurements": drawn}  # fmt: skip


def merge(shapes, baselines):
    """What calibrate measures too: PyTorch's shapes, and the drawn products. The drawn attention is that of fused kernels."""
    merged = dict(baselines or shapes)
    measured = merged["measurements"] if baselines else []
    keys = {key_of(m) for m in measured}
    merged["measurements"] = [m for m in measured if m["kind"] != "attention" or m.get("product") != DRAWN]
    merged["measurements"] += [m for m in shapes["measurements"] if m["kind"] == "product" and key_of(m) not in keys]
    return merged


def key_of(m):
    sizes = ("batch", "rows", "inner", "columns") if m["kind"] == "product" else ("batch", "sequence", "heads", "kv_heads", "head_size")
    return (m["kind"], m["pass"], *(m[size] for size in sizes))


def key_of_point(point):
    return ("product", "forward", *(int(point[size]) for size in ("batch", "rows", "inner", "columns")))


def compare(shapes, points, baselines):
    """(kernel, who measured, sizes, shipped and measured microseconds, measured / shipped - 1) of each shape and measurer."""
    ours = {key_of_point(p): float(p["median_s"]) for p in points if (p["what"], p["layout"], p["dtype"]) == ("product", "plain", "bf16")}
    theirs = {key_of(m): m["median_s"] for m in (baselines or {}).get("measurements", []) if m["kind"] in ("product", "attention")}
    rows = []
    for shape in shapes["measurements"]:
        key = key_of(shape)
        for who, times in (("dovetail", ours), ("PyTorch", theirs)):
            if key in times:
                shipped = shape["median_s"]
                rows.append((shape["kind"], who, " ".join(map(str, key[2:])), shipped * 1e6, times[key] * 1e6, times[key] / shipped - 1))
    return rows


def summary(rows):
    for kind, who in sorted({row[:2] for row in rows}):
        errors = [row[5] for row in rows if row[:2] == (kind, who)]
        worst = max((row for row in rows if row[:2] == (kind, who)), key=lambda row: abs(row[5]))
        sizes = [abs(error) for error in errors]
        yield (f"{kind} by {who}: {len(errors)} shapes, median {statistics.median(errors):+.1%}, median size "
               f"{statistics.median(sizes):.1%}, worst {worst[5]:+.1%} at {worst[2]}")  # fmt: skip


def read(path):
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main(arguments=None):
    a = parse(arguments)
    if a.what == "compare":
        with open(a.points, encoding="utf-8") as file:
            rows = compare(read(a.shapes), list(csv.DictReader(file)), read(a.baselines))
        with open(a.output, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("kernel", "measured_by", "sizes", "shipped_us", "measured_us", "error"))
            writer.writerows((*row[:3], f"{row[3]:.6g}", f"{row[4]:.6g}", f"{row[5]:.4f}") for row in rows)
        print("\n".join(summary(rows)) or "no drawn shape was measured")
        return 0 if rows else 1
    if a.what == "draw":
        result = draw(read(a.calibration), a.products, a.attentions, a.seed)
    else:
        result = merge(read(a.shapes), read(a.baselines))
    with open(a.output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
