# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Regions of a model with rules of their own: autocast, no_grad, checkpoints, sub-graphs.

All patterns are parts of one model, so that one compilation covers them; each
part has parameters of its own, by whose names a difference is found.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from harness import parse_arguments, run_cases, train_case

WIDTH = 6


def autocast(dtype=torch.bfloat16, **options):
    return torch.autocast("cpu", dtype=dtype, **options)


class Part(nn.Module):
    """Two linear layers; `forward` makes a scalar of x, of shape [4, WIDTH]."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)


class Casts(Part):
    """A base for those that use autocast."""


class Layers(Casts):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        with autocast():
            h = self.b(self.norm(F.gelu(self.a(x))))
        return h.float().square().mean()


class Half(Casts):
    def forward(self, x):
        with autocast(torch.float16):
            return self.b(torch.tanh(self.a(x))).float().square().mean()


class LossInside(Casts):
    def forward(self, x):
        with autocast():
            return F.cross_entropy(self.b(self.a(x)), torch.tensor([0, 2, 1, 5])) + F.mse_loss(self.a(x), x)


class Nested(Casts):
    def __init__(self):
        super().__init__()
        self.c = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        with autocast():
            h = self.a(x)
            with autocast(enabled=False):
                g = self.b(h.float())
                with autocast(torch.float16):
                    f = self.c(g)
            return (self.b(h) * 2 + g + f).float().mean()


class SharedWeight(Casts):
    """Its gradients meet in bfloat16: PyTorch casts a weight once."""

    def forward(self, x):
        with autocast():
            return self.a(self.a(self.a(x)).relu()).float().square().mean() + self.b(x).float().mean()


class Promoted(Casts):
    def forward(self, x):
        with autocast():
            h = torch.cat([self.a(x), x]) + torch.stack([x, self.b(x)]).flatten(0, 1)
            return h.square().mean() + F.softmax(self.a(x), -1).prod(1).mean() * 100


class Products(Casts):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.full((WIDTH,), 0.25))

    def forward(self, x):
        with autocast():
            q, k, v = (f(x).view(1, 2, 2, WIDTH) for f in (self.a, self.b, self.a))
            h = F.scaled_dot_product_attention(q, k, v).reshape(4, WIDTH)
            h = h + torch.einsum("ij,kj->ik", self.a(x), self.b.weight)
            h = F.prelu(h, self.slope)
            return (h @ self.b.weight).float().square().mean() + torch.baddbmm(x[:2, None], q[0], k[0].mT[:, :, :1].expand(2, WIDTH, WIDTH)).float().mean()


class Images(Casts):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 2), nn.GroupNorm(3, 3)

    def forward(self, x):
        with autocast():
            h = self.norm(self.conv((self.a(x) + self.b(x)).view(4, 1, 2, 3)).relu())
        return F.max_pool2d(h, 1).float().square().mean()


class NoGradAround(Casts):
    """The other way round torch.export forgets no_grad."""

    def forward(self, x):
        with torch.no_grad():
            with autocast():
                scale = self.b(x)
        with autocast():
            return (self.a(x) * scale).float().mean()


class Doubles(Casts):
    """float64 is left alone; the model casts for itself."""

    def forward(self, x):
        with autocast():
            return (self.a(x).double() @ self.b.weight.double() + self.b.bias.double()).mean().float()


class WithoutGradient(Part):
    def forward(self, x):
        with torch.no_grad():
            a = self.a(x)
            with torch.enable_grad():
                c = self.b(x)
            d = a * 2
        return (self.b(x) * d + c).square().mean() + (self.a(x).detach() * c).mean()


class Checkpointed(Part):
    def forward(self, x):
        return checkpoint(lambda z: self.b(F.relu(self.a(z))), x, use_reentrant=False).square().mean()


class Lists(Part):
    """Several results of one operator."""

    def forward(self, x):
        h = self.a(x)
        low, high = h.chunk(2, -1)
        _, rest = self.b(x).split([1, WIDTH - 1], -1)
        best, _ = h.max(-1)
        top, where = self.b(x).topk(2, -1)
        rows = h.unbind(0)
        return (low * high).mean() + rest.square().mean() + best.mean() + top.gather(1, where % 2).mean() + (rows[0] * rows[2]).mean()


class Asserts(Part):
    def forward(self, x):
        torch._assert(x.shape[0] == 4, "four rows")
        torch._assert_async((x == x).all(), "no NaN")
        torch._check(x.shape[0] > 1)
        return self.b(self.a(x).relu()).mean()


@torch.compiler.nested_compile_region
def repeated(x, w):
    return torch.sin(x @ w) * 2


class Repeated(Part):
    def forward(self, x):
        return (repeated(self.a(x), self.a.weight) + repeated(self.b(x), self.b.weight)).square().mean()


class Chosen(Part):
    """A branch that the shapes decide."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 3, lambda h: self.a(h), lambda h: self.b(h), (x,)).square().mean() + self.b(x).mean()


CASTS = Casts.__subclasses__()
OTHERS = [part for part in Part.__subclasses__() if part is not Casts]


class Many(nn.Module):
    def __init__(self, parts):
        super().__init__()
        for part in parts:
            self.add_module(part.__name__, part())

    def forward(self, x):
        return sum(part(x) for part in self.children())


def casts():
    return Many(CASTS), {"x": torch.randn(4, WIDTH)}


# The decompositions of torch.export forget no_grad and detach, and what they
# make of einsum runs nowhere.
def decomposable_casts():
    return Many([part for part in CASTS if part not in (NoGradAround, Products)]), {"x": torch.randn(4, WIDTH)}


def others():
    return Many(OTHERS), {"x": torch.randn(4, WIDTH)}


# torch.export refuses checkpoints when it is strict.
def strict_others():
    return Many([part for part in OTHERS if part is not Checkpointed]), {"x": torch.randn(4, WIDTH)}


class Scripted(Casts):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.relu(self.a(x))
            return self.b(h).float().square().mean()


def scripted():
    return Scripted(), {"x": torch.randn(4, WIDTH)}


def main():
    arguments = parse_arguments()
    cases = {}
    for factory, world, form in ((casts, 1, "exported"), (casts, 2, "strict"), (decomposable_casts, 2, "decomposed"),
                                 (others, 2, "exported"), (strict_others, 2, "strict"), (scripted, 2, "scripted")):
        cases[f"{factory.__name__} world={world} {form}"] = train_case(arguments.bin, factory, world, form=form, lost_gradients="accept")
    run_cases(cases, arguments.only)


main()
