# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model's folder as programs, without its weights, and its losses."""
from __future__ import annotations

import contextlib
import inspect
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _hooks, _sources, errors
from .compiler import part_tensors

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json",
              "chat_template.jinja", "chat_template.json")


@contextlib.contextmanager
def _without_weights() -> Iterator[None]:
    """Parameters of modules that are made meanwhile have no memory; buffers do, so that those which are computed have their values."""
    own = torch.nn.Module.register_parameter

    def register(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:
            parameter = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        own(module, name, parameter)
    torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = own  # type: ignore[method-assign]


class Base:
    """A causal language model of transformers: its form, what is computed in it, which names are one tensor."""

    def __init__(self, name: str, half: bool) -> None:
        transformers = _sources.need("transformers", "a Hugging Face model")
        self.name = name
        try:
            config = transformers.AutoConfig.from_pretrained(name)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        except (OSError, ValueError) as error:
            raise errors.make("E001", f"base_model: '{name}' cannot be read: {error}") from error
        config.use_cache = False
        with _without_weights():
            self.model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16 if half else torch.float32)
        self.model.tie_weights()
        names = set(self.model.state_dict())
        self.buffers = {each: value.detach().clone().contiguous() for each, value in self.model.named_buffers() if each not in names}
        self.model.to("meta").train()
        same: dict[int, list[str]] = {}
        for each, value in self.model.named_parameters(remove_duplicate=False):
            same.setdefault(id(value), []).append(each)
        self.ties = [each for each in same.values() if len(each) > 1]

    def weights(self) -> str:
        """The folder of its weights."""
        if pathlib.Path(self.name).is_dir():
            return self.name
        hub = _sources.need("huggingface_hub", f"the model '{self.name}' of the hub")
        return str(hub.snapshot_download(self.name, allow_patterns=["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]))

    def copy_tokenizer(self, folder: pathlib.Path) -> None:
        """So that libraries load it from there."""
        folder.mkdir(parents=True, exist_ok=True)
        source = pathlib.Path(self.name)
        if not source.is_dir():
            self.tokenizer.save_pretrained(folder)
            return
        for name in _TOKENIZER:
            if (source / name).exists():
                shutil.copy(source / name, folder / name)


# What the model's forward is for a program, given its own. None has an inner module, so that names stay the model's.

Forward = Callable[..., Any]


def next_token(own: Forward) -> Forward:
    """The model's own loss, and nothing else."""
    def call(**inputs: torch.Tensor) -> Any:
        return own(**inputs, use_cache=False).loss
    return call


def _log_probabilities(own: Forward, ids: list[torch.Tensor], labels: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row the sum over labels that count, and their number."""
    logits = own(input_ids=torch.cat(ids), use_cache=False).logits[:, :-1].float()
    targets = torch.cat(labels)[:, 1:]
    counts = targets != -100
    chosen = torch.log_softmax(logits, -1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (chosen * counts).sum(-1), counts.sum(-1)


def reference(own: Forward) -> Forward:
    """What the model as it is thinks of both answers."""
    def call(chosen_ids: torch.Tensor, chosen_labels: torch.Tensor, rejected_ids: torch.Tensor, rejected_labels: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = len(chosen_ids)
        sums, _ = _log_probabilities(own, [chosen_ids, rejected_ids], [chosen_labels, rejected_labels])
        return {"reference_chosen": sums[:rows].clone(), "reference_rejected": sums[rows:].clone()}
    return call


def preference(own: Forward, kind: str, beta: float, gamma: float) -> Forward:
    """Losses over pairs, by the formulas of TRL's DPOTrainer (dpo, ipo), ORPOTrainer and CPOTrainer (simpo)."""
    def call(chosen_ids: torch.Tensor, chosen_labels: torch.Tensor, rejected_ids: torch.Tensor, rejected_labels: torch.Tensor,
             **references: torch.Tensor) -> torch.Tensor:
        rows = len(chosen_ids)
        sums, counts = _log_probabilities(own, [chosen_ids, rejected_ids], [chosen_labels, rejected_labels])
        logsigmoid = torch.nn.functional.logsigmoid
        if references:
            chosen, rejected = sums[:rows] - references["reference_chosen"], sums[rows:] - references["reference_rejected"]
            if kind == "dpo":
                return -logsigmoid(beta * (chosen - rejected)).mean()
            lengths = counts.clamp(min=1)
            return ((chosen / lengths[:rows] - rejected / lengths[rows:] - 1 / (2 * beta)) ** 2).mean()
        means = sums / counts.clamp(min=1)
        chosen, rejected = means[:rows], means[rows:]
        if kind == "simpo":
            return -logsigmoid(beta * (chosen - rejected) - gamma).mean()
        odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
        nll = -sums[:rows].sum() / counts[:rows].sum().clamp(min=1)
        return nll - beta * logsigmoid(odds).mean()
    return call


def export(model: torch.nn.Module, forward: Callable[[Forward], Forward], inputs: dict[str, torch.Tensor], to: pathlib.Path) -> None:
    """Writes the program; `inputs` have the shapes of one rank's micro-batch."""
    call = forward(model.forward)

    def named(**given: torch.Tensor) -> Any:  # not "forward": the compiler takes a forward that no module has for a function's
        return call(**given)
    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in inputs])
    model.forward = named  # type: ignore[method-assign]
    try:
        program = _hooks.export(model, (), part_tensors({name: value.to("meta") for name, value in inputs.items()}), strict=False)
    finally:
        del model.forward
    to.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, to)
