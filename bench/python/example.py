#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster would each system train with network cards of twice the speed?
Usage: example.py [--cluster NAME] [--model NAME] [--systems NAME,..]"""
import argparse
import sys

import dovetail


def steps(asked, **settings):
    """The steps of the systems, in seconds by their names."""
    found = dovetail.compare(cluster=asked.cluster, model=asked.model, systems=asked.systems, draws=0, **settings)
    return found, {row["system"]: row["iteration_s"] for row in found.rows()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default="fsmoe-testbed-b")
    parser.add_argument("--model", default="mixtral-8x7b")
    parser.add_argument("--systems", default="deepspeed_moe,tutel,fsmoe,dovetail")
    asked = parser.parse_args()
    found, now = steps(asked)
    bandwidth = found["inputs"]["cluster"]["nic_bandwidth_bytes_per_s"] / 1e9
    _, then = steps(asked, set={"cluster.nic_bandwidth": f"{2 * bandwidth:g} GB/s"})
    print(f"{asked.model} on {asked.cluster}: predicted ms a step")
    print(f"with network cards of {bandwidth:g} GB/s, and of {2 * bandwidth:g} GB/s:")
    for system, step in sorted(now.items(), key=lambda entry: entry[1]):
        print(f"{system:20} {step * 1e3:8.1f} {then[system] * 1e3:8.1f}   {step / then[system]:.2f} times as fast")


if __name__ == "__main__":
    try:
        main()
    except dovetail.DovetailError as error:
        sys.exit(str(error))
