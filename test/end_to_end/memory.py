# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planned peak against the hard bounds of PyTorch's own memory test of FSDP2.

test_fully_shard_memory.py of PyTorch bounds a rank's memory, W = 2, with 16 MB
for everything else. Here that else (inputs and activations) is taken out of the
plan's numbers and nothing is allowed on top. Psh: a rank's shards; Pmax: the
largest block unsharded; Root: the root bucket unsharded; Pun: all of it.

Forward is below PyTorch's bounds by Pmax, the buffer that gathered bytes are
copied out to: 3 * Pmax there are 2 here, and Pun + Pmax are Pun.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import zoo
from harness import flat, parse_arguments, run_cases
from report import make_report

FLOAT, WORLD = 4, 2
COPY_OUT = 1  # in units of Pmax


class Blocks(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, 8)
        self.blocks = nn.ModuleList(zoo.MlpBlock(width) for _ in range(count))

    def forward(self, x, y):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.last(x), y)


def size(parameters, parts=1):
    return FLOAT * sum(math.ceil(p.shape[0] / parts) * math.prod(p.shape[1:]) for p in parameters)


def bound_case(bin, count, width, reshard, bounds):
    def case(folder):
        model = Blocks(count, width)
        inputs = {"x": torch.randn(2, width), "y": torch.randint(0, 8, (2,))}
        report = make_report(bin, folder, model, inputs, WORLD, optimizer={"name": "sgd", "lr": 0.1}, reshard_after_forward=reshard)
        sizes = {
            "Psh": size(model.parameters(), WORLD),
            "Pun": WORLD * size(model.parameters(), WORLD),
            "Pmax": WORLD * size(model.blocks[0].parameters(), WORLD),
            "Root": WORLD * size([*model.first.parameters(), *model.last.parameters()], WORLD),
        }
        for phase, bound in bounds.items():
            use = report["phases"][phase]
            found = report["memory"]["params"] + use["gathered"] + use["grads"]
            most = sum(times * sizes[name] for name, times in bound.items())
            assert found <= most, f"{phase}: {found} bytes, at most {most} are allowed"
    return case


def main():
    arguments = parse_arguments()
    cases = {}
    for count, width in ((3, 64), (8, 32)):
        cases[f"{count} blocks of {width}, reshard=True"] = flat(bound_case(arguments.bin, count, width, True, {
            "forward": {"Psh": 1, "Pmax": 3 - COPY_OUT, "Root": 1},
            "backward": {"Psh": 2, "Pmax": 3, "Root": 1},
            "optimizer": {"Psh": 4}}))
        cases[f"{count} blocks of {width}, reshard=False"] = flat(bound_case(arguments.bin, count, width, False, {
            "forward": {"Psh": 1, "Pun": 1, "Pmax": 1 - COPY_OUT},
            "backward": {"Psh": 1, "Pun": 1, "Pmax": 1.5},
            "optimizer": {"Psh": 4}}))
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
