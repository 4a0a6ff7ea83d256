#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What needs two or more GPUs: docs/Gpus.md lists it.

    two_gpus.py prepare --opt FSDP_OPT --out FOLDER     compiles, with PyTorch's answers; needs no GPU
    two_gpus.py run --build FOLDER --artifacts FOLDER   runs all of it on this machine's GPUs
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "end_to_end"))

STEPS = 4
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
# Name: ranks, keys of the config, greatest relative difference of the losses.
MODELS = {
    "rows-2": (2, {"bucket_layout": "rows"}, 1e-4),
    "flat-2": (2, {"bucket_layout": "flat"}, 1e-4),
    "bf16-2": (2, {"bucket_layout": "flat", "mixed_precision": BF16}, 3e-2),
    "hsdp-4": (4, {"bucket_layout": "rows", "replicate": 2}, 1e-4),
    "load-2": (2, {"bucket_layout": "rows"}, 1e-4),
}


def prepare(opt, out):
    import torch
    from safetensors.torch import save_file
    from harness import compile_step, make_config, make_data, reference
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.down(torch.tanh(self.up(self.norm(x))))

    class Model(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.first, self.last = nn.Linear(32, width), nn.Linear(width, 7)
            self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

        def forward(self, x, y):
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return F.mse_loss(self.last(x), y)

    for name, (world, keys, _) in MODELS.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(3)
        heavy = name.startswith("load")
        model = Model(1024, 8) if heavy else Model(190, 3)
        inputs = {"x": torch.randn(16, 32), "y": torch.randn(16, 7)}
        config = make_config(world, device="cuda", **keys)
        data = make_data(inputs, world * STEPS)
        save_file(data, folder / "data.safetensors")
        compile_step(opt.parent, folder, model, inputs, config)
        rows = [] if heavy else reference(model, inputs, data, world, STEPS, config)[0]
        (folder / "expected.json").write_text(json.dumps(rows))
        print(f"prepared {name}", flush=True)


def count_gpus():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(run, folder, world, *options, env=None, devices=None):
    """The processes of all ranks, as a launcher starts them."""
    port = free_port()
    processes = []
    for rank in range(world):
        own = {**os.environ, **(env or {}), "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(0 if devices else rank),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if devices:
            own["CUDA_VISIBLE_DEVICES"] = devices[rank]
        processes.append(subprocess.Popen([run, "step.fsdp", "--backend=nccl", "--log-level=info", *map(str, options)], cwd=folder, env=own,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return processes


def finish(processes, timeout=300):
    """(exit status, stderr) of each."""
    out = []
    try:
        for process in processes:
            error = process.communicate(timeout=timeout)[1]
            out.append((process.returncode, error))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    return out


def train(run, folder, world, *options, steps=STEPS, env=None):
    with tempfile.TemporaryDirectory() as scratch:
        metrics = pathlib.Path(scratch) / "metrics.jsonl"
        ends = finish(start(run, folder, world, f"--steps={steps}", "--data=data.safetensors", f"--metrics={metrics}", *options, env=env))
        for rank, (status, error) in enumerate(ends):
            assert status == 0, f"rank {rank} exited with {status}: {error.strip()[-1500:]}"
        return [json.loads(line) for line in metrics.read_text().splitlines()], "".join(error for _, error in ends)


def check_training(run, folder, world, bound):
    expected = json.loads((folder / "expected.json").read_text())
    rows, _ = train(run, folder, world, "--cuda-graph=off")
    for row, (loss, _) in zip(rows, expected, strict=True):
        assert abs(row["loss"] - loss) <= bound * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
    return rows


def check_graph(run, folder, world):
    without, _ = train(run, folder, world, "--cuda-graph=off", steps=8)
    captured, _ = train(run, folder, world, "--cuda-graph=on", steps=8)
    for key in ("loss", "grad_norm"):
        assert [r[key] for r in without] == [r[key] for r in captured], f"{key} differs with a CUDA graph"


def check_registration(run, folder, world, bound):
    expected, _ = train(run, folder, world)
    rows, log = train(run, folder, world, env={"FSDP_NCCL_REGISTER": "1"})
    said = [line for line in log.splitlines() if "registered with group" in line]
    assert said and all("bytes are registered with group" in line for line in said), f"not everything was registered: {said or 'nothing was said of it'}"
    for row, other in zip(rows, expected, strict=True):
        assert abs(row["loss"] - other["loss"]) <= bound * max(1, abs(other["loss"])), "registered memory gives another loss"
    print("      " + said[0])


def check_shared_gpu(run, folder):
    for status, error in finish(start(run, folder, 2, "--steps=1", "--data=data.safetensors", devices=["0", "0"]), 120):
        assert status == 1 and "E110" in error and "both on" in error, f"exit status {status}: {error[-500:]}"


def check_lost_rank(run, folder, how, graph):
    """Rank 1 is killed or stopped in the middle of a run; rank 0 names it and the bucket by the deadline."""
    deadline = 10
    processes = start(run, folder, 2, "--steps=1000000", "--data=data.safetensors", f"--deadline={deadline}", f"--cuda-graph={graph}")
    try:
        time.sleep(40)
        assert all(p.poll() is None for p in processes), "the run ended before the rank was lost"
        processes[1].send_signal(how)
        begin = time.monotonic()
        error = processes[0].communicate(timeout=6 * deadline)[1]
        took = time.monotonic() - begin
        assert processes[0].returncode == 3, f"exit status {processes[0].returncode}: {error[-500:]}"
        assert "rank 1" in error and "of bucket" in error and "in step" in error, error[-500:]
        assert took < 3 * deadline, f"the error came after {took:.0f} s"
    finally:
        for process in processes:
            process.kill()


def check_conformance(build):
    done = subprocess.run([build / "test" / "bin" / "nccl-conformance-test"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:]
    passed = done.stdout.count("[       OK ]")
    assert passed, "no case was run"
    return passed


def run_all(build, artifacts, only):
    gpus = count_gpus()
    if gpus < 2:
        sys.exit(f"two_gpus.py: expected at least two GPUs, found {gpus} (nvidia-smi -L); NCCL refuses two ranks on one GPU of one "
                 "host, so none of these tests can be run here: see run.py two-hosts. docs/Gpus.md says what is tested without")
    run = build / "bin" / "fsdp-run"
    assert run.exists(), f"{run} is missing: configure with -DFSDP_CUDA=ON"
    cases = {"conformance": lambda: check_conformance(build)}
    for name, (world, _, bound) in MODELS.items():
        folder = artifacts / name
        assert (folder / "step.fsdp").exists(), f"{folder} has no step.fsdp: run two_gpus.py prepare"
        if name.startswith("load"):
            cases["200 steps under load"] = lambda f=folder, w=world: train(run, f, w, steps=200)
            continue
        cases[f"training {name}"] = lambda f=folder, w=world, b=bound: check_training(run, f, w, b)
        cases[f"CUDA graph {name}"] = lambda f=folder, w=world: check_graph(run, f, w)
        cases[f"registered {name}"] = lambda f=folder, w=world, b=bound: check_registration(run, f, w, b)
    rows = artifacts / "rows-2"
    cases["two ranks on one GPU"] = lambda: check_shared_gpu(run, rows)
    for graph in ("off", "on"):
        cases[f"killed rank, CUDA graph {graph}"] = lambda g=graph: check_lost_rank(run, rows, signal.SIGKILL, g)
        cases[f"stopped rank, CUDA graph {graph}"] = lambda g=graph: check_lost_rank(run, rows, signal.SIGSTOP, g)
    failed = skipped = passed = 0
    for name, case in cases.items():
        if only not in name:
            continue
        if gpus < 4 and name.endswith("-4"):
            print(f"skip  {name}: needs 4 GPUs, found {gpus}", flush=True)
            skipped += 1
            continue
        try:
            case()
            print(f"ok    {name}", flush=True)
            passed += 1
        except Exception as error:
            print(f"FAIL  {name}: {type(error).__name__}: {error}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    first.add_argument("--opt", type=lambda p: pathlib.Path(p).resolve(), required=True, help="fsdp-opt")
    first.add_argument("--out", type=pathlib.Path, required=True)
    second = commands.add_parser("run")
    second.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), required=True, help="build folder with -DFSDP_CUDA=ON")
    second.add_argument("--artifacts", type=lambda p: pathlib.Path(p).resolve(), required=True, help="what prepare wrote")
    second.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.opt, arguments.out)
    else:
        run_all(arguments.build, arguments.artifacts, arguments.only)


if __name__ == "__main__":
    main()
