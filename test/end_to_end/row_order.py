# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The order of rows as docs/Data.md has it, written down once more."""

ROWS, GROUPS = 3, 5  # what numbers are drawn for


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def permute(number, size, seed, epoch, domain=ROWS):
    """A Feistel network of eight rounds over the least even number of bits, walked until it is back below `size`."""
    key = philox([epoch, 0, domain, 0], [seed, 0])[:2]
    half = 0
    while 1 << (2 * half) < size:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = number >> half, number & mask
        for round in range(8):
            left, right = right, left ^ (philox([right, round, 0, 0], key)[0] & mask)
        number = left << half | right
        if number < size:
            return number


def by_length(lengths, epochs, pool, group, shuffle=False, seed=0):
    """Rows of `epochs` epochs: sorted in pools, whose groups are shuffled."""
    count, order = len(lengths), []
    pools = -(-count // pool)
    for epoch in range(epochs):
        rows = [permute(i, count, seed, epoch) if shuffle else i for i in range(count)]
        for number in range(pools):
            own = sorted(rows[number * pool:(number + 1) * pool], key=lambda row: lengths[row])
            groups = len(own) // group
            places = [permute(i, groups, seed, epoch * pools + number, GROUPS) if shuffle else i for i in range(groups)]
            order += [row for i in places for row in own[i * group:(i + 1) * group]] + own[groups * group:]
    return order
