"""The models that test/gpu/run.py trains. Each factory gives (model, inputs of one rank); the model returns its loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24), nn.LayerNorm(24), nn.Linear(24, 5))

    def forward(self, x, y):
        return F.cross_entropy(self.layers(x), y)


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
    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def tokens(vocabulary, batch, length):
    return {name: torch.randint(0, vocabulary, (batch, length)) for name in ("tokens", "targets")}


def mlp():
    return Mlp(), {"x": torch.randn(4, 24), "y": torch.randint(0, 5, (4,))}


def decoder():
    return Decoder(97, 64, 4, 3), tokens(97, 2, 16)


def decoder_1b():
    """1.05 billion parameters, sequences of 2048 tokens."""
    return Decoder(32000, 1792, 14, 20), tokens(32000, 4, 2048)


SMALL = {"mlp": mlp, "decoder": decoder}
