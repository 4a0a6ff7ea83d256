# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers for TensorBoard, without its packages."""
from __future__ import annotations

import os
import pathlib
from typing import Any, Union

import torch  # noqa: F401, whose libraries the module needs

from . import _native

Path = Union[str, "os.PathLike[str]"]


class EventFile:
    """A new event file in a folder, which is made if need be; what `fsdp-run --tensorboard` writes, too.

        events = fsdp_opt.EventFile("runs/first")
        for batch in loader:
            out = step(**batch)
            events.add(out.step, **{"train/loss": out.loss, "train/lr": out.lr})

    Under a launcher rank 0 alone makes one.

    Args:
        folder: that TensorBoard is given, or one below it.
        first: the first step that will be added; what earlier files in the folder say of it and of later ones is then passed over.

    Raises:
        fsdp_opt.Error: E064 if the file cannot be written.
    """

    def __init__(self, folder: Path, *, first: int = 0) -> None:
        self._file = _native.EventFile(os.fspath(folder), first)

    @property
    def path(self) -> pathlib.Path:
        return pathlib.Path(self._file.path)

    def add(self, step: int, **values: Any) -> None:
        """Numbers, or tensors with one element, by their tags; None is left out. Readers see them at once."""
        self._file.write(step, {tag: float(value) for tag, value in values.items() if value is not None})
