#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much longer the host takes for PyTorch's operators inside a model than in the tight loops that public figures
are of: a layer with attention, a router and experts, so tiny that the operators themselves take no time, 12 of them after one
another on one processor core. Needs no GPU. Prints the time of a layer, the sum of its calls in loops, and the ratio."""
import argparse
import statistics
import time

import torch
import torch.overrides
from torch import nn
from torch.nn import functional

TOKENS, HIDDEN, EXPERTS, CHOSEN, HEADS, LAYERS = 8, 16, 8, 2, 2, 12


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.output = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (part.view(TOKENS, HEADS, -1).transpose(0, 1) for part in self.inputs(x).chunk(3, -1))
        weights = functional.softmax(torch.matmul(q, k.transpose(1, 2)) * 0.3, -1)
        return self.output(torch.matmul(weights, v).transpose(0, 1).reshape(TOKENS, HIDDEN))


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, HIDDEN))

    def forward(self, x):
        logits = functional.linear(x, self.weight)
        scores = functional.softmax(logits, -1)
        values, chosen = torch.topk(scores, CHOSEN, -1)
        counts = torch.zeros_like(logits).scatter(1, chosen, 1.0).sum(0)
        return values / values.sum(-1, keepdim=True), chosen, (counts * scores.mean(0)).sum()


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()
        self.up = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(EXPERTS))
        self.down = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(EXPERTS))

    def forward(self, x):
        values, chosen, loss = self.router(x)
        order = torch.argsort(chosen.reshape(-1))
        rows = x.index_select(0, order // CHOSEN).split([TOKENS * CHOSEN // EXPERTS] * EXPERTS, 0)
        outputs = torch.cat([down(functional.gelu(up(part))) for up, down, part in zip(self.up, self.down, rows)], 0)
        outputs = outputs * values.reshape(-1).index_select(0, order).unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, order // CHOSEN, outputs), loss


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(2))
        self.attention, self.experts = Attention(), Experts()

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        y, loss = self.experts(self.norms[1](x))
        return x + y, loss


class Nothing(nn.Module):
    def forward(self, x):
        return x


class Calls(torch.overrides.TorchFunctionMode):
    """What a layer calls, with its arguments cut off from what came before."""

    def __init__(self):
        super().__init__()
        self.list = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.list.append((function, [cut_off(a) for a in args], kwargs or {}))
        return function(*args, **(kwargs or {}))


def cut_off(value):
    if isinstance(value, torch.Tensor):
        return value.detach().requires_grad_(value.requires_grad)
    return [cut_off(each) for each in value] if isinstance(value, list) else value


def seconds(call, times, samples):
    """Of one call: the median of so many samples."""
    call()
    measured = []
    for _ in range(samples):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        measured.append((time.perf_counter() - begin) / times)
    return statistics.median(measured)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--samples", type=int, default=9, help="of each time, of which the median counts [9]")
    samples = p.parse_args().samples
    torch.set_num_threads(1)
    layers = [Layer() for _ in range(LAYERS)]

    def forward():
        x = torch.randn(TOKENS, HIDDEN)
        for layer in layers:
            x, _ = layer(x)

    with Calls() as calls:
        layers[0](torch.randn(TOKENS, HIDDEN))
    listed = [call for call in calls.list if call[0].__name__ not in ("__get__", "__set__")]
    in_loops = sum(seconds(lambda: function(*args, **kwargs), 200, samples) for function, args, kwargs in listed)
    modules, x = sum(1 for m in layers[0].modules() if not isinstance(m, nn.ModuleList)), torch.randn(1)
    nothing = Nothing()
    in_loops += modules * seconds(lambda: nothing(x), 200, samples)
    in_model = seconds(forward, 5, samples) / LAYERS
    print(f"{len(listed)} operators and {modules} modules: {1e6 * in_loops:.0f} us in loops, {1e6 * in_model:.0f} us in a model: x {in_model / in_loops:.2f}")


if __name__ == "__main__":
    main()
