# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses over answers that somebody has judged, by the formulas of TRL's trainers: a row of LOSSES each."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.functional import logsigmoid, relu, sigmoid


class Terms(NamedTuple):
    """What losses are made of: for each row of a micro-batch, by the name of an answer."""

    sums: Mapping[str, torch.Tensor]
    """Log-probabilities of the labels that count, added up."""
    counts: Mapping[str, torch.Tensor]
    """How many these are."""
    ratios: Mapping[str, torch.Tensor]
    """The sums less what the reference says; of losses without one empty."""
    whole: tuple[torch.Tensor, torch.Tensor] | None
    """The same sum and count of the better answers with their prompts."""
    desirable: torch.Tensor | None
    """1 for an answer that is to be likelier, 0 for one that is not."""
    of: Preference

    @property
    def difference(self) -> torch.Tensor:
        return self.ratios["chosen"] - self.ratios["rejected"]

    def mean(self, name: str, of: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Of a label."""
        return of[name] / self.counts[name].clamp(min=1)


class Loss(NamedTuple):
    """A row of LOSSES."""

    compute: Callable[[Terms], torch.Tensor]
    """Of each row; of "orpo" and "sft" the mean."""
    answers: tuple[str, ...] = ("chosen", "rejected")
    is_compared: bool = True  # with a reference
    smooths: bool = False  # reads label_smoothing
    numbers: tuple[str, ...] = ()  # of a row beside its answers, of NUMBERS
    beta: float = 0.1


@dataclass(frozen=True)
class Preference:
    """What a file asks for by `rl` and the keys beside it."""

    kind: str
    parts: tuple[tuple[str, float], ...]
    """Names of LOSSES[kind], and what each is multiplied with."""
    beta: float
    gamma: float = 0.5
    smoothing: float = 0.0
    desirable: float = 1.0
    undesirable: float = 1.0

    def _rows(self) -> list[Loss]:
        return [LOSSES[self.kind][name] for name, _ in self.parts]

    @property
    def answers(self) -> tuple[str, ...]:
        """The sequences of a row that the model reads."""
        return tuple(dict.fromkeys(name for loss in self._rows() for name in loss.answers))

    @property
    def is_compared(self) -> bool:
        return any(loss.is_compared for loss in self._rows())

    @property
    def is_unpaired(self) -> bool:
        return self.kind == "kto"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Those of tokens; others have one number of a row."""
        return tuple(f"{name}_{what}" for name in self.answers for what in ("ids", "labels"))

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for loss in self._rows() for name in loss.numbers))

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(f"reference_{name}" for name in self.answers) if self.is_compared else ()

    def compute(self, terms: Terms) -> torch.Tensor:
        total = None
        for name, weight in self.parts:
            value = LOSSES[self.kind][name].compute(terms).mean()
            value = value if weight == 1 else weight * value
            total = value if total is None else total + value
        assert total is not None
        return total


# Over pairs, with a reference.


def _sigmoid(terms: Terms) -> torch.Tensor:
    return -logsigmoid(terms.of.beta * terms.difference)


def _hinge(terms: Terms) -> torch.Tensor:
    return relu(1 - terms.of.beta * terms.difference)


def _ipo(terms: Terms) -> torch.Tensor:
    return (terms.mean("chosen", terms.ratios) - terms.mean("rejected", terms.ratios) - 1 / (2 * terms.of.beta)) ** 2


def _robust(terms: Terms) -> torch.Tensor:
    margin, flipped = terms.of.beta * terms.difference, terms.of.smoothing
    return (flipped * logsigmoid(-margin) - (1 - flipped) * logsigmoid(margin)) / (1 - 2 * flipped)


def _nca_pair(terms: Terms) -> torch.Tensor:
    chosen, rejected = (terms.of.beta * terms.ratios[name] for name in ("chosen", "rejected"))
    return -logsigmoid(chosen) - 0.5 * logsigmoid(-chosen) - 0.5 * logsigmoid(-rejected)


def _bco_pair(terms: Terms) -> torch.Tensor:
    return -logsigmoid(terms.of.beta * terms.ratios["chosen"]) - logsigmoid(-terms.of.beta * terms.ratios["rejected"])


def _sigmoid_norm(terms: Terms) -> torch.Tensor:
    return -logsigmoid(terms.of.beta * (terms.mean("chosen", terms.ratios) - terms.mean("rejected", terms.ratios)))


def _sppo_hard(terms: Terms) -> torch.Tensor:
    half = 0.5 / terms.of.beta
    return (terms.ratios["chosen"] - half) ** 2 + (terms.ratios["rejected"] + half) ** 2


def _apo_zero(terms: Terms) -> torch.Tensor:
    return 1 - sigmoid(terms.of.beta * terms.ratios["chosen"]) + sigmoid(terms.of.beta * terms.ratios["rejected"])


def _apo_down(terms: Terms) -> torch.Tensor:
    return sigmoid(terms.of.beta * terms.ratios["chosen"]) + 1 - sigmoid(terms.of.beta * terms.difference)


def _sft(terms: Terms) -> torch.Tensor:
    return -terms.sums["chosen"].sum() / terms.counts["chosen"].sum().clamp(min=1)


# Over pairs, without one.


def _simpo(terms: Terms) -> torch.Tensor:
    return -logsigmoid(terms.of.beta * (terms.mean("chosen", terms.sums) - terms.mean("rejected", terms.sums)) - terms.of.gamma)


def _orpo(terms: Terms) -> torch.Tensor:
    chosen, rejected = terms.mean("chosen", terms.sums), terms.mean("rejected", terms.sums)
    odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    assert terms.whole is not None
    total, count = (each.sum() for each in terms.whole)
    return -total / count - terms.of.beta * logsigmoid(odds).mean()


# Over single answers.


def _weigh(terms: Terms, good: torch.Tensor, bad: torch.Tensor) -> torch.Tensor:
    assert terms.desirable is not None
    return torch.where(terms.desirable > 0.5, terms.of.desirable * good, terms.of.undesirable * bad)


def _kto(terms: Terms) -> torch.Tensor:
    """The divergence is estimated by answers that belong to other prompts of the micro-batch, and is a constant to the gradient."""
    divergence = terms.ratios["mismatched"].detach().mean().clamp(min=0)
    gain = terms.of.beta * (terms.ratios["answer"] - divergence)
    return _weigh(terms, 1 - sigmoid(gain), 1 - sigmoid(-gain))


def _apo_zero_unpaired(terms: Terms) -> torch.Tensor:
    gain = sigmoid(terms.of.beta * terms.ratios["answer"])
    return _weigh(terms, 1 - gain, gain)


NUMBERS = {"desirable": torch.float32, "chosen_tokens": torch.int64}

# By `rl`, then by `loss_type`, of which the first is the default.
LOSSES: dict[str, dict[str, Loss]] = {
    "dpo": {"sigmoid": Loss(_sigmoid), "hinge": Loss(_hinge), "ipo": Loss(_ipo), "robust": Loss(_robust, smooths=True), "nca_pair": Loss(_nca_pair),
            "bco_pair": Loss(_bco_pair), "sigmoid_norm": Loss(_sigmoid_norm), "sppo_hard": Loss(_sppo_hard), "apo_zero": Loss(_apo_zero), "apo_down": Loss(_apo_down), "sft": Loss(_sft, is_compared=False)},
    "ipo": {"ipo": Loss(_ipo)},
    "kto": {"kto": Loss(_kto, ("answer", "mismatched"), numbers=("desirable",)),
            "apo_zero_unpaired": Loss(_apo_zero_unpaired, ("answer",), numbers=("desirable",))},
    "orpo": {"orpo": Loss(_orpo, is_compared=False, numbers=("chosen_tokens",))},
    "simpo": {"simpo": Loss(_simpo, is_compared=False, beta=2.0)},
}
