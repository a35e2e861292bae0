#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bash completes commands, options, choices and shipped names. Usage: completion_test.py PROGRAM"""
import subprocess

from program import SOURCE, Checks, program_argument

CASES = [
    (["com"], {"compare"}),
    (["simulate", "--clu"], {"--cluster"}),
    (["compare", "--cluster", "fsmoe-"], {"fsmoe-testbed-a", "fsmoe-testbed-b", "fsmoe-testbed-b-links"}),
    (["plan", "--model", "mix"], {"mixtral-8x7b", "mixtral-8x22b"}),
    (["simulate", "--system", "tutel"], {"tutel", "tutel_2dh", "tutel_adaptive", "tutel_improved"}),
    (["compare", "--format", ""], {"table", "json", "csv"}),
    (["run", "--device", "h"], {"host"}),
    (["simulate", "--set", "plan.host"], {"plan.host_sync="}),
    (["simulate", "--set", "workload.at"], {"workload.attention="}),
    (["simulate", "--set", "model.attention.kv"], {"model.attention.kv_heads=", "model.attention.kv_rank="}),
    (["simulate", "--set", "cluster.n"], {"cluster.name=", "cluster.nodes=", "cluster.node_link=", "cluster.node_bandwidth=",
                                          "cluster.nvls=", "cluster.nics_per_node=", "cluster.nic_bandwidth=",
                                          "cluster.network.fabric=", "cluster.network.slow=", "cluster.network.rails=", "cluster.network.pcie.bandwidth=",
                                          "cluster.network.pcie.gpus_per_switch=",
                                          "cluster.network.pcie.switch_bandwidth="}),
    (["simulate", "--set", "workload.attention", "="], {"flash", "eager"}),
    (["simulate", "--set", "plan.scope", "=", "mo"], {"moe"}),
    (["simulate", "--set", "parallelism.sequence_parallel", "=", ""], {"true", "false"}),
    (["reproduce", "--steps", "b200"], {"b200-8gpu"}),
    (["reproduce", "st"], {"steps"}),
    (["reproduce", "--operators", "h200"], {"h200-by-h100"}),
    (["reproduce", "op"], {"operators"}),
    (["import", "tests/data/hf"], {"tests/data/hf"}),
]


def complete(program, words):
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dovetail; printf "%s\\n" "${COMPREPLY[@]}"'
    arguments = ["bash", "-c", script, "bash", str(SOURCE / "bench/completion.bash"), program, *words]
    result = subprocess.run(arguments, cwd=SOURCE, capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def main():
    checks = Checks()
    for words, expected in CASES:
        found = complete(program_argument(), words)
        checks.check(found == expected, f"{' '.join(words)}: completed to {found}, expected {expected}")
    checks.finish()


main()
