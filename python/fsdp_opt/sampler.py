# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of like length together, for a DataLoader."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch.utils.data import Sampler

from . import _native, errors


class LengthSampler(Sampler[int]):
    """The rows of this process, in the order in which `fsdp-run` reads rows of such lengths (docs/Data.md).

        sampler = LengthSampler(lengths, step.batch_rows, step.num_replicas, step.replica, pool=4096, group=256)
        sampler.go_on(step.steps_done)
        for batch in DataLoader(rows, step.batch_rows, sampler=sampler, collate_fn=list_of_rows): ...

    All processes' rows of a step follow one another in one order, which is that for any number of processes. Rows at
    the end of an epoch that fill no step are left out.

    Args:
        lengths: tokens of each row.
        batch_rows: rows that a step takes in this process.
        num_replicas: processes that read different rows.
        replica: which of them this one is.
        pool: rows that are sorted by length at once; a multiple of `group`.
        group: rows of a pool that stay together, several times those of a step.
        shuffle: whether each epoch has a new random order.
        seed: of these orders.

    Raises:
        errors.UsageError: E040 for numbers that do not fit.
    """

    def __init__(self, lengths: Iterable[int], batch_rows: int, num_replicas: int = 1, replica: int = 0, *, pool: int, group: int = 64,
                 shuffle: bool = True, seed: int = 0) -> None:
        self.lengths = [int(length) for length in lengths]
        self.batch_rows, self.num_replicas, self.replica = batch_rows, num_replicas, replica
        self.pool, self.group, self.shuffle, self.seed = pool, group, shuffle, seed
        self.epoch, self._skip = 0, 0
        if batch_rows < 1 or not 0 <= replica < num_replicas:
            raise errors.make("E040", f"expected a replica of {num_replicas} with rows, found replica {replica} with {batch_rows} rows")
        if group < 1 or pool < 1 or pool % group:
            raise errors.make("E040", f"pool: expected a multiple of group={group}, found {pool}")
        if not self.steps_of_epoch:
            raise errors.make("E040", f"lengths: expected rows for a step of {batch_rows} in each of {num_replicas} processes, found {len(self.lengths)}")

    @property
    def steps_of_epoch(self) -> int:
        return len(self.lengths) // (self.batch_rows * self.num_replicas)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's, from its beginning."""
        self.epoch, self._skip = epoch, 0

    def go_on(self, steps_done: int) -> None:
        """The next iteration goes on behind so many steps of a training: in the epoch that it was in, which `epoch` says."""
        self.epoch, self._skip = divmod(steps_done, self.steps_of_epoch)

    def __iter__(self) -> Iterator[int]:
        order = _native.order_by_length(self.lengths, self.epoch, self.pool, self.group, self.shuffle, self.seed)
        skip, self._skip = self._skip, 0
        for step in range(skip, self.steps_of_epoch):
            first = (step * self.num_replicas + self.replica) * self.batch_rows
            yield from order[first:first + self.batch_rows]

    def __len__(self) -> int:
        return (self.steps_of_epoch - self._skip) * self.batch_rows
