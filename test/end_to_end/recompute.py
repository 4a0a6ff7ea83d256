#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Activation checkpointing: the same bits as without, less memory, no more gathers.

Training equals PyTorch's; losses and weights are bit-equal to those of the plan that
keeps everything, with dropout, too; what the report says of activations is the blocks'
inputs and one block.
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from harness import DEFAULTS, compile_step, make_config, make_data, parse_arguments, run_cases, save_file, train, train_case

VOCAB, WIDTH, BATCH, SEQ = 64, 32, 2, 24


class Block(nn.Module):
    def __init__(self, dropout, norm):
        super().__init__()
        self.dropout = dropout
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)) if norm == "layer" else (nn.BatchNorm1d(SEQ), nn.BatchNorm1d(SEQ))
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.proj(a.transpose(1, 2).reshape(b, t, c)), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.dropout, self.training)


class Decoder(nn.Module):
    def __init__(self, layers=3, dropout=0.0, norm="layer", checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Block(dropout, norm) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=False) if self.checkpointed else layer(h)
        return F.cross_entropy(self.head(self.norm(h)).view(-1, VOCAB), y.view(-1))


def decoder(**options):
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ))
    return Decoder(**options).train(), {"x": tokens, "y": tokens.clone()}


def tied():
    model, inputs = decoder()
    model.head.weight = model.embed.weight
    model.layers[1].norm1.requires_grad_(False)
    return model, inputs


def main():
    arguments = parse_arguments()
    bin = arguments.bin

    def plan(folder, checkpointing, model=None, world=2, tag="", **config):
        torch.manual_seed(3)
        model = model or {}
        module, inputs = decoder(**model)
        if checkpointing is not None:
            config["activation_checkpointing"] = checkpointing
        done = compile_step(bin, folder, module, inputs, make_config(world, **config), options=["--report=report.json"])
        return json.loads((folder / "report.json").read_text()), inputs, done.stderr

    def trained(folder, checkpointing, world, **options):
        report, inputs, _ = plan(folder, checkpointing, world=world, **options)
        torch.manual_seed(5)
        micro = options.get("gradient_accumulation_steps", 1)
        save_file(make_data(inputs, world * 3 * micro), folder / "data.safetensors")
        rows, final = train(bin, folder, world, 3)
        assert all(row["unplanned_bytes"] == 0 for row in rows), rows
        return report, [(row["loss"], row["grad_norm"]) for row in rows], final

    def same_bits(world, *choices, **options):
        # Kernels of our own are other groups of operators in each.
        exact, low = DEFAULTS.get("kernels") != "on", "mixed_precision" in options
        near = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-2, "atol": 2e-3} if low else {"rtol": 1e-5, "atol": 1e-5}

        def case(folder):
            kept, want, weights = trained(folder, None, world, **options)
            for choice in choices:
                report, rows, final = trained(folder, choice, world, **options)
                assert report["memory"]["activations"] < kept["memory"]["activations"], f"{choice} saves nothing"
                assert_close(torch.tensor(rows, dtype=torch.float64), torch.tensor(want, dtype=torch.float64), **near, msg=lambda words: f"{choice}: {words}")
                for name in weights:
                    assert_close(final[name], weights[name], **near, msg=lambda words: f"{choice}: {name}: {words}")
        return case

    def gathers(report):
        return {(c["bucket"], c["bytes"]): c["count"] for c in report["collectives"] if c["kind"] == "all_gather"}

    def blocks_inputs_and_one_block(folder):
        # 16 blocks hold 15 inputs more than one does.
        sizes = {"reshard_after_forward": True}
        one = plan(folder, None, {"layers": 1}, **sizes)[0]["memory"]["activations"]
        kept = plan(folder, None, {"layers": 16}, **sizes)[0]
        full = plan(folder, True, {"layers": 16}, **sizes)[0]
        selective = plan(folder, {"policy": "selective"}, {"layers": 16}, **sizes)[0]
        bound = one + 15 * BATCH * SEQ * WIDTH * 4
        found = [report["memory"]["activations"] for report in (full, selective, kept)]
        assert found[0] <= 1.03 * bound, f"{found[0]} bytes of activations; the inputs and one block are {bound}"
        assert found[0] < found[1] < found[2], f"full, selective and none hold {found}"

    def no_more_gathers(folder):
        kept = plan(folder, None, reshard_after_forward=True)[0]
        full = plan(folder, True, reshard_after_forward=True)[0]
        # A bias is read again where what it was added to is computed again.
        assert len(gathers(full)) == len(gathers(kept)) and sum(gathers(full).values()) == sum(gathers(kept).values()), (gathers(full), gathers(kept))
        once = plan(folder, True, reshard_after_forward=False)[0]
        assert gathers(once) == gathers(plan(folder, None, reshard_after_forward=False)[0])

    def models_own_checkpoints(folder):
        asked, _, _ = plan(folder, True)
        own, _, text = plan(folder, None, {"checkpointed": True})
        assert own["memory"]["activations"] == asked["memory"]["activations"], (own["memory"], asked["memory"])
        assert "checkpoint" not in text, text
        off, _, _ = plan(folder, False, {"checkpointed": True})
        assert off["memory"]["activations"] == plan(folder, None)[0]["memory"]["activations"]

    def every_and_names(folder):
        size = lambda choice: plan(folder, choice)[0]["memory"]["activations"]
        none, full, second = size(None), size(True), size({"every": 2})
        assert full < second < none, (full, second, none)
        assert size({"modules": "layers.*"}) == full
        assert size({"modules": ["layers.1"]}) == second

    cases = {
        "PyTorch world=1": train_case(bin, decoder, 1, activation_checkpointing=True),
        "PyTorch world=3": train_case(bin, decoder, 3, activation_checkpointing=True, reshard_after_forward=True),
        "PyTorch tied": train_case(bin, tied, 2, activation_checkpointing={"policy": "selective"}),
        "PyTorch batch norm": train_case(bin, lambda: decoder(norm="batch"), 2, activation_checkpointing=True),
        "PyTorch traced": train_case(bin, decoder, 2, form="traced", activation_checkpointing=True),
        "same bits dropout": same_bits(2, True, {"policy": "selective"}, model={"dropout": 0.2}),
        "same bits accumulated": same_bits(2, True, model={"dropout": 0.2}, gradient_accumulation_steps=2, max_grad_norm=0.1),
        "same bits bf16": same_bits(2, True, {"policy": "selective"}, mixed_precision={"param_dtype": "bfloat16"}, reshard_after_forward=False),
        "blocks' inputs and one block": blocks_inputs_and_one_block,
        "no more gathers": no_more_gathers,
        "the model's own checkpoints": models_own_checkpoints,
        "every and names": every_and_names,
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
