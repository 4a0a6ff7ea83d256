# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What callbacks see of a training: who they are, and the state that they are told."""
from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import transformers
from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback, ExportableState, PrinterCallback, ProgressCallback, TrainerState

from . import _training_arguments, errors
from ._training_folders import STATES

# A step is one call: nothing of it can be changed from outside.
_INSIDE = ("on_pre_optimizer_step", "on_optimizer_step", "on_substep_end")


def check_callback(callback: Any) -> None:
    for event in _INSIDE:
        own = getattr(type(callback), event, None)
        if own is not None and own is not getattr(transformers.TrainerCallback, event):
            raise _training_arguments.refuse("callbacks", f"{type(callback).__name__} has {event}, which lies inside of the compiled step; "
                                                          "use on_step_begin or on_step_end")


def make_handler(args: transformers.TrainingArguments, model: Any, processing_class: Any, callbacks: Iterable[Any] | None) -> CallbackHandler:
    from transformers.integrations import get_reporting_integration_callbacks
    own = [callback() if isinstance(callback, type) else callback for callback in callbacks or ()]
    for callback in own:
        check_callback(callback)
    every = [DefaultFlowCallback(), *(kind() for kind in get_reporting_integration_callbacks(args.report_to)), *own]
    handler = CallbackHandler(every, model, processing_class, None, None)
    handler.add_callback(PrinterCallback if args.disable_tqdm else ProgressCallback)
    return handler


def start_state(args: transformers.TrainingArguments, steps: int, holders: list[Any], folder: pathlib.Path | None, steps_done: int) -> TrainerState:
    """Of a training of so many steps, or of the checkpoint `folder`, whose states are of step `steps_done`. `holders` may have a part in it."""
    stateful = [each for each in holders if isinstance(each, ExportableState)]
    state = TrainerState(stateful_callbacks=stateful)
    state.train_batch_size = args.per_device_train_batch_size
    state.compute_steps(args, steps)
    if folder is not None:
        state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        state.compute_steps(args, steps)
        if state.global_step != steps_done:
            raise errors.make("E101", f"'{folder}' is of step {state.global_step} by trainer_state.json, and of step "
                                      f"{steps_done} by its folder '{STATES}'; copy the checkpoint again")
    return state


def is_best(state: TrainerState, args: transformers.TrainingArguments, metrics: Mapping[str, float]) -> bool:
    """Whether they are the best of the training so far, which `state` then says."""
    name = args.metric_for_best_model
    if name is None:
        return False
    key = name if name.startswith("eval_") else f"eval_{name}"
    if key not in metrics:
        raise _training_arguments.refuse("metric_for_best_model", f"expected one of {', '.join(metrics)}, found '{key}'")
    better = state.best_metric is None or (metrics[key] > state.best_metric if args.greater_is_better
                                           else metrics[key] < state.best_metric)
    if better:
        state.best_metric, state.best_global_step = metrics[key], state.global_step
    return better
