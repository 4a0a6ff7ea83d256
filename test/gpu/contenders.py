#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One contender of PyTorch's in a process of its own: prints what its steps took as one line of JSON.

All compute the same: float32 weights, of which each step makes bfloat16 ones to
compute with; gradients are bfloat16 and become float32 before AdamW (fused) takes
them. For FSDP2 that is MixedPrecisionPolicy(param_dtype=bfloat16,
reduce_dtype=float32); without it, casts in the forward that autograd reverses.
TF32 is off, and so are sums in bfloat16 but with --reduced-sums; attention is the kernel that the artifact has.
"""
import argparse
import json
import pathlib
import resource
import sys
import time

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "end_to_end")]
import models  # noqa: E402
from ranks import end_rank  # noqa: E402

KINDS = ("eager", "compile", "fsdp2", "fsdp2+compile")
ADAMW = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


class Lowered(nn.Module):
    """Computes a module with bfloat16 copies of its weights."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        low = {name: p.to(torch.bfloat16) for name, p in self.module.named_parameters()}
        return torch.func.functional_call(self.module, low, (), inputs)


def shard(model, device, store, compiled, backend):
    """FSDP2 as is customary: a unit for each block, the rest in the root's; compiled block by block."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=f"file://{store}", rank=0, world_size=1)
    mesh = init_device_mesh(device, (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for number, block in enumerate(model.blocks):
        if compiled:
            block = model.blocks[number] = torch.compile(block, backend=backend, fullgraph=True)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    if compiled:
        model.finish = torch.compile(model.finish, backend=backend, fullgraph=True)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def write_files(size, device, weights, data, batches):
    """First values and batches for everybody, this project's runtime included."""
    torch.manual_seed(0)
    with torch.device(device):
        model = models.decoder(size)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.fill_(1) if "norm" in name else parameter.normal_(0, 0.02)
    save_file({name: p.detach().cpu() for name, p in model.named_parameters()}, weights)
    save_file(models.tokens(size, batches), data)


def build(kind, size, device, weights, store, backend):
    with torch.device("meta"):
        model = models.decoder(size)
    model.load_state_dict(load_file(weights, device=device), assign=True)
    if kind.startswith("fsdp2"):
        run = shard(model, device, store, kind.endswith("+compile"), backend)
    else:
        run = Lowered(model)
        if kind == "compile":
            run = torch.compile(run, backend=backend, fullgraph=True)
    return run, torch.optim.AdamW(model.parameters(), fused=True, **ADAMW)


class Stopwatch:
    """Times between steps' ends: on a GPU by events, so that the host may run ahead."""

    def __init__(self, device):
        self.is_gpu, self.marks = device == "cuda", []
        self.mark()

    def mark(self):
        if self.is_gpu:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        if self.is_gpu:
            torch.cuda.synchronize()
            return [a.elapsed_time(b) / 1000 for a, b in zip(self.marks, self.marks[1:])]
        return [b - a for a, b in zip(self.marks, self.marks[1:])]


def measure(run, optimizer, data, rows, device, warmup, steps):
    data = {k: v.to(device) for k, v in data.items()}
    count = len(next(iter(data.values())))
    losses = []
    for step in range(warmup + steps):
        if step == warmup:
            if device == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            watch = Stopwatch(device)
        first = step * rows % count
        loss = run(**{k: v[first:first + rows] for k, v in data.items()})
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if step >= warmup:
            watch.mark()
    seconds = watch.seconds()
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    return {"seconds": seconds, "losses": [float(loss) for loss in losses], "tensor_bytes": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=(*KINDS, "files"), help="files: only writes --weights and --data")
    parser.add_argument("--size", choices=models.SIZES, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--weights", required=True, help="safetensors file of first values")
    parser.add_argument("--data", required=True, help="safetensors file of tokens and targets")
    parser.add_argument("--batches", type=int, help="that `files` writes")
    parser.add_argument("--store", help="a file that is not there yet, for the process group")
    parser.add_argument("--attention", help="a member of torch.nn.attention.SDPBackend")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--reduced-sums", action="store_true", help="parts of products may be added up in bfloat16")
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if options.kind == "files":
        return write_files(options.size, options.device, options.weights, options.data, options.batches)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = options.reduced_sums
    rows = models.SIZES[options.size][4]
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, options.attention)):
        run, optimizer = build(options.kind, options.size, options.device, options.weights, options.store, options.backend)
        made = measure(run, optimizer, load_file(options.data), rows, options.device, options.warmup, options.steps)
    made["resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(made), flush=True)
    if options.kind.startswith("fsdp2"):
        if options.device == "cpu":
            end_rank()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
