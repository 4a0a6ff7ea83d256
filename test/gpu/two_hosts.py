# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two ranks that NCCL takes for two machines, on one GPU.

NCCL refuses two ranks on one GPU of one host, and tells hosts apart by their names
(NCCL_HOSTID). Under two names the ranks meet over sockets, as on two machines: every
call, capture, replay, abort and error is the real one, and slow, since the GPU takes
turns between two processes. It shows neither NVLink, GPUDirect nor speed.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import kit

STEPS = 6
DEADLINE = 10
CASES = ("zero3", "flat", "bf16")


def model_of(manifest):
    """The first model that has all the cases for two ranks."""
    for model, made in manifest["cases"].items():
        if {c for c, world, _ in made if world == 2} >= set(CASES[:1]):
            return model
    return None


def names(manifest):
    return [name for name, _ in checks(None, None, manifest)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def has_uts():
    """Whether a process may have a host name of its own."""
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode == 0


def start(bin, folder, artifact, device, *options):
    """Both ranks, each on a host of its own name."""
    port, processes = free_port(), []
    backend = "nccl" if device == "cuda" else "gloo"
    for rank in range(2):
        own = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NCCL_SOCKET_IFNAME": "lo",
               "NCCL_HOSTID": f"fsdp-host-{rank}", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": 1}
        command = [bin / "fsdp-run", artifact, f"--backend={backend}", "--log-level=info", *options]
        if has_uts():
            command = ["unshare", "--uts", "sh", "-c", f'hostname fsdp-host-{rank}; exec "$@"', "sh", *command]
        processes.append(kit.start(command, folder, {**kit.environment(bin), **{k: str(v) for k, v in own.items()}}))
    return processes


def train(bin, folder, artifact, device, left, *options):
    """The rows of rank 0's metrics."""
    with tempfile.TemporaryDirectory() as scratch:
        metrics = pathlib.Path(scratch) / "metrics.jsonl"
        processes = start(bin, folder, artifact, device, f"--steps={STEPS}", "--data=data.safetensors", f"--metrics={metrics}", *options)
        end = time.monotonic() + left
        try:
            for process in processes:
                kit.finish(process, end - time.monotonic())
        finally:
            for process in processes:
                kit.stop(process)
        return [json.loads(line) for line in metrics.read_text().splitlines()]


def numbers(rows):
    return [(row["loss"], row["grad_norm"]) for row in rows]


def check_training(bin, folder, case, device, left):
    """Losses and norms as those of two ranks that are threads; the same bits as a graph."""
    artifact, begin = f"{case}-2.fsdp", time.monotonic()
    rest = lambda: left - (time.monotonic() - begin)  # noqa: E731
    want, _ = kit.Training(bin, folder, artifact, f"--steps={STEPS}", "--data=data.safetensors", "--backend=local").rows(rest())
    seen = {graph: train(bin, folder, artifact, device, rest(), *([f"--cuda-graph={graph}"] if graph else []))
            for graph in (("off", "on") if device == "cuda" else (None,))}
    bound = 2e-2 if case == "bf16" else 1e-4
    for graph, rows in seen.items():
        assert len(rows) == STEPS, f"{len(rows)} steps with --cuda-graph={graph}"
        for row, other in zip(rows, want, strict=True):
            for key in ("loss", "grad_norm"):
                assert abs(row[key] - other[key]) <= bound * max(1, abs(other[key])), f"--cuda-graph={graph}, step {row['step']}: {key} {row[key]} instead of {other[key]}"
    assert len({str(numbers(rows)) for rows in seen.values()}) == 1, f"a graph gives other numbers: {({g: numbers(r) for g, r in seen.items()})}"


def check_lost_rank(bin, folder, how, graph, device, left):
    """Rank 1 is killed or stopped in the middle of a run; rank 0 says so by the deadline, and ends."""
    options = ["--steps=1000000", "--data=data.safetensors", f"--deadline={DEADLINE}", *([f"--cuda-graph={graph}"] if graph else [])]
    with tempfile.TemporaryDirectory() as scratch:
        metrics = pathlib.Path(scratch) / "metrics.jsonl"
        processes = start(bin, folder, "zero3-2.fsdp", device, *options, f"--metrics={metrics}")
        try:
            end = time.monotonic() + left
            while not metrics.exists() or len(metrics.read_text().splitlines()) < 2 * STEPS:
                if time.monotonic() > end:
                    raise kit.Late(f"{2 * STEPS} steps were not done after {left:.0f} s")
                if processes[0].poll() is not None:
                    raise kit.Failure(f"the run ended before a rank was lost: {processes[0].communicate()[1][-1000:]}")
                time.sleep(0.1)
            processes[1].send_signal(how)
            begin = time.monotonic()
            try:
                error = processes[0].communicate(timeout=6 * DEADLINE)[1]
            except subprocess.TimeoutExpired:
                raise kit.Failure(f"rank 0 did not end within {6 * DEADLINE} s after rank 1 was lost") from None
            took = time.monotonic() - begin
            assert processes[0].returncode == 3, f"exit status {processes[0].returncode}: {error[-800:]}"
            # Between steps ranks wait for each other with what they write down of one.
            between = re.search(r"exchange of 'resident/\d+'", error)
            assert between or "in step" in error and "bucket" in error, f"neither bucket nor step are named: {error[-800:]}"
            assert took < 3 * DEADLINE, f"the error came after {took:.0f} s"
        finally:
            for process in processes:
                kit.stop(process)


def checks(out, bin, manifest):
    """(name, what to call with the seconds that are left), the most telling first."""
    model, device = model_of(manifest), manifest["device"]
    if not model:
        return []
    folder = out / "cases" / model if out else None
    made = [case for case in CASES if any(c[:2] == [case, 2] for c in manifest["cases"][model])]
    graphs = ("off", "on") if device == "cuda" else (None,)
    train = [(f"{model} {case} on two hosts", lambda left, c=case: check_training(bin, folder, c, device, left)) for case in made]
    lost = [(f"rank {word} on two hosts" + (f", graph {graph}" if graph else ""), lambda left, h=how, g=graph: check_lost_rank(bin, folder, h, g, device, left))
            for graph in graphs for word, how in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP))]
    return train[:1] + lost + train[1:]
