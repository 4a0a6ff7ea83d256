# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks on gradients, which torch.export drops: they are found while a module is at hand, and told to the compiler beside the program."""
from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
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
    _found[program] = _of_modules(model) + places
    _tell_of_forward_hooks(model)
    return program


def _tell_of_forward_hooks(model: torch.nn.Module) -> None:
    """What they make of tensors is in the program, and nothing else that they do."""
    names = [name or "the model itself" for name, each in model.named_modules()
             if any(not _is_librarys(hook) for hook in (*each._forward_hooks.values(), *each._forward_pre_hooks.values()))]
    if names:
        warnings.warn("forward hooks run once, while the model is exported: what they return is part of the step, and what else they do (count, print, keep "
                      f"tensors) does not happen in training; they are on {', '.join(names[:4])}" + (f" and {len(names) - 4} more" if len(names) > 4 else ""),
                      stacklevel=3)


def _is_librarys(hook: Any) -> bool:
    """Whose hooks do nothing else: of parametrizations, checkpoints, inputs that require gradients."""
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return module.partition(".")[0] in ("torch", "transformers", "peft", "accelerate")


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
def _watch() -> Iterator[list[dict[str, Any]]]:
    """Lists the lines that register a hook on a tensor, or on what is saved for backward."""
    places: list[dict[str, Any]] = []
    saved = torch.autograd.graph.saved_tensors_hooks
    begin_saved = saved.__init__

    def save(self: Any, *hooks: Any, **named: Any) -> None:
        # PyTorch's own checkpoints and save_on_cpu give back what they were given.
        frame = sys._getframe(1)
        place = {"saved": True, "file": frame.f_code.co_filename, "line": frame.f_lineno}
        if not frame.f_code.co_filename.startswith(_TORCH) and place not in places:
            places.append(place)
        begin_saved(self, *hooks, **named)
    own = {name: getattr(torch.Tensor, name) for name in ("register_hook", "register_post_accumulate_grad_hook")}

    def watched(name: str) -> Any:
        def register(self: torch.Tensor, hook: Any) -> Any:
            # Modes of PyTorch's own call it again, from the same line.
            frame = sys._getframe(1)
            while frame.f_back and (frame.f_code.co_filename == _OURS or frame.f_code.co_filename.startswith(_TORCH)):
                frame = frame.f_back
            place = {"file": frame.f_code.co_filename, "line": frame.f_lineno}
            if place not in places:
                places.append(place)
            return own[name](self, hook)
        return register

    for name in own:
        setattr(torch.Tensor, name, watched(name))
    saved.__init__ = save  # type: ignore[method-assign]
    try:
        yield places
    finally:
        saved.__init__ = begin_saved  # type: ignore[method-assign]
        for name, method in own.items():
            setattr(torch.Tensor, name, method)
