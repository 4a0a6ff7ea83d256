# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators whose results have sizes that depend on values, unless an argument gives them.

Given, they train as in PyTorch; not given, they are refused at the model's line. docs/Operators.md lists both.
"""
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from harness import call, compile_step, make_config, make_data, parse_arguments, run_cases, train_case

SGD = {"name": "sgd", "lr": 0.1}


class Classes(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.a, self.classes = nn.Linear(6, 5), classes

    def forward(self, x, y):
        return F.mse_loss(self.a(x), F.one_hot(y, self.classes).float())


class Inferred(nn.Module):
    """Without the number: in a trace that is -1, in an export an argument that is not there."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 5)

    def forward(self, x, y):
        return F.one_hot(y).float().mean() * self.a(x).mean()


class Ctc(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 7)

    def forward(self, x, y):
        return F.ctc_loss(self.a(x).log_softmax(-1).transpose(0, 1), y % 6 + 1, (10, 8, 10), (4, 3, 4), zero_infinity=True)


class LeastSquares(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x, y):
        return torch.linalg.lstsq(self.a(x), y, driver="gels")[0].square().mean()


def labelled(make):
    return lambda: (make(), {"x": torch.randn(4, 6), "y": torch.randint(0, 5, (4,))})


def spoken(make):
    return lambda: (make(), {"x": torch.randn(3, 10, 5), "y": torch.randint(0, 6, (3, 4))})


def refused(bin, factory, form, *patterns):
    def case(folder):
        model, inputs = factory()
        try:
            compile_step(bin, folder, model, inputs, make_config(1, SGD), form)
        except AssertionError as error:
            for pattern in patterns:
                assert re.search(pattern, str(error)), f"{pattern!r} is not in: {error}"
            return
        raise AssertionError("compiled")
    return case


def beyond(bin):
    """A class that is none of the given number is refused when it comes, as in PyTorch; its row is not zeros."""
    def case(folder):
        model, inputs = labelled(lambda: Classes(5))()
        compile_step(bin, folder, model, inputs, make_config(1, SGD))
        data = make_data(inputs, 1)
        data["y"][1] = 5
        save_file(data, folder / "data.safetensors")
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", cwd=folder)
        assert done.returncode and re.search(r"error\[fsdp-E086\]: 'y', row 1 of 'data\.safetensors': 5 of 5: .*given_sizes\.py:\d+ takes 0 to 4", done.stderr), done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    line = r"at \S*given_sizes\.py:\d+\)"
    cases = {f"classes, {form}": train_case(bin, labelled(lambda: Classes(5)), 2, form=form, optimizer=SGD) for form in ("exported", "decomposed", "traced", "scripted")}
    cases |= {
        "least squares": train_case(bin, lambda: (LeastSquares(), {"x": torch.randn(5, 6), "y": torch.randn(5, 2)}), 1, form="traced", optimizer=SGD),
        "a class beyond": beyond(bin),
        "no classes": refused(bin, labelled(Inferred), "traced", r"error\[fsdp-E022\]", line),
        # In PyTorch's file the operator is called, the model's is what is named.
        "lengths": refused(bin, spoken(Ctc), "traced", r"error\[fsdp-E022\]: aten::_ctc_loss", line),
    }
    run_cases(cases, arguments.only)


main()
