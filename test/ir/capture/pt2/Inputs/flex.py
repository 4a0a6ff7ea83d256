# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports models with flex_attention by the Python package. Usage: flex.py FOLDER SOURCES NAME..."""
import pathlib
import sys
import warnings

import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

sys.path.insert(0, str(pathlib.Path(sys.argv[2]) / "python"))
import fsdp_opt  # noqa: E402

warnings.filterwarnings("ignore")
SEQ = 256


def causal(b, h, i, j):
    return i >= j


class Attend(nn.Module):
    """Flex attention of three projections; `score` and `mask` are functions of the module."""

    score = mask = blocks = None
    dtype, seq, outside, dims = torch.float32, SEQ, False, None

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 64, dtype=self.dtype)
        self.table = nn.Parameter(torch.rand(4, 8))
        self.register_buffer("documents", torch.arange(self.seq) * 3 // self.seq, persistent=False)
        if self.outside:
            self.blocks = self.make_blocks()

    def make_blocks(self):
        return create_block_mask(lambda b, h, i, j: self.mask(b, h, i, j), None, None, self.seq, self.seq, device="cpu", BLOCK_SIZE=64)

    def attend(self, q, k, v, **options):
        """PyTorch takes functions, no methods."""
        blocks = self.blocks or self.make_blocks()
        return flex_attention(q, k, v, score_mod=self.score and (lambda *at: self.score(*at)), block_mask=blocks, enable_gqa=True, **options)

    def forward(self, x):
        q, k, v = self.qkv(x).split((32, 16, 16), -1)
        q, k, v = (each.view(*each.shape[:2], -1, 8).transpose(1, 2) for each in (q, k, v))
        return (self.attend(q, k, v) ** 2).mean()


class Causal(Attend):
    def mask(self, b, h, i, j):
        return i >= j


class Window(Attend):
    seq = 4096

    def mask(self, b, h, i, j):
        return (i >= j) & (i - j < 100)


class Near(Attend):
    seq = 4096

    def mask(self, b, h, i, j):
        return torch.abs(i - j) <= 100


class Documents(Attend):
    """Blocks of which the last is cut off."""
    outside, seq = True, 250

    def mask(self, b, h, i, j):
        return (i >= j) & (self.documents[i] == self.documents[j])


class Alibi(Causal):
    def score(self, s, b, h, i, j):
        return s - (i - j) * torch.exp2(-(h + 1) * 2.0)


class AlibiHalf(Alibi):
    dtype = torch.bfloat16


class Bias(Causal):
    def score(self, s, b, h, i, j):
        return s + self.table[h][(i - j) % 8]


class Capped(Causal):
    def score(self, s, b, h, i, j):
        return 20 * torch.tanh(s / 20)


class Sums(Capped):
    seq = 32

    def attend(self, q, k, v):
        a, aux = super().attend(q, k, v, return_aux=AuxRequest(lse=True))
        return a * aux.lse[..., None]


class Sorted(Causal):
    def score(self, s, b, h, i, j):
        return s + self.table.cumsum(-1)[h, (i - j) % 8]


class OfRow(Causal):
    def score(self, s, b, h, i, j):
        return s + self.table[h].sum()


class LeftOut(Causal):
    """The last block of keys is computed for no query."""
    outside = True

    def make_blocks(self):
        counts = torch.tensor([[[1, 2, 3, 3]]], dtype=torch.int32)
        return BlockMask.from_kv_blocks(counts, torch.arange(4, dtype=torch.int32).expand(1, 1, 4, 4).contiguous(), BLOCK_SIZE=64, mask_mod=causal)


class Filled(LeftOut):
    """All keys of the blocks on the diagonal are seen."""

    def make_blocks(self):
        whole = create_block_mask(causal, None, None, SEQ, SEQ, device="cpu", BLOCK_SIZE=64)
        return BlockMask.from_kv_blocks(whole.kv_num_blocks * 0, whole.kv_indices, torch.tensor([[[1, 2, 3, 4]]], dtype=torch.int32),
                                        torch.arange(4, dtype=torch.int32).expand(1, 1, 4, 4).contiguous(), BLOCK_SIZE=64, mask_mod=causal)


class Unwatched(Causal):
    def attend(self, q, k, v):
        with torch.no_grad():
            return super().attend(q, k, v) * self.table.sum()


class Cast(Causal):
    def attend(self, q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().attend(q, k, v)


class Lengths(Attend):
    """Of any length: windows of a quarter of it."""
    seq, dims = 64, {"x": {1: torch.export.Dim("length", min=16, max=512)}}

    def forward(self, x):
        t = x.shape[1]
        q, k, v = self.qkv(x).split((32, 16, 16), -1)
        q, k, v = (each.view(*each.shape[:2], -1, 8).transpose(1, 2) for each in (q, k, v))
        blocks = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < t // 4), None, None, t, t, device="cpu")
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s.sigmoid() * j / t, block_mask=blocks, enable_gqa=True).sum()


MODELS = {"cast": Cast, "lengths": Lengths, "causal": Causal, "window": Window, "near": Near, "documents": Documents, "alibi": Alibi, "alibi_half": AlibiHalf, "bias": Bias,
          "capped": Capped, "sums": Sums, "sorted": Sorted, "of_row": OfRow, "left_out": LeftOut, "filled": Filled, "unwatched": Unwatched}

torch.manual_seed(0)
refused = 0
for name in sys.argv[3:]:
    model = MODELS[name]()
    try:
        fsdp_opt.export(model, (torch.randn(2, model.seq, 32, dtype=model.dtype),), out=pathlib.Path(sys.argv[1]) / f"{name}.pt2", dynamic_shapes=model.dims)
    except fsdp_opt.Error as error:
        refused += 1
        print(f"{name}: {error}")
sys.exit(1 if refused else 0)
