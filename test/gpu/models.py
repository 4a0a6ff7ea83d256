# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The decoder of the table. docs/Gpus.md says what is made of it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

# Vocabulary, width, heads, layers; rows and tokens of a rank's batch.
SIZES = {
    "1b": (32000, 1792, 14, 20, 4, 2048),  # 1.14 billion parameters
    "tiny": (97, 64, 4, 3, 2, 16),
}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(made.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Gives the loss, which is computed in float32 whatever the weights are."""

    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def finish(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.finish(x, targets)


def decoder(size):
    vocabulary, width, heads, layers, _, _ = SIZES[size]
    return Decoder(vocabulary, width, heads, layers)


def tokens(size, batches=1):
    """Rows for so many batches of one rank."""
    vocabulary, _, _, _, rows, length = SIZES[size]
    generator = torch.Generator(device="cpu").manual_seed(11)
    return {name: torch.randint(0, vocabulary, (rows * batches, length), generator=generator, device="cpu") for name in ("tokens", "targets")}
