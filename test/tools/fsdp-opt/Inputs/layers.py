"""Exports two layers of tokens to argv[1], in classes as transformers calls them."""
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys

import torch


class LlamaDecoderLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class LlamaForCausalLM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 8)
        self.layers = torch.nn.ModuleList(LlamaDecoderLayer() for _ in range(2))
        self.head = torch.nn.Linear(8, 32)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.cross_entropy(self.head(x).view(-1, 32), labels.view(-1))


torch.manual_seed(0)
tokens = torch.zeros(2, 6, dtype=torch.int64)
torch.export.save(torch.export.export(LlamaForCausalLM(), (tokens, tokens.clone())), sys.argv[1])
