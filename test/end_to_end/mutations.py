# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes in place: to buffers, activations, inputs and frozen parameters, also through views.

All patterns are parts of one model, so that one compilation covers them; each
part has parameters and buffers of its own, by whose names a difference is found.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from harness import parse_arguments, run_cases, train_case

WIDTH = 6


class Part(nn.Module):
    """A linear layer and a buffer; `forward` makes a scalar of x, of shape [4, WIDTH]."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("b", torch.linspace(0.5, 1.5, WIDTH))


class AddedTo(Part):
    def forward(self, x):
        self.b.add_(x.mean(0), alpha=0.1)
        return (self.lin(x) * self.b).mean()


class CountedInIntegers(Part):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x):
        self.count += 1
        return self.lin(x).square().mean() / self.count


class WrittenTwice(Part):
    def forward(self, x):
        self.b.mul_(0.5)
        y = self.lin(x) + self.b
        self.b.add_(x.mean().detach())
        return (y + self.b).square().mean()


class ReadBeforeWrite(Part):
    def forward(self, x):
        y = self.lin(x) * self.b.clone()
        self.b.copy_(x.detach().mean(0))
        return y.square().mean()


class SlicesWritten(Part):
    def forward(self, x):
        self.b[0] = x[0, 0]
        self.b[1:3] = x[1, 1:3] * 2
        self.b[torch.tensor([3, 5])] = 0.25
        return (self.lin(x) * self.b).square().mean()


class ViewOfBufferWritten(Part):
    def forward(self, x):
        self.b.view(2, 3).t()[1].mul_(0.5)
        self.b[::2].add_(0.1)
        return (self.lin(x) * self.b).square().mean()


class Volatile(Part):
    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.ones(WIDTH), persistent=False)
        self.register_buffer("unused", torch.ones(3, dtype=torch.int32))

    def forward(self, x):
        self.hidden.mul_(0.9)
        return (self.lin(x) * self.hidden).square().mean()


class TiedBuffers(Part):
    def __init__(self):
        super().__init__()
        self.register_buffer("same", self.b)

    def forward(self, x):
        self.b.mul_(0.9)
        return (self.lin(x) * self.same).square().mean()


class OverlappingBuffers(Part):
    """Views of one tensor, which nobody writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("head", self.b[:3])

    def forward(self, x):
        return (self.lin(x) * self.b).square().mean() + (self.lin(x)[:, :3] * self.head).mean()


class Constants(Part):
    def __init__(self):
        super().__init__()
        self.attribute = torch.linspace(-1, 1, WIDTH)

    def forward(self, x):
        return (self.lin(x) * torch.tensor([1.0, 2, 3, 4, 5, 6]) + self.attribute).square().mean()


class InPlaceActivations(Part):
    def forward(self, x):
        h = self.lin(x)
        h += 1
        h.mul_(2).sub_(0.5).relu_()
        h = h + 0
        h[:, 0] = 0.5
        h[1] *= 3
        return h.square().mean()


class ThroughViews(Part):
    def forward(self, x):
        h = self.lin(x).clone()
        h.view(2, 2, WIDTH).transpose(0, 1)[1].mul_(2)
        h.as_strided((2, 3), (WIDTH, 1), 1).add_(1)
        h.diagonal().add_(0.5)
        h.t()[2:4].unflatten(1, (2, 2)).tanh_()
        return h.square().mean()


class IndexedWrites(Part):
    def forward(self, x):
        h = self.lin(x) * 2
        rows = torch.tensor([0, 2, 0])
        h.index_put_((rows,), self.b.expand(3, WIDTH), accumulate=True)
        h[rows[:2], 1] = 0.5
        h.index_add_(0, rows, x[:3])
        h.scatter_(1, torch.zeros(4, 1, dtype=torch.long), x[:, :1])
        h.masked_fill_(x > 1, 0.1)
        return h.square().mean()


class Filled(Part):
    def forward(self, x):
        h = torch.zeros(4, 2 * WIDTH)
        h[:, :WIDTH] = self.lin(x)
        for i in range(3):
            h[:, WIDTH + i] = h[:, i] * (i + 1)
        h[0].fill_(0.3)
        h[1, :4].zero_()
        h[2].copy_(self.b.repeat(2))
        return h.square().mean()


class ShapesInPlace(Part):
    def forward(self, x):
        h = self.lin(x).clone()
        h.unsqueeze_(0).transpose_(1, 2)
        h.squeeze_(0).mul_(self.b[:, None])
        return h.square().mean()


class WithoutGradient(Part):
    """A write beside autograd, to a tensor that it knows."""

    def forward(self, x):
        h = self.lin(x)
        h.detach().mul_(2)
        return h.mean() + (h * x).mean()


class OutOfPlace(Part):
    def forward(self, x):
        h = self.lin(x)
        h = h.index_add(0, torch.tensor([1, 1]), x[:2]).masked_fill(x > 1, 0.1)
        h = torch.select_scatter(h, self.b * 2, 0, 1)
        h = torch.slice_scatter(h, x[:, :2], 1, 1, 3)
        return h.index_copy(0, torch.tensor([3]), x[:1]).index_fill(1, torch.tensor([4]), 0.5).square().mean()


class FrozenWritten(Part):
    """A target that follows a trained weight, as in self-distillation."""

    def __init__(self):
        super().__init__()
        self.target = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            self.target.weight.mul_(0.9).add_(self.lin.weight, alpha=0.1)
        return F.mse_loss(self.lin(x), self.target(x))


PARTS = [part for part in Part.__subclasses__()]
# The decompositions of torch.export forget no_grad and detach, refuse tied
# buffers, and use as_strided_scatter, whose gradient is wrong in PyTorch itself.
LOSSLESS = [part for part in PARTS if part not in (WithoutGradient, FrozenWritten, TiedBuffers, ThroughViews)]


class Many(nn.Module):
    def __init__(self, parts):
        super().__init__()
        for part in parts:
            self.add_module(part.__name__, part())

    def forward(self, x, written):
        written.mul_(2).clamp_(max=1)
        return sum(part(x) for part in self.children()) + written.mean()


def many():
    return Many(PARTS), {"x": torch.randn(4, WIDTH), "written": torch.randn(4, 2)}


def lossless():
    return Many(LOSSLESS), {"x": torch.randn(4, WIDTH), "written": torch.randn(4, 2)}


# TorchScript ties no buffers and keeps all of them.
def untied():
    return Many([part for part in PARTS if part not in (TiedBuffers, Volatile)]), {"x": torch.randn(4, WIDTH), "written": torch.randn(4, 2)}


def main():
    arguments = parse_arguments()
    cases = {}
    for factory, world, form in ((many, 1, "exported"), (many, 2, "exported"), (untied, 2, "traced"),
                                 (lossless, 2, "decomposed"), (lossless, 2, "core")):
        cases[f"{factory.__name__} world={world} {form}"] = train_case(arguments.bin, factory, world, form=form)
    run_cases(cases, arguments.only)


main()
