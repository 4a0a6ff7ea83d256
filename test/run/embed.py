# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the runtime, builds docs/examples/embed against it, and trains."""

import argparse
import pathlib
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--build", required=True)
parser.add_argument("--source", type=pathlib.Path, required=True)
parser.add_argument("--make-step", required=True)
args = parser.parse_args()

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    prefix, build = folder / "prefix", folder / "build"
    subprocess.run(["cmake", "--install", args.build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "-S", args.source / "docs/examples/embed", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    subprocess.run([args.make_step, folder, "2"], check=True)
    done = subprocess.run([build / "train", "step.fsdp", "5"], cwd=folder, check=True, capture_output=True, text=True)
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(losses) == 5 and losses[-1] < losses[0], done.stdout
    assert (folder / "final.safetensors").stat().st_size > 0
