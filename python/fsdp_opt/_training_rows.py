# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which rows of a dataset each step of a trainer reads: those, in the order, that transformers.Trainer reads on as many processes."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset

from . import errors
from ._padding import IGNORED, Padding


class Place(NamedTuple):
    """Where this process is among the ranks that read different rows."""

    first: int
    """Its first one."""
    here: int
    """How many of them are in this process."""
    all: int


class _Batches:
    """Index lists that a loader with workers that stay asks for again in each epoch."""

    def __init__(self) -> None:
        self.lists: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)


class Rows:
    """Micro-batches of `size` rows for each rank, `parts` of them a step.

    Where rows are missing at the end of an epoch, a micro-batch has others whose labels are
    IGNORED, if `can_pad`; else that is refused. With `lengths` of all rows those of like length are read together.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Mapping[str, Any]], place: Place, size: int, parts: int, *, can_pad: bool,
                 seed: int | None = None, drop_last: bool = False, fills_up: bool = True, workers: Mapping[str, Any] | None = None,
                 name: str = "train_dataset", lengths: Sequence[int] | None = None) -> None:
        self.dataset, self.collate, self.place, self.size, self.parts, self.name = dataset, collate, place, size, parts, name
        self.can_pad, self.seed, self.drop_last, self.fills_up = can_pad, seed, drop_last, fills_up
        self.lengths = lengths
        self.workers = dict(workers or {})
        self.is_stream = isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__")
        if self.is_stream and self.workers.get("num_workers"):
            raise errors.make("E040", f"dataloader_num_workers: expected 0 for a {name} without a length, found {self.workers['num_workers']}")
        self._sampler = _Batches()
        self._loader: DataLoader[Any] | None = None
        self._stream: Iterator[Any] | None = None
        if not self.is_stream and not self._count(len(dataset)):
            raise errors.make("E040", f"{name}: expected rows for a batch of {size} on each of {place.all} ranks, found {len(dataset)}")

    @property
    def batches(self) -> int | None:
        """Micro-batches of each rank in an epoch; None if nobody knows."""
        return None if self.is_stream else self._count(len(self.dataset))

    def _count(self, rows: int) -> int:
        whole = self.size * self.place.all
        return rows // whole if self.drop_last else math.ceil(rows / whole)

    def order(self, epoch: int) -> list[int]:
        """The rows of an epoch, as all ranks together read them."""
        count = len(self.dataset)
        if self.lengths is not None:
            order = self._by_length(epoch)
        elif self.seed is None:
            order = list(range(count))
        else:
            # As accelerate's sampler draws it.
            order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        whole = self._count(count) * self.size * self.place.all
        if self.fills_up and self.place.all > 1 and whole > count:
            # As accelerate shares out what does not divide: the first rows once more.
            order = list(itertools.islice(itertools.cycle(order), whole))
        return order[:whole]

    def _by_length(self, epoch: int) -> list[int]:
        """As transformers groups rows, but in groups for all ranks together, and drawn from the seed and the epoch alone."""
        from transformers.trainer_pt_utils import get_length_grouped_indices
        of_step = self.size * self.place.all * self.parts
        generator = torch.Generator().manual_seed((self.seed or 0) + epoch)
        order: list[int] = get_length_grouped_indices(self.lengths, of_step, generator=generator)
        return order

    def check(self, steps: int) -> None:
        """Refuses an epoch that ends amid a step of the run, if that cannot be made up for."""
        count = self.batches
        if count is None or self.can_pad:
            return
        whole = count * self.size * self.place.all
        reaches = steps * self.parts >= count
        if len(self.order(0)) < whole and reaches:
            raise errors.make("E040", f"dataloader_drop_last: {self.name} has {len(self.dataset)} rows, which do not fill batches of {self.size}, and "
                                      "the model's loss does not take num_items_in_batch; expected dataloader_drop_last=True")
        if count % self.parts and reaches:
            raise errors.make("E040", f"gradient_accumulation_steps: an epoch has {count} batches, expected a multiple of {self.parts}, since the "
                                      "model's loss does not take num_items_in_batch; give it rows for whole steps, or end before by max_steps")

    def steps(self, epoch: int, skip: int = 0) -> Iterator[list[tuple[Mapping[str, Any], int]]]:
        """Of each step behind the first `skip` the micro-batches of this process, and how many rows of each count."""
        return self._read_stream(epoch, skip) if self.is_stream else self._read_rows(epoch, skip)

    def _own(self, first: int, available: int) -> Iterator[tuple[int, int]]:
        """(begin, rows that are there) of this process's micro-batches of a step that begins at row `first` of `available`."""
        for part in range(self.parts):
            for rank in range(self.place.first, self.place.first + self.place.here):
                begin = first + (part * self.place.all + rank) * self.size
                yield begin, min(max(available - begin, 0), self.size)

    def _read_rows(self, epoch: int, skip: int) -> Iterator[list[tuple[Mapping[str, Any], int]]]:
        order = self.order(epoch)
        of_step = self.size * self.place.all * self.parts
        counts: list[int] = []
        lists: list[list[int]] = []
        for first in range(skip * of_step, len(order), of_step):
            for begin, real in self._own(first, len(order)):
                lists.append(order[begin:begin + real] + order[:1] * (self.size - real))
                counts.append(real)
        self._sampler.lists = lists
        if self._loader is None:
            self._loader = DataLoader(self.dataset, batch_sampler=self._sampler, collate_fn=self.collate, **self.workers)
        items = zip(iter(self._loader), counts)
        while step := list(itertools.islice(items, self.parts * self.place.here)):
            yield step

    def _read_stream(self, epoch: int, skip: int) -> Iterator[list[tuple[Mapping[str, Any], int]]]:
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        of_step = self.size * self.place.all * self.parts
        rows = iter(self.dataset)
        for _ in itertools.islice(rows, skip * of_step):
            pass
        while chunk := list(itertools.islice(rows, of_step)):
            if self.drop_last:
                chunk = chunk[:len(chunk) // (self.size * self.place.all) * self.size * self.place.all]
            if not chunk:
                return
            if len(chunk) < of_step and not self.can_pad:
                raise errors.make("E081", f"{self.name} ends amid a step, with {len(chunk)} of {of_step} rows, and the model's loss does not take "
                                          "num_items_in_batch; end before by max_steps")
            yield [(self.collate(chunk[begin:begin + real] + chunk[:1] * (self.size - real)), real)
                   for begin, real in self._own(0, len(chunk))]


def join(parts: Sequence[tuple[Mapping[str, Any], int]], inputs: Sequence[str], padding: Padding | None = None) -> dict[str, torch.Tensor]:
    """One batch of a process's micro-batches; labels of rows that do not count are IGNORED. With `padding` rows are padded to the longest."""
    batch: dict[str, torch.Tensor] = {}
    if padding is not None:
        parts = _to_longest(parts, padding)
    for name in inputs:
        tensors = []
        for part, real in parts:
            if name not in part:
                raise errors.make("E080", f"data_collator: expected '{name}' in each batch, as in the first, found {', '.join(part)}")
            tensor = torch.as_tensor(part[name])
            if name in ("labels", "shift_labels") and real < len(tensor):
                tensor = tensor.clone()
                tensor[real:] = IGNORED
            tensors.append(tensor)
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) > 1:
            raise errors.make("E081", f"data_collator: expected batches of one shape, found {' and '.join(str(list(s)) for s in sorted(shapes))} of "
                                      f"'{name}'; pad all rows to one length, by the tokenizer's or the collator's padding='max_length', or say "
                                      "lengths=[…]")
        batch[name] = torch.cat(tensors) if len(tensors) > 1 else tensors[0]
    return batch


def _to_longest(parts: Sequence[tuple[Mapping[str, Any], int]], padding: Padding) -> list[tuple[Mapping[str, Any], int]]:
    most = max((torch.as_tensor(part[name]).shape[1] for part, _ in parts for name in padding.names if name in part), default=0)
    return [(padding({name: torch.as_tensor(value) if name in padding.names else value for name, value in part.items()},
                     greatest=lambda _: most), real) for part, real in parts]
