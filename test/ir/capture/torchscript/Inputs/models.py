# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Saves models below as TorchScript: models.py FOLDER NAME... writes FOLDER/NAME.pt."""
import pathlib
import sys
import warnings
import zipfile
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Tied(nn.Module):
    """A head that shares the embedding's weight, a frozen norm, a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 6)
        self.norm = nn.LayerNorm(6).requires_grad_(False)
        self.head = nn.Linear(6, 12, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.arange(600).float().reshape(100, 6))

    def forward(self, x, y):
        h = self.norm(self.embed(x) + self.table[: x.shape[1]])
        return F.cross_entropy(self.head(h).reshape(-1, 12), y.reshape(-1))


class Norms(nn.Module):
    """Running statistics, written by the forward pass."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x):
        return self.net(x).square().mean()


class Constant(nn.Module):
    """A large constant that tracing puts into the program."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(50, 10))

    def forward(self, x):
        return (x * (self.weight + big) * small).sum()


big, small = torch.arange(500).float().reshape(50, 10), torch.tensor([2.0])


class Step(NamedTuple):
    loss: torch.Tensor
    hidden: torch.Tensor


class Scripted(nn.Module):
    """Control flow on shapes and flags, an optional input, a replaced buffer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(2))
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, scale: Optional[torch.Tensor] = None, twice: bool = True):
        for layer in self.layers:
            x = layer(x)
        if x.shape[0] > 3:
            x = torch.relu(x)
        if scale is not None:
            x = x * scale
        self.count = self.count + 1
        return Step(x.square().mean(), x)


class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x) -> Dict[str, torch.Tensor]:
        return {"loss": self.layer(x).sum()}


class TracedDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, batch: Dict[str, torch.Tensor]):
        return (self.layer(batch["x"]) * batch["mask"]).sum()


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Batched(nn.Module):
    """Inputs in a dict, a list, a tuple and a NamedTuple; a dict of modules."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(5, 5), "b": nn.Linear(5, 5)})

    def forward(self, batch: Dict[str, torch.Tensor], more: List[torch.Tensor], both: Tuple[torch.Tensor, torch.Tensor],
                pair: Optional[Pair] = None):
        x = batch["x"]
        for name, layer in self.layers.items():
            x = layer(x) * (2 if name == "b" else 1)
        if "mask" in batch:
            x = x * batch["mask"]
        for y in more:
            x = x + y
        x = x * both[0] - both[1]
        if pair is not None:
            x = x + pair.left * pair.right
        return x.sum()


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        h = self.layer(x)
        return Step(h.sum(), h)


class Keyed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        h = self.layer(x)
        return {"total": h.sum(), "logits": h, "parts": h.t()}


class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        h = self.layer(x)
        return h.sum(), [h, h * 2], h.sum(1), 3


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        y = self.layer(x)
        if bool(y.sum() > 0):
            y = y * 2
        return y.sum()


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        if x.shape[0] != 4:
            raise ValueError("four rows, please")
        return self.layer(x).sum()


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.layer(x).sum()


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        return torch.ops.mylib.twice(self.layer(x)).sum()


def custom():
    library = torch.library.Library("mylib", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    Custom.library = library
    return torch.jit.trace(Custom(), torch.ones(4, 5))


def damaged(path):
    """The program's text is not TorchScript any more."""
    torch.jit.script(Dictionary()).save(path + ".whole")
    with zipfile.ZipFile(path + ".whole") as whole, zipfile.ZipFile(path, "w") as out:
        for name in whole.namelist():
            content = whole.read(name)
            out.writestr(name, content.replace(b"def forward", b"def {forward") if name.endswith(".py") else content)


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.25), nn.Linear(5, 5), nn.Dropout(0.25, inplace=True))

    def forward(self, x):
        return self.net(x).square().mean() + torch.rand_like(x).mean()


tokens = torch.zeros(2, 3, dtype=torch.long)
MODELS = {
    "tied": lambda: torch.jit.trace(Tied(), (tokens, tokens)),
    "norms": lambda: torch.jit.trace(Norms().train(), torch.randn(2, 3, 6, 6), check_trace=False),
    "norms_scripted": lambda: torch.jit.script(Norms().train()),
    "constant": lambda: torch.jit.trace(Constant(), torch.ones(50, 10)),
    "scripted": lambda: torch.jit.script(Scripted()),
    "dictionary": lambda: torch.jit.script(Dictionary()),
    "batched": lambda: torch.jit.script(Batched()),
    "batched_traced": lambda: torch.jit.trace(TracedDict(), example_kwarg_inputs={"batch": {"x": torch.ones(4, 5), "mask": torch.ones(4, 5)}}),
    "named": lambda: torch.jit.script(Named()),
    "keyed": lambda: torch.jit.script(Keyed()),
    "placed": lambda: torch.jit.script(Placed()),
    "branch": lambda: torch.jit.script(Branch()),
    "raises": lambda: torch.jit.script(Raises()),
    "counts": lambda: torch.jit.script(Counts()),
    "dropping": lambda: torch.jit.script(Dropping()),
    "custom": custom,
}
SAVED = {
    "weights": lambda path: torch.save(Tied().state_dict(), path),
    "damaged": damaged,
}
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name in sys.argv[2:]:
    path = str(folder / f"{name}.pt")
    SAVED[name](path) if name in SAVED else MODELS[name]().save(path)
