#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention under masks that models compute, each layer under another one: flags of kernels, blocks of queries, tensors. Keys and values have fewer heads than queries.

Training equals PyTorch's, whatever the ranks share; what each mask became is in the report.
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

from harness import compile_step, make_config, parse_arguments, run_cases, train_case
from parallel import SGD, parallel_case, rounded_case

VOCAB, WIDTH, BATCH, SEQ = 64, 32, 2, 48


def masks(tokens):
    """Of each form, by name: True where a key is seen, [queries, keys]."""
    at = torch.arange(tokens.shape[1])
    causal = at[None, :] <= at[:, None]
    near, chunk = at[None, :] > at[:, None] - 8, at // 16
    return {
        "causal": causal,
        "window": causal & near,
        "prefix": causal | (at < 9),
        "chunks": causal & (chunk[None, :] == chunk[:, None]),
        "ranges": chunk[None, :] == chunk[:, None],
        "all": (at >= 0).expand(tokens.shape[1], -1),
        "holes": causal & (at % 3 != 1),                                  # the first query sees the first key
        "data": causal & (tokens != 5)[:, None, None] | (at[None, :] == at[:, None]),
    }


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.kv, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        b, t, c = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, 4, c // 4).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 4, c // 4).transpose(1, 2).chunk(2, dim=1)
        k, v = (each[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for each in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.o(a.transpose(1, 2).reshape(b, t, c))


class Forms(nn.Module):
    def __init__(self, *forms):
        super().__init__()
        self.forms = forms
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in forms)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, x, y):
        seen = masks(x)
        h = self.embed(x)
        for form, layer in zip(self.forms, self.layers):
            h = layer(h, seen[form])
        return F.cross_entropy(self.head(self.norm(h)).view(-1, VOCAB), y.view(-1))


def model(*forms):
    def make():
        tokens = torch.randint(0, VOCAB, (BATCH, SEQ))
        return Forms(*forms).train(), {"x": tokens, "y": tokens.clone()}
    make.__name__ = " ".join(forms)
    return make


every = model("causal", "window", "prefix", "chunks", "ranges", "all", "holes", "data")
windows = model("window", "causal", "window")


def told(bin):
    """What the report says of each mask."""
    def case(folder):
        module, inputs = every()
        compile_step(bin, folder, module, inputs, make_config(2), options=["--report=report.json", "--save-stages=stages"])
        found = [(row["module"], row["form"]) for row in json.loads((folder / "report.json").read_text())["masks"]]
        forms = ["causal", "window", "prefix", "chunks", "ranges", "all", "tensor", "tensor"]
        assert found == [(f"layers.{i}", form) for i, form in enumerate(forms)], found
        module, inputs = windows()
        compile_step(bin, folder, module, inputs, make_config(2), options=["--save-stages=windows"])
        captured = next((folder / "windows").glob("1-*.mlir")).read_text()
        assert f"{SEQ}x{SEQ}x" not in captured, "a tensor of all queries by all keys is left"
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "told": told(bin),
        "every world=1": train_case(bin, every, 1),
        "every world=3": train_case(bin, every, 3, reshard_after_forward=True),
        "every traced": train_case(bin, every, 2, form="traced"),
        "every checkpointed": train_case(bin, every, 2, activation_checkpointing=True),
        "windows selective": train_case(bin, windows, 4, activation_checkpointing={"policy": "selective"}),
        "windows chunks": train_case(bin, windows, 2, loss_chunks=4),
        "every tp=2": parallel_case(bin, every, 2),
        "windows tp=2 by sequence": parallel_case(bin, windows, 2, sequence_parallel=True),
        "windows cp=2": parallel_case(bin, windows, cp=2),
        "every bf16": rounded_case(bin, every, {}, 2, optimizer=SGD, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"}),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
