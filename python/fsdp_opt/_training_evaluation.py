# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trainer's validation: the loss, and what `compute_metrics` makes of predictions."""
from __future__ import annotations

import math
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from transformers.trainer_utils import EvalPrediction, denumpify_detensorize, speed_metrics

from . import _training_arguments
from ._training_export import export_predictions
from ._training_rows import join
from .compiler import Artifact, compile
from .session import Session


class Validation:
    """What FsdpTrainer does with rows that it does not train on. Attributes are the trainer's."""

    args: Any
    model: Any
    state: Any
    control: Any
    callback_handler: Any
    eval_dataset: Any
    compute_metrics: Any
    preprocess_logits_for_metrics: Any
    session: Session
    _peers: Any
    _place: Any
    _inputs: list[str]
    _counts_items: bool
    _lengths: list[int]
    _threads: int | None
    _world: int
    _collate: Any
    _items: Any
    _config: Any
    _first_batch: Any
    log: Any
    _predictor: Artifact | None = None
    _predicted: list[str]

    def evaluate(self, eval_dataset: Any = None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """The loss over a dataset, or over each of several by name; logged, and given to the callbacks. Collective."""
        dataset = eval_dataset if eval_dataset is not None else self.eval_dataset
        if dataset is None:
            raise _training_arguments.refuse("eval_dataset", "expected rows to validate with, found None")
        if isinstance(dataset, dict):
            metrics: dict[str, float] = {}
            for name, each in dataset.items():
                metrics |= self.evaluate(each, f"{metric_key_prefix}_{name}")
            return metrics
        if not hasattr(dataset, "__len__"):
            raise _training_arguments.refuse("eval_dataset", "expected one with a length")
        step = self.session  # which knows the place
        begin, groups, total = time.time(), 0, 0.0
        self.callback_handler.eval_dataloader = range(math.ceil(len(dataset) / (self.args.per_device_eval_batch_size * self._place.all)))
        for loss, rows in self._evaluate_groups(step, dataset):
            total += loss * rows
            groups += 1
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        found = self._measure(dataset) if self.compute_metrics is not None and not self.args.prediction_loss_only else {}
        metrics = {f"{metric_key_prefix}_{key.removeprefix(metric_key_prefix + '_')}": value for key, value in found.items()}
        metrics |= {f"{metric_key_prefix}_loss": total / len(dataset)}
        metrics |= speed_metrics(metric_key_prefix, begin, num_samples=len(dataset), num_steps=groups)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _evaluate_groups(self, step: Session, dataset: Any) -> Iterator[tuple[float, int]]:
        """(loss, rows) of what transformers.Trainer would have as one batch of all ranks."""
        size, place = self.args.per_device_train_batch_size, self._place
        of_group, of_call = self.args.per_device_eval_batch_size * place.all, size * place.all
        if not self._counts_items and (of_group % of_call or len(dataset) % of_call):
            raise _training_arguments.refuse("eval_dataset", f"expected rows for batches of {size} on each of {place.all} ranks, since the model's "
                                                             f"loss does not take num_items_in_batch, found {len(dataset)} in batches of "
                                                             f"{self.args.per_device_eval_batch_size}")
        for first in range(0, len(dataset), of_group):
            end = min(first + of_group, len(dataset))
            losses, items = 0.0, 0
            calls = range(first, end, of_call)
            for begin in calls:
                parts = self._parts(dataset, begin, end)
                batch = join(parts, self._inputs, step.padding)
                if self._counts_items:
                    items += self._items(batch)
                    # The sum over all ranks.
                    batch["num_items_in_batch"] = torch.tensor(1 / place.all)
                losses += step.evaluate([batch]).loss
            yield losses / (self._peers.sum(items) if self._counts_items else len(calls)), end - first

    def _parts(self, dataset: Any, begin: int, end: int) -> list[tuple[Mapping[str, Any], int]]:
        """Batches of this process's ranks from row `begin` on, and how many rows of each are there."""
        size, place = self.args.per_device_train_batch_size, self._place
        parts = []
        for rank in range(place.first, place.first + place.here):
            own = begin + rank * size
            real = min(max(end - own, 0), size)
            rows = [dataset[row] for row in range(own, own + real)]
            parts.append((self._collate(rows + [dataset[begin]] * (size - real)), real))
        return parts

    # Predictions.

    def _measure(self, dataset: Any) -> dict[str, Any]:
        """What `compute_metrics` says of all rows. Collective."""
        made = self._predict(dataset)
        logits = [np.concatenate(each) for each in zip(*(part["logits"] for part in made))]
        labels = np.concatenate([part["labels"] for part in made])
        inputs = np.concatenate([part["inputs"] for part in made]) if "inputs" in self.args.include_for_metrics else None
        predictions = logits[0] if len(logits) == 1 else tuple(logits)
        found: dict[str, Any] = denumpify_detensorize(self.compute_metrics(EvalPrediction(predictions=predictions, label_ids=labels, inputs=inputs)))
        return found

    def _predict(self, dataset: Any) -> list[dict[str, Any]]:
        """Of each batch of all ranks, rows in the dataset's order: what the model returns beside its loss, labels, the main input."""
        if self._predictor is None:
            self._predictor = self._compile_predictor()
        states = pathlib.Path(self.args.output_dir) / "predicting.safetensors"
        self.session.export(states)
        main = getattr(self.model, "main_input_name", "input_ids")
        made = []
        with Session(self._predictor, threads=self._threads, deadline=float(self.args.ddp_timeout), trusted=True) as session:
            session.load(states)
            of_call = self.args.per_device_train_batch_size * self._place.all
            for begin in range(0, len(dataset), of_call):
                parts = self._parts(dataset, begin, len(dataset))
                batch = join([(part, len(next(iter(part.values())))) for part, _ in parts], list(session.inputs), None)
                out = session(**batch)
                rows = torch.cat([torch.arange(real) + i * self.args.per_device_train_batch_size for i, (_, real) in enumerate(parts)])
                labels = torch.cat([part["labels"] for part, _ in parts])[rows]
                logits = [self._widen(out.outputs[name])[rows] for name in self._predicted]
                if self.preprocess_logits_for_metrics is not None and len(rows):
                    told = self.preprocess_logits_for_metrics(logits[0] if len(logits) == 1 else tuple(logits), labels)
                    logits = list(told) if isinstance(told, (tuple, list)) else [told]
                own = {"logits": [each.numpy() for each in logits], "labels": labels.numpy(),
                       "inputs": torch.cat([part[main] for part, _ in parts])[rows].numpy(), "rows": len(rows)}
                made += [each for each in self._peers.gather(own) if each["rows"]]
        self._peers.barrier()
        if self._peers.rank == 0:
            os.unlink(states)
        return made

    @staticmethod
    def _widen(values: torch.Tensor) -> torch.Tensor:
        """As accelerate has the outputs of mixed precision."""
        return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values

    def _compile_predictor(self) -> Artifact:
        if self._lengths:
            raise _training_arguments.refuse("compute_metrics", "is not supported with lengths=[…]: predictions have one shape; leave one of them out")
        config = {key: value for key, value in self._config(False).items()
                  if key not in ("optimizer", "lr_scheduler", "gradient_accumulation_steps", "max_grad_norm", "loss_scale", "on_nonfinite", "metrics",
                                 "neftune_noise_alpha", "loss_normalization", "grad_norm_type")}
        section = {key: value for key, value in config["fsdp_config"].items()
                   if key not in ("activation_checkpointing", "activation_offloading", "offload_optimizer", "optimizer_in_backward", "loss_chunks")}
        batch = self._first_batch()
        program, self._predicted = export_predictions(self.model, batch)

        def make() -> Artifact:
            return compile(program, config={**config, "fsdp_config": section, "mode": "inference"}, world=self._world,
                           out=pathlib.Path(self.args.output_dir) / "predict.fsdp")
        made: Artifact = self._peers.from_first(make)
        return made
