# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles models for this machine and runs them, one thread a rank, with inputs as they were exported."""
import json
import os
import pathlib
import statistics
import subprocess

import torch
import yaml

import warm
from ranks import Ranks

# What is measured is loaded by itself.
warm.is_off = True
ADAMW = {"name": "adamw", "lr": 1e-4}
WARMUP = 3


def call(*command, cwd, timeout=300):
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    return subprocess.run([str(c) for c in command], cwd=cwd, env={**clean, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=timeout)


def must(*command, cwd, timeout=300):
    done = call(*command, cwd=cwd, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} exited with {done.returncode}: {done.stderr.strip()[-1500:]}")
    return done


def export(make, path):
    """Once; a model is the same for all configs."""
    if path.exists():
        return
    torch.manual_seed(0)
    model, inputs = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.pt2")
    torch.export.save(torch.export.export(model.train(), (), inputs), part)
    part.rename(path)


def make_config(world, **fsdp):
    top = {k: fsdp.pop(k) for k in ("schedule", "memory_budget", "gradient_accumulation_steps") if k in fsdp}
    return {"fsdp_version": 2, "mesh": {"dp_shard": world}, "fsdp_config": fsdp, "optimizer": ADAMW, **top}


def compile_model(bin, model, config, cluster, artifact):
    """Compiles model.pt2 with the config into `artifact` and returns its prediction, unless that was done before."""
    prediction = artifact.with_suffix(".json")
    if not (artifact.exists() and prediction.exists()):
        artifact.parent.mkdir(parents=True, exist_ok=True)
        artifact.with_suffix(".yaml").write_text(yaml.safe_dump(config))
        done = must(bin / "fsdp-opt", model, f"--config={artifact.with_suffix('.yaml')}", f"--cluster={cluster}", f"--print-plan={prediction}",
                    "-o", artifact, cwd=artifact.parent)
        artifact.with_suffix(".notes").write_text(done.stderr)
    return json.loads(prediction.read_text())


def predict(bin, artifact, cluster, *options):
    """The prediction for another cluster, or with other options, without compiling again."""
    out = artifact.with_suffix(".again.json")
    must(bin / "fsdp-opt", artifact, f"--print-plan={out}", f"--cluster={cluster}", *options, cwd=artifact.parent)
    return json.loads(out.read_text())


def run(bin, artifact, world, backend, steps, *options, limit=240):
    """Rows of the run's metrics."""
    metrics = artifact.with_suffix(f".{backend}.jsonl")
    metrics.unlink(missing_ok=True)
    command = [bin / "fsdp-run", artifact, "--data=sample", f"--steps={steps}", f"--metrics={metrics}", "--threads=1", *options]
    if backend == "gloo" and world > 1:
        with Ranks(command, world, artifact.parent, tag=artifact.stem) as ranks:
            if ranks.wait(limit) is None:
                raise RuntimeError(f"ranks {ranks.alive()} do not end")
            failed = [rank for rank in range(world) if ranks.status(rank)]
            if failed:
                raise RuntimeError(f"rank {failed[0]} exited with {ranks.status(failed[0])}: {ranks.message(failed[0])[-1500:]}")
    else:
        must(*command, "--backend=local", cwd=artifact.parent, timeout=limit)
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def measure(bin, artifact, world, backend, expected, seconds=0.6, most=300):
    """Median seconds of a step, of about so many seconds of steps, at least six."""
    steps = WARMUP + min(most, max(6, int(seconds / max(expected, 1e-4))))
    rows = run(bin, artifact, world, backend, steps)
    return statistics.median(row["step_time_s"] for row in rows[WARMUP:])


class Times:
    """Seconds of runs by name, kept in a file from one command to the next."""

    def __init__(self, path):
        self.path, self.runs = path, json.loads(path.read_text()) if path.exists() else {}

    def of(self, name):
        return self.runs.get(name, [])

    def add(self, name, seconds):
        self.runs.setdefault(name, []).append(seconds)
        self.path.write_text(json.dumps(self.runs))


def calibrate(bin, folder, backend, world):
    """The cluster's file; made once in a folder."""
    path = folder / f"{backend}.yaml"
    if path.exists():
        return path
    if backend == "local":
        must(bin / "fsdp-run", f"--calibrate={path}", f"--nproc={world}", "--threads=1", cwd=folder, timeout=600)
    else:
        with Ranks([bin / "fsdp-run", f"--calibrate={path}", "--threads=1"], world, folder, tag="calibrate") as ranks:
            if ranks.wait(600) is None or any(ranks.status(rank) for rank in range(world)):
                raise RuntimeError(f"calibration failed: {ranks.message(0)[-1500:]}")
    return path
