#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a mission with the programs of this folder: ./mission 1 -o RESULTS. ./mission --check starts each program once;
# ./mission --with COMMAND... runs anything else in the same surroundings. Folders of LD_LIBRARY_PATH come first, then those
# of Python's packages, which PyTorch loads too, then the toolkit's.
here=$(cd "$(dirname "$0")" && pwd)

packages() {  # the folders "nvidia" that Python finds
  python3 -c 'import importlib.util as u
s = u.find_spec("nvidia")
print("\n".join(s.submodule_search_locations if s else []))' 2>/dev/null
  for place in /usr/lib/python3*/dist-packages /usr/local/lib/python3*/*-packages "$HOME"/.local/lib/python3*/site-packages; do
    [ ! -d "$place/nvidia" ] || echo "$place/nvidia"
  done
}

folders() {  # where CUDA's libraries may lie, one a line
  echo "$LD_LIBRARY_PATH" | tr ':' '\n'
  packages | while read -r root; do
    for place in "$root"/cu13/lib "$root"/*/lib; do
      [ ! -d "$place" ] || echo "$place"
    done
  done
  for root in "$CUDA_HOME" /usr/local/cuda /usr/local/cuda-13*; do
    for place in "$root"/lib64 "$root"/targets/x86_64-linux/lib; do
      [ -z "$root" ] || [ ! -d "$place" ] || echo "$place"
    done
  done
  echo /usr/local/nvidia/lib64  # a driver's, where the system's folders have none
}

all=$(folders)
path=
for library in libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcuda.so.1; do
  found=$(echo "$all" | while read -r place; do
    if [ -n "$place" ] && [ -e "$place/$library" ]; then
      echo "$place"
      break
    fi
  done)
  [ -n "$found" ] || continue
  case ":$path:" in
    *":$found:"*) ;;
    *) path=${path:+$path:}$found ;;
  esac
done
LD_LIBRARY_PATH=${path:+$path${LD_LIBRARY_PATH:+:}}$LD_LIBRARY_PATH
export LD_LIBRARY_PATH
export DOVETAIL_DATA="$here/data"

case "$1" in
  --check)
    echo "libraries from $LD_LIBRARY_PATH"
    for start in "dovetail --version" "dovetail-exec --help" "test_gpu --list-tests"; do
      if ! said=$("$here"/bin/$start 2>&1); then
        case "$start:$said" in
          *--list-tests:*"Matching test cases"*|*--list-tests:*"All available test cases"*) ;;  # Catch2 2 exits with their number
          *) echo "bin/$start: does not start: $said"; exit 1 ;;
        esac
      fi
      echo "bin/$start: starts"
    done ;;
  --with)
    shift
    exec "$@" ;;
  *)
    exec python3 -B "$here/bench/gpu_suite/suite.py" "$@" ;;
esac
