"""Exports a model with a LayerNorm that its name does not tell to argv[1]."""
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 8)
        self.ln_1 = torch.nn.LayerNorm(8)
        self.final_norm = torch.nn.RMSNorm(8)

    def forward(self, x):
        return self.final_norm(self.ln_1(self.up(x))).sum()


torch.manual_seed(0)
torch.export.save(torch.export.export(Model(), (torch.ones(2, 8),)), sys.argv[1])
