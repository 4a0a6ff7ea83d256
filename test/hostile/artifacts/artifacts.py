#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs artifacts that were made to do harm.

    artifacts.py --bin DIR --maker PROGRAM --model MODEL.pt2 [--write DIR]

A model is compiled; the maker changes its artifact in one way after another and
says which error each must give. fsdp-run must refuse each with one of them, in
time, by no signal and without making any file, and fsdp-opt must print it or
refuse it. With --write the artifacts are left there.
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "end_to_end"))
import warm  # noqa: E402

MOST_BYTES = 64 << 10
SECONDS = 60
CONFIG = "mesh: {dp_shard: 2}\noptimizer: {name: sgd, lr: 0.1}\n"


def files(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def run(command, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        done = warm.run(command, folder, dict(os.environ), SECONDS, limit, "replace")
    except subprocess.TimeoutExpired:
        return None, "it ran longer than a minute"
    return done.returncode, done.stdout + done.stderr


def judge(options, folder, name, errors):
    """What is wrong with how the tools take the artifact."""
    path = folder / f"{name}.fsdp"
    problems = []
    if path.stat().st_size > MOST_BYTES:
        problems.append(f"has {path.stat().st_size} bytes")
    before = files(folder)
    # Of several plans, that for as many ranks as the others are for.
    which = ["--world=2"] if name.startswith("worlds-") else []
    status, text = run([options.bin / "fsdp-run", path.name, "--data=sample", "--steps=1", *which], folder)
    told = re.search(r"error\[fsdp-(E\d+)\]", text)
    if status != 1 or not told or told[1] not in errors:
        problems.append(f"fsdp-run: status {status}, expected 1 with {' or '.join(errors)}: {text[:300]}")
    elif told[1] == "E065":
        status, text = run([options.bin / "fsdp-opt", path.name], folder)
        if status != 1 or "error[fsdp-E065]" not in text:
            problems.append(f"fsdp-opt: status {status}, expected 1 with E065: {text[:300]}")
    else:
        status, text = run([options.bin / "fsdp-opt", path.name], folder)
        if status not in (0, 1):
            problems.append(f"fsdp-opt: status {status}: {text[:300]}")
    if files(folder) != before:
        problems.append(f"made {set(files(folder)) - set(before)}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--maker", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--model", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = options.write or pathlib.Path(root)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pt2").write_bytes(options.model.read_bytes())
        (folder / "one.yaml").write_text(CONFIG)
        subprocess.run([options.bin / "fsdp-opt", "model.pt2", "--config=one.yaml", "-o", "step.fsdp"],
                       cwd=folder, check=True)
        made = subprocess.run([options.maker, "step.fsdp", "."], cwd=folder, check=True, capture_output=True, text=True)
        cases = [line.split() for line in made.stdout.splitlines()]
        failures = 0
        for name, *errors in cases:
            for problem in judge(options, folder, name, errors):
                failures += 1
                print(f"{name}: {problem}")
        status, text = run([options.bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1"], folder)
        if status != 0:
            failures += 1
            print(f"the artifact that nobody changed: {status}: {text}")
    print(f"{len(cases)} artifacts, {failures} problems")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
