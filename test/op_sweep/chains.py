#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of our own against the interpreter, and against LibTorch: single operators, pairs and chains of three.

    chains.py --build build [--chains N] [--seed S] [--only NAME[+NAME...]] [--keep FOLDER]

Each operator of chain_ops.py alone, in f32, bf16 and f16, and N random pairs and chains of three are compiled, GROUP of them as
one model, and trained for one step whose parameters then are each chain's result and its gradients, digit by digit.
With kernels: on these are

(a) the same bits, whether code runs or the interpreter (FSDP_KERNELS=interpret);
(b) those of kernels: off, as far as results move when each operator that is no exact one (INEXACT) is off by ULPS in the last place of
    its type, of f32's sums the summands, in some of TRIALS tries. So chains of exact operators have the same bits.

How many chains have a kernel that joins operators of theirs is counted, and fewer than LEAST are an error.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import safetensors.torch
import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from chain_ops import OPS

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
GROUP = 24
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LEAST = 0.9
TRIALS, MARGIN = 10, 2
ULPS = {torch.float32: 8, torch.bfloat16: 1, torch.float16: 1}
INEXACT = re.compile(r"aten::_?(exp|log|erf|sigmoid|silu|tanh|gelu|softplus|elu|mish|sin|cos|softmax|safe_softmax|log_softmax|pow|rsqrt|native_layer_norm|"
                     r"fused_rms_norm|sum|mean|var|std|norm|linalg|nll_loss|mse_loss|l1_loss|smooth_l1|huber|binary|kl_div|logsumexp|addc|lerp|cross|xlogy|hardswish)")
SUMS = re.compile(r"aten::(sum|mean|var|std|norm|linalg)")


class Noise(TorchDispatchMode):
    """Puts what operators that are not exact give off by some units in the last place."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def move(self, value, size=None):
        """By units of `size`, if the result is what is left of numbers of that size."""
        if not torch.is_tensor(value) or value.dtype not in ULPS:
            return value
        ulps = torch.randint(-ULPS[value.dtype], ULPS[value.dtype] + 1, value.shape, generator=self.generator)
        eps = torch.finfo(value.dtype if size is None else torch.float32).eps
        return (value.double() + ulps * eps * (value if size is None else size).double()).to(value.dtype)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function._schema.name
        if not INEXACT.match(name):
            return function(*args, **kwargs)
        if SUMS.match(name):
            args = _pytree.tree_map(lambda x: self.move(x) if torch.is_tensor(x) and x.dtype == torch.float32 else x, args)
        made = _pytree.tree_map(self.move, function(*args, **kwargs))
        if name in ("aten::gelu", "aten::gelu_backward"):   # 1 + erf, where erf is nearly -1
            return self.move(made, args[0])
        if name == "aten::native_layer_norm":       # x rstd - mean rstd, where these are nearly the same
            return self.move(made[0], args[0] * made[2]), *made[1:]
        return made


class Chain(torch.nn.Module):
    """Operators one behind the other. What it draws, it draws again in each call."""

    def __init__(self, names, dtype, seed):
        super().__init__()
        self.names, self.dtype, self.seed, self.count = names, dtype, seed, 0
        self.label = f"{'+'.join(names)} {dtype} seed {seed}"
        self.built = False

    def leaf(self, shape, low=-2.0, high=2.0):
        """A constant and a parameter that begins as 0, so that after a step it is minus the gradient, exactly."""
        name, self.count, seed = str(self.count), self.count + 1, self.random.randrange(2**31)
        if not self.built:
            generator = torch.Generator().manual_seed(seed)
            value = torch.rand(tuple(shape), generator=generator) * (high - low) + low
            self.register_buffer(f"c{name}", value.to(TYPES[self.dtype]).float())
            self.register_parameter(f"p{name}", torch.nn.Parameter(torch.zeros(tuple(shape))))
        return getattr(self, f"c{name}") + getattr(self, f"p{name}")

    def numbers(self, count, classes):
        name, self.count, seed = f"c{self.count}", self.count + 1, self.random.randrange(2**31)
        if not self.built:
            self.register_buffer(name, torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(seed)))
        return getattr(self, name)

    def cast(self, value, x):
        return value.to(x.dtype)

    def same(self, x):
        return self.cast(self.leaf(x.shape), x)

    def like(self, x):
        shape = list(x.shape)
        for dim in range(len(shape)):
            if self.random.random() < 0.25:
                shape[dim] = 1
        if shape and self.random.random() < 0.25:
            shape = shape[self.random.randrange(len(shape)):]
        value = self.leaf(shape)
        return value.to(TYPES[self.random.choice([*TYPES])]) if self.random.random() < 0.2 else self.cast(value, x)

    def earlier(self, x):
        fits = [y for y in self.results if y.shape == x.shape]
        return self.random.choice(fits) if fits and self.random.random() < 0.5 else self.like(x)

    def forward(self):
        self.random, self.count = random.Random(self.seed), 0
        rank = self.random.choice([2, 2, 3, 3, 4])
        shape = [self.random.choice([2, 3, 4, 5]) for _ in range(rank - 1)] + [self.random.choice([2, 6, 8, 17, 32, 40, 130])]
        if self.random.random() < 0.1:
            shape = [self.random.choice([300, 1030])]
            shape = [3] + shape
        x = self.leaf(shape).to(TYPES[self.dtype])
        if self.random.random() < 0.15:
            x = x.transpose(0, -1)
        self.results = [x]
        for name in self.names:
            if x.dim() < 2:
                x = x.reshape(1, -1) * self.leaf((2, 1)).to(x.dtype)
            x = OPS[name](self, x)
            self.results.append(x)
        others = [y for y in self.results[1:-1] if self.random.random() < 0.2]
        self.built = True
        return [x, *others]


class Chains(torch.nn.Module):
    """All chains' results, which the parameters `seen` are after a step, and one loss of them."""

    def __init__(self, chains):
        super().__init__()
        self.chains = torch.nn.ModuleList(chains)
        self.seen = torch.nn.ParameterDict()
        for i, chain in enumerate(chains):
            for j, y in enumerate(chain()):
                self.seen[f"{i}_{j}"] = torch.nn.Parameter(torch.zeros(y.shape))
                self.register_buffer(f"w{i}_{j}", torch.linspace(0.1, 1.0, y.numel()).view(y.shape))

    def forward(self, x):
        loss = x.sum() * 0
        for i, chain in enumerate(self.chains):
            for j, y in enumerate(chain()):
                y = y.float()
                loss = loss + (y * getattr(self, f"w{i}_{j}")).sum() + (y.detach() * self.seen[f"{i}_{j}"]).sum()
        return loss


def gradients(module, noise=None):
    names, parameters = zip(*module.named_parameters())
    if noise is None:
        made = torch.autograd.grad(module(torch.ones(2)), parameters, allow_unused=True)
    else:
        with Noise(noise):
            made = torch.autograd.grad(module(torch.ones(2)), parameters, allow_unused=True)
    return {name: torch.zeros_like(p) if g is None else g for name, p, g in zip(names, parameters, made)}


def is_finite(chain):
    module = Chains([chain])
    try:
        made = gradients(module)
    except (RuntimeError, IndexError, ValueError):
        return False
    return all(value.isfinite().all() and value.abs().max() < 1e5 for value in made.values() if value.numel())


def draw(options):
    """Chains whose results are numbers."""
    for name in OPS:
        for dtype in TYPES:
            if options.singles:
                yield [name], dtype, 0
    generator = random.Random(options.seed)
    for i in range(options.chains):
        yield [generator.choice([*OPS]) for _ in range(2 if i % 4 == 0 else 3)], generator.choice([*TYPES]), generator.randrange(10**6)


def call(folder, *command, env=None):
    done = subprocess.run([str(c) for c in command], cwd=folder, text=True, capture_output=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
    return None if done.returncode == 0 else f"{pathlib.Path(command[0]).name} exit {done.returncode}: {done.stderr.strip()[-600:]}"


def bits(value):
    """A NaN is a NaN."""
    if not value.is_floating_point():
        return value
    return torch.where(value.isnan(), torch.full_like(value, torch.nan), value).view(torch.int32)


class Group:
    """Chains of one model."""

    def __init__(self, options, folder, chains):
        self.options, self.folder, self.chains = options, folder, chains
        self.module = Chains(chains)
        self.fused = collections.Counter()
        self.tensors = self.same = 0

    def judge(self):
        """What is wrong: None, or a chain's number, or None, and words."""
        program = torch.export.export(self.module, (torch.ones(2),), strict=False)
        torch.export.save(program, str(self.folder / "model.pt2"))
        bin, got, losses = self.options.build / "bin", {}, {}
        for kernels in ("off", "on"):
            (self.folder / f"{kernels}.yaml").write_text(
                json.dumps({"fsdp_version": 2, "mesh": {"dp_shard": 1}, "fsdp_config": {"kernels": kernels}, "optimizer": {"name": "sgd", "lr": 1.0}, "lost_gradients": "accept"}))
            if problem := call(self.folder, bin / "fsdp-opt", "model.pt2", f"--config={kernels}.yaml", "-o", f"{kernels}.fsdp"):
                return None, f"kernels: {kernels}: {problem}"
        for way, kernels, variable in (("off", "off", ""), ("code", "on", ""), ("interpreter", "on", "interpret")):
            if problem := call(self.folder, bin / "fsdp-run", f"{kernels}.fsdp", "--data=sample", "--steps=1", f"--export={way}.safetensors", f"--metrics={way}.jsonl",
                               env={"FSDP_KERNELS": variable, "XDG_CACHE_HOME": str(self.folder.parent)}):
                return None, f"{way}: {problem}"
            got[way] = safetensors.torch.load_file(self.folder / f"{way}.safetensors")
            losses[way] = json.loads((self.folder / f"{way}.jsonl").read_text().splitlines()[0])["loss"]
        self.count(bin)
        return self.compare(got, losses)

    def compare(self, got, losses):
        for name in got["code"]:
            if not torch.equal(bits(got["code"][name]), bits(got["interpreter"][name])):
                return self.blame(name), f"{name}: code and interpreter differ by {(got['code'][name] - got['interpreter'][name]).abs().max():.3e}"
        if losses["code"] != losses["interpreter"]:
            return None, f"loss {losses['code']} by code, {losses['interpreter']} by the interpreter"
        usual = gradients(self.module)
        room = {name: torch.zeros_like(value) for name, value in usual.items()}
        for trial in range(TRIALS):
            for name, value in gradients(self.module, trial).items():
                room[name] = torch.maximum(room[name], (value - usual[name]).abs().nan_to_num(torch.inf))
        for name, most in room.items():
            self.tensors += 1
            self.same += torch.equal(bits(got["code"][name]), bits(got["off"][name]))
            apart = (got["code"][name] - got["off"][name]).abs().nan_to_num(torch.inf)
            # Of a few tries none may have moved an element as far as its neighbours.
            bound = MARGIN * (most + most.mean())
            if not bool((apart <= bound).all()):
                worst = (apart - bound).argmax()
                return self.blame(name), (f"{name}[{worst}] is {-got['code'][name].flatten()[worst]:.9g}, and {-got['off'][name].flatten()[worst]:.9g} with kernels: off "
                                          f"({usual[name].flatten()[worst]:.9g} by autograd); at most {bound.flatten()[worst]:.2e} apart, found {apart.flatten()[worst]:.2e}; "
                                          f"{int((apart > bound).sum())} of {apart.numel()} are")
        return None

    def blame(self, name):
        kind, _, rest = name.partition(".")
        return int(re.match(r"\d+", rest).group())

    def count(self, bin):
        """Operators of each chain that LibTorch computes, without kernels and with them."""
        for kernels, sign in (("off", 1), ("on", -1)):
            done = subprocess.run([str(bin / "fsdp-opt"), f"{kernels}.fsdp", "-o", "-"], cwd=self.folder, text=True, capture_output=True, check=True)
            for path in re.findall(r"(?m)^ +\d+ .* = aten::.*# chains\.(\d+)\b", done.stdout):
                self.fused[int(path)] += sign


def judge(options, root, chains, problems, fused, bits_of):
    """Judges chains together; those of a group that fails, alone. Adds to `problems` label and words, to `fused` operators in kernels,
    to `bits_of` tensors and those that have the bits of kernels: off."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        group = Group(options, pathlib.Path(folder), chains)
        try:
            problem = group.judge()
        except Exception as error:
            problem = None, f"{type(error).__name__}: {error}"
        for number, operators in group.fused.items():
            fused[chains[number].label] = operators
        bits_of.update(tensors=group.tensors, same=group.same)
        if problem is None:
            return
        if len(chains) == 1:
            problems.append((chains[0].label, problem[1]))
            print(f"{chains[0].label}: {problem[1]}\n", flush=True)
            return
    half = len(chains) // 2
    if problem[0] is not None:              # a chain's own result: the others may be right
        bad = chains[problem[0]]
        judge(options, root, [bad], problems, fused, bits_of)
        rest = [chain for chain in chains if chain is not bad]
        if not problems or problems[-1][0] != bad.label:
            problems.append((bad.label, f"only beside others: {problem[1]}"))
            print(f"{bad.label}: only beside others: {problem[1]}\n", flush=True)
        return judge(options, root, rest, problems, fused, bits_of)
    judge(options, root, chains[:half], problems, fused, bits_of)
    judge(options, root, chains[half:], problems, fused, bits_of)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), default="build")
    parser.add_argument("--chains", type=int, default=100, help="random pairs and chains of three")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--singles", action=argparse.BooleanOptionalAction, default=True, help="each operator alone, in each type")
    parser.add_argument("--only", help="one chain: 'NAME+NAME TYPE seed N', as problems are named")
    options = parser.parse_args()
    if options.only:
        names, dtype, _, seed = options.only.split()
        wanted = [(names.split("+"), dtype, int(seed))]
    else:
        wanted = [*draw(options)]
    problems, fused, bits_of, unusable, chains = [], {}, collections.Counter(), 0, []
    for names, dtype, seed in wanted:
        chain = Chain(names, dtype, seed)
        if is_finite(chain):
            chains.append(chain)
        else:
            unusable += 1
    with tempfile.TemporaryDirectory() as root:
        for i in range(0, len(chains), GROUP):
            judge(options, root, chains[i:i + GROUP], problems, fused, bits_of)
    inside = sum(fused.get(chain.label, 0) > 0 for chain in chains)
    print(f"{len(chains)} chains: {inside} in kernels, with {sum(fused.values())} operators; {len(problems)} wrong; "
          f"{bits_of['same']} of {bits_of['tensors']} tensors as without kernels bit for bit; {unusable} more chains give no numbers")
    if inside < LEAST * len(chains) and not options.only:
        print(f"fewer than {LEAST:.0%} are in kernels")
        return 1
    return 1 if problems or not chains else 0


if __name__ == "__main__":
    sys.exit(main())
