# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose steps are predicted and measured: small ones of all families, and decoders in which different things take the time.

Each entry returns (module, keyword inputs of one rank); the module's first output is the loss.
"""
import importlib.util

import torch
import torch.nn as nn
import torch.nn.functional as F

import zoo


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class DecoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, Norm(width), Norm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, max(1, width // 64)) for _ in range(layers))
        self.norm, self.head = Norm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x, y):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def decoder(vocabulary, width, layers, sequence, batch):
    def make():
        shape = batch, sequence
        return Decoder(vocabulary, width, layers), {"x": torch.randint(0, vocabulary, shape), "y": torch.randint(0, vocabulary, shape)}
    return make


def stack(width, layers, batch):
    """A deep perceptron of blocks with norms."""
    def make():
        net = nn.Sequential(*(zoo.MlpBlock(width) for _ in range(layers)), nn.Linear(width, 10))
        return zoo.Classifier(net), {"x": torch.randn(batch, width), "y": torch.randint(0, 10, (batch,))}
    return make


def gpt(width, layers, length, batch):
    """The zoo's, with a tied head, larger."""
    def make():
        class Wide(zoo.Gpt):
            def __init__(self):
                super().__init__(1000, width, layers, length)
                self.blocks = nn.ModuleList(zoo.GptBlock(width, 8) for _ in range(layers))
        shape = batch, length
        return zoo.Classifier(Wide()), {"x": torch.randint(0, 1000, shape), "y": torch.randint(0, 1000, shape)}
    return make


# Overhead of kernels and collectives, bytes that ranks exchange, and products take most of a step.
SIZES = {"small": decoder(2000, 128, 4, 64, 2), "wide": decoder(2000, 512, 8, 64, 2), "long": decoder(2000, 512, 8, 256, 2)}
ZOO = {name: getattr(zoo, name) for name in ("mlp", "convnet", "tagger", "gpt", "llama", "bert", "gpt2", "vit")}
# A step takes 30 to 300 ms, and blocks are worth gathering on their own.
PLANNED = {"decoder": decoder(1000, 384, 6, 64, 2), "perceptron": stack(512, 8, 128), "gpt": gpt(320, 6, 96, 2)}


def load(path):
    """`MODELS` of a Python file: names and functions as above."""
    spec = importlib.util.spec_from_file_location("models_to_measure", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS
