# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of rows of any length, for an artifact that has programs for some lengths: padded to the least of them that holds all."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import torch

from . import errors

IGNORED = -100
"""A label that counts for nothing."""

MASK = "attention_mask"

Number = Union[int, float]
# What all of Hugging Face's models agree on (docs/Data.md).
_KNOWN: dict[str, Number] = {"labels": IGNORED, "shift_labels": IGNORED, MASK: 0}


class Padding:
    """What each input whose rows have tokens is padded with, and to which lengths.

    Args:
        inputs: by name the type, and the shapes that programs take.
        values: what inputs are padded with; labels and an attention mask need not be named.

    Raises:
        errors.DataError: E087 for an input that nothing is said of, E040 for one that is not there, or if programs differ in more than
            the tokens of rows.
    """

    def __init__(self, inputs: Mapping[str, tuple[torch.dtype | None, Sequence[tuple[int, ...]]]], values: Mapping[str, Number]) -> None:
        self._values: dict[str, Number] = {}
        self._types: dict[str, torch.dtype | None] = {}
        self.lengths: list[int] = []
        for name in values:
            if name not in inputs:
                raise errors.make("E040", f"pad: expected names of inputs ({', '.join(inputs)}), found '{name}'")
        for name, (dtype, shapes) in inputs.items():
            if len({shape[1:2] for shape in shapes}) < 2:
                continue
            if len({(*shape[:1], *shape[2:]) for shape in shapes}) > 1:
                raise errors.make("E081", f"pad: expected programs that differ in the tokens of a row alone, found '{name}' of shapes "
                                          f"{' and '.join(str(list(shape)) for shape in shapes)}")
            lengths = sorted(shape[1] for shape in shapes)
            if self.lengths and self.lengths != lengths:
                raise errors.make("E081", f"pad: expected all inputs to have rows of as many tokens, found '{name}' of {lengths} and others of "
                                          f"{self.lengths}")
            self.lengths = lengths
            value = values.get(name, _KNOWN.get(name))
            if value is None:
                raise errors.make("E087", f"pad: input '{name}' has rows of several lengths, and nothing says what is behind the shorter ones; "
                                          f"expected pad={{'{name}': VALUE}}")
            self._values[name], self._types[name] = value, dtype
        if not self.lengths:
            raise errors.make("E040", "pad: expected an artifact for rows of several lengths (compile's dims='INPUT.1=512,1024'), found one for "
                                      "rows of one")

    @property
    def names(self) -> list[str]:
        """Inputs whose rows have tokens."""
        return list(self._values)

    def __call__(self, given: Mapping[str, Any], held: Sequence[str] = (), greatest: Callable[[int], int] = lambda length: length) -> dict[str, Any]:
        """The same batch with all rows as long: a tensor for each input that was given one, or a list of rows.

        Args:
            given: by name a tensor of rows, or a list of tensors, each a row of its own length.
            held: inputs that need nothing.
            greatest: of all processes' numbers.

        Raises:
            errors.DataError: E081 if inputs have rows of other lengths, E088 for a row that is too long.
        """
        lengths: list[int] | None = None
        first, lists = "", False
        for name in self._values:
            if name not in given:
                continue
            own = [len(row) for row in given[name]] if _is_list(given[name]) else [given[name].shape[1]] * len(given[name])
            if lengths is not None and own != lengths:
                row = next((number for number, pair in enumerate(zip(own, lengths)) if pair[0] != pair[1]), min(len(own), len(lengths)))
                raise errors.make("E081", f"expected inputs to have rows of the same lengths, found other ones from row {row} on in '{first}' and "
                                          f"'{name}'")
            first, lengths, lists = first or name, own, lists or _is_list(given[name])
        if lengths is None:
            return dict(given)
        most = max(lengths, default=0)
        longest = greatest(most)
        length = next((each for each in self.lengths if each >= longest), None)
        if length is None:
            where = f"row {lengths.index(most)} of '{first}'" if most == longest else "a row of another process"
            raise errors.make("E088", f"{where} has {longest} tokens, and the longest program takes {self.lengths[-1]}; cut it, or compile the model "
                                      f"for {longest} tokens, too (dims=)")
        padded = {name: self._pad(name, value, length) if name in self._values else value for name, value in given.items()}
        if lists and MASK in self._values and MASK not in padded and MASK not in held:
            padded[MASK] = self._mask(lengths, length)
        return padded

    def _pad(self, name: str, value: Any, length: int) -> torch.Tensor:
        rows = [torch.as_tensor(row) for row in value] if _is_list(value) else value
        if not _is_list(value) and rows.shape[1] == length:
            return rows
        inner = rows[0].shape[1:] if _is_list(value) else rows.shape[2:]
        dtype = rows[0].dtype
        out = torch.full((len(rows), length, *inner), self._values[name], dtype=dtype)
        if _is_list(value):
            for number, row in enumerate(rows):
                out[number, :len(row)] = row
        else:
            out[:, :rows.shape[1]] = rows
        return out

    def _mask(self, lengths: Sequence[int], length: int) -> torch.Tensor:
        dtype = self._types[MASK] or torch.int64
        if dtype.is_floating_point:
            # It may be one that is added.
            raise errors.make("E080", f"input '{MASK}' was given nothing, and a mask of floating-point numbers is not made; expected it in the batch")
        return (torch.arange(length)[None] < torch.tensor(lengths)[:, None]).to(dtype)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
