# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients that an export leaves out are refused, or accepted by the config's key.

torch.export drops the backward of an autograd.Function: a model with one would
train with other gradients than in PyTorch.
"""
import re

import torch
import torch.nn as nn
import yaml
from safetensors.torch import save_file
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from harness import call, compare, compile_step, export, make_config, make_data, parse_arguments, reference, run_cases, train, train_case

SGD = {"name": "sgd", "lr": 0.1}


class Thrice(torch.autograd.Function):
    """ReLU with three times its gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient * (ctx.saved_tensors[0] > 0)


class Separate(torch.autograd.Function):
    """The same with its context set up apart."""

    @staticmethod
    def forward(x):
        return x.clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient * (ctx.saved_tensors[0] > 0)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient


class Reversed(torch.autograd.Function):
    """Returns what it is given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


alias = Thrice.apply


def helper(x):
    return Thrice.apply(x)


class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.a, self.act, self.b = nn.Linear(5, 7), act, nn.Linear(7, 3)

    def forward(self, x):
        return self.b(self.act(self.a(x))).square().mean()


class Direct(nn.Module):
    def forward(self, x):
        return Thrice.apply(
            x,
        )


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class InMethod(Net):
    """In the module that holds the parameters, on a line with others."""

    def __init__(self):
        super().__init__(nn.Identity())

    def forward(self, x):
        return self.b(Thrice.apply(self.a(x))).square().mean()


class Hooked(Net):
    def __init__(self):
        super().__init__(nn.ReLU())
        self.act.register_full_backward_hook(lambda module, given, taken: (2 * given[0],))


class Base(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Derived(Base):
    """Two calls named forward, of one module."""

    def forward(self, x):
        return super().forward(x) + nn.Softmax(dim=-1)(x)


class OnData(Net):
    """A Function that no gradient goes through, and one under no_grad."""

    def __init__(self):
        super().__init__(nn.ReLU())

    def forward(self, x):
        scale = Thrice.apply(x).mean()
        loss = super().forward(x * scale)
        with torch.no_grad():
            weight = 1 + Thrice.apply(loss)
        return loss * weight


class Detached(Net):
    """Parameters that are read on the way to the loss, but get no gradient."""

    def __init__(self):
        super().__init__(nn.ReLU())

    def forward(self, x):
        return self.b(self.act(self.a(x)).detach()).square().mean()


class Unused(Net):
    """What the loss is not computed from is no error; nor is the shape of a parameter."""

    def __init__(self):
        super().__init__(nn.ReLU())
        self.pooler, self.shape = nn.Linear(5, 2), nn.Parameter(torch.randn(4, 5))

    def forward(self, x):
        return super().forward(x + torch.ones_like(self.shape)), torch.tanh(self.pooler(x))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers, self.head = nn.ModuleList(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(3)), nn.Linear(5, 2)
        self.reentrant = reentrant

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x).square().mean()


class CheckpointedPart(nn.Module):
    """A checkpoint of a function in the model's own forward: no module is what it covers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x):
        h = checkpoint(lambda x: torch.tanh(x) * 2, self.first(x), use_reentrant=False)
        return self.second(h).square().mean()


class Case:
    def __init__(self, bin):
        self.bin = bin

    def compile(self, folder, model, config, form="exported"):
        export(model, {"x": torch.randn(4, 5)}, folder / "model.pt2", form)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        return call(self.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)

    def refused(self, make, *patterns, form="exported"):
        """By default; `patterns` are in the message."""
        def case(folder):
            done = self.compile(folder, make(), make_config(2, SGD), form)
            assert done.returncode == 1, f"exit status {done.returncode}: {done.stderr}"
            for pattern in patterns:
                assert re.search(pattern, done.stderr), f"{pattern!r} is not in: {done.stderr}"
            assert not (folder / "step.fsdp").exists()
        return case

    def accepted(self, make, plain, pattern):
        """With the key it trains as `plain` does, a model without what was lost."""
        def case(folder):
            torch.manual_seed(3)
            model, same = make(), plain()
            same.load_state_dict(model.state_dict())
            inputs, config = {"x": torch.randn(4, 5)}, make_config(2, SGD, lost_gradients="accept")
            start = {k: v.detach().clone() for k, v in same.named_parameters()}
            data = make_data(inputs, 6)
            save_file(data, folder / "data.safetensors")
            done = compile_step(self.bin, folder, model, inputs, config)
            assert re.search(pattern, done.stderr), f"{pattern!r} is not in: {done.stderr}"
            rows, final = train(self.bin, folder, 2, 3)
            compare(rows, final, *reference(same, inputs, data, 2, 3, config), start)
        return case

    def trained(self, make, pattern=None):
        """Without the key it trains as in PyTorch, and says nothing, or what matches `pattern`."""
        equal = train_case(self.bin, lambda: (make(), {"x": torch.randn(4, 5)}), 2, optimizer=SGD)

        def case(folder):
            said = self.compile(folder, make(), make_config(2, SGD)).stderr
            assert re.search(pattern, said) if pattern else not said, said
            equal(folder)
        return case


def main():
    arguments = parse_arguments()
    case = Case(arguments.bin)
    line = r"lost_gradients\.py:\d+"
    lost = (r"error\[fsdp-E035\]", "lost_gradients: accept")
    inside = rf"act at \S*{line}, its forward at {line}"
    cases = {
        "applied in a module's forward": case.refused(lambda: Net(Direct()), *lost, rf"'Thrice\.apply' \({inside}"),
        "applied on a line with others": case.refused(InMethod, *lost, rf"'Thrice\.apply' \(at \S*{line}, its forward at {line}"),
        "applied by a helper": case.refused(lambda: Net(Calls(helper)), *lost, inside),
        "applied by another name": case.refused(lambda: Net(Calls(alias)), *lost, inside),
        "context set up apart": case.refused(lambda: Net(Calls(Separate.apply)), *lost, inside),
        "straight-through estimator": case.refused(lambda: Net(Calls(StraightThrough.apply)), *lost, inside),
        "returns its input": case.refused(lambda: Net(Calls(Reversed.apply)), *lost, r"returns its input, or of a backward hook \(act at"),
        "backward hook": case.refused(Hooked, *lost, r"backward hook \(act at"),
        "many are counted": case.refused(lambda: Net(nn.Sequential(*(Calls(alias) for _ in range(6)))), *lost, "act.0 at", "act.3 at", "and 2 more"),
        "reentrant checkpoint": case.refused(lambda: Checkpointed(True), r"error\[fsdp-E035\]", rf"use_reentrant=True \(at \S*{line}", "use_reentrant=False"),
        "detached": case.refused(Detached, r"error\[fsdp-E036\]", rf"'a\.weight', which aten::\w+ \(a at \S*{line}\) reads", "lost_gradients: accept"),
        "accepted": case.accepted(lambda: Net(Direct()), lambda: Net(nn.ReLU()), r"remark: the backward of 'Thrice\.apply' .* is not in the export"),
        "detached accepted": case.accepted(Detached, Detached, r"'a\.weight' gets no gradient"),
        "modules that look alike": case.trained(lambda: Net(Derived())),
        "functions without a gradient": case.trained(OnData),
        "unused parameters": case.trained(Unused, r"remark: parameter 'pooler\.weight' gets no gradient"),
        "checkpoints": case.trained(lambda: Checkpointed(False)),
        "checkpoint of a part of the model's forward": case.trained(CheckpointedPart, r"warning: the model's own forward checkpoints a part of itself"),
    }
    for form in ("decomposed", "core", "strict"):
        cases[f"applied in a module's forward, {form}"] = case.refused(lambda: Net(Direct()), *lost, r"'Thrice\.apply'", form=form)
        cases[f"returns its input, {form}"] = case.refused(lambda: Net(Calls(lambda x: Reversed.apply(x))), *lost, form=form)
    run_cases(cases, arguments.only)


main()
