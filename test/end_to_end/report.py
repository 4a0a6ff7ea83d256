"""Collectives of --report equal FSDP2's formulas.

Per bucket of W ranks, S = sum over members of ceil(d0 / W) * rest elements. An
all-gather receives W * S elements, a reduce-scatter sends W * S' (members with
a gradient). Forward gathers every bucket once. With reshard_after_forward true,
backward gathers again those members whose value it reads, and only those: of
linear layers that is the weight, unless the layer's input needs no gradient.
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

import zoo
from harness import export, make_config, must, parse_arguments, run_cases

FLOAT = 4


class Pair(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Stack(nn.Module):
    """Every layer a bucket of its own; the first layer's input is the data."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(17, 13), nn.Linear(13, 5), nn.Linear(5, 3)])

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(x, y)


class Pairs(nn.Module):
    """Two equal blocks between an input and an output layer in the root."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 9), nn.Linear(9, 2)
        self.blocks = nn.ModuleList([Pair(9, 14), Pair(9, 14)])

    def forward(self, x, y):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return F.mse_loss(self.last(x), y)


class Adapted(nn.Module):
    """Two blocks of a frozen layer with a trained detour; the first one's input is the data."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(9, 9), nn.Tanh()) for _ in range(2))
        zoo.add_lora(self, ("0",), rank=3)

    def forward(self, x, y):
        for block in self.blocks:
            x = block(x)
        return F.mse_loss(x, y)


def padded(parameters, world):
    """W * S of the formulas, in bytes."""
    return world * FLOAT * sum(math.ceil(p.shape[0] / world) * math.prod(p.shape[1:]) for p in parameters)


def make_report(bin, folder, model, inputs, world, **config):
    export(model, inputs, folder / "model.pt2")
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(world, **config)))
    must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp", cwd=folder)
    return json.loads((folder / "report.json").read_text())


def bytes_by_kind(report):
    out = {"all_gather": [], "reduce_scatter": []}
    for row in report["collectives"]:
        out[row["kind"]] += [(row["bucket"], row["bytes"])] * row["count"]
        assert row["dtype"] == "f32" and row["bytes"] > 0, row
    return {kind: sorted(rows) for kind, rows in out.items()}


def formula_case(bin, model, inputs, buckets, second, world, reshard, **wrap):
    """`buckets`: name -> members; `second`: name -> members that backward reads."""
    def case(folder):
        report = make_report(bin, folder, model, inputs, world, reshard_after_forward=reshard, **wrap)
        gathers = [(name, padded(members, world)) for name, members in buckets.items()]
        if reshard:
            gathers += [(name, padded(members, world)) for name, members in second.items() if members]
        reductions = [(name, padded([p for p in members if p.requires_grad], world)) for name, members in buckets.items()]
        expected = {"all_gather": sorted(gathers), "reduce_scatter": sorted((n, b) for n, b in reductions if b)}
        found = bytes_by_kind(report)
        assert found == expected, f"found {found}, expected {expected}"
        memory = report["memory"]
        assert memory["peak"] >= memory["params"] + memory["optimizer"] > 0, memory
    return case


def main():
    arguments = parse_arguments()
    torch.manual_seed(0)
    cases = {}

    stack = Stack()
    frozen = Stack()
    frozen.layers[1].weight.requires_grad_(False)
    frozen.layers[1].bias.requires_grad_(False)
    stack_inputs = {"x": torch.randn(8, 17), "y": torch.randn(8, 3)}
    for label, model in (("stack", stack), ("stack, frozen layer", frozen)):
        buckets = {f"layers.{i}": list(layer.parameters()) for i, layer in enumerate(model.layers)}
        second = {f"layers.{i}": [layer.weight] for i, layer in enumerate(model.layers) if i > 0}
        for world in (2, 4):
            for reshard in (True, False):
                cases[f"{label} world={world} reshard={reshard}"] = formula_case(
                    arguments.bin, model, stack_inputs, buckets, second, world, reshard,
                    auto_wrap_policy="TRANSFORMER_BASED_WRAP", transformer_layer_cls_to_wrap="Linear")

    pairs = Pairs()
    buckets = {f"blocks.{i}": list(block.parameters()) for i, block in enumerate(pairs.blocks)}
    buckets["root"] = [*pairs.first.parameters(), *pairs.last.parameters()]
    second = {f"blocks.{i}": [block.up.weight, block.down.weight] for i, block in enumerate(pairs.blocks)}
    second["root"] = [pairs.last.weight]
    for world in (3, 4):
        for reshard in (True, False):
            cases[f"pairs world={world} reshard={reshard}"] = formula_case(
                arguments.bin, pairs, {"x": torch.randn(4, 6), "y": torch.randn(4, 2)}, buckets, second, world, reshard)

    # Backward needs a layer's weights for the gradient of its input, which the
    # first block's input does not have; frozen ones are reduced by nobody.
    adapted = Adapted()
    inputs = {"x": torch.randn(4, 9), "y": torch.randn(4, 9)}
    layers = [block[0] for block in adapted.blocks]
    buckets = {f"blocks.{i}": list(layer.parameters()) for i, layer in enumerate(layers)}
    second = {"blocks.0": [layers[0].lora_B["default"].weight],
              "blocks.1": [layers[1].base_layer.weight, layers[1].lora_A["default"].weight, layers[1].lora_B["default"].weight]}
    for reshard in (True, False):
        cases[f"lora reshard={reshard}"] = formula_case(arguments.bin, adapted, inputs, buckets, second, 2, reshard)

    def lora_optimizer(folder):
        """Moments of the adapters alone; step count and learning rate beside them."""
        report = make_report(arguments.bin, folder, adapted, inputs, 2)
        trained = [p for p in adapted.parameters() if p.requires_grad]
        assert len(trained) == 4 and all("lora" in n for n, p in adapted.named_parameters() if p.requires_grad)
        moments = sum(2 * math.ceil(p.shape[0] / 2) * p.shape[1] * FLOAT for p in trained)
        scalars = report["memory"]["optimizer"] - moments
        assert 0 <= scalars <= 16, (moments, report["memory"])

    cases["lora optimizer"] = lora_optimizer

    def documented_numbers(folder):
        """The three layers measured under FSDP2: shards of 72, 28 and 6 elements."""
        report = make_report(arguments.bin, folder, stack, stack_inputs, 4, reshard_after_forward=False,
                             auto_wrap_policy="TRANSFORMER_BASED_WRAP", transformer_layer_cls_to_wrap="Linear")
        found = [row["bytes"] for row in report["collectives"] if row["kind"] == "all_gather"]
        assert found == [4 * 72 * FLOAT, 4 * 28 * FLOAT, 4 * 6 * FLOAT], found

    def one_rank(folder):
        model, inputs = zoo.mlp()
        report = make_report(arguments.bin, folder, model, inputs, 1, reshard_after_forward=True)
        assert report["collectives"] == [], report["collectives"]

    cases["documented numbers"] = documented_numbers
    cases["one rank moves nothing"] = one_rank
    run_cases(cases, arguments.only)


main()
