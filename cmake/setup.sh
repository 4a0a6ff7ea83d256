# Sets up everything that building needs; sourced by ./quickstart and ./check.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Leaves FSDP_PYTHON (a python with the wheels), FSDP_TORCH_DIR (its LibTorch),
# FSDP_WHEEL_PYTHON (one with what makes our own wheel) and the function fsdp_build. Everything is done only where it is missing, so a
# second run is cheap. The wheels are kept outside of the checkout, under
# $FSDP_DEPS (default: ~/.cache/fsdp-opt), one folder for each list of packages.

set -euo pipefail
FSDP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8

fsdp_say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
fsdp_fail() { printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# A long command with its output in a log, a dot every two seconds, and the end
# of the log if it fails.
fsdp_quietly() {
  local what=$1 log=$2; shift 2
  printf '    %s ' "$what"
  "$@" >"$log" 2>&1 &
  local pid=$! tenths=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.1
    tenths=$((tenths + 1))
    [ $((tenths % 20)) -ne 0 ] || printf '.'
  done
  if wait "$pid"; then
    printf ' done\n'
  else
    printf ' failed\n\n'
    tail -n 30 "$log" >&2
    fsdp_fail "$what failed; the whole output is in $log"
  fi
}

fsdp_packages() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

fsdp_setup_system() {
  local missing=() package
  command -v dpkg-query >/dev/null ||
    fsdp_fail "this needs Debian 12 or a relative of it (dpkg was not found); elsewhere install what cmake/apt-packages.txt lists and call cmake yourself, see CONTRIBUTING.md"
  for package in $(fsdp_packages "$FSDP_ROOT/cmake/apt-packages.txt"); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fsdp_fail "these Debian packages are missing and you are not root and have no sudo:
    ${missing[*]}
Ask an administrator for:  apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  fsdp_say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  fsdp_quietly "apt-get update" "$FSDP_LOGS/apt-update.log" \
    "${as_root[@]}" apt-get update
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 ||
      fsdp_fail "Debian's package '$package' is not in your package lists. MLIR 22 comes with Debian 12's security updates: the suite bookworm-security (component main) must be among your apt sources, see sources.list(5)."
  done
  fsdp_quietly "apt-get install" "$FSDP_LOGS/apt-install.log" \
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# A virtual environment with a list of packages; prints its folder.
fsdp_environment() { # list, name, what it says
  # Debian's own python3, whatever else is first in PATH: what newcomers have is
  # what is tested.
  local list=$FSDP_ROOT/cmake/$1 python=/usr/bin/python3 key
  [ -x "$python" ] || fsdp_fail "$python was not found; it comes with Debian's package python3"
  key=$({ fsdp_packages "$list"; "$python" -c 'import sys; print(sys.version)'; } |
    sha256sum | cut -c1-12)
  local venv=$FSDP_DEPS/$2-$key
  if [ ! -e "$venv/complete" ]; then
    fsdp_say "Installing $3 into $venv" >&2
    rm -rf "$venv"
    "$python" -m venv "$venv" ||
      fsdp_fail "python3 -m venv failed; on Debian it needs the package python3-venv"
    fsdp_quietly "pip install" "$FSDP_LOGS/pip-$2.log" "$venv/bin/python" -m pip install \
      --disable-pip-version-check --no-input -r "$list" >&2
    touch "$venv/complete"
  fi
  echo "$venv"
}

fsdp_setup_python() {
  local venv wheel
  venv=$(fsdp_environment python-packages.txt python "LibTorch and Python packages (some 3 GB, once)")
  wheel=$(fsdp_environment wheel-packages.txt wheel "what makes the Python package")
  FSDP_PYTHON=$venv/bin/python
  FSDP_TORCH_DIR=$(echo "$venv"/lib/python3*/site-packages/torch)
  FSDP_WHEEL_PYTHON=$wheel/bin/python
  export FSDP_PYTHON FSDP_TORCH_DIR FSDP_WHEEL_PYTHON
}

# Some virtual machines announce AMX and end programs that use it, as PyTorch's
# products of bf16 do. There the tests, PyTorch's side too, do without.
fsdp_avoid_broken_instructions() {
  [ -z "${ONEDNN_MAX_CPU_ISA:-}" ] && grep -qw amx_tile /proc/cpuinfo || return 0
  local status=0
  ("$FSDP_PYTHON" -c 'import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a'
    exit $?) >"$FSDP_LOGS/processor.log" 2>&1 || status=$?
  if [ $status -eq 132 ]; then # 128 + SIGILL
    fsdp_say "This machine announces AMX but cannot execute it: ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"
    export ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16
  fi
}

# The compiler with which everything is checked, so that no warning of it is left. A
# source takes a half to a third of g++ 12's time.
FSDP_CXX=clang++-22

# What is configured beside the preset.
FSDP_CMAKE_OPTIONS=()

# fsdp_build TARGET...: configures build/ and builds.
fsdp_build() {
  # Other checkouts' object files serve as well: paths are taken relatively.
  export CCACHE_BASEDIR=$FSDP_ROOT CCACHE_NOHASHDIR=1
  fsdp_say "Building"
  # CMake forgets what it was told where it finds another compiler.
  local cache=$FSDP_ROOT/build/CMakeCache.txt fresh=()
  if [ -e "$cache" ] && ! grep -q "^CMAKE_CXX_COMPILER:.*[=/]$FSDP_CXX\$" "$cache"; then
    fresh=(--fresh)
  fi
  fsdp_quietly "cmake" "$FSDP_LOGS/configure.log" \
    cmake "${fresh[@]}" -DCMAKE_CXX_COMPILER=$FSDP_CXX --preset release -S "$FSDP_ROOT" "${FSDP_CMAKE_OPTIONS[@]}" \
    -DFSDP_TORCH_DIR="$FSDP_TORCH_DIR" -DFSDP_PYTHON="$FSDP_PYTHON" \
    -DFSDP_WHEEL_PYTHON="$FSDP_WHEEL_PYTHON" \
    -DFSDP_WERROR=ON -DFSDP_UNITY=ON
  local log=$FSDP_LOGS/build.log
  if [ -t 1 ]; then
    NINJA_STATUS='    [%f/%t] ' cmake --build "$FSDP_ROOT/build" --target "$@"
  else
    cmake --build "$FSDP_ROOT/build" --target "$@" >"$log" 2>&1 || {
      grep -E -A 8 'error|FAILED' "$log" | head -n 60 >&2
      fsdp_fail "the build failed; the whole output is in $log"
    }
  fi
}

cd "$FSDP_ROOT"
FSDP_DEPS=${FSDP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/fsdp-opt}
FSDP_LOGS=$FSDP_ROOT/build/logs
mkdir -p "$FSDP_DEPS" "$FSDP_LOGS"
fsdp_setup_system
fsdp_setup_python
