# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler's and the runtime's errors, as exceptions with their ids.

`except fsdp_opt.errors.DataError` catches a kind, `error.id == "E081"` tells one;
docs/Errors.md lists them all.
"""
from __future__ import annotations

import re


class Error(RuntimeError):
    """A refusal. `str(error)` says what was expected, what was found and what to do."""

    id: str
    """As docs/Errors.md has it: "E081". Stays the same for ever."""
    message: str
    """Without the id."""

    def __init__(self, id: str, message: str) -> None:
        super().__init__(id, message)
        self.id = id
        self.message = message

    def __str__(self) -> str:
        return f"[fsdp-{self.id}] {self.message}"

    @property
    def title(self) -> str:
        """What all errors of this id are about."""
        return _describe(self.id)[0]

    @property
    def advice(self) -> str:
        """What to do about any error of this id."""
        return _describe(self.id)[1]


class ModelError(Error):
    """A model file or weights, or something in the model that is not supported (E001 to E039)."""


class UsageError(Error):
    """A config or an argument (E040 to E059)."""


class ArtifactError(Error):
    """A compiled step cannot be read or run here (E060 to E079)."""


class DataError(Error):
    """Inputs, data files or exports (E080 to E089)."""


class RankError(Error):
    """Another rank failed, or did not come (E090 to E099, E120 to E129)."""


class CheckpointError(Error):
    """A checkpoint cannot be written or does not fit (E100 to E109)."""


class DeviceError(Error):
    """A device has no memory left, or is not there (E110 to E119)."""


_KINDS = ((39, ModelError), (59, UsageError), (79, ArtifactError), (89, DataError), (99, RankError), (109, CheckpointError),
          (119, DeviceError), (129, RankError))


def make(id: str, message: str) -> Error:
    """The exception for an id: of the subclass that its number belongs to."""
    number = int(id[1:])
    return next((kind for last, kind in _KINDS if number <= last), Error)(id, message)


def find(text: str) -> Error | None:
    """The error that a tool printed, wherever in `text`; None if it printed none."""
    match = re.search(r"error\[fsdp-(E\d+)\]: (.*?)(?=\n\S*error\[fsdp-|\Z)", text, re.S)
    return make(match[1], match[2].strip()) if match else None


def _describe(id: str) -> tuple[str, str]:
    import torch  # noqa: F401, whose libraries the module needs

    from . import _native
    return next(((title, advice) for each, title, advice, _ in _native.list_errors() if each == id), ("", ""))
