# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports a small byte-level decoder and cuts text into training rows.

    export.py OUT_FOLDER TEXT_FILE...

Writes OUT_FOLDER/decoder.pt2 (the model, exported in one line) and
OUT_FOLDER/text.safetensors (its inputs: `x` bytes, `y` the bytes that follow).
"""
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 192, 4, 6, 128, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Predicts the next byte; its first output is the loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, x, y):
        h = self.embed(x) + self.position
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Decoder()
    inputs = {name: torch.zeros(BATCH, CONTEXT, dtype=torch.int64) for name in ("x", "y")}
    torch.export.save(torch.export.export(model, (), inputs), out / "decoder.pt2")

    text = b"".join(pathlib.Path(name).read_bytes() for name in sys.argv[2:])
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    starts = torch.randperm(len(data) - CONTEXT - 1)[: 8192]
    rows = data[starts[:, None] + torch.arange(CONTEXT + 1)]
    save_file({"x": rows[:, :-1].contiguous(), "y": rows[:, 1:].contiguous()}, out / "text.safetensors")
    parameters = sum(p.numel() for p in model.parameters())
    print(f"    {parameters:,} parameters, {len(text):,} bytes of text")


if __name__ == "__main__":
    main()
