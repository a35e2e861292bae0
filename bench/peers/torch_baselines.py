#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch on one GPU at the shapes of one rank of a schedule: the experts' products as torch.bmm, forward and
both gradients; fused causal attention, forward and backward; copies inside the device. Writes medians and intervals as JSON."""
import argparse
import json
import sys

import torch_timing as timing

DTYPE = "bf16"


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--schedule", required=True, help="a file of dovetail run --save-schedule; all sizes are those of one of its ranks")
    p.add_argument("--degrees", default="1,2,4", help="numbers of chunks into which rows are cut [1,2,4]")
    p.add_argument("--shapes", help="also measure the forward products and attention in this file of drawn_shapes.py")
    p.add_argument("--samples", type=int, default=10, help="number of samples [10]")
    p.add_argument("--repeat", type=int, default=8, help="number of calls that are captured together [8]")
    p.add_argument("-o", "--output", default="-")
    return p.parse_args()


def product_shapes(sizes, degrees):
    """(product, pass, batch, rows, inner, columns): results are (batch, rows, columns), sums go over `inner`."""
    batch, hidden, expert_hidden = sizes["local_experts"], sizes["hidden"], sizes["expert_hidden"]
    all_rows = sizes["row_copies"] * sizes["capacity"]
    for degree in degrees:
        rows = -(-all_rows // degree)
        for product, inner, columns in (("up", hidden, expert_hidden), ("down", expert_hidden, hidden)):
            yield product, "forward", batch, rows, inner, columns
            yield product, "input_gradient", batch, rows, columns, inner
            yield product, "weight_gradient", batch, inner, rows, columns


def repeated(call, count):
    def step():
        for _ in range(count):
            call()

    return step


def measured(call, a):
    step, captured = timing.capture(repeated(call, a.repeat))
    times, clock = timing.seconds(step, a.samples)
    return {**timing.described([t / a.repeat for t in times], clock), "captured": captured}


def products(sizes, a, torch):
    """Operands lie as they do in a step: gradients multiply by a transposed view, which copies nothing."""
    def random_matrices(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * shape[-1] ** -0.5

    for product, which, batch, rows, inner, columns in product_shapes(sizes, [int(d) for d in a.degrees.split(",")]):
        if which == "weight_gradient":
            left = random_matrices(batch, inner, rows).transpose(1, 2)
        else:
            left = random_matrices(batch, rows, inner)
        if which == "input_gradient":
            right = random_matrices(batch, columns, inner).transpose(1, 2)
        else:
            right = random_matrices(batch, inner, columns)
        result = torch.empty(batch, rows, columns, device="cuda", dtype=torch.bfloat16)
        times = measured(lambda x=left, w=right, y=result: torch.bmm(x, w, out=y), a)
        yield {"kind": "product", "product": product, "pass": which, "dtype": DTYPE, "batch": batch, "rows": rows, "inner": inner,
               "columns": columns, "flops": 2 * batch * rows * inner * columns, **times}  # fmt: skip


def drawn_products(shapes, a, torch):
    for shape in shapes:
        left = torch.randn(shape["batch"], shape["rows"], shape["inner"], device="cuda", dtype=torch.bfloat16)
        right = torch.randn(shape["batch"], shape["inner"], shape["columns"], device="cuda", dtype=torch.bfloat16) * shape["inner"] ** -0.5
        result = torch.empty(shape["batch"], shape["rows"], shape["columns"], device="cuda", dtype=torch.bfloat16)
        yield {**shape, **measured(lambda x=left, w=right, y=result: torch.bmm(x, w, out=y), a)}


def fused_attention(shape, torch):
    """(forward, forward and backward) by the fused kernel alone: an unfused one would be no baseline."""
    from torch.nn import attention as kernels
    from torch.nn import functional

    def tensor(heads):
        return torch.randn(shape["batch"], heads, shape["sequence"], shape["head_size"], device="cuda", dtype=torch.bfloat16,
                           requires_grad=True)  # fmt: skip

    q, k, v = tensor(shape["heads"]), tensor(shape["kv_heads"]), tensor(shape["kv_heads"])
    gradient = torch.randn_like(q)

    def forward():
        with kernels.sdpa_kernel(kernels.SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return forward, lambda: torch.autograd.grad(forward(), (q, k, v), gradient)


def attention(sizes, a, torch):
    shape = {name: sizes[name] for name in ("batch", "sequence", "heads", "kv_heads", "head_size")}
    forward, both = fused_attention(shape, torch)
    # Two products over half of the scores forward; five backward, one of which computes the scores again.
    flops = 2 * shape["batch"] * shape["heads"] * shape["sequence"] ** 2 * shape["head_size"]
    one, two = measured(forward, a), measured(both, a)
    common = {"kind": "attention", "dtype": DTYPE, **shape, "causal": True}
    yield {**common, "pass": "forward", "flops": flops, **one}
    yield {**common, "pass": "forward_and_backward", "flops": 3.5 * flops, **two}


def drawn_attention(shapes, a, torch):
    for shape in shapes:
        forward, _ = fused_attention(shape, torch)
        with torch.no_grad():
            yield {**shape, **measured(forward, a)}


def copies(a, torch):
    for size in (1 << 28, 1 << 30):  # more than caches hold, since our own copies rotate over more than that
        source = torch.randint(0, 255, (size,), device="cuda", dtype=torch.uint8)
        target = torch.empty_like(source)
        times = measured(lambda x=source, y=target: y.copy_(x), a)
        yield {"kind": "copy", "bytes": size, **times}


def groups(sizes, a, torch):
    yield "products", products(sizes, a, torch)
    yield "attention", attention(sizes, a, torch)
    yield "copies", copies(a, torch)
    if a.shapes:
        with open(a.shapes, encoding="utf-8") as file:
            shapes = json.load(file)["measurements"]
        yield "drawn products", drawn_products([s for s in shapes if s["kind"] == "product"], a, torch)
        for shape in shapes:
            if shape["kind"] == "attention":  # each by itself, since a fused kernel may not take all of them
                yield "drawn attention", drawn_attention([shape], a, torch)


def main():
    a = parse()
    timing.require_gpu()
    import torch

    with open(a.schedule, encoding="utf-8") as file:
        sizes = timing.sizes_of_rank(json.load(file))
    torch.manual_seed(1)
    result = {
        "what": "PyTorch at the shapes of one rank: products, fused attention, copies inside the device",
        "sizes": sizes, "gpu": torch.cuda.get_device_name(), "versions": timing.versions(), "measurements": [], "refused": [],
    }  # fmt: skip
    for name, group in groups(sizes, a, torch):
        try:
            for each in group:
                result["measurements"].append(each)
                if a.output != "-":
                    timing.write(result, a.output)  # after each, so that a call that is ended leaves what it has
        except RuntimeError as error:  # out of memory, or no fused kernel for this shape: the others still count
            result["refused"].append({"group": name, "reason": str(error).split("\n")[0]})
    timing.write(result, a.output)
    for refusal in result["refused"]:
        print(f"{refusal['group']}: {refusal['reason']}", file=sys.stderr)
    return 1 if any(not r["group"].startswith("drawn") for r in result["refused"]) else 0


if __name__ == "__main__":
    sys.exit(main())
