#!/usr/bin/env bash
# The first minutes on a machine with a GPU, from an unpacked archive of `run.py prepare` alone.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   first.sh RESULTS [MINUTES]      3 minutes by default, and no less than 1
#
# What tells most comes first: versions, one artifact as single launches and as a graph,
# whose first loss is there some seconds after the start, and then the parts `first` of
# run.py within the minutes that are left. Each line is in RESULTS/first.txt at once, with
# the seconds since the start, and each program has a time limit of its own. PYTHON names
# the Python that has torch. Exit status 0 only if all that ran was right.

set -uo pipefail
export LC_ALL=C.UTF-8
begin=${EPOCHREALTIME/./}
if [ $# -lt 1 ] || ! [[ ${2:-3} =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: $(basename "$0") RESULTS [MINUTES], a whole number of minutes" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$1" || exit 2
results=$(cd "$1" && pwd)
minutes=${2:-3}
python=${PYTHON:-python3}
status=0

passed() { echo $(((${EPOCHREALTIME/./} - begin) / 1000)); } # milliseconds
say() {
  local now
  now=$(passed)
  printf '[%5d.%d s] %s\n' $((now / 1000)) $((now % 1000 / 100)) "$*" | tee -a "$results/first.txt"
}
say_lines() { # name of the run whose metrics may be among the lines
  local line
  while IFS= read -r line; do
    if [[ $line =~ ^\{.*\"step\":\ ?([0-9]+),.*\"loss\":\ ?([^,]+),.*\"grad_norm\":\ ?([^,]+), ]]; then
      line="$1: step ${BASH_REMATCH[1]}, loss ${BASH_REMATCH[2]}, norm ${BASH_REMATCH[3]}"
    fi
    say "${line#\[*\ s\] }" # run.py has seconds of its own
  done
}
limited() { # name, seconds, program and arguments
  local name=$1 seconds=$2
  shift 2
  timeout --kill-after=5 "$seconds" "$@" 2>&1 | say_lines "$name"
  local result=${PIPESTATUS[0]}
  [ "$result" -eq 124 ] && say "not done after $seconds s: $name"
  return "$result"
}
: >"$results/first.txt"

[ -e "$root/manifest.json" ] || {
  say "$root/manifest.json is not there: expected this script in test/gpu of an unpacked archive of run.py prepare"
  exit 2
}
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || {
  say "$python has no torch: name one that has in PYTHON"
  exit 2
}
is_gpu=$(grep -c '"device": "cuda"' "$root/manifest.json")
# Pages of LibTorch's libraries, while other things begin.
cat "$torch"/lib/*.so* "$torch"/../nvidia/*/lib/*.so* >/dev/null 2>&1 &
reader=$!
trap 'kill "$reader" 2>/dev/null' EXIT

say "$(uname -sr), $(nproc) cores, $("$python" --version 2>&1), torch $(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py")"
if [ "$is_gpu" -eq 1 ]; then
  if command -v nvidia-smi >/dev/null; then
    limited nvidia-smi 20 nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit --format=csv,noheader
  else
    say "nvidia-smi is not there"
  fi
fi

libraries=$root/build/lib:$torch/lib
for folder in "$torch"/../nvidia/*/lib; do libraries=$libraries:$folder; done
train() { # name, folder, artifact, options
  local name=$1 folder=$2 artifact=$3
  shift 3
  (cd "$root/$folder" && LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-} OMP_NUM_THREADS=1 \
    limited "$name" 60 "$root/build/bin/fsdp-run" "$artifact.fsdp" --steps=6 --data=data.safetensors --metrics=/dev/stdout "$@")
}
numbers() { grep -F "$1: step " "$results/first.txt" | sed 's/.*: step/step/'; }
fails() {
  status=1
  say "FAILED: $*"
}
while read -r folder artifact; do
  name="$folder $artifact"
  if [ "$is_gpu" -eq 0 ]; then
    train "$name" "$folder" "$artifact" || fails "$name"
    continue
  fi
  for graph in off on; do
    train "$name, graph $graph" "$folder" "$artifact" "--cuda-graph=$graph" || fails "$name, graph $graph"
  done
  [ "$(numbers "$name, graph off")" = "$(numbers "$name, graph on")" ] || fails "$name: a graph gives other numbers than single launches"
done <"$root/begin.txt"

left=$((minutes * 60 - $(passed) / 1000))
[ "$left" -lt 30 ] && left=30
say "goes on with run.py first, $left s"
limited run.py $((left + 60)) "$python" "$here/run.py" first "$root" --results "$results" --minutes "$(printf '%d.%02d' $((left / 60)) $((left % 60 * 100 / 60)))" || status=1
say "done, status $status"
exit "$status"
