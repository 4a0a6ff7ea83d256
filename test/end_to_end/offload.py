# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""States in the host's memory: training equals PyTorch's, whatever else is asked for, and bit by bit the training without.

The device's region holds no parameters and no optimizer then, and at most what is on its way.
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from harness import compile_step, make_config, make_data, parse_arguments, run_cases, train, train_case


SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}


class Blocks(nn.Module):
    """Blocks whose rows do not divide, a tied weight, a frozen one, a buffer that changes."""

    def __init__(self, blocks=3, width=12):
        super().__init__()
        self.embed = nn.Linear(7, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, 13), nn.Tanh(), nn.Linear(13, width)) for _ in range(blocks))
        self.norm = nn.BatchNorm1d(width)
        self.fixed = nn.Parameter(torch.randn(width), requires_grad=False)
        self.head = nn.Linear(width, 7, bias=False)
        self.tied = nn.Linear(7, width)
        self.tied.weight = self.embed.weight

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = h + layer(h)
        h = self.norm(h) * self.fixed + self.tied(x)
        return F.mse_loss(self.head(h), y)


def blocks():
    return Blocks(), {"x": torch.randn(4, 7), "y": torch.randn(4, 7)}


def wide():
    """Activations that are worth a copy."""
    return Blocks(width=32), {"x": torch.randn(64, 7), "y": torch.randn(64, 7)}


def report_of(bin, folder, model, inputs, config):
    compile_step(bin, folder, model, inputs, config, options=("--report=report.json",))
    return json.loads((folder / "report.json").read_text())["memory"]


def memory_case(bin, world):
    """No state is left on the device, and none is on the host twice."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = blocks()
        plain = report_of(bin, folder, model, inputs, make_config(world))
        assert "host" not in plain
        params = report_of(bin, folder, model, inputs, make_config(world, offload_params=True))
        host = params["host"]
        assert params["params"] == params["optimizer"] == 0
        assert params["states"] < plain["states"] / 4, "buffers alone stay"
        assert (host["params"], host["optimizer"]) == (plain["params"], plain["optimizer"])
        assert params["peak"] < plain["peak"]
        optimizer = report_of(bin, folder, model, inputs, make_config(world, offload_optimizer=True))
        assert (optimizer["params"], optimizer["optimizer"]) == (plain["params"], 0)
        assert (optimizer["host"]["params"], optimizer["host"]["optimizer"]) == (0, plain["optimizer"])
    return case


def activations_case(bin):
    """What blocks keep for backward is on the host meanwhile; no state is."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = wide()
        plain = report_of(bin, folder, model, inputs, make_config(2))
        away = report_of(bin, folder, model, inputs, make_config(2, activation_offloading=True))
        some = report_of(bin, folder, model, inputs, make_config(2, activation_offloading=["layers.0"]))
        assert away["peak"] < some["peak"] <= plain["peak"], (away["peak"], some["peak"], plain["peak"])
        assert away["states"] == plain["states"] and away["host"]["states"] == 0
        assert away["host"]["activations"] > some["host"]["activations"] > 0
    return case


def same_case(bin, world, backend="local", factory=blocks, offloads=({"offload_params": True}, {"offload_optimizer": True}), **config):
    """The same bits as without, also where memory that holds nothing is poisoned."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        save_file(make_data(inputs, world * 3 * config.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
        results = []
        for offload in ({}, *offloads):
            compile_step(bin, folder, model, inputs, make_config(world, **config, **offload))
            rows, final = train(bin, folder, world, 3, backend, options=("--poison",))
            results.append(([row["loss"] for row in rows], final))
        for losses, final in results[1:]:
            assert losses == results[0][0], f"{losses} instead of {results[0][0]}"
            for name, want in results[0][1].items():
                assert torch.equal(final[name], want), f"{name} differs"
    return case


def checkpoint_case(bin):
    """What is saved with states on the host goes on without, at another world size."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = blocks()
        save_file(make_data(inputs, 12), folder / "data.safetensors")
        finals = []
        for first, second in (({}, {}), ({"offload_params": True}, {}), ({}, {"offload_params": True})):
            tag = str(len(finals))
            compile_step(bin, folder, model, inputs, make_config(2, **first))
            train(bin, folder, 2, 2, tag=tag, options=(f"--save=ck{tag}",))
            compile_step(bin, folder, model, inputs, make_config(2, **second))
            finals.append(train(bin, folder, 2, 4, tag=tag, options=(f"--load=ck{tag}",))[1])
        compile_step(bin, folder, model, inputs, make_config(1, offload_params=True))
        train(bin, folder, 1, 5, options=("--load=ck1",))
        for final in finals[1:]:
            for name, want in finals[0].items():
                assert torch.equal(final[name], want), f"{name} differs"
    return case


def cases(bin):
    yield "memory, 1 rank", memory_case(bin, 1)
    yield "memory, 3 ranks", memory_case(bin, 3)
    for world in (1, 2, 3):
        yield f"{world} ranks", train_case(bin, blocks, world, offload_params=True)
    yield "optimizer alone", train_case(bin, blocks, 2, offload_optimizer=True)
    yield "gloo", train_case(bin, blocks, 2, backend="gloo", offload_params=True)
    yield "accumulation and clipping", train_case(bin, blocks, 2, offload_params=True, gradient_accumulation_steps=3, max_grad_norm=0.05, optimizer=SGD)
    yield "accumulation, one rank", train_case(bin, blocks, 1, offload_params=True, gradient_accumulation_steps=2, max_grad_norm=0.05, optimizer=SGD)
    yield "sums of whole gradients", train_case(bin, blocks, 2, offload_params=True, gradient_accumulation_steps=2, gradient_sync="last", optimizer=SGD)
    yield "replicas", train_case(bin, blocks, 4, offload_params=True, replicate=2, max_grad_norm=0.05, optimizer=SGD)
    yield "parts of the ranks", train_case(bin, blocks, 4, offload_params=True, reshard_after_forward=2)
    yield "same bits", same_case(bin, 2, max_grad_norm=0.05)
    yield "same bits, kept gathered", same_case(bin, 2, gradient_accumulation_steps=2, reshard_after_forward=False, reshard_after_backward=False)
    for layout in ("auto", "flat", "fsdp2"):
        yield f"same bits, {layout}", same_case(bin, 3, bucket_layout=layout)
    yield "same bits, bf16", same_case(bin, 2, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"},
                                        overrides=[{"modules": "norm", "mixed_precision": {}}], ignored_params=["norm.*"])
    yield "memory, activations", activations_case(bin)
    yield "same bits, activations", same_case(bin, 2, factory=wide, offloads=({"activation_offloading": True}, {"activation_offloading": True, "offload_params": True}),
                                              gradient_accumulation_steps=2, max_grad_norm=0.05)
    yield "checkpoints", checkpoint_case(bin)


if __name__ == "__main__":
    args = parse_arguments()
    run_cases(dict(cases(args.bin)), args.only)
