# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/Rationale/Random.md promises, written down once more in numpy.

`Draws(seed, step, rank)` gives the numbers that one rank draws in one step, and
can stand in for LibTorch's generator while a model runs eagerly.
"""
import contextlib

import numpy
import torch
import torch.nn.functional as F

MASK = numpy.uint64(0xFFFFFFFF)
STEP = 1  # the domain of draws


def philox(counter, key):
    """Philox4x32-10 of counters [4, n] with a key of two numbers."""
    c = [numpy.asarray(x, numpy.uint64) for x in counter]
    k = [int(x) for x in key]
    for _ in range(10):
        first, second = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        c = [(second >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(k[0]), second & MASK,
             (first >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(k[1]), first & MASK]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Draws:
    def __init__(self, seed, step, rank):
        stream = step >> 32 << 32 | rank
        key = philox([[stream & 0xFFFFFFFF], [stream >> 32], [STEP], [0]], (seed & 0xFFFFFFFF, seed >> 32))
        self.key, self.offset, self.site = (int(key[0][0]), int(key[1][0])), step & 0xFFFFFFFF, 0

    def words(self, count):
        """The first `count` words of the next site."""
        site, self.site = self.site, self.site + 1
        blocks = (count + 63) // 64 * 16
        index = numpy.arange(blocks, dtype=numpy.uint64)
        words = philox([index & MASK, index >> numpy.uint64(32), numpy.full(blocks, site, numpy.uint64),
                        numpy.full(blocks, self.offset, numpy.uint64)], self.key)
        # [chunk, word, block in the chunk]
        return numpy.stack(words).reshape(4, -1, 16).transpose(1, 0, 2).reshape(-1)[:count]

    def bernoulli(self, shape, p):
        count = int(numpy.prod(shape))
        return torch.from_numpy(self.words(count) < numpy.uint64(round(p * 2**32))).reshape(shape)

    def uniform(self, shape):
        count = int(numpy.prod(shape))
        words = self.words(count) >> numpy.uint64(8)
        return torch.from_numpy((words.astype(numpy.float64) * 2.0**-24).astype(numpy.float32)).reshape(shape)

    def dropout(self, input, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return input
        return input * self.bernoulli(input.shape, 1 - p) * (1 / (1 - p))

    @contextlib.contextmanager
    def in_place_of_dropout(self):
        """Modules drop what this rank drops in this step."""
        original, F.dropout = F.dropout, self.dropout
        try:
            yield
        finally:
            F.dropout = original
