# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports models with dynamic dimensions: dynamic.py FOLDER NAME... writes FOLDER/NAME.pt2, or .pt of scripted ones."""
import pathlib
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

warnings.filterwarnings("ignore")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x, y):
        return F.mse_loss(self.fc(x), y)


def mlp():
    batch = Dim("batch", min=3, max=64)
    return Mlp(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}, {"x": {0: batch}, "y": {0: batch}}


def nested():
    """Inputs that are parts of one argument."""
    class Nested(Mlp):
        def forward(self, batch):
            return F.mse_loss(self.fc(batch["x"]), batch["y"])
    dims = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    return Nested(), {"batch": {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}}, {"batch": dims}


def derived():
    """The batch is four times a dimension that no input has."""
    part = Dim("_batch", min=1, max=10)
    return Mlp(), {"x": torch.randn(12, 5), "y": torch.randn(12, 3)}, {"x": {0: 4 * part}, "y": {0: 4 * part}}


class Arithmetic(nn.Module):
    """Most of what Python computes with sizes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)

    def forward(self, x, z, k):
        n, t = x.shape[0], x.shape[1]
        h = self.fc(x).relu().view(n * t, 16).reshape(t, n, 16)
        parts = h[: t // 2].mean() + h[: (t + 1) // 3 + t % 4].sum() / (t * 2 + 1)
        ramp = (torch.arange(n).float() / n).sum() + torch.full((n,), n / t).sum() * k
        wide = F.interpolate(x.transpose(1, 2), scale_factor=1.5).mean() * (n * t) ** 0.5
        bits = torch.ones((t >> 1) + (t & 3)).sum() + min(n, 5) + max(n, t)
        return parts + ramp + wide + bits + z.sum() + torch.sym_ite(n > 5, n, 2 * n) + x.stride(0)


def arithmetic():
    batch, time = Dim("batch", min=2, max=64), Dim("time", min=6, max=64)
    inputs = {"x": torch.randn(7, 10, 8), "z": torch.randn(14), "k": 3}
    return Arithmetic(), inputs, {"x": {0: batch, 1: time}, "z": {0: 2 * batch}, "k": Dim.DYNAMIC}


class Branching(nn.Module):
    """Python's own branch on a size becomes a condition of the archive."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x, y):
        h = self.fc(x).mean() + y.sum()
        return h * 2 if 2 * x.shape[0] > y.shape[0] else h


def branching():
    return Branching(), {"x": torch.randn(4, 5), "y": torch.randn(6)}, {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}


class Regions(nn.Module):
    """Sizes that enter a region without gradients."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        with torch.no_grad():
            mean = x.mean(0, keepdim=True).expand(x.shape[0], 5)
        return self.fc(x + mean * x.shape[0]).square().mean()


def regions():
    return Regions(), {"x": torch.randn(4, 5)}, {"x": {0: Dim.AUTO}}


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        torch._check(x.shape[0] % 2 == 0)
        return self.fc(x).square().mean()


def asserting():
    return Asserting(), {"x": torch.randn(4, 5)}, {"x": {0: Dim.AUTO}}


class FromData(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x, k):
        n = k.item()
        torch._check(n >= 0)
        torch._check(n < 4)
        return self.fc(x)[:n].sum()


def from_data():
    return FromData(), {"x": torch.randn(4, 5), "k": torch.tensor(2)}, {"x": {0: Dim.AUTO}, "k": None}


def static():
    return Mlp(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}, None


class Choosing(nn.Module):
    """TorchScript follows the branch that a size takes: one layer is unused."""

    def __init__(self):
        super().__init__()
        self.small, self.big = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x):
        if x.shape[0] > 5:
            h = self.big(x)
        else:
            h = self.small(x)
        return h.square().mean()


SCRIPTED = {"scripted": Mlp, "choosing": Choosing}


def main(folder, *names):
    for name in names:
        torch.manual_seed(0)
        if name in SCRIPTED:
            torch.jit.script(SCRIPTED[name]()).save(str(pathlib.Path(folder) / f"{name}.pt"))
            continue
        strict = name == "strict"
        deferred = name in ("arithmetic", "asserting")
        model, inputs, dims = mlp() if strict else globals()[name]()
        program = torch.export.export(model, (), inputs, dynamic_shapes=dims, strict=strict,
                                      prefer_deferred_runtime_asserts_over_guards=deferred)
        torch.export.save(program, str(pathlib.Path(folder) / f"{name}.pt2"))


main(*sys.argv[1:])
