# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program of a trainer's model, by one of its batches."""
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from . import _hooks, _training_arguments
from ._training_lengths import find_ragged
from .compiler import part_tensors


@contextlib.contextmanager
def _named_forward(model: Any, batch: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Gives the model a forward whose arguments are the batch's: of what is taken as **kwargs torch.export does not know dynamic shapes."""
    own = model.forward

    def call(**given: Any) -> Any:  # not "forward": the compiler takes a forward that no module has for a function's
        return own(**given)
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in batch])
    before = model.__dict__.get("forward")
    model.forward = call
    try:
        yield
    finally:
        if before is None:
            del model.forward
        else:
            model.forward = before


def export_step(model: Any, batch: dict[str, Any], counts_items: bool, has_lengths: bool) -> tuple[torch.export.ExportedProgram, list[str]]:
    """The program, and the inputs whose rows may have other lengths. `counts_items`: its loss takes num_items_in_batch."""
    other = [name for name, value in batch.items() if not isinstance(value, torch.Tensor)]
    if other:
        raise _training_arguments.refuse("data_collator", f"expected tensors alone, found {type(batch[other[0]]).__name__} as '{other[0]}'")
    if "labels" not in batch:
        raise _training_arguments.refuse("train_dataset", f"expected 'labels', which the model's loss reads, found {', '.join(batch)}")
    if counts_items:
        batch["num_items_in_batch"] = torch.tensor(1.0)
    ragged = find_ragged(model, batch) if has_lengths else []
    was_training = model.training
    shapes = {name: {1: torch.export.Dim.DYNAMIC} if name in ragged else None for name in batch}
    with _named_forward(model, batch) if has_lengths else contextlib.nullcontext():
        program = _hooks.export(model.train(), (), part_tensors(batch), strict=False, dynamic_shapes=shapes if has_lengths else None)
    model.train(was_training)
    if counts_items:
        placeholder = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == "num_items_in_batch")
        if not placeholder.users:
            raise _training_arguments.refuse("model", "its forward takes num_items_in_batch, and its loss does not divide by it; set "
                                                      "model.accepts_loss_kwargs = False")
    return program, ragged
