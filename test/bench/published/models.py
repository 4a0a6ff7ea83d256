# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoders of published shapes, exported on the meta device: no weight exists.

Operators are those that the systems run without a compiler: an RMS norm in float32 is seven kernels (one, where it is compiled), rotary embeddings
are five. What else torch.compile fuses is for plans.py. Models are exported in float32 and compiled to compute in bfloat16: where a tensor follows another's type,
`type_as` says so, since exports keep the types of `to`; and what widens is a copy, since `x.float()` would be x itself, here and from here on.
"""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Shape:
    """All that an export depends on."""
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    seq: int
    batch: int
    is_gpt: bool = False      # layer norms, learned positions, gelu, no gate: MPT
    is_tied: bool = False     # the head is the embedding
    has_bias: bool = False    # of q, k, v
    norms_heads: bool = False  # q and k, as Qwen3 does
    halves_products: bool = False  # every second product is a bmm, which `save` can tell from the others
    lora: int = 0             # rank of the adapters, and all else is frozen
    weights: str = "float32"
    narrow_loss: bool = False  # the loss reads logits in 16 bits
    fused_norms: bool = False  # an RMS norm is one kernel


class RmsNorm(nn.Module):
    def __init__(self, shape, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.is_fused = shape.fused_norms

    def forward(self, x):
        if self.is_fused:
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        wide = torch.ops.aten._to_copy.default(x, dtype=torch.float32)
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class LayerNorm(nn.Module):
    def __init__(self, shape, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight)


class Linear(nn.Module):
    """x W^T, as a product that is not called mm if `is_other`, and with adapters beside."""

    def __init__(self, shape, inputs, outputs, bias=False, is_other=False):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.is_other = is_other and shape.halves_products
        if shape.lora:
            self.adapter_in = nn.Parameter(torch.empty(shape.lora, inputs))
            self.adapter_out = nn.Parameter(torch.empty(outputs, shape.lora))
        self.adapts = shape.lora > 0

    def forward(self, x):
        if self.is_other:
            y = torch.bmm(x.flatten(0, -2).unsqueeze(0), self.weight.t().unsqueeze(0)).reshape(*x.shape[:-1], -1)
        else:
            y = F.linear(x, self.weight, self.bias)
        return y + F.linear(F.linear(x, self.adapter_in), self.adapter_out) * 2.0 if self.adapts else y


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos.type_as(x) + torch.cat((-second, first), -1) * sin.type_as(x)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        if shape.is_gpt:
            self.qkv = Linear(shape, shape.hidden, q + 2 * kv, shape.has_bias)
        else:
            self.q = Linear(shape, shape.hidden, q, shape.has_bias)
            self.k = Linear(shape, shape.hidden, kv, shape.has_bias, is_other=True)
            self.v = Linear(shape, shape.hidden, kv, shape.has_bias)
        if shape.norms_heads:
            self.q_norm, self.k_norm = RmsNorm(shape, shape.head_dim), RmsNorm(shape, shape.head_dim)
        self.out = Linear(shape, q, shape.hidden, is_other=True)

    def forward(self, x, cos, sin):
        shape = self.shape
        if shape.is_gpt:
            q, k, v = self.qkv(x).chunk(3, -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q = q.unflatten(-1, (shape.heads, -1))
        k, v = (t.unflatten(-1, (shape.kv_heads, -1)) for t in (k, v))
        if shape.norms_heads:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if not shape.is_gpt:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if shape.kv_heads != shape.heads:
            repeats = shape.heads // shape.kv_heads
            k, v = (t.unsqueeze(2).expand(-1, -1, repeats, -1, -1).flatten(1, 2) for t in (k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate = None if shape.is_gpt else Linear(shape, shape.hidden, shape.ffn)
        self.up = Linear(shape, shape.hidden, shape.ffn, is_other=not shape.is_gpt)
        self.down = Linear(shape, shape.ffn, shape.hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        Norm = LayerNorm if shape.is_gpt else RmsNorm
        self.attention_norm, self.mlp_norm = Norm(shape, shape.hidden), Norm(shape, shape.hidden)
        self.attention, self.mlp = Attention(shape), Mlp(shape)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.is_gpt, self.narrow_loss = shape.is_gpt, shape.narrow_loss
        self.embed = nn.Embedding(shape.vocab, shape.hidden)
        if shape.is_gpt:
            self.positions = nn.Embedding(shape.seq, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = (LayerNorm if shape.is_gpt else RmsNorm)(shape, shape.hidden)
        self.head = None if shape.is_tied else nn.Linear(shape.hidden, shape.vocab, bias=False)
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.empty(shape.seq, shape.head_dim))

    def forward(self, ids, labels):
        x = self.embed(ids)
        if self.is_gpt:
            x = x + self.positions.weight
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight if self.head is None else self.head.weight).flatten(0, 1)
        return F.cross_entropy(logits if self.narrow_loss else logits.float(), labels.flatten())


def export(shape, path):
    """Writes the .pt2 of a shape; its blocks are `layers.*`, of class Block."""
    with torch.device("meta"):
        model = Decoder(shape).to(getattr(torch, shape.weights)).train()
        ids = torch.zeros(shape.batch, shape.seq, dtype=torch.int64)
        if shape.lora:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name.endswith((".adapter_in", ".adapter_out")))
        program = torch.export.export(model, (), {"ids": ids, "labels": ids.clone()}, strict=False)
    torch.export.save(program, path)
