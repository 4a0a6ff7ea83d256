# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's own tests of fully_shard, as far as they are about numbers and need no GPU.

Cases are called as the tests there; docs/Fsdp2Tests.md says which test of ours
stands for each of them. Shapes, world sizes and options are those of PyTorch's.
Every case trains with poisoned memory and is compared with plain PyTorch.
"""
import collections

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.utils.checkpoint import checkpoint

import zoo
from harness import compile_step, flat, make_config, make_data, parse_arguments, reference, run_cases, run_step, train, train_case

ADAM = {"name": "adam", "lr": 1e-2, "eps": 1e-3}


def linears(*shapes):
    """Linear layers of these shapes (inputs, outputs) with a ReLU between; every one a repeated block."""
    def factory():
        class Chain(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(*shape) for shape in shapes)

            def forward(self, x):
                for layer in self.layers[:-1]:
                    x = F.relu(layer(x))
                return self.layers[-1](x).square().sum(-1).mean()

        return Chain(), {"x": torch.randn(4, shapes[0][0])}
    return factory


def transformer(tied=False, checkpointed=False, blocks=3):
    def factory():
        class Transformer(zoo.Gpt):
            def __init__(self):
                super().__init__(layers=blocks)
                if not tied:
                    self.head.weight = nn.Parameter(torch.randn_like(self.embed.weight) * 0.1)

            def forward(self, x):
                h = self.embed(x) + self.position[: x.shape[1]]
                for block in self.blocks:
                    h = checkpoint(block, h, use_reentrant=False) if checkpointed else block(h)
                return self.head(self.norm(h))

        return zoo.Classifier(Transformer()), zoo.tokens()
    return factory


class Mlp(nn.Module):
    """As the MLP of PyTorch's tests: out and back again."""

    def __init__(self, width, factor=4):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, factor * width), nn.Linear(factor * width, width)

    def forward(self, x):
        return F.relu(self.outer(F.relu(self.inner(x))))


def mlps(width, count=3):
    def factory():
        class Mlps(nn.Module):
            def __init__(self):
                super().__init__()
                self.mlps = nn.ModuleList(Mlp(width) for _ in range(count))

            def forward(self, x):
                for mlp in self.mlps:
                    x = x + mlp(x)
                return x.square().mean()

        return Mlps(), {"x": torch.randn(4, width)}
    return factory


def twice(factory):
    """A module that is used twice in one forward."""
    def make():
        model, inputs = factory()

        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model

            def forward(self, **inputs):
                return self.inner(**inputs) + self.inner(**{k: v.flip(0) for k, v in inputs.items()}) * 0.5

        return Twice(), inputs
    return make


def frozen(factory, is_frozen):
    def make():
        model, inputs = factory()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not is_frozen(name))
        return model, inputs
    return make


def double(factory):
    def make():
        model, inputs = factory()
        return model.double(), {k: v.double() for k, v in inputs.items()}
    return make


def alternating():
    """Trained and frozen modules, each used several times."""
    class Alternating(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(7, 7) for _ in range(4))
            for layer in self.layers[1::2]:
                layer.requires_grad_(False)

        def forward(self, x):
            for _ in range(3):
                for layer in self.layers:
                    x = x + torch.tanh(layer(x))
            return x.square().mean()

    return Alternating(), {"x": torch.randn(3, 7)}


def convolutions():
    """Weights of four dims."""
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 2), nn.ReLU(), nn.Conv2d(4, 7, (1, 3)), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return zoo.Classifier(net), {"x": torch.randn(3, 3, 8, 8), "y": torch.randint(0, 7, (3,))}


Pair = collections.namedtuple("Pair", ["left", "right"])


def structured(container):
    """Blocks that hand each other containers rather than tensors."""
    def factory():
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

            def forward(self, value):
                x, y = value.values() if isinstance(value, dict) else value
                return container(x + torch.tanh(self.a(y)), y + torch.tanh(self.b(x)))

        class Structured(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Block() for _ in range(3))

            def forward(self, x):
                value = container(x, x * 2)
                for block in self.blocks:
                    value = block(value)
                x, y = value.values() if isinstance(value, dict) else value
                return (x * y).square().mean()

        return Structured(), {"x": torch.randn(3, 6)}
    return factory


def chunked(frozen_head=False):
    """A loss in chunks: the head runs several times, each time on a part of what the body gave it once."""
    def factory():
        class Chunked(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = Mlp(6), nn.Linear(6, 11)

            def forward(self, x, y):
                h = self.body(x)
                losses = [F.cross_entropy(self.head(part), target, reduction="sum") for part, target in zip(h.chunk(3), y.chunk(3))]
                return torch.stack(losses).sum() / len(y)

        model = Chunked()
        model.head.requires_grad_(not frozen_head)
        return model, {"x": torch.randn(6, 6), "y": torch.randint(0, 11, (6,))}
    return factory


class Entry(nn.Module):
    """A model entered by another method than forward."""

    def __init__(self):
        super().__init__()
        self.encoder, self.head = Mlp(6), nn.Linear(6, 3)

    def encode(self, x):
        return self.encoder(x)

    def classify(self, x, y):
        return F.cross_entropy(self.head(self.encode(x)), y)


def entered():
    class Enter(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Entry()

        def forward(self, x, y):
            return self.model.classify(x, y)

    return Enter(), {"x": torch.randn(4, 6), "y": torch.randint(0, 3, (4,))}


def part_case(bin):
    """A step of the whole model, then one of a part of it, which takes up the weights that the first one left."""
    class Part(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            return self.part(x).square().mean()

    def case(folder):
        torch.manual_seed(7)
        model, inputs = mlps(8)()
        part, config = Part(model.mlps[1]), make_config(2, optimizer={"name": "sgd", "lr": 0.1}, reshard_after_forward=True)
        data = make_data(inputs, 2)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, config)
        train(bin, folder, 2, 1, tag="-whole")
        compile_step(bin, folder, part, inputs, {**config, "weights": {"rename": [{"from": "^part", "to": "mlps.1"}]}},
                     options=["--weights=final-whole.safetensors"])
        rows, final = train(bin, folder, 2, 1, tag="-part")
        for module in (model, part):
            wanted, parameters, _ = reference(module, inputs, data, 2, 1, config)
            for name, value in module.named_parameters():
                value.data.copy_(parameters[name])
        assert abs(rows[0]["loss"] - wanted[0][0]) < 1e-5, (rows, wanted)
        for name, value in part.named_parameters():
            torch.testing.assert_close(final[name], value.detach(), rtol=1e-4, atol=1e-6)
    return case


def count_case(bin, reshard, backward, **extra):
    """Calls of a model of blocks between an embedding and a head in the root bucket."""
    def case(folder):
        model, inputs = transformer()()
        config = make_config(2, optimizer=ADAM, **({} if reshard is None else {"reshard_after_forward": reshard}), **extra)
        save_file(make_data(inputs, 2), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, config)
        row, = run_step(bin, folder, 2, "--steps=1")
        counts = collections.Counter()
        for each in row["collectives"]:
            counts[each["kind"]] += each["count"]
        blocks = 3
        expected = {"all_gather": blocks + 1 + backward(blocks), "reduce_scatter": blocks + 1, "metrics": 1}
        assert counts == expected, f"{dict(counts)} instead of {expected}"
    return case


def main():
    arguments = parse_arguments()
    cases = {}

    def add(name, factory, world, also_flat=False, **config):
        config.setdefault("optimizer", ADAM)
        cases[f"{name}, world={world}"] = flat(train_case(arguments.bin, factory, world, run_options=["--poison"], **config), also_flat)

    # Each of the suite's shapes on one world, or, with --all, on both.
    for number, shapes in enumerate((((16, 15), (15, 8)), ((7, 15), (15, 3)), ((16, 17), (17, 8)))):
        for world in (2, 3) if arguments.all else (2 + number % 2,):
            add(f"train_parity_single_group_shard_dim0 {shapes}", linears(*shapes), world, also_flat=True, steps=10, auto_wrap_policy="NO_WRAP")
    for number, shapes in enumerate((((16, 15), (15, 8)), ((16, 17), (17, 8)), ((7, 15), (15, 3)))):
        for world in (2, 3) if arguments.all else (3 - number % 2,):
            add(f"train_parity_single_group_shard_largest_dim {shapes}", linears(*shapes), world, auto_wrap_policy="NO_WRAP",
                shard_dims={"*": "largest"})
    add("train_parity_shard_placement_fn_shard_largest_dim", transformer(), 2, steps=5, shard_dims={"*": "largest"}, reshard_after_forward=True)
    add("train_parity_shard_placement_fn_shard_largest_dim, parts of 2", transformer(tied=True), 4, shard_dims={"*": "largest"},
        reshard_after_forward=2, max_grad_norm=0.1)
    add("train_parity_shard_placement_fn middle dim, hsdp", convolutions, 4, replicate=2, shard_dims={"*.weight": 1, "net.4.weight": 3})
    for reshard in (True, False, 2):
        # Two ranks of four hold a part, so that parts and shards differ.
        label, world = str(reshard), 4 if reshard == 2 else 2
        add(f"train_parity_multi_group reshard={label}", transformer(), world, also_flat=True, steps=5, reshard_after_forward=reshard)
        add(f"multi_forward_module reshard={label}", twice(mlps(8)), world, reshard_after_forward=reshard)
        add(f"train_parity_with_shared_params reshard={label}", transformer(tied=True), world, reshard_after_forward=reshard)
        add(f"train_parity_with_activation_checkpointing reshard={label}", transformer(checkpointed=True), world, reshard_after_forward=reshard)
        add(f"train_mixed_requires_grad_per_group reshard={label}", frozen(transformer(), lambda n: n.endswith("bias")), world,
            also_flat=True, reshard_after_forward=reshard)
        add(f"train_mixed_requires_grad_across_groups reshard={label}", frozen(mlps(8, 4), lambda n: "mlps.1." in n or "mlps.2." in n), world,
            also_flat=True, reshard_after_forward=reshard)
        add(f"multi_forward_mixed_requires_grad reshard={label}", alternating, world, also_flat=True, reshard_after_forward=reshard)
    add("train_parity_with_activation_checkpointing tied", transformer(tied=True, checkpointed=True), 2, reshard_after_forward=True)
    add("train_parity_single_worldsize1", mlps(8), 1, steps=10)
    add("train_shared_params_uneven_shard", transformer(tied=True), 4, also_flat=True, optimizer={"name": "sgd", "lr": 0.1}, reshard_after_forward=True)
    for width in (3, 16, 17) if arguments.all else (3, 16):
        for reshard in (True, False):
            add(f"train_parity_hsdp width={width} reshard={reshard}", mlps(width), 4, also_flat=width % 4, replicate=2, reshard_after_forward=reshard)
    add("to_float64_after_init", double(mlps(8)), 2)
    add("double_forward (preference learning)", zoo.dpo, 2, reshard_after_forward=True)
    add("unused_forward_module", zoo.partial, 2, reshard_after_forward=True)
    for name, container in (("list", lambda a, b: [a, b]), ("tuple", lambda a, b: (a, b)), ("namedtuple", Pair),
                            ("dict", lambda a, b: {"left": a, "right": b})):
        add(f"nontensor_activations {name}", structured(container), 2, reshard_after_forward=True)
    for label, options in (("", {}), (" frozen head", {"frozen_head": True})):
        add(f"partial_group_forward chunked, one bucket{label}", chunked(**options), 2, also_flat=True, auto_wrap_policy="NO_WRAP", reshard_after_forward=True)
        add(f"partial_group_forward chunked, own bucket{label}", chunked(**options), 3, also_flat=True, auto_wrap_policy="TRANSFORMER_BASED_WRAP",
            transformer_layer_cls_to_wrap="Linear", reshard_after_forward=True)
    add("register_fsdp_forward_method", entered, 2, reshard_after_forward=True)
    cases["non_root_forward_backward"] = part_case(arguments.bin)
    for prefetch in (0, 1, 2):
        add(f"explicit_prefetching {prefetch}", transformer(), 2, also_flat=prefetch == 2, reshard_after_forward=True, prefetch=prefetch)
    add("train_parity_cpu_offload", transformer(), 2, reshard_after_forward=True, offload_params=True)
    for reshard, backward in ((None, lambda n: n), (True, lambda n: n + 1), (2, lambda n: n + 1), (False, lambda n: 0)):
        cases[f"fully_shard_communication_count reshard={reshard}"] = flat(count_case(arguments.bin, reshard, backward))
    keep = [{"modules": ["*blocks.1", "root"], "reshard_after_forward": False}]
    cases["set_reshard_after_forward"] = flat(count_case(arguments.bin, True, lambda n: n - 1, overrides=keep))
    add("set_reshard_after_forward, parity", transformer(), 2, also_flat=True, reshard_after_forward=True, overrides=keep)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
