# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives of --report equal FSDP2's formulas, and those of a run the report's.

Per bucket of W ranks, S = sum over members of ceil(d0 / W) * rest elements. An
all-gather receives W * S elements, a reduce-scatter sends W * S' (members with
a gradient), and with replicas each of them adds up S' elements. Forward gathers
every bucket once. With reshard_after_forward true, backward gathers again those
members whose value it reads, and only those: of linear layers that is the
weight, unless the layer's input needs no gradient. With a number k it gathers
them among k ranks, ceil(d0 / k) rows from each: at most what FSDP2 moves, which
cuts its padded tensors.

A step of M micro-batches makes M times as many, but reductions only once if
they wait for the last one, and gathers only once if parameters stay gathered.
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import save_file

import zoo
from harness import export, make_config, must, parse_arguments, run_cases, run_step

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
    """(kind, group) -> (bucket, bytes) of every collective."""
    out = {}
    for row in report["collectives"]:
        out.setdefault((row["kind"], row["group"]), []).extend([(row["bucket"], row["bytes"])] * row["count"])
        assert row["dtype"] == "f32" and row["bytes"] > 0, row
    return {key: sorted(rows) for key, rows in out.items()}


def counted(bin, folder, ranks, inputs):
    """(kind, group) -> (calls, bytes) of one step of a run, as its back end saw them; without the metrics."""
    save_file({name: torch.cat([value] * ranks) for name, value in inputs.items()}, folder / "data.safetensors")
    row, = run_step(bin, folder, ranks, "--steps=1")
    return {(each["kind"], each["group"]): (each["count"], each["bytes"]) for each in row.get("collectives", []) if each["kind"] != "metrics"}


def formula_case(bin, model, inputs, buckets, second, world, reshard, replicate=1, micro_batches=1, **config):
    """`world` ranks in each of `replicate` replicas. `buckets`: name -> members; `second`: name -> members that backward reads."""
    def case(folder):
        report = make_report(bin, folder, model, inputs, world * replicate, reshard_after_forward=reshard, replicate=replicate,
                             gradient_accumulation_steps=micro_batches, **config)
        assert report["micro_batches"] == micro_batches
        expected = {("all_gather", "dp_shard"): [(name, padded(members, world)) for name, members in buckets.items()]}
        again = [(name, members) for name, members in second.items() if members]
        if reshard is True or reshard == world:
            expected["all_gather", "dp_shard"] += [(name, padded(members, world)) for name, members in again]
        elif reshard is not False:
            expected["all_gather", f"dp_inner_{reshard}"] = [(name, padded(members, reshard)) for name, members in again]
            for _, members in again:
                assert padded(members, reshard) <= padded(members, world), "more than FSDP2 moves"
        trained = [(name, padded([p for p in members if p.requires_grad], world)) for name, members in buckets.items()]
        trained = [(name, size) for name, size in trained if size]
        expected["reduce_scatter", "dp_shard"] = trained
        if replicate > 1:
            expected["all_reduce", "dp_replicate"] = [(name, size // world) for name, size in trained]
        once = {"last": ("reduce_scatter", "all_reduce"), "all_reduce_last": ("all_reduce",)}.get(config.get("gradient_sync"), ())
        if config.get("reshard_after_backward") is False:
            once += ("all_gather",)
        for key in expected:
            if key[0] not in once:
                expected[key] *= micro_batches
        expected = {key: sorted(rows) for key, rows in expected.items()}
        found = bytes_by_kind(report)
        assert found == expected, f"found {found}, expected {expected}"
        memory = report["memory"]
        assert memory["peak"] >= memory["params"] + memory["optimizer"] > 0, memory
        moved = {key: (len(rows), sum(size for _, size in rows)) for key, rows in expected.items()}
        run = counted(bin, folder, world * replicate, inputs)
        assert run == moved, f"the run moved {run}, expected {moved}"
    return case


def main():
    arguments = parse_arguments()
    torch.manual_seed(0)
    cases = {}

    linear = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "Linear"}
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
                    arguments.bin, model, stack_inputs, buckets, second, world, reshard, **linear)
        cases[f"{label} world=4 parts of 2"] = formula_case(arguments.bin, model, stack_inputs, buckets, second, 4, 2, **linear)
        for reshard in (True, False, 2):
            cases[f"{label} 3 replicas of 2, reshard={reshard}"] = formula_case(
                arguments.bin, model, stack_inputs, buckets, second, 2, reshard, replicate=3, **linear)

    kept = {"reshard_after_backward": False}
    last = {"gradient_sync": "last"}
    for label, reshard, mode in (("ZeRO-3", True, {}), ("ZeRO-3, no_sync", True, last), ("ZeRO-2", False, {}), ("ZeRO-2, no_sync", False, last),
                                 ("kept", False, kept), ("ZeRO-1", False, {**kept, **last}), ("all-reduce last", True, {"gradient_sync": "all_reduce_last"})):
        for micro_batches in (2, 5):
            cases[f"stack of {micro_batches} micro-batches, {label}"] = formula_case(
                arguments.bin, stack, stack_inputs, {f"layers.{i}": list(layer.parameters()) for i, layer in enumerate(stack.layers)},
                {f"layers.{i}": [layer.weight] for i, layer in enumerate(stack.layers) if i > 0}, 3, reshard,
                micro_batches=micro_batches, **linear, **mode)

    for mode in ({}, last, {"gradient_sync": "all_reduce_last"}):
        cases[f"3 replicas of 2, 3 micro-batches, {mode}"] = formula_case(
            arguments.bin, stack, stack_inputs, {f"layers.{i}": list(layer.parameters()) for i, layer in enumerate(stack.layers)},
            {f"layers.{i}": [layer.weight] for i, layer in enumerate(stack.layers) if i > 0}, 2, True, replicate=3, micro_batches=3, **linear, **mode)

    def accumulated_memory(folder):
        """What micro-batches cost: shards of the gradients, whole gradients, whole parameters; and nothing for the first one's."""
        def memory(world=4, **config):
            return make_report(arguments.bin, folder, stack, stack_inputs, world, reshard_after_forward=False,
                               optimizer_in_backward="never", **config)["memory"]
        def room(sizes):
            """Bytes of small tensors one behind the other."""
            return sum((size * FLOAT + 15) // 16 * 16 for size in sizes)
        def check(found, *sums):
            """States are parameters, two moments, the sums of gradients, and numbers."""
            numbers = (found["optimizer"] - 2 * found["params"]) // FLOAT
            expected = 3 * room(rows) + sum(map(room, sums)) + numbers * 16
            assert found["states"] == (expected + 127) // 128 * 128, (expected, found)
            return numbers
        rows = [math.ceil(p.shape[0] / 4) * math.prod(p.shape[1:]) for p in stack.parameters()]
        whole = [p.numel() for p in stack.parameters()]
        one = memory()
        each, once = memory(gradient_accumulation_steps=3), memory(gradient_accumulation_steps=3, **last)
        zero1 = memory(gradient_accumulation_steps=3, **kept, **last)
        alone = check(one)
        # The sum of the losses is one number more.
        assert check(each, rows) == check(once, whole) == check(zero1, whole, [4 * n for n in rows]) == alone + 1
        # The sums lie in no transient memory beside.
        assert each["peak"] - each["states"] <= one["peak"] - one["states"], (one, each)
        assert once["peak"] - once["states"] <= one["peak"] - one["states"], (one, once)
        assert zero1["peak"] - zero1["states"] <= once["peak"] - once["states"], (once, zero1)

    cases["memory of micro-batches"] = accumulated_memory

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
        report = make_report(arguments.bin, folder, stack, stack_inputs, 4, reshard_after_forward=False, **linear)
        found = [row["bytes"] for row in report["collectives"] if row["kind"] == "all_gather"]
        assert found == [4 * 72 * FLOAT, 4 * 28 * FLOAT, 4 * 6 * FLOAT], found

    def documented_replicas(folder):
        """Two replicas of two ranks: reductions of 252, 84 and 24 elements, all-reduces of half of these."""
        report = make_report(arguments.bin, folder, stack, stack_inputs, 4, replicate=2, **linear)
        found = bytes_by_kind(report)
        assert sorted(size for _, size in found["reduce_scatter", "dp_shard"]) == [24 * FLOAT, 84 * FLOAT, 252 * FLOAT], found
        assert sorted(size for _, size in found["all_reduce", "dp_replicate"]) == [12 * FLOAT, 42 * FLOAT, 126 * FLOAT], found

    def one_rank(folder):
        model, inputs = zoo.mlp()
        report = make_report(arguments.bin, folder, model, inputs, 1, reshard_after_forward=True)
        assert report["collectives"] == [], report["collectives"]

    cases["documented numbers"] = documented_numbers
    cases["documented replicas"] = documented_replicas
    cases["one rank moves nothing"] = one_rank
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
