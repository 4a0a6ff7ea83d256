#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""flex_attention: layers whose functions mask, bias and change scores, each otherwise. Keys and values have fewer heads than queries.

Training equals PyTorch's of the same functions on whole matrices of scores, which is what PyTorch's flex_attention computes, whatever the ranks share; what each
layer became is in the report.
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention, or_masks

import fsdp_opt
import harness
from harness import compile_step, make_config, make_data, parse_arguments, reference, run_cases, train, train_case
from parallel import parallel_case

SEQ, HEADS, SLOPES = 40, 4, 8

harness.export = lambda model, inputs, path, form="exported": fsdp_opt.export(model, kwargs=inputs, out=path, strict=form == "strict")


def causal(b, h, i, j):
    return i >= j


def near(b, h, i, j):
    return i - j < 7


def both_ways(b, h, i, j):
    return (i - j).abs() <= 5


def empty_rows(b, h, i, j):
    return (j < i - 2) & (j % 5 != 1)


class Layer(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.kind = kind
        self.norm = nn.LayerNorm(width)
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        if kind == "bias":
            self.table = nn.Parameter(torch.randn(HEADS, 2 * SEQ) * 0.3)
        if kind == "scaled":
            self.gate = nn.Parameter(torch.rand(HEADS) + 0.5)
        self.register_buffer("documents", torch.arange(SEQ) // 11, persistent=False)

    def functions(self, x):
        """What changes scores, what masks them."""
        def alibi(s, b, h, i, j):
            return s - torch.exp2(-(h + 1) * SLOPES / HEADS) * (i - j)

        def bias(s, b, h, i, j):
            return s + (self.table[h][i - j + SEQ] if is_flex() else self.table[h, i - j + SEQ])

        def capped(s, b, h, i, j):
            return 2 * torch.tanh(s / 2)

        def scaled(s, b, h, i, j):
            return torch.where(i > 3, s * self.gate[h], s) + 0.1 * s ** 2

        def shut(s, b, h, i, j):
            return torch.where(i >= j, s * 0.5, -float("inf"))

        def document(b, h, i, j):
            return self.documents[i] == self.documents[j]

        def of_data(b, h, i, j):
            return (x[b, i] % 3 == x[b, j] % 3) | (i == j)

        prefix = or_masks(causal, lambda b, h, i, j: j < 9)
        return {"causal": (None, causal), "window": (None, and_masks(causal, near)), "near": (None, both_ways), "prefix": (None, prefix),
                "documents": (None, and_masks(causal, document)), "data": (None, of_data), "empty": (None, empty_rows), "alibi": (alibi, causal),
                "bias": (bias, None), "capped": (capped, causal), "scaled": (scaled, and_masks(causal, near)), "shut": (shut, None),
                "sums": (capped, causal), "all": (None, None), "hidden": (capped, empty_rows)}[self.kind]

    def forward(self, h, x):
        b, t, c = h.shape
        y = self.norm(h)
        q = self.q(y).view(b, t, HEADS, -1).transpose(1, 2)
        k, v = self.kv(y).view(b, t, HEADS, -1).transpose(1, 2).chunk(2, dim=1)
        score, mask = self.functions(x)
        a, sums = (flex if is_flex() else plain)(q, k, v, score, mask)
        a = self.o(a.transpose(1, 2).reshape(b, t, c))
        return h + (a * sums.mean(1).tanh()[..., None] if self.kind == "sums" else a)


def flex(q, k, v, score, mask):
    block_mask = create_block_mask(mask, None, None, SEQ, SEQ, device=q.device, BLOCK_SIZE=16) if mask else None
    a, aux = flex_attention(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=True, return_aux=AuxRequest(lse=True))
    return a, aux.lse


def plain(q, k, v, score, mask):
    """The same on matrices of all scores, of functions that are given all positions at once."""
    at = [torch.arange(n).view([-1 if d == e else 1 for e in range(4)]) for d, n in enumerate((q.shape[0], HEADS, SEQ, SEQ))]
    k, v = (each.repeat_interleave(2, dim=1) for each in (k, v))
    s = q.float() @ k.float().transpose(-2, -1) * q.shape[-1] ** -0.5
    s = score(s, *at) if score else s
    s = s.masked_fill(~mask(*at), -math.inf) if mask else s
    sees = (s > -math.inf).any(-1, keepdim=True)
    return torch.where(sees, s.softmax(-1), 0).to(q.dtype) @ v, s.logsumexp(-1)


def is_flex():
    """Where PyTorch has flex_attention: its forward without gradients, and exports."""
    return torch.compiler.is_exporting() or not torch.is_grad_enabled()


class Model(nn.Module):
    def __init__(self, kinds, width=32, vocab=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(kind, width) for kind in kinds)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, x)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def model(*kinds):
    def make():
        tokens = torch.randint(0, 64, (2, SEQ))
        return Model(kinds), {"x": tokens, "y": tokens.clone()}
    return make


class Packed(nn.Module):
    """A Llama of transformers on rows of several documents, told apart by positions that begin anew."""

    def __init__(self):
        super().__init__()
        import transformers
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64))

    def forward(self, **inputs):
        self.model.set_attn_implementation("flex_attention" if is_flex() else "sdpa")
        return self.model(**inputs, use_cache=False).loss


def packed():
    tokens = torch.randint(0, 64, (2, SEQ))
    return Packed(), {"input_ids": tokens, "labels": tokens.clone(), "position_ids": torch.cat([torch.arange(15), torch.arange(SEQ - 15)]).repeat(2, 1)}


def parts(bin):
    """What a document's tokens give does not depend on the row's other documents."""
    def case(folder):
        module, inputs = packed()
        compile_step(bin, folder, module, inputs, make_config(1), options=["--output=loss"])
        names = ("input_ids", "labels", "position_ids")
        rows = []
        for other in (0, 1):
            changed = {name: inputs[name].clone() for name in names}
            changed["input_ids"][:, 15:] = (changed["input_ids"][:, 15:] + other) % 64
            changed["labels"][:, 15:] = -100
            save_file(changed, folder / "data.safetensors")
            rows.append(train(bin, folder, 1, 1, tag=str(other))[0][0]["loss"])
        assert rows[0] == rows[1], rows
    return case


MASKS = ("causal", "window", "near", "prefix", "documents", "data", "empty", "all", "shut")
CHANGES = ("alibi", "bias", "capped", "scaled", "sums", "hidden")
FORMS = {"causal": "causal", "near": "window", "shut": "causal", "capped": "causal"}


def told(bin):
    """What the report says of each mask; PyTorch's own forward of the model is the reference's."""
    def case(folder):
        kinds = ("causal", "near", "all", "shut", "data", "empty", "capped")
        module, inputs = model(*kinds)()
        compile_step(bin, folder, module, inputs, make_config(1), options=["--report=report.json"])
        found = [(row["module"], row["mask"]) for row in json.loads((folder / "report.json").read_text())["attention"]]
        assert found == [(f"layers.{i}", "none" if kind == "all" else FORMS.get(kind, "tensor")) for i, kind in enumerate(kinds)], found
        module, inputs = model(*MASKS, *CHANGES)()
        with torch.no_grad():
            eager = module(**inputs)
        torch.testing.assert_close(module(**inputs), eager, rtol=1e-5, atol=1e-6)
    return case


def halved(bin, factory, world):
    """Products in bfloat16: losses are nearly those of float32."""
    def case(folder):
        torch.manual_seed(7)
        module, inputs = factory()
        data = make_data(inputs, world * 3)
        save_file(data, folder / "data.safetensors")
        settings = make_config(world, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"})
        compile_step(bin, folder, module, inputs, settings)
        rows, _ = train(bin, folder, world, 3)
        wanted, *_ = reference(module, inputs, data, world, 3, make_config(world))
        for row, (loss, _) in zip(rows, wanted, strict=True):
            assert abs(row["loss"] - loss) <= 5e-3 * loss, (row["loss"], loss)
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "told": told(bin),
        "masks world=3": train_case(bin, model(*MASKS), 3, reshard_after_forward=True),
        "changes world=2": train_case(bin, model(*CHANGES), 2, activation_checkpointing=True),
        "packed world=2": train_case(bin, packed, 2),
        "parts": parts(bin),
        "tp=2": parallel_case(bin, model("causal", "bias", "empty"), 2),
        "cp=2": parallel_case(bin, model("causal", "capped"), cp=2),
        "bf16": halved(bin, model("bias", "capped", "alibi"), 2),
    }
    if arguments.all:
        cases |= {
            "masks world=1": train_case(bin, model(*MASKS), 1),
            "changes world=1": train_case(bin, model(*CHANGES), 1),
            "changes strict": train_case(bin, model(*CHANGES), 1, form="strict"),
        }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
