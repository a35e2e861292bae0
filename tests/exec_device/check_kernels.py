# SPDX-License-Identifier: Apache-2.0
"""Whether kernels that are bound by memory are compiled to accesses of 16 bytes, without spilled registers, and without
a division in the loop over their columns. Reads the PTX and ptxas's report; needs nvcc, no GPU.

check_kernels.py NVCC ROOT BUILD"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# By source: kernels whose operands are rows or packs of bf16, as they are instantiated. A number: loads that go together.
KERNELS = {
    "order_kernels": {"CausalSoftmax": 2, "SoftmaxBackward": 4, "TurnHeads": 2, "CopyHeads": 1, "SumHeads": 1, "FillSlots": 1, "CollectSlots": 8, "ScoreGradients": 2},
    "tensor_kernels": {"Add": 2, "SumOf": 1, "MoveRows": 1, "MoveBlocks": 1, "SquareParts": 1, "AdamStep": 7, "Relu": 1, "GatedActivation": 2,
                       "ActivationBackward": 3},
    "gate_kernels": {"SpreadGradients": 5, "ToBf16": 1, "FromBf16": 1},
    "soft_kernels": {"Narrow": 2},
}
# Tokens of more rows than registers hold look them up again for all columns.
LOOKS_UP = {"CollectSlots"}
# Addresses that come from memory are of any space.
LOAD = re.compile(r"\bld(?:\.global(?:\.nc)?)?\.(?:v4\.[usfb]32|v2\.[usfb]64)\b")
STORE = re.compile(r"\bst\.global\.(?:v4\.[usfb]32|v2\.[usfb]64)\b")
DIVISION = re.compile(r"\b(?:div|rem)\.[us](?:32|64)\b")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def compile_kernels(nvcc, root, build, source, folder):
    """PTX and ptxas's report by mangled name."""
    command = [nvcc, "-cubin", "-arch=sm_90", "-Xptxas", "-v", "-std=c++20", "--keep", "--keep-dir", folder,
               f"-I{root}", f"-I{build}/generated", f"{root}/exec/device/cuda/{source}.cu", "-o", f"{folder}/x.cubin"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    ptx = (Path(folder) / f"{source}.ptx").read_text(encoding="utf-8")
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?\n\})", ptx, re.S))
    reports = dict(re.findall(r"Compiling entry function '(\w+)' for 'sm_90'\n(.*?Used \d+ registers)", done.stderr,
                              re.S))
    return bodies, reports


def innermost_loops(body):
    lines = body.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"(\$L\w+):", line))}
    spans = [(labels[m[1]], i) for i, line in enumerate(lines)
             if (m := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line)) and labels[m[1]] <= i]
    inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return ["\n".join(lines[first:last + 1]) for first, last in inner]


def is_kernel(mangled, name):
    """Of bf16 elements; in packs of 8 where the template has their size."""
    return re.search(rf"\d{name}I[^E]*4Bf16E(?:Li8E)?E", mangled)


def faults(name, body, report, together):
    spills = SPILLS.search(report)
    if spills is None or any(int(n) for n in spills.groups()):
        yield f"uses local memory: {report.strip().splitlines()[-2:]}"
    if len(LOAD.findall(body)) < together:
        yield f"{len(LOAD.findall(body))} loads of 16 bytes, expected at least {together}"
    if not (STORE.search(body) or name in {"ScoreGradients", "SquareParts"}):  # these write single numbers
        yield "no store of 16 bytes"
    loops = [loop for loop in innermost_loops(body) if LOAD.search(loop)]
    divided = [loop for loop in loops if DIVISION.search(loop)]
    if divided and name not in LOOKS_UP:
        yield "a division in the loop over columns"
    if loops and max(len(LOAD.findall(loop)) for loop in loops if loop not in divided) < together:
        yield f"fewer than {together} loads together in a loop"


def main():
    nvcc, root, build = sys.argv[1:4]
    failed = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for source, kernels in KERNELS.items():
            bodies, reports = compile_kernels(nvcc, root, build, source, folder)
            for name, together in kernels.items():
                found = [m for m in bodies if is_kernel(m, name)]
                if len(found) != 1:
                    sys.exit(f"{name}: {len(found)} kernels of bf16 in {source}.cu, expected 1")
                body, report = bodies[found[0]], reports[found[0]]
                wrong = list(faults(name, body, report, together))
                registers = re.search(r"Used (\d+) registers", report)[1]
                print(f"{name}: {registers} registers, {len(LOAD.findall(body))} loads and "
                      f"{len(STORE.findall(body))} stores of 16 bytes" + "".join(f"; FAULT: {w}" for w in wrong))
                failed += len(wrong)
                checked += 1
    print(f"{checked} kernels, {failed} faults")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
