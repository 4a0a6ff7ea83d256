# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports models of attention: attend.py FOLDER NAME... writes FOLDER/NAME.pt2."""
import pathlib
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")


class Attend(nn.Module):
    """Attention over what a projection makes of x: 6 heads of the given size, the keys' and values' grouped by 2 where asked for."""

    def __init__(self, size, mask=None, grouped=False):
        super().__init__()
        self.size, self.grouped, self.heads = size, grouped, 2 if grouped else 6
        self.proj = nn.Linear(8, (6 + 2 * self.heads) * size)
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, _ = x.shape
        parts = self.proj(x).split([6 * self.size, self.heads * self.size, self.heads * self.size], -1)
        q, k, v = (part.view(b, t, -1, self.size).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.mask is None, enable_gqa=self.grouped).float().sum()


def attend():
    return Attend(16).bfloat16(), {"x": torch.randn(2, 5, 8).bfloat16()}


def attend_grouped():
    return Attend(16, grouped=True).bfloat16(), {"x": torch.randn(2, 5, 8).bfloat16()}


def attend_dropped():
    class Dropped(Attend):
        def forward(self, x):
            q = x[:, None]
            return F.scaled_dot_product_attention(q, q, q, dropout_p=0.1).mean() + super().forward(x)
    return Dropped(16), {"x": torch.randn(2, 5, 8)}


def attend_biased():
    """A learned bias by head, as T5 has it: its rows do not lie one behind the other."""
    class Biased(Attend):
        def __init__(self):
            super().__init__(16)
            self.bias = nn.Parameter(torch.randn(8, 8, 6))

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (part.view(b, t, 6, 16).transpose(1, 2) for part in self.proj(x).split(96, -1))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.permute(2, 0, 1)[None]).sum()
    return Biased(), {"x": torch.randn(2, 8, 8)}


def attend_odd():
    return Attend(12).bfloat16(), {"x": torch.randn(2, 5, 8).bfloat16()}


def attend_float():
    return Attend(16), {"x": torch.randn(2, 5, 8)}


def attend_masked():
    return Attend(16, mask=torch.ones(5, 5).tril().bool()), {"x": torch.randn(2, 5, 8)}


def attend_masked_half():
    """A mask over a part of a tile of cuDNN's keys."""
    return Attend(16, mask=torch.ones(5, 5).tril().bool()).bfloat16(), {"x": torch.randn(2, 5, 8).bfloat16()}


def attend_by_time():
    """The sequence comes first: on a CPU the output lies so, too, and contiguous() in front of the view is left out."""

    class ByTime(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0].square().mean()

    return ByTime(), {"x": torch.randn(6, 2, 16)}


def attend_strided():
    """Strides as numbers, of a tensor that lies otherwise on a GPU."""

    class Strided(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 1, 3, 0, 4)
            a = F.scaled_dot_product_attention(q, k, v)
            return a.as_strided((3, 8), (a.stride(2), a.stride(3))).square().mean()

    return Strided(), {"x": torch.randn(6, 2, 16)}


def attend_computed():
    """Masks as models compute them: of one document, of all keys, with a window, of the data."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(8, 8)

        def forward(self, x, seen):
            h = self.proj(x).unflatten(-1, (2, 4)).transpose(1, 2)
            at = torch.arange(x.shape[1])
            document = (torch.cat([at[:1] - 1, at]).diff() != 1).cumsum(0)
            causal = at[None, :] <= at[:, None]
            masks = (causal & (document[None, :] == document[:, None]), (at >= 0).expand(x.shape[1], -1), causal & (at[None, :] > at[:, None] - 3), causal & seen[:, None, None])
            return sum(F.scaled_dot_product_attention(h, h, h, attn_mask=mask).square().mean() for mask in masks)

    return Attend(), {"x": torch.randn(2, 6, 8), "seen": torch.ones(2, 6, dtype=torch.bool)}


def attend_buffers():
    """A causal mask of the file: of a buffer outside the state dict and a constant, from which the mask is cut, and of a buffer in it, which weights may replace."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(16, 32)
            seen = torch.ones(12, 12, dtype=torch.bool).tril()
            self.register_buffer("outside", seen[None, None], persistent=False)
            self.register_buffer("inside", seen.clone())
            self.constant = torch.zeros(12, 12).masked_fill(~seen, float("-inf"))

        def forward(self, x):
            t = x.shape[1]
            h = self.proj(x).unflatten(-1, (2, 16)).transpose(1, 2)
            masks = (self.outside[:, :, :t, :t], self.constant[:t, :t], self.inside[:t, :t])
            return sum(F.scaled_dot_product_attention(h * (i + 2), h, h, attn_mask=mask).square().mean() for i, mask in enumerate(masks))

    return Attend(), {"x": torch.randn(2, 8, 16)}


def attend_written():
    """A mask that the step changes for the next one."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(16, 32)
            self.register_buffer("seen", torch.ones(8, 8, dtype=torch.bool).tril(), persistent=False)

        def forward(self, x):
            h = self.proj(x).unflatten(-1, (2, 16)).transpose(1, 2)
            loss = F.scaled_dot_product_attention(h, h, h, attn_mask=self.seen).square().mean()
            self.seen.logical_or_(h.detach()[0, 0, :, :8] > 0)
            return loss

    return Attend(), {"x": torch.randn(2, 8, 16)}


def attend_windows():
    """Masks of 64 positions by which each query sees a range of keys: a window in two layers, a prefix, chunks."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(16, 32)

        def forward(self, x):
            h = self.proj(x).unflatten(-1, (2, 16)).transpose(1, 2)
            at = torch.arange(x.shape[1])
            causal = at[None, :] <= at[:, None]
            window, chunk = causal & (at[None, :] > at[:, None] - 8), at // 16
            masks = (window, window, causal | (at < 16), causal & (chunk[None, :] == chunk[:, None]))
            return sum(F.scaled_dot_product_attention(h * (i + 2), h, h, attn_mask=mask).square().mean() for i, mask in enumerate(masks))

    return Attend(), {"x": torch.randn(2, 64, 16)}


def attend_told():
    """Masks of 64 positions that flash attention is told: windows, documents of rows whose positions begin again, alone, causal and in a window, and
    documents of fixed lengths. Keys have fewer heads, of a size that is no multiple of 8."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(16, 48), nn.Linear(16, 24)

        def forward(self, x, position):
            q = self.q(x).unflatten(-1, (4, 12)).transpose(1, 2)
            k = self.k(x).unflatten(-1, (2, 12)).transpose(1, 2)
            k = k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape)
            at = torch.arange(x.shape[1])
            causal = at[None, :] <= at[:, None]
            window = causal & (at[None, :] > at[:, None] - 8)
            both = (at[None, :] > at[:, None] - 8) & (at[None, :] < at[:, None] + 5)
            number = (position == 0).cumsum(-1)
            same = (number[:, None, :, None] == number[:, None, None, :])
            fixed = (at >= 10).long() + (at >= 23)
            masks = (window, both, same, same & causal, same & window, causal & (fixed[None, :] == fixed[:, None]))
            return sum(F.scaled_dot_product_attention(q * (i + 2), k, k, attn_mask=mask).square().mean() for i, mask in enumerate(masks))

    position = torch.stack([torch.arange(64) % 17, torch.cat([torch.arange(1), torch.arange(40), torch.arange(23)])])
    return Attend().to(torch.bfloat16), {"x": torch.randn(2, 64, 16, dtype=torch.bfloat16), "position": position}


def attend_packed():
    """Documents of tokens, as one mask and within a window, and a window in which queries see keys behind them."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.q, self.k = nn.Embedding(32, 16), nn.Linear(16, 64), nn.Linear(16, 32)

        def forward(self, ids, position):
            x, at = self.embed(ids), torch.arange(ids.shape[1])
            q, k = (f(x).unflatten(-1, (-1, 16)).transpose(1, 2) for f in (self.q, self.k))
            number = (position == 0).cumsum(-1)
            same = (number[:, None, :, None] == number[:, None, None, :])
            causal, near = at[None, :] <= at[:, None], at[None, :] > at[:, None] - 8
            masks = (same & causal, same, same & causal & near, same & near & (at[None, :] < at[:, None] + 3))
            return sum(F.scaled_dot_product_attention(q * (i + 2), k, k, attn_mask=mask, enable_gqa=True).square().mean() for i, mask in enumerate(masks))

    position = torch.stack([torch.arange(64) % 17, torch.cat([torch.arange(1), torch.arange(40), torch.arange(23)])])
    return Attend().to(torch.bfloat16), {"ids": torch.randint(0, 32, (2, 64)), "position": position}


def attend_padded(dtype=torch.float32, length=64, size=16, heads=2):
    """Keys that an input hides: some behind, in front, in the middle, all; alone, under a causal mask as transformers writes it, in a window, from
    queries. Keys have fewer heads."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(16, 4 * size), nn.Linear(16, heads * size)

        def forward(self, x, ones):
            b, n, _ = x.shape
            q = self.q(x).unflatten(-1, (4, size)).transpose(1, 2)
            k = self.k(x).unflatten(-1, (heads, size)).transpose(1, 2)
            k = k[:, :, None].expand(-1, -1, 4 // heads, -1, -1).reshape(q.shape)
            at = torch.arange(n)
            row, key = at[None, None, :, None], at[None, None, None, :]
            seen = ones.bool()[torch.arange(b)[:, None, None, None], key]
            causal = key <= row
            masks = ((causal & seen).expand(b, -1, n, n), (row >= 0) & seen, causal & (key > row - 8) & seen, causal & ones.bool()[:, None, :, None])
            return sum(F.scaled_dot_product_attention(q * (i + 2), k, k, attn_mask=mask).square().mean() for i, mask in enumerate(masks))

    ones = torch.ones(4, length, dtype=torch.long)
    ones[0, length // 2:], ones[1, :length // 3], ones[2, 3:9], ones[3] = 0, 0, 0, 0
    return Attend().to(dtype), {"x": torch.randn(4, length, 16, dtype=dtype), "ones": ones}


def attend_padded_half():
    return attend_padded(torch.float16)


def attend_padded_odd():
    """Rows of masks that do not begin where kernels want them to."""
    return attend_padded(torch.bfloat16, 45)


def attend_padded_tiles():
    """Of a length that cuDNN takes under masks."""
    return attend_padded(torch.bfloat16, 128)


def attend_padded_long():
    """A mask is larger than what backward holds of heads that are not shared."""
    return attend_padded(torch.bfloat16, 384, 8, 4)


def attend_repeated():
    """Fewer heads of keys than of queries: repeated as models do it, in the other order, and left to broadcasting."""

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(16, 64), nn.Linear(16, 32)

        def forward(self, x):
            q, k = (f(x).unflatten(-1, (-1, 16)).transpose(1, 2) for f in (self.q, self.k))
            each = k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape)
            return sum(a.square().mean() for a in (
                F.scaled_dot_product_attention(q, each, k.repeat_interleave(2, dim=1), is_causal=True),
                F.scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), k.repeat(1, 2, 1, 1)),
                F.scaled_dot_product_attention(q, k[:, :1], k[:, :1])))

    return Attend(), {"x": torch.randn(2, 6, 16)}


def attend_repeated_half():
    model, inputs = attend_repeated()
    return model.bfloat16(), {name: value.bfloat16() for name, value in inputs.items()}


def main(folder, *names):
    for name in names:
        torch.manual_seed(0)
        model, inputs = globals()[name]()
        program = torch.export.export(model.train(), (), inputs, strict=False)
        torch.export.save(program, str(pathlib.Path(folder) / f"{name}.pt2"))


main(*sys.argv[1:])
