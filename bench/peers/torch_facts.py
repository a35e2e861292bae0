#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what simulators of training lack, in PyTorch on one GPU: sustained against burst rate of products, attention by shape,
grouped products, kernels bound by memory as shares of its bandwidth, the host's time for an eager operation. Writes one CSV
file for each into a folder. Files of an earlier call are kept, and their parts are not measured again."""
import argparse
import ctypes
import pathlib
import sys
import time

import torch_timing as timing

PARTS = ("products", "attention", "grouped", "memory", "host")
TIME_IS_UP = 75


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("-o", "--output", required=True, metavar="FOLDER")
    p.add_argument("--time", type=float, default=200, help="begin nothing after so many seconds [200]")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu only shows that the script works [cuda]")
    p.add_argument("--quick", action="store_true", help="tiny sizes")
    p.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)} [all]")
    p.add_argument("--revision", default="unknown", help="what the files say about the scripts [unknown]")
    return p.parse_args()


class Here:
    """Where and how long calls are measured."""

    def __init__(self, a, torch):
        self.a, self.torch, self.begin = a, torch, time.monotonic()
        self.cuda = a.device == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32

    def time_left(self):
        return self.a.time - (time.monotonic() - self.begin)

    def random(self, *shape, **how):
        return self.torch.randn(*shape, device=self.a.device, dtype=how.pop("dtype", self.dtype), **how)

    def synchronize(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def measure(self, call, samples=10):
        """(median seconds, clock in MHz, watts)."""
        if not self.cuda:
            begin = time.perf_counter()
            for _ in range(3):
                call()
            return (time.perf_counter() - begin) / 3, None, None
        step, _ = timing.capture(call)
        times, clock = timing.seconds(step, samples)
        return sorted(times)[len(times) // 2], clock["clock_mhz"], clock["power_w"]


def driver_version():
    try:
        library, version = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.create_string_buffer(96)
    except OSError:
        return ""
    known = library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(version, 96) == 0
    return version.value.decode() if known else ""


def main():
    a = parse()
    if a.device == "cuda":
        timing.require_gpu()
    import torch

    import facts_memory
    import facts_products
    import facts_shapes

    folder = pathlib.Path(a.output)
    folder.mkdir(parents=True, exist_ok=True)
    provenance = {"gpu": torch.cuda.get_device_name() if a.device == "cuda" else "cpu", "driver": driver_version(),
                  "torch": torch.__version__, "cuda": torch.version.cuda or "", "revision": a.revision, "created": facts_shapes.now()}  # fmt: skip
    torch.manual_seed(1)
    here, refused, late = Here(a, torch), 0, False
    parts = {**facts_products.PARTS, **facts_memory.PARTS}
    for name in a.parts.split(","):
        columns, measured = parts[name]
        if (folder / f"{name}.csv").exists():
            print(f"{name}: measured before")
            continue
        table, begin = facts_shapes.Table(folder, name, columns, provenance), time.monotonic()
        whole = True
        groups = measured(here)
        while True:
            try:
                label, rows = next(groups, ("", None))
                if rows is None:
                    break
                if here.time_left() <= 0:
                    whole, late = False, True
                    break
                for row in rows():
                    table.add(*row)
            except (RuntimeError, NotImplementedError, TypeError) as error:  # no memory, or no such kernel: the others still count
                refused += 1
                print(f"{name}, {label}: {str(error).splitlines()[0]}", flush=True)
        table.close(whole)
        print(f"{name}: {'whole' if whole else 'the time is up'}, {time.monotonic() - begin:.1f} s", flush=True)
    if refused:
        print(f"{refused} measurements were refused")
    return TIME_IS_UP if late else 0


if __name__ == "__main__":
    sys.exit(main())
