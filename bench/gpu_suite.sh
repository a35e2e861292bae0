#!/usr/bin/env bash
# Everything to do on a machine with a GPU, in one call: build from source, tests, sanitizer, numerics and times of the
# shipped systems (with several GPUs over NCCL too), the same layer in PyTorch, calibration, a profile, validation. Needs
# nvcc with cuBLAS, CMake, a C++20 compiler and headers.
# shellcheck disable=SC2317  # steps are called by their names
set -uo pipefail

usage() {
  cat <<'END'
Usage: bench/gpu_suite.sh -o FOLDER [options]

  -o FOLDER        where everything goes: logs, results, provenance.json, and a stamp for each step that is done;
                   the same call goes on after the last of them
  --headers PATH   folder(s) of header-only dependencies (fmt, nlohmann json, valijson, Eigen, CLI11, Catch2),
                   where no package manager has put them; separated by semicolons
  --nccl ROOT      folder with include/nccl.h and lib/libnccl.so*
  --build FOLDER   [build/gpu]
  --time SECONDS   begin no further step after this [540]
  --jobs COUNT     [all cores]
END
  exit "${1:-0}"
}

out='' headers='' nccl='' build=build/gpu time=540 jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2; shift 2 ;;
    --headers) headers=$2; shift 2 ;;
    --nccl) nccl=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --time) time=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -h | --help) usage ;;
    *) usage 2 >&2 ;;
  esac
done
[ -n "$out" ] || usage 2 >&2
mkdir -p "$out/stamps"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.." || exit 1

# Measured sizes: a layer that fills a large GPU, one rank of eight. Eight sequences of 4096 tokens: the scores of one
# of 32768 would not fit, since attention is not fused.
layer=(--set workload.batch=8 --hidden 2048 --expert-hidden 8192 --tokens 8192 --experts 8 --layers 1)
presets=(deepspeed_moe tutel pipemoe fsmoe mpipemoe fastermoe)
# Links and GPUs that the emulated exchanges are modelled on.
cluster=dgx-h100 model=mixtral-8x7b

configure() {
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DDOVETAIL_WITH_CUDA=ON -DDOVETAIL_WITH_MPI=OFF \
    -DDOVETAIL_WITH_SIMGRID=OFF -DDOVETAIL_WITH_OPENBLAS=OFF -DDOVETAIL_WITH_NLOPT=OFF -DDOVETAIL_WITH_OPENSSL=OFF \
    -DCMAKE_CUDA_ARCHITECTURES=native ${headers:+-DDOVETAIL_HEADERS_PATH="$headers"} ${nccl:+-DDOVETAIL_NCCL_ROOT="$nccl"}
}
compile() { cmake --build "$build" -j "$jobs" --target dovetail dovetail-exec test_exec_cuda test_gpu; }
host_tests() { "$build/bin/test_exec_cuda"; }
gpu_tests() { "$build/bin/test_gpu" --durations yes; }
sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  "$tool" --error-exitcode 9 --tool memcheck "$build/bin/test_gpu" "Gates of a GPU*" &&
    "$tool" --error-exitcode 9 --tool synccheck "$build/bin/test_gpu" "Gates of a GPU*"
}
# With all ranks on the GPU, compared with the reference; exit code 1 where they differ.
numerics() {
  local system dtype failed=0
  for dtype in fp32 bf16; do
    for system in "${presets[@]}"; do
      "$build/bin/dovetail" run --device cuda --cluster "$cluster" --model "$model" --system "$system" \
        --set workload.dtype="$dtype" --measure-time 2 -q -o "$out/numerics-$dtype-$system.json" || failed=1
    done
  done
  return "$failed"
}
# One GPU as one rank of eight; exchanges last as long as the model says.
times() {
  local system failed=0 keep
  for system in "${presets[@]}"; do
    keep=()
    [ "$system" = tutel ] && keep=(--save-schedule "$out/schedule.json")
    "$build/bin/dovetail" run --device cuda --emulate-links --no-check --cluster "$cluster" --model "$model" \
      --system "$system" --set workload.dtype=bf16 "${layer[@]}" --ranks 8 --measure-time 5 -q \
      -o "$out/time-$system.json" \
      "${keep[@]}" || failed=1
  done
  return "$failed"
}
# A GPU for each rank, with NCCL between them; compared with the reference, then measured.
several_gpus() {
  local gpus system failed=0
  gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
  [ "$gpus" -gt 1 ] || { echo "one GPU: nothing to exchange with"; return 0; }
  gpus=$((gpus - gpus % 2))
  for system in "${presets[@]}"; do
    "$build/bin/dovetail" run --device cuda --transport nccl --ranks "$gpus" --cluster "$cluster" --model "$model" \
      --system "$system" --set workload.dtype=fp32 --measure-time 2 -q -o "$out/nccl-numerics-$system.json" || failed=1
    "$build/bin/dovetail" run --device cuda --transport nccl --no-check --cluster "$cluster" --model "$model" \
      --system "$system" --set workload.dtype=bf16 "${layer[@]}" --ranks "$gpus" --measure-time 5 -q \
      -o "$out/nccl-time-$system.json" || failed=1
  done
  return "$failed"
}
# Predicted against measured, and the regret of planners by measured times. Goes on where it was stopped.
validate() { "$build/bin/dovetail" validate gpu -o "$out/validation.json" --html "$out/validation.html"; }
# One rank of the same layer, of the sizes that `times` wrote down.
peer() { python3 bench/peers/torch_moe.py --schedule "$out/schedule.json" -o "$out/torch.json"; }
# One GPU cannot measure collectives: those stay as the base has them.
calibrate() {
  "$build/bin/dovetail" calibrate --device cuda --base "$cluster" -o "$out/calibration.json"
}
# What runs when, as nsys sees it, of one system.
profile() {
  command -v nsys >/dev/null || { echo "nsys is missing (nsight-systems): no profile"; return 0; }
  nsys profile --trace cuda,cublas,nvtx --cuda-graph-trace node --force-overwrite true -o "$out/tutel" \
    "$build/bin/dovetail-exec" "$out/schedule.json" --device cuda --emulate-links --no-check --limit 2 \
    -o "$out/profiled.json" &&
    nsys stats --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum --format csv -o "$out/tutel" "$out/tutel.nsys-rep"
}

json_text() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr -d '\n'; }
provenance() {
  {
    printf '{\n'
    printf '  "created": "%s",\n' "$(date -u +%FT%TZ)"
    printf '  "git_revision": "%s",\n' "$(json_text "$(git describe --always --abbrev=12 --dirty --exclude='*' 2>/dev/null || echo unknown)")"
    printf '  "host": "%s",\n' "$(json_text "$(uname -srm)")"
    printf '  "gpu": "%s",\n' "$(json_text "$(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader 2>&1 | head -1)")"
    printf '  "clocks_now": "%s",\n' "$(json_text "$(nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader 2>&1 | head -1)")"
    printf '  "nvcc": "%s",\n' "$(json_text "$(nvcc --version 2>/dev/null | tail -1)")"
    printf '  "compiler": "%s",\n' "$(json_text "$(c++ --version | head -1)")"
    printf '  "environment": {'
    env | grep -E '^(NCCL|CUDA)_[A-Z_]+=' | sort | sed 's/^\([^=]*\)=\(.*\)$/\1\t\2/' | {
      first=1
      while IFS=$'\t' read -r name value; do
        [ "$first" = 1 ] || printf ', '
        first=0
        printf '"%s": "%s"' "$name" "$(json_text "$value")"
      done
    }
    printf '}\n}\n'
  } >"$out/provenance.json"
}

begin=$SECONDS failed=0
for step in configure compile provenance host_tests gpu_tests sanitizer numerics times several_gpus peer calibrate \
  profile validate; do
  [ -e "$out/stamps/$step" ] && continue
  if [ $((SECONDS - begin)) -ge "$time" ]; then
    echo "time is up before $step; call again to go on"
    exit 75
  fi
  at=$SECONDS
  if $step >"$out/$step.log" 2>&1; then
    echo "$step: done, $((SECONDS - at)) s"
    touch "$out/stamps/$step"
  else
    echo "$step: FAILED, $((SECONDS - at)) s; the end of $out/$step.log:"
    tail -n 12 "$out/$step.log"
    failed=1
    case $step in configure | compile) exit 1 ;; esac
  fi
done
exit $failed
