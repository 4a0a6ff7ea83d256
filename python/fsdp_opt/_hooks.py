# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks on gradients, which torch.export drops: they are found while a module is at hand, and told to the compiler beside the program."""
from __future__ import annotations

import contextlib
import json
import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules import module as _module

from . import _flex

_RECORD = "fsdp_opt_hooks.json"  # what ir/capture/pt2/Hooks.cpp reads
_OURS = os.path.abspath(__file__)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

# What was found of hooks when a program was exported, but for those on parameters, which it holds itself.
_found: weakref.WeakKeyDictionary[torch.export.ExportedProgram, list[dict[str, Any]]] = weakref.WeakKeyDictionary()


def export(model: torch.nn.Module, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> torch.export.ExportedProgram:
    """torch.export.export, which also looks for hooks, and takes flex_attention."""
    with _watch() as places, _flex.exporting():
        program = torch.export.export(model, tuple(args), dict(kwargs or {}), **options)
    _found[program] = _of_modules(model) + [{"file": file, "line": line} for file, line in places]
    return program


def extra_files(program: torch.export.ExportedProgram) -> dict[str, Any] | None:
    """What torch.export.save writes beside the program; None if there are no hooks."""
    hooks = [{"parameter": name} for name, parameter in program.named_parameters() if parameter.requires_grad and _has_hooks(parameter)]
    hooks += _found.get(program, [])
    return {_RECORD: json.dumps(hooks)} if hooks else None


def _has_hooks(parameter: torch.Tensor) -> bool:
    return bool(parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _of_modules(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Hooks of register_backward_hook. Those of register_full_backward_hook leave something in the program, by which they are found."""
    found = [{"module": name} for name, each in model.named_modules() if each._backward_hooks and not each._is_full_backward_hook]
    if _module._global_backward_hooks and not _module._global_is_full_backward_hook:
        found.append({"module": ""})
    return found


@contextlib.contextmanager
def _watch() -> Iterator[list[tuple[str, int]]]:
    """Lists the lines that register a hook on a tensor."""
    places: list[tuple[str, int]] = []
    own = {name: getattr(torch.Tensor, name) for name in ("register_hook", "register_post_accumulate_grad_hook")}

    def watched(name: str) -> Any:
        def register(self: torch.Tensor, hook: Any) -> Any:
            # Modes of PyTorch's own call it again, from the same line.
            frame = sys._getframe(1)
            while frame.f_back and (frame.f_code.co_filename == _OURS or frame.f_code.co_filename.startswith(_TORCH)):
                frame = frame.f_back
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place not in places:
                places.append(place)
            return own[name](self, hook)
        return register

    for name in own:
        setattr(torch.Tensor, name, watched(name))
    try:
        yield places
    finally:
        for name, method in own.items():
            setattr(torch.Tensor, name, method)
