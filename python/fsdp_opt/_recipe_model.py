# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model's folder as programs, without its weights, and its losses."""
from __future__ import annotations

import contextlib
import inspect
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from . import _hooks, _sources, errors
from ._recipe_distillation import PREFIX, Distillation
from ._recipe_losses import Preference, Terms
from ._samples import IGNORED
from .compiler import part_tensors

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

    def take_in(self, teacher: Base) -> None:
        """Makes another model a frozen part of this one."""
        self.model.add_module(PREFIX.rstrip("."), teacher.model.requires_grad_(False).eval())
        self.ties += [[PREFIX + name for name in group] for group in teacher.ties]

    def weights(self) -> str:
        """The folder of its weights."""
        if pathlib.Path(self.name).is_dir():
            return self.name
        hub = _sources.need("huggingface_hub", f"the model '{self.name}' of the hub")
        return str(hub.snapshot_download(self.name, allow_patterns=["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]))


def check_same_tokens(base: Base, other: Base, key: str) -> None:
    """Refuses a model that reads or says other tokens."""
    sizes = [each.model.config.get_text_config().vocab_size for each in (base, other)]
    if sizes[0] != sizes[1]:
        raise errors.make("E044", f"'{key}': expected a model of {sizes[0]} tokens, as '{base.name}' has, found {sizes[1]} in '{other.name}'")
    words, others = (each.tokenizer.get_vocab() for each in (base, other))
    if words != others:
        differs = next((word for word, number in words.items() if others.get(word) != number), None) or next(iter(set(others) - set(words)))
        raise errors.make("E044", f"'{key}': expected the tokenizer of '{base.name}', found another one in '{other.name}': {differs!r} is {others.get(differs)} "
                                  f"and not {words.get(differs)}")


# What the model's forward is for a program, given its own. None has an inner module, so that names stay the model's.

Forward = Callable[..., Any]


def next_token(own: Forward) -> Forward:
    """The model's own loss, and nothing else."""
    def call(**inputs: torch.Tensor) -> Any:
        return own(**inputs, use_cache=False).loss
    return call


def smoothed(factor: float) -> Callable[[Forward], Forward]:
    """The loss of transformers' LabelSmoother, the mean over labels that count."""
    def forward(own: Forward) -> Forward:
        def call(labels: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
            logits = own(**inputs, use_cache=False).logits[:, :-1].float()
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), label_smoothing=factor)
        return call
    return forward


class _Read(NamedTuple):
    """What the model thinks of a sequence."""

    each: torch.Tensor
    """Log-probabilities of all tokens but the first."""
    counts: torch.Tensor
    """Which of them count."""


def distilled(own: Forward, teacher: Forward, wanted: Distillation) -> Forward:
    """The model's own loss, and how far it is from what the teacher says of the labels that count; both means over them."""
    def call(labels: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        told = own(labels=labels, **inputs, use_cache=False)
        counts = labels[:, 1:] != IGNORED
        each = wanted.compare(*(logits[:, :-1].float() for logits in (told.logits, teacher(**inputs, use_cache=False).logits)))
        return wanted.ce_weight * told.loss + wanted.alpha * (each * counts).sum() / counts.sum().clamp(min=1)
    return call


def _judge(own: Forward, wanted: Preference, inputs: dict[str, torch.Tensor]) -> dict[str, _Read]:
    """All answers. Those that need no gradient are read by themselves."""
    found: dict[str, _Read] = {}
    fixed = tuple(name for name in wanted.answers if name == "mismatched")
    for names in (tuple(name for name in wanted.answers if name not in fixed), fixed):
        if not names:
            continue
        ids, labels = (torch.cat([inputs[f"{name}_{what}"] for name in names]) for what in ("ids", "labels"))
        logits = own(input_ids=ids, use_cache=False).logits[:, :-1].float()
        # Of labels, which are the tokens where they count.
        each = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        counts = labels[:, 1:] != IGNORED
        rows = len(ids) // len(names)
        for place, name in enumerate(names):
            at = slice(place * rows, place * rows + rows)
            found[name] = _Read(each[at].detach() if name in fixed else each[at], counts[at])
    return found


def reference(own: Forward, wanted: Preference) -> Forward:
    """What the model as it is thinks of all answers."""
    def call(**inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"reference_{name}": (read.each * read.counts).sum(-1) for name, read in _judge(own, wanted, inputs).items()}
    return call


def preference(own: Forward, wanted: Preference) -> Forward:
    """A loss over answers, by what the model and its reference think of them."""
    def call(**inputs: torch.Tensor) -> torch.Tensor:
        found = _judge(own, wanted, inputs)
        sums = {name: (read.each * read.counts).sum(-1) for name, read in found.items()}
        ratios = {name: value - inputs[f"reference_{name}"] for name, value in sums.items() if wanted.is_compared}
        whole = None
        if (tokens := inputs.get("chosen_tokens")) is not None:
            each = found["chosen"].each
            there = torch.arange(1, each.shape[1] + 1, device=each.device) < tokens.unsqueeze(-1)
            whole = (each * there).sum(-1), there.sum(-1)
        return wanted.compute(Terms(sums, {name: read.counts.sum(-1) for name, read in found.items()}, ratios, whole, inputs.get("desirable"), wanted))
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
