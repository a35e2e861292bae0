#!/usr/bin/env python3
"""One MoE layer, forward and backward, in plain PyTorch on one GPU: gate, capacity rows, experts, weighted sum.
The shapes are arguments; the step is timed as a captured graph where that works. Writes median and interval as JSON."""
import argparse
import json
import math
import random
import statistics
import sys

import torch


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--tokens", type=int, default=8192)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--expert-hidden", type=int, default=8192)
    p.add_argument("--experts", type=int, default=8)
    p.add_argument("--top-k", type=int, default=2)
    p.add_argument("--capacity-factor", type=float, default=1.25)
    p.add_argument("--kind", choices=["gated", "ffn"], default="gated")
    p.add_argument("--samples", type=int, default=50)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-o", "--output", default="-")
    return p.parse_args()


class Layer(torch.nn.Module):
    def __init__(self, a):
        super().__init__()
        self.top_k, self.kind = a.top_k, a.kind
        self.capacity = math.ceil(a.top_k * a.capacity_factor * a.tokens / a.experts)
        deviation = a.hidden**-0.5
        self.router = torch.nn.Parameter(torch.randn(a.hidden, a.experts) * deviation)
        self.w1 = torch.nn.Parameter(torch.randn(a.experts, a.hidden, a.expert_hidden) * deviation)
        self.w2 = torch.nn.Parameter(torch.randn(a.experts, a.expert_hidden, a.hidden) * a.expert_hidden**-0.5)
        if a.kind == "gated":
            self.w3 = torch.nn.Parameter(torch.randn(a.experts, a.hidden, a.expert_hidden) * deviation)

    def forward(self, x):
        tokens, hidden = x.shape
        experts = self.router.shape[1]
        probabilities = torch.softmax((x @ self.router).float(), dim=-1)
        scores, chosen = probabilities.topk(self.top_k, dim=-1)
        # First choices before second ones, each in token order; rows past the capacity go to one row more.
        order = chosen.t().reshape(-1)
        one_hot = torch.nn.functional.one_hot(order, experts)
        slot = ((one_hot.cumsum(0) - 1) * one_hot).sum(-1)
        kept = slot < self.capacity
        row = torch.where(kept, order * self.capacity + slot, experts * self.capacity)
        token = torch.arange(tokens, device=x.device).repeat(self.top_k)
        rows = x.new_zeros(experts * self.capacity + 1, hidden).index_copy(0, row, x[token])
        rows = rows[:-1].view(experts, self.capacity, hidden)
        h = torch.bmm(rows, self.w1)
        h = torch.nn.functional.silu(h) * torch.bmm(rows, self.w3) if self.kind == "gated" else torch.relu(h)
        y = torch.bmm(h, self.w2).view(experts * self.capacity, hidden)
        y = torch.cat([y, y.new_zeros(1, hidden)])
        weights = (scores.t().reshape(-1) * kept).to(x.dtype)
        return x + (y[row] * weights[:, None]).view(self.top_k, tokens, hidden).sum(0)


def make_step(a):
    torch.manual_seed(a.seed)
    layer = Layer(a).cuda().to(torch.bfloat16)
    x = torch.randn(a.tokens, a.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn(a.tokens, a.hidden, device="cuda", dtype=torch.bfloat16)

    def step():
        for tensor in [x, *layer.parameters()]:
            tensor.grad = None
        layer(x).backward(gradient)

    return step


def capture(step):
    """The step as a CUDA graph, or itself where it cannot be captured."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay, True
    except RuntimeError as error:
        print(f"not captured: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return step, False


def seconds(step, samples):
    for _ in range(5):
        step()
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return times


def interval(times, seed):
    """95 % percentile bootstrap of the median."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(times, k=len(times))) for _ in range(2000))
    return medians[50], medians[1949]


def main():
    a = parse()
    if not torch.cuda.is_available():
        print("torch_moe.py: no CUDA device", file=sys.stderr)
        return 4
    step, captured = capture(make_step(a))
    times = seconds(step, a.samples)
    low, high = interval(times, a.seed)
    result = {
        "what": "one MoE layer without attention, forward and backward, bf16, one GPU, no communication",
        "arguments": {k: v for k, v in vars(a).items() if k != "output"},
        "captured": captured,
        "median_s": statistics.median(times),
        "ci95_s": [low, high],
        "samples_s": times,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    text = json.dumps(result, indent=1) + "\n"
    if a.output == "-":
        sys.stdout.write(text)
    else:
        with open(a.output, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
