#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the step of one rank of a layer in plain PyTorch on one GPU: attention, gate, capacity rows, experts, weighted sum,
backward, Adam. There is no communication: rows that would arrive are copied from those that would be sent. Writes median and interval
as JSON."""
import argparse
import json
import math
import sys

import torch_timing as timing

timing.require_gpu()
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

SIZES = {
    "batch": 1, "sequence": 8192, "hidden": 2048, "heads": 16, "kv_heads": 4, "head_size": 128,
    "tokens": 8192, "experts": 8, "top_k": 2, "capacity": 2560,
    "local_experts": 8, "row_copies": 1, "expert_hidden": 8192,
}  # fmt: skip


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--schedule", help="a file of dovetail run --save-schedule; all sizes are those of one of its ranks")
    for name, default in SIZES.items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=default, help=f"[{default}]")
    p.add_argument("--kind", choices=["gated", "ffn"], default="gated")
    p.add_argument("--no-graph", action="store_true", help="launch kernels one by one; without this they are captured if possible")
    p.add_argument("--samples", type=int, default=30)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-o", "--output", default="-")
    a = p.parse_args()
    if a.schedule:
        with open(a.schedule, encoding="utf-8") as file:
            vars(a).update(timing.sizes_of_rank(json.load(file)))
    return a


def as_many_rows(rows, count):
    """`count` rows, from the given ones over and over."""
    copies = math.ceil(count / rows.shape[0])
    return rows[:count] if copies == 1 else rows.repeat(copies, 1)[:count]


class Layer(torch.nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a = a
        queries, keys = a.heads * a.head_size, a.kv_heads * a.head_size
        self.qkv = self.weights(a.hidden, queries + 2 * keys)
        self.out = self.weights(queries, a.hidden)
        self.router = self.weights(a.hidden, a.experts)
        self.w1 = self.weights(a.local_experts, a.hidden, a.expert_hidden)
        self.w2 = self.weights(a.local_experts, a.expert_hidden, a.hidden)
        if a.kind == "gated":
            self.w3 = self.weights(a.local_experts, a.hidden, a.expert_hidden)

    @staticmethod
    def weights(*shape):
        return torch.nn.Parameter(torch.randn(*shape) * shape[-2] ** -0.5)

    def attention(self, x):
        """(batch sequence, hidden), of the tokens of all ranks that share attention; this rank's heads."""
        a = self.a
        widths = [heads * a.head_size for heads in (a.heads, a.kv_heads, a.kv_heads)]
        q, k, v = (
            part.view(a.batch, a.sequence, -1, a.head_size).transpose(1, 2) for part in (x @ self.qkv).split(widths, -1)
        )
        k, v = (part.repeat_interleave(a.heads // a.kv_heads, 1) for part in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(x.shape[0], -1) @ self.out

    def experts(self, rows):
        """(local experts, rows, hidden)."""
        h = torch.bmm(rows, self.w1)
        h = functional.silu(h) * torch.bmm(rows, self.w3) if self.a.kind == "gated" else torch.relu(h)
        return torch.bmm(h, self.w2)

    def moe(self, x):
        a = self.a
        slots = a.experts * a.capacity
        probabilities = torch.softmax((x @ self.router).float(), dim=-1)
        scores, chosen = probabilities.topk(a.top_k, dim=-1)
        # First choices before second ones, each in token order; rows past the capacity go to one row more.
        order = chosen.t().reshape(-1)
        one_hot = functional.one_hot(order, a.experts)
        slot = ((one_hot.cumsum(0) - 1) * one_hot).sum(-1)
        kept = slot < a.capacity
        row = torch.where(kept, order * a.capacity + slot, slots)
        token = torch.arange(a.tokens, device=x.device).repeat(a.top_k)
        rows = x.new_zeros(slots + 1, a.hidden).index_copy(0, row, x[token])[:-1]
        arrived = as_many_rows(rows, a.local_experts * a.row_copies * a.capacity)
        y = self.experts(arrived.view(a.local_experts, -1, a.hidden)).view(-1, a.hidden)
        y = torch.cat([as_many_rows(y, slots), y.new_zeros(1, a.hidden)])
        weights = (scores.t().reshape(-1) * kept).to(x.dtype)
        return (y[row] * weights[:, None]).view(a.top_k, a.tokens, a.hidden).sum(0)

    def forward(self, x):
        """x: (batch sequence, hidden); the result: of this rank's tokens, the first ones."""
        y = x[: self.a.tokens] + self.attention(x)[: self.a.tokens]
        return y + self.moe(y)


def make_step(a):
    """Forward, backward, Adam on fp32 weights that the bf16 ones are rounded from."""
    torch.manual_seed(a.seed)
    layer = Layer(a).cuda()
    masters = [p.detach().clone() for p in layer.parameters()]
    layer.to(torch.bfloat16)
    parameters = list(layer.parameters())
    for master in masters:
        master.grad = torch.zeros_like(master)
    adam = torch.optim.Adam(masters, lr=1e-3, fused=True, capturable=True)
    tokens = a.batch * a.sequence
    x = torch.randn(tokens, a.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn(a.tokens, a.hidden, device="cuda", dtype=torch.bfloat16)

    def step():
        for tensor in [x, *parameters]:
            tensor.grad = None
        layer(x).backward(gradient)
        with torch.no_grad():
            torch._foreach_copy_([m.grad for m in masters], [p.grad for p in parameters])
            adam.step()
            torch._foreach_copy_(parameters, masters)

    return step


def main():
    a = parse()
    step = make_step(a)
    step, captured = (step, False) if a.no_graph else timing.capture(step)
    times, clock = timing.seconds(step, a.samples)
    result = {
        "what": "one rank of a layer: attention, MoE, backward, Adam (in fp32); bf16; one GPU, no communication",
        "arguments": {k: v for k, v in vars(a).items() if k != "output"},
        "captured": captured,
        **timing.described(times, clock),
        "samples_s": times,
        "gpu": torch.cuda.get_device_name(),
        "versions": timing.versions(),
    }
    timing.write(result, a.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
