#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything to do on a machine with a GPU, in one call or several; see gpu_suite/suite.py.
exec python3 -B "$(dirname "$0")/gpu_suite/suite.py" "$@"
