# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program of a trainer's model, by one of its batches."""
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from . import _hooks, _training_arguments
from ._training_lengths import find_ragged
from .compiler import part_tensors


def make_smoother(args: Any, model: Any) -> Callable[..., torch.Tensor] | None:
    """(what the model returns, labels, num_items_in_batch) -> the loss that transformers.Trainer smooths labels in; None: it does not."""
    if not args.label_smoothing_factor:
        return None
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.trainer_pt_utils import LabelSmoother
    if getattr(getattr(model, "config", None), "problem_type", None) == "multi_label_classification":
        raise _training_arguments.refuse("label_smoothing_factor", "has no effect on labels of several classes, whose loss is no cross-entropy; leave it out")
    smoother = LabelSmoother(epsilon=args.label_smoothing_factor)
    shifts = type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()

    def smooth(outputs: Any, labels: torch.Tensor, items: torch.Tensor | None) -> torch.Tensor:
        loss: torch.Tensor = smoother(outputs, labels, shift_labels=shifts, num_items_in_batch=items)
        return loss
    return smooth


@contextlib.contextmanager
def _forward_as(model: Any, call: Callable[..., Any], names: Iterable[str]) -> Iterator[None]:
    """Gives the model another forward, whose arguments are `names`."""
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    before = model.__dict__.get("forward")
    model.forward = call
    try:
        yield
    finally:
        if before is None:
            del model.forward
        else:
            model.forward = before


def export_predictions(model: Any, batch: dict[str, Any]) -> tuple[torch.export.ExportedProgram, list[str]]:
    """A program of what the model returns beside its loss, and the names, as transformers.Trainer gives them to compute_metrics."""
    own = model.forward
    if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        # Predictions do not depend on them.
        batch = {name: value for name, value in batch.items() if name != "labels"}
    ignored = {"loss", *getattr(getattr(model, "config", None), "keys_to_ignore_at_inference", ["past_key_values"])}
    names: list[str] = []

    def predict(**given: Any) -> dict[str, torch.Tensor]:
        outputs = own(**given)
        if not isinstance(outputs, dict):
            outputs = {f"output{i}": value for i, value in enumerate(outputs[1:])}
        told = {key: value for key, value in outputs.items() if key not in ignored and value is not None}
        for key, value in told.items():
            if not isinstance(value, torch.Tensor):
                raise _training_arguments.refuse("compute_metrics", f"expected tensors of the model beside its loss, found {type(value).__name__} as "
                                                                    f"'{key}'; name it in model.config.keys_to_ignore_at_inference")
        names[:] = told
        # No two of them, and no input, may be one tensor.
        return {key: value.clone() for key, value in told.items()}
    was_training = model.training
    with _forward_as(model, predict, batch), torch.no_grad():
        program = _hooks.export(model.eval(), (), part_tensors(batch), strict=False)
    model.train(was_training)
    return program, list(names)


def export_step(model: Any, batch: dict[str, Any], counts_items: bool, has_lengths: bool,
                smooth: Callable[..., torch.Tensor] | None = None) -> tuple[torch.export.ExportedProgram, list[str]]:
    """The program, and the inputs whose rows may have other lengths. `counts_items`: its loss takes num_items_in_batch; `smooth` is what
    `make_smoother` made."""
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
    own = model.forward

    def call(**given: Any) -> Any:  # not "forward": the compiler takes a forward that no module has for a function's
        if smooth is None:
            return own(**given)
        labels, items = given.pop("labels"), given.pop("num_items_in_batch", None)
        return smooth(own(**given), labels, items)
    # Of what is taken as **kwargs torch.export does not know dynamic shapes.
    with _forward_as(model, call, batch) if has_lengths or smooth is not None else contextlib.nullcontext():
        program = _hooks.export(model.train(), (), part_tensors(batch), strict=False, dynamic_shapes=shapes if has_lengths else None)
    model.train(was_training)
    if counts_items:
        placeholder = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == "num_items_in_batch")
        if not placeholder.users:
            raise _training_arguments.refuse("model", "its forward takes num_items_in_batch, and its loss does not divide by it; set "
                                                      "model.accepts_loss_kwargs = False")
    return program, ragged
