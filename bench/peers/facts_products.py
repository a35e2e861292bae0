# SPDX-License-Identifier: Apache-2.0
"""Parts of torch_facts.py that multiply: sustained products, attention, grouped products. Each yields (label, rows): a function
that measures and returns rows."""
import math
import time

import facts_shapes
import gpu_clock

SUSTAINED, ROUND, BURST, IDLE = 30.0, 0.1, 0.01, 1.0  # seconds


def timed(here, call, calls):
    """Seconds of so many calls back to back, on the GPU's clock where there is one."""
    if not here.cuda:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin
    begin, end = (here.torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def products(here):
    """Random data, since products of zeros draw less power and run at a higher clock."""
    size = 64 if here.a.quick else 8192
    left, right = here.random(size, size), here.random(size, size)
    result = here.torch.empty_like(left)
    flops = facts_shapes.product_flops(1, size, size, size)
    multiply = lambda: here.torch.mm(left, right, out=result)  # noqa: E731
    multiply()
    one = max(timed(here, multiply, 3) / 3, 1e-6)
    lasting, idle = (0.2, 0.01) if here.a.quick else (min(SUSTAINED, here.time_left() / 3), IDLE)

    def bursts():
        with gpu_clock.Sampler(0.02) as clock:
            for number in range(2 if here.a.quick else 5):
                here.synchronize()
                time.sleep(idle)
                calls = max(1, math.ceil(BURST / one))
                took = timed(here, multiply, calls)
                yield "burst", float(number), took, size, calls * flops / took, *clock.near(time.monotonic())

    def sustained():
        begin, calls = time.monotonic(), max(1, math.ceil(ROUND / one))
        with gpu_clock.Sampler() as clock:
            while time.monotonic() - begin < lasting:
                elapsed, took = time.monotonic() - begin, timed(here, multiply, calls)
                yield "sustained", elapsed, took, size, calls * flops / took, *clock.near(time.monotonic())

    yield "burst", bursts
    yield "sustained", sustained


def attention_call(here, q, k, v):
    """(method, function) of causal attention: the fused kernel on a GPU, products and a softmax on the host."""
    functional = here.torch.nn.functional
    if here.cuda:
        from torch.nn import attention as kernels

        def fused():
            with kernels.sdpa_kernel(kernels.SDPBackend.FLASH_ATTENTION):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        return "flash", fused

    def unfused():
        keys, values = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
        scores = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
        later = here.torch.ones(scores.shape[-2:], dtype=here.torch.bool).triu(1)
        return scores.masked_fill(later, -math.inf).softmax(-1) @ values

    return "unfused", unfused


def attention(here):
    for model, batch, sequence, heads, kv_heads, head_size in facts_shapes.attention_shapes(here.a.quick):
        def rows(model=model, batch=batch, sequence=sequence, heads=heads, kv_heads=kv_heads, head_size=head_size):
            q, k, v = (here.random(batch, count, sequence, head_size, requires_grad=True) for count in (heads, kv_heads, kv_heads))
            gradient = here.random(batch, heads, sequence, head_size)
            method, forward = attention_call(here, q, k, v)
            with here.torch.no_grad():
                one, *clock = here.measure(forward)
            both, *clock_of_both = here.measure(lambda: here.torch.autograd.grad(forward(), (q, k, v), gradient))
            flops = facts_shapes.attention_flops(batch, sequence, heads, head_size)
            shape = (model, method, batch, sequence, heads, kv_heads, head_size)
            yield *shape, "forward", flops[0], one, flops[0] / one, *clock
            yield *shape, "forward_and_backward", flops[1], both, flops[1] / both, *clock_of_both

        yield f"{model}, {sequence}", rows


def grouped_product(torch):
    """PyTorch's product of matrices whose rows belong to several others; None where it has none."""
    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def grouped_calls(here, experts, rows, inner, columns):
    """(pass, method, function): with PyTorch's grouped product where it takes these, and with batched ones of equal rows."""
    x, dy = here.random(experts * rows, inner), here.random(experts * rows, columns)
    w = here.random(experts, inner, columns) * inner**-0.5
    sums = here.torch.zeros(experts, inner, columns, device=here.a.device, dtype=here.torch.float32)
    by_expert = x.view(experts, rows, inner), dy.view(experts, rows, columns)
    bmm = here.torch.bmm
    calls = [("forward", "bmm", lambda: bmm(by_expert[0], w)),
             ("input_gradient", "bmm", lambda: bmm(by_expert[1], w.transpose(1, 2))),
             ("weight_gradient", "bmm", lambda: bmm(by_expert[0].transpose(1, 2), by_expert[1])),
             ("weight_gradient_added_in_fp32", "bmm, add", lambda: sums.add_(bmm(by_expert[0].transpose(1, 2), by_expert[1])))]  # fmt: skip
    grouped = grouped_product(here.torch)
    if grouped is None or not here.cuda:
        return calls
    ends = here.torch.arange(rows, experts * rows + 1, rows, device=here.a.device, dtype=here.torch.int32)
    return calls + [
        ("forward", "grouped_mm", lambda: grouped(x, w, offs=ends)),
        ("input_gradient", "grouped_mm", lambda: grouped(dy, w.transpose(1, 2), offs=ends)),
        ("weight_gradient", "grouped_mm", lambda: grouped(x.t(), dy, offs=ends)),
        ("weight_gradient_added_in_fp32", "grouped_mm, add", lambda: sums.add_(grouped(x.t(), dy, offs=ends))),
        ("weight_gradient_added_in_fp32", "bmm in fp32, add",
         lambda: sums.add_(bmm(by_expert[0].transpose(1, 2), by_expert[1], out_dtype=here.torch.float32))),
    ]  # fmt: skip


def grouped(here):
    for model, experts, rows, inner, columns in facts_shapes.expert_shapes(here.a.quick):
        calls = grouped_calls(here, experts, rows, inner, columns)
        flops = facts_shapes.product_flops(experts, rows, inner, columns)
        for which, method, call in calls:
            def measured(which=which, method=method, call=call, shape=(model, experts, rows, inner, columns), flops=flops):
                took, *clock = here.measure(call)
                yield *shape, which, method, flops, took, flops / took, *clock

            yield f"{model}, {which}, {method}", measured


RATE = ("flops", "median_s", "flops_per_s", "clock_mhz", "power_w")
PARTS = {
    "products": (("phase", "elapsed_s", "seconds", "size", "flops_per_s", "clock_mhz", "power_w"), products),
    "attention": (("model", "method", "batch", "sequence", "heads", "kv_heads", "head_size", "pass", *RATE), attention),
    "grouped": (("model", "experts", "rows", "inner", "columns", "pass", "method", *RATE), grouped),
}  # fmt: skip
