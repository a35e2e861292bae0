#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows where the time of a build goes: by folder, and the longest steps. It reads them off ninja's log.
# Usage: bench/build_time.sh [--cold] [--touch FILE] [PRESET|FOLDER]      (default: release)
#   --cold        first builds everything anew, without ccache
#   --touch FILE  instead measures what a change of FILE costs until `dovetail` is linked again
set -euo pipefail
cd "$(dirname "$0")/.."
cold=false preset=release touched=
while [ $# -gt 0 ]; do
  case $1 in
    --cold) cold=true ;;
    --touch) touched=${2:?--touch needs a file}; shift ;;
    -h | --help) sed -n '2,5s/^# \?//p' "$0"; exit 0 ;;
    -*) echo "unknown option $1 (see --help)" >&2; exit 2 ;;
    *) preset=$1 ;;
  esac
  shift
done
folder=build/$preset
[ ! -d "$preset" ] || folder=$preset
export CCACHE_DISABLE=1
[ -e "$folder/build.ninja" ] || cmake --preset "$preset" >/dev/null

seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }'; }

if [ -n "$touched" ]; then
  [ -e "$touched" ] || { echo "no file $touched" >&2; exit 2; }
  cmake --build "$folder" --target dovetail >/dev/null
  touch "$touched"
  begin=$(seconds)
  cmake --build "$folder" --target dovetail >/dev/null
  echo "$preset: $(since "$begin") s from a change of $touched to a linked dovetail"
  exit 0
fi
if $cold; then
  cmake --build "$folder" --target clean >/dev/null
  rm -f "$folder/.ninja_log"
  begin=$(seconds)
  cmake --build "$folder" -j "$(nproc)" >/dev/null
  echo "$preset: built anew in $(since "$begin") s on $(nproc) cores"
fi
[ -e "$folder/.ninja_log" ] || { echo "$folder is not built yet (or use --cold)" >&2; exit 2; }

# A line of the log: begin, end (ms), time of the output, output, hash. The last line of an output counts.
awk -F'\t' -v preset="$preset" '
  /^#/ || NF < 5 || $4 ~ /^CMakeFiles|\.ninja$|\.util$/ { next }
  { took[$4] = ($2 - $1) / 1000 }
  END {
    for (output in took) {
      split(output, part, "/")
      sum += took[output]; steps++
      of[part[1]] += took[output]; count[part[1]]++
    }
    printf "%s: %d steps, %.0f s of work\n\n%9s  %6s  folder\n", preset, steps, sum, "s", "steps"
    by = "sort -rn"
    for (f in of) printf "%9.1f  %6d  %s\n", of[f], count[f], f | by
    close(by)
    printf "\n%9s  longest steps\n", "s"
    by = "sort -rn | head -n 20"
    for (output in took) printf "%9.1f  %s\n", took[output], output | by
  }' "$folder/.ninja_log"
