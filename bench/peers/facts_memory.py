# SPDX-License-Identifier: Apache-2.0
"""Parts of torch_facts.py that do not multiply: kernels bound by memory, and what the host takes to launch an operation. Each
yields (label, rows): a function that measures and returns rows."""
import statistics
import time

import facts_shapes


def copy_call(here, size):
    source = here.torch.zeros(size, device=here.a.device, dtype=here.torch.uint8)
    target = here.torch.empty_like(source)
    return lambda: target.copy_(source)


def rms_norm(here, x, weight):
    """PyTorch's own where it has one (the method says which)."""
    own = getattr(here.torch.nn.functional, "rms_norm", None)
    if own:
        return "rms_norm", lambda: own(x, (x.shape[-1],), weight, 1e-6)
    return "composed", lambda: x * (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt().to(x.dtype) * weight


def rows_of(here, tokens, chosen, hidden):
    """Rows by expert and back: what dispatch and combine do inside a GPU."""
    torch = here.torch
    x, order = here.random(tokens, hidden), torch.randperm(tokens * chosen, device=here.a.device)
    rows, scores = here.random(tokens * chosen, hidden), here.random(tokens, chosen, 1)
    yield "permute", "index_select", facts_shapes.permute_bytes(tokens * chosen, hidden), lambda: x.index_select(0, order // chosen)
    yield "unpermute", "index_select, mul, sum", facts_shapes.unpermute_bytes(tokens, chosen, hidden), lambda: (
        rows.index_select(0, order).view(tokens, chosen, hidden) * scores).sum(1)  # fmt: skip


def norms_of(here, tokens, hidden):
    x, weight = here.random(tokens, hidden, requires_grad=True), here.random(hidden, requires_grad=True)
    gradient, (method, forward) = here.random(tokens, hidden), rms_norm(here, x, weight)
    one, back = facts_shapes.norm_bytes(tokens, hidden)
    yield "rms_norm forward", method, one, forward
    yield "rms_norm forward and backward", method, one + back, lambda: here.torch.autograd.grad(forward(), (x, weight), gradient)


def losses_of(here, tokens, words):
    logits = here.random(tokens, words, requires_grad=True)
    targets = here.torch.randint(0, words, (tokens,), device=here.a.device)
    forward = lambda: here.torch.nn.functional.cross_entropy(logits, targets)  # noqa: E731
    one, back = facts_shapes.cross_entropy_bytes(tokens, words)
    yield "cross_entropy forward", "cross_entropy", one, forward
    yield "cross_entropy forward and backward", "cross_entropy", one + back, lambda: here.torch.autograd.grad(forward(), logits)


def updates_of(here, parameters):
    weight = here.random(parameters, dtype=here.torch.float32).requires_grad_()
    weight.grad = here.torch.zeros_like(weight)
    how = {"fused": True, "capturable": True} if here.cuda else {}
    adam = here.torch.optim.Adam([weight], lr=1e-3, **how)
    yield "adam", "fused" if here.cuda else "loop", facts_shapes.adam_bytes(parameters), adam.step


def memory(here):
    quick = here.a.quick
    tokens, chosen, hidden = (32, 2, 16) if quick else (facts_shapes.TOKENS, 2, 4096)
    words, parameters, size = (64, 1024, 4096) if quick else (facts_shapes.VOCABULARY, 1 << 28, 1 << 30)
    copied = {}

    def bandwidth():
        took, *clock = here.measure(copy_call(here, size))
        copied["rate"] = 2 * size / took
        yield "copy", "copy_", 2 * size, took, copied["rate"], 1.0, *clock

    yield "copy", bandwidth
    for group in (rows_of(here, tokens, chosen, hidden), norms_of(here, tokens, hidden), losses_of(here, tokens, words),
                  updates_of(here, parameters)):  # fmt: skip
        for op, method, count, call in group:
            def measured(op=op, method=method, count=count, call=call):
                took, *clock = here.measure(call)
                share = count / took / copied["rate"] if copied else None
                yield op, method, count, took, count / took, share, *clock

            yield op, measured


def host_seconds(here, call, repeat):
    """Host's time of a call that launches many operations, not of their work: nobody waits for the device in between."""
    times = []
    for _ in range(repeat):
        here.synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    here.synchronize()
    times.sort()
    return statistics.median(times), times[len(times) // 4], times[-1 - len(times) // 4]


def host(here):
    """Of small operations, whose kernels are shorter than their launches."""
    torch, count, repeat = here.torch, 20 if here.a.quick else 200, 3 if here.a.quick else 25
    x, w = here.random(64, 64), here.random(64, 64)
    ops = {"add": lambda y: y + w, "mul": lambda y: y * w, "matmul": lambda y: y @ w}

    def chain(op, y):
        for _ in range(count):
            y = op(y)
        return y

    def forward(name, op, mode):
        def rows():
            start = x.clone().requires_grad_(mode == "autograd")
            with torch.set_grad_enabled(mode == "autograd"):
                chain(op, start)
                took, low, high = host_seconds(here, lambda: chain(op, start), repeat)
            yield name, "forward", mode, count, took / count, low / count, high / count

        return rows

    def backward(name, op):
        def rows():
            times = []
            for _ in range(repeat):
                start = (x * 1e-3).requires_grad_()
                loss = chain(op, start).sum()
                here.synchronize()
                begin = time.perf_counter()
                loss.backward()
                times.append(time.perf_counter() - begin)
            times.sort()
            yield name, "backward", "autograd", count, *(times[i] / count for i in (repeat // 2, repeat // 4, -1 - repeat // 4))

        return rows

    def waits():
        mask = x > 0
        number = mask.sum()
        for name, call in (("item of a number that is there", number.item), ("sum of a mask, and item", lambda: mask.sum().item()),
                           ("nonzero of a mask", mask.nonzero)):  # fmt: skip
            call()
            yield name, "wait", "no_grad", 1, *host_seconds(here, call, 20 * repeat)

    for name, op in ops.items():
        for mode in ("no_grad", "autograd"):
            yield f"{name}, {mode}", forward(name, op, mode)
        yield f"{name}, backward", backward(name, op)
    yield "waits", waits


PARTS = {
    "memory": (("op", "method", "bytes", "median_s", "bytes_per_s", "share_of_copy", "clock_mhz", "power_w"), memory),
    "host": (("op", "pass", "mode", "ops", "median_s", "quartile_1_s", "quartile_3_s"), host),
}  # fmt: skip
