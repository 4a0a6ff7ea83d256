#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Captures PyTorch's own samples of its operators and compares with autograd.

    sweep.py --build build [--samples N] [--every K] [--only REGEX] [--jobs N]
             [--train [--world W] [--kernels]]

PyTorch's operator database gives arguments for every operator. Many of them
share one module: each is applied to parameters and buffers of its own, and the
loss is a fixed weighting of all results. The module is exported once, and
fsdp-capture-replay compares the loss and every gradient of the captured graph
with autograd, and the layout of every value on the way. Modules that fail are
split until the operators at fault stand alone. With --train the module is also
compiled and trained for one step of SGD, whose parameters must be PyTorch's; with
--kernels by kernels of our own, which must leave the same bits interpreted.

refused.txt lists the operators, or single samples of them ("NAME [2]"), that
capture refuses, with a part of the error: others must be equal, and these must be refused in these words. An operator that
raises before capture sees it, in its samples, its gradient or PyTorch's export,
must be listed in skipped.txt in the same way, and one that is listed must raise.
Fewer than 97.5 % equal are an error, so that neither list can hide a loss. What
draws numbers or has no gradient is left out, and counted.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import safetensors.torch
import torch
from torch.utils import _pytree

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
GROUP = 24          # operators in one module
SAMPLES = 4         # that the lists speak of
LEAST = 0.975       # equal to autograd, of those that capture sees
UNREPEATABLE = "unrepeatable"
# What calls kernels whose operands fsdp-run cannot check.
TRUSTED = r"^_segment_reduce\b"
HERE = pathlib.Path(__file__).parent


def order_of(value, order):
    """The dims of a tensor from the slowest to the fastest in memory."""
    dims = list(range(value.dim()))
    if order == "columns":
        return dims[::-1]
    return [0, *dims[2:], 1] if order == "channels_last" and len(dims) > 2 else dims


class Call:
    """One operator with one sample's arguments, which lie in memory in that order: "rows", "columns" or "channels_last"."""

    def __init__(self, name, op, sample, order="rows"):
        self.name, self.op, self.order = name, op, order
        self.leaves, self.spec = _pytree.tree_flatten(
            (sample.input, sample.args, sample.kwargs))


class Calls(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls
        for i, call in enumerate(calls):
            for j, leaf in enumerate(call.leaves):
                if not torch.is_tensor(leaf):
                    continue
                # States are contiguous; an operator sees a permuted one in another order.
                value = leaf.detach().clone()
                if call.order != "rows":
                    value = value.permute(order_of(leaf, call.order)).contiguous()
                if leaf.requires_grad and leaf.is_floating_point():
                    self.register_parameter(f"t{i}_{j}", torch.nn.Parameter(value))
                else:
                    self.register_buffer(f"t{i}_{j}", value)

    def get(self, name, leaf, order):
        value, dims = getattr(self, name), order_of(leaf, order)
        return value if order == "rows" else value.permute([dims.index(i) for i in range(len(dims))])

    def forward(self, x):
        loss = x.sum() * 0
        for i, call in enumerate(self.calls):
            leaves = [self.get(f"t{i}_{j}", leaf, call.order) if torch.is_tensor(leaf) else leaf
                      for j, leaf in enumerate(call.leaves)]
            first, args, kwargs = _pytree.tree_unflatten(leaves, call.spec)
            for out in _pytree.tree_leaves(call.op(first, *args, **kwargs)):
                if torch.is_tensor(out) and out.is_complex():
                    out = torch.view_as_real(out.resolve_conj())
                if torch.is_tensor(out) and out.is_floating_point():
                    weights = torch.linspace(0.1, 1.0, out.numel())
                    loss = loss + (out * weights.view(out.shape)).sum()
        return loss


def find_calls(options):
    """One call for each operator and sample index that can be differentiated."""
    from torch.testing._internal.common_methods_invocations import op_db
    number = 0
    for info in op_db:
        name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if not info.supports_autograd or torch.float32 not in info.dtypes:
            continue
        # The database seeds what draws numbers; an exported program does not.
        if "wrapper_set_seed" in getattr(getattr(info.op, "__code__", None), "co_names", ()):
            continue
        if options.only and not re.search(options.only, name):
            continue
        number += 1
        if number % options.every:
            continue
        torch.manual_seed(0)
        samples = info.sample_inputs("cpu", torch.float32, requires_grad=True)
        for index in range(options.samples):
            try:
                sample = next(samples, None)
            except Exception as error:
                yield name, index, None, f"its samples: {type(error).__name__}: {error}"
                break
            if sample is None:
                break
            yield name, index, info.op, sample


def is_repeatable(call):
    """False if the operator draws numbers, or has no gradient here."""
    losses = []
    for seed in range(2):
        torch.manual_seed(seed)
        module = Calls([call])
        losses.append(module(torch.ones(2)))
    leaves = [leaf for leaf in module.parameters()]
    if not leaves or not losses[1].requires_grad:
        return False
    gradients = torch.autograd.grad(losses[1], leaves, allow_unused=True)
    return (any(g is not None for g in gradients)
            and all(g is None or torch.isfinite(g).all() for g in gradients)
            and torch.isfinite(losses[0]).item() and torch.equal(*losses))


def repeatable_calls(every, order="rows", only=""):
    """Calls of each K-th operator that can be exported and give the same each time; others are the sweep's to report."""
    calls = []
    for name, _, op, sample in find_calls(argparse.Namespace(only=only, every=every, samples=1)):
        if op is None:
            continue
        call = Call(name, op, sample, order)
        try:
            if is_repeatable(call):
                calls.append(call)
        except Exception:
            continue
    return calls


def export(calls, folder, raised):
    """Archives that together hold all calls that PyTorch exports: path → calls. Adds the others to `raised`."""
    if not calls:
        return {}
    path = folder / f"{len(list(folder.iterdir()))}.pt2"
    try:
        program = torch.export.export(Calls(calls), (torch.ones(2),), strict=False)
        torch.export.save(program, str(path))
        return {str(path): calls}
    except Exception as error:
        if len(calls) == 1:
            raised.append((calls[0].name, None, f"its export: {type(error).__name__}: {error}"))
            return {}
    half = len(calls) // 2
    return {**export(calls[:half], folder, raised), **export(calls[half:], folder, raised)}


def replay(binary, paths):
    """What the program says about each archive: path → (equal, text)."""
    said, rest = {}, list(paths)
    while rest:
        run = subprocess.run([binary, "--each", *rest], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        parts = re.split(r"^(/\S+): ", run.stdout, flags=re.M)[1:]
        for path, text in zip(parts[::2], parts[1::2]):
            if path in rest:
                equal = re.search(r"^equal: ", text, re.M) is not None
                said[path] = equal, text.strip()
        left = [path for path in rest if path not in said]
        if len(left) == len(rest):
            raise RuntimeError(f"{binary} says nothing: {run.stdout}")
        if left:                        # the last one brought the program down
            path = parts[-2]
            said[path] = False, f"crash ({run.returncode}): {said[path][1]}"
        rest = left
    return said


def train(options, path, calls):
    """What is wrong with the step that fsdp-opt and fsdp-run make; None if nothing."""
    work = pathlib.Path(path).with_suffix("")
    work.mkdir()
    (work / "fsdp.yaml").write_text(
        f"{{fsdp_version: 2, mesh: {{dp_shard: {options.world}}}, fsdp_config: {{kernels: {'on' if options.kernels else 'off'}}}, optimizer: {{name: sgd, lr: 1.0}}, lost_gradients: accept}}")
    step = ["fsdp-run", "step.fsdp", "--data=sample", "--steps=1", "--metrics=metrics.jsonl",
            *(["--trust"] if any(re.search(TRUSTED, call.name) for call in calls) else [])]
    for command, kernels in (
            (["fsdp-opt", path, "--config=fsdp.yaml", "-o", "step.fsdp"], ""),
            *([([*step, "--export=interpreted.safetensors"], "interpret")] if options.kernels else []),
            ([*step, "--export=final.safetensors"], "")):
        command[0] = str(options.build / "bin" / command[0])
        run = subprocess.run(command, cwd=work, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS="1", FSDP_KERNELS=kernels, XDG_CACHE_HOME=str(work.parent / "cache")))
        if run.returncode:
            return f"{command[0]} exit {run.returncode}: {run.stdout.strip()}"
    module = Calls(calls)
    loss = module(torch.ones(2))
    loss.backward()
    got = safetensors.torch.load_file(work / "final.safetensors")
    if options.kernels:
        for name, value in safetensors.torch.load_file(work / "interpreted.safetensors").items():
            if not torch.equal(torch.nan_to_num(value), torch.nan_to_num(got[name])):
                return f"{name}: code of kernels and the interpreter leave different bits"
    for name, parameter in module.named_parameters():
        gradient = 0 if parameter.grad is None else parameter.grad
        want = (parameter - gradient).detach()
        if not torch.allclose(got[name], want, rtol=1e-4, atol=1e-4):
            return f"{name} differs by {(got[name] - want).abs().max():.2e}"
    step = json.loads((work / "metrics.jsonl").read_text().splitlines()[0])
    if abs(step["loss"] - loss.item()) > 1e-4 * max(1, abs(loss.item())):
        return f"loss {step['loss']} instead of {loss.item()}"
    return None


def judge(options, entries):
    """Results of some operators: (name, verdict, text); the verdict is None for what raises before capture sees it."""
    verdicts, calls = [], []
    for name, index, op, sample in entries:
        if op is None:
            verdicts.append((f"{name} [{index}]", None, sample))
            continue
        call = Call(f"{name} [{index}]", op, sample)
        try:
            if is_repeatable(call):
                calls.append(call)
            else:
                verdicts.append((call.name, UNREPEATABLE, ""))
        except Exception as error:
            verdicts.append((call.name, None, f"its gradient: {type(error).__name__}: {error}"))
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        groups = export(calls, folder, verdicts)
        while groups:
            said, again = replay(options.build / "test/bin/fsdp-capture-replay", groups), {}
            for path, (equal, text) in said.items():
                if equal and options.train:
                    text = train(options, path, groups[path])
                    equal = text is None
                if equal:
                    verdicts += [(call.name, True, "") for call in groups[path]]
                elif len(groups[path]) == 1:
                    verdicts.append((groups[path][0].name, False, text))
                else:
                    for call in groups[path]:
                        again.update(export([call], folder, verdicts))
            groups = again
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), default="build")
    parser.add_argument("--train", action="store_true", help="compile and run the step, too")
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--kernels", action="store_true", help="with kernels: on")
    parser.add_argument("--samples", type=int, default=1, help="samples of each operator")
    parser.add_argument("--every", type=int, default=1, help="take each K-th operator only")
    parser.add_argument("--only", default="", help="operators whose name matches")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()

    refused, skipped = read_list("refused.txt", options.train), read_list("skipped.txt", options.train)
    entries = list(find_calls(options))
    chunks = [entries[i:i + GROUP] for i in range(0, len(entries), GROUP)]
    verdicts = []
    if options.jobs == 1:
        for chunk in chunks:
            verdicts += judge(options, chunk)
    else:
        # Operators cannot be pickled; a forked worker has them already.
        global work
        work = lambda i: judge(options, chunks[i])
        with concurrent.futures.ProcessPoolExecutor(
                options.jobs, multiprocessing.get_context("fork")) as pool:
            for part in pool.map(call_work, range(len(chunks))):
                verdicts += part

    counts = {"equal": 0, "refused": 0, "wrong": 0, "skipped": 0, UNREPEATABLE: 0}
    problems = 0
    seen, raised = set(), set()
    for name, equal, text in verdicts:
        operator = name.rpartition(" [")[0]
        seen |= {name, operator}
        if equal == UNREPEATABLE:
            counts[UNREPEATABLE] += 1
            continue
        if equal is None:
            counts["skipped"] += 1
            raised |= {name, operator}
            if skipped.get(name, skipped.get(operator, "\0")) not in text:
                problems += 1
                print(f"{name}: is not in skipped.txt: {text[:500]}\n", flush=True)
            continue
        if equal:
            counts["equal"] += 1
            if name in refused or operator in refused:
                problems += 1
                print(f"{name}: is in refused.txt, and is equal now\n", flush=True)
            continue
        # An error of capture names an operator; anything else is a fault.
        words = refused.get(name, refused.get(operator))
        known = words is not None and words in text and re.search(r"^error\[", text, re.M) is not None
        counts["refused" if known else "wrong"] += 1
        if not known:
            print(f"{name}: {text}\n", flush=True)
    # Of an operator's samples those behind the first may be the ones that raise.
    tried = seen if options.samples >= SAMPLES else {name for name in seen if name.endswith("]")}
    for name in sorted(skipped.keys() & tried - raised):
        problems += 1
        print(f"{name}: is in skipped.txt, and does not raise now\n", flush=True)
    total = sum(counts.values()) - counts["skipped"] - counts[UNREPEATABLE]
    print(f"{total} operators: {counts['equal']} equal to autograd, "
          f"{counts['refused']} refused, {counts['wrong']} wrong; {counts['skipped']} raise before capture, "
          f"{counts[UNREPEATABLE]} draw numbers or have no gradient")
    if counts["equal"] < LEAST * total or not total:
        problems += 1
        print(f"fewer than {LEAST:.1%} are equal")
    return 1 if counts["wrong"] or problems else 0


def read_list(name, trains):
    """operator → words of its error; those marked with --train are refused when they are compiled, not when they are replayed."""
    lines = (HERE / name).read_text().splitlines()
    rows = [line.partition(": ")[::2] for line in lines if line and not line.startswith("#")]
    return {key.removesuffix(" --train"): words for key, words in rows if trains or not key.endswith(" --train")}


def call_work(index):
    return work(index)


if __name__ == "__main__":
    sys.exit(main())
