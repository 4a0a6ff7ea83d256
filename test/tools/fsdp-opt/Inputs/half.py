# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""half.py FILE MODULE... : exports a model to FILE whose MODULEs are bfloat16, all others float32."""
import sys

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = torch.tanh(self.a(x.to(self.a.weight.dtype)))
        return self.b(h.to(self.b.weight.dtype)).float().square().mean()


path, *modules = sys.argv[1:]
net = Net()
for name in modules:
    getattr(net, name).bfloat16()
torch.export.save(torch.export.export(net, (torch.randn(2, 16),)), path)
