# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's operator database through a compiled step on the device: the gradients of some operators at a time.

One step of SGD at learning rate 1 makes p - gradient of each parameter, which is
compared with PyTorch's: with what the CPU gave when the step was compiled, and
where that differs with what PyTorch gives on the device. Further steps at rate 0
compute the same again and again, first as single launches and then as a graph:
their losses and norms are to be equal.
"""
import importlib.util
import itertools
import json
import logging
import math
import pathlib
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

import kit

STEPS = 6  # of which fsdp-run launches the first three one by one
TOGETHER = 6  # operators in one step: each process takes seconds to begin


def sweep():
    spec = importlib.util.spec_from_file_location("sweep", kit.HERE.parent / "op_sweep" / "sweep.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(module, x):
    """The loss and p - gradient of every parameter."""
    loss = module(x)
    loss.backward()
    made = {n: (p - (0 if p.grad is None else p.grad)).detach().cpu().contiguous() for n, p in module.named_parameters()}
    return {**made, "the loss": loss.detach().cpu().reshape(1)}


def compile_calls(bin, folder, calls, source, device, arch):
    folder.mkdir(parents=True)
    (folder / "model.pt2").write_bytes(pathlib.Path(source).read_bytes())
    target = f", device: {device}" + (f", cuda_arch: {arch}" if device == "cuda" else "")
    (folder / "fsdp.yaml").write_text("{fsdp_version: 2, mesh: {dp_shard: 1}, optimizer: {name: sgd, lr: 1.0}" + target + "}")
    kit.call([bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp"], folder, kit.environment(bin), 120)
    (folder / "fsdp.yaml").unlink()


def prepare(out, bin, every, device, arch):
    """Names of the operators in each folder, and what the compiler said to those that it refused."""
    tools = sweep()
    logging.disable()  # torch.export shows the graphs of what it cannot export
    made, refused, numbers = {}, {}, itertools.count()
    calls = tools.repeatable_calls(every)
    with tempfile.TemporaryDirectory() as scratch:
        groups = [g for i in range(0, len(calls), TOGETHER) for g in tools.export(calls[i:i + TOGETHER], pathlib.Path(scratch), []).items()]
        while groups:
            source, own = groups.pop(0)
            folder = out / "operators" / f"{next(numbers):03}"
            try:
                compile_calls(bin, folder, own, source, device, arch)
            except kit.Failure as failure:
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
                if len(own) == 1:
                    refused[f"operator {own[0].name}"] = str(failure)
                else:
                    groups += [g for call in own for g in tools.export([call], pathlib.Path(scratch), []).items()]
                continue
            save_file(answers(tools.Calls(own), torch.ones(2)), folder / "expected.safetensors")
            made[folder.name] = [call.name for call in own]
    return made, refused


def differing(got, want):
    return {n for n in want if not torch.allclose(got[n], want[n], rtol=1e-4, atol=1e-4, equal_nan=True)}


def on_device(folder, device):
    from torch.export.passes import move_to_device_pass
    program = move_to_device_pass(torch.export.load(folder / "model.pt2"), device)
    return answers(program.module(), torch.ones(2, device=device))


def train(bin, folder, *options):
    with tempfile.TemporaryDirectory() as scratch:
        final = pathlib.Path(scratch) / "final.safetensors"
        rows, _ = kit.Training(bin, folder, "step.fsdp", "--data=sample", *options, "--on-nonfinite=ignore", f"--export={final}").rows(120)
        return rows, load_file(final)


def close(one, other):
    """As the operators' results: some add with atomics, in any order. None: no finite number."""
    if one is None or other is None or not math.isfinite(one) or not math.isfinite(other):
        return True
    return abs(one - other) <= 1e-4 + 1e-4 * abs(other)


def check(bin, folder, names, device):
    # The rate is 1 in the first step and 0 behind it.
    rows, got = train(bin, folder, f"--steps={STEPS}", "--lr-schedule=linear:total=1")
    if any(row[key] is None or not math.isfinite(row[key]) for row in rows for key in ("loss", "grad_norm")):
        # 0 times such a gradient is no 0: the first step alone.
        rows, got = train(bin, folder, "--steps=1")
    for row in rows[2:]:
        for key in ("loss", "grad_norm"):
            assert close(row[key], rows[1][key]), f"{key} of step {row['step']}, which is a graph's from step 3 on, is {row[key]}; step 1 had {rows[1][key]}"
    want = load_file(folder / "expected.safetensors")
    # A loss that is no finite number is written as none.
    got["the loss"] = want["the loss"] if rows[0]["loss"] is None and not want["the loss"].isfinite() else torch.tensor([rows[0]["loss"] or 0], dtype=want["the loss"].dtype)
    wrong = differing(got, want)
    if wrong and device != "cpu":
        wrong &= differing(got, on_device(folder, device))
    # Parameters are called t<number of the operator>_<number of the argument>.
    which = sorted({names[int(n[1:].split("_")[0])] for n in wrong if n != "the loss"} or {"the loss alone"} if wrong else ())
    worst = max(((got[n] - want[n]).abs().max().item() for n in wrong), default=0)
    assert not wrong, f"{', '.join(which)}: differs by up to {worst:.2e}"


def work(out, bin, groups):
    """Prints a verdict for each of these groups as a line of JSON."""
    manifest = kit.read_manifest(out)
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for group in groups:
        names = manifest["operators"][group]
        begin, said = time.monotonic(), {"name": kit.group_name(group, names), "state": "ok"}
        try:
            check(bin, out / "operators" / group, names, manifest["device"])
        except Exception as error:
            said.update(state="fail", text=f"{type(error).__name__}: {error}")
        print(json.dumps({**said, "seconds": time.monotonic() - begin}), flush=True)
