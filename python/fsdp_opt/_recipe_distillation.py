# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Distillation: a student that is to say of each token what its teacher says."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

PREFIX = "teacher."
"""In front of the names of the teacher's parameters."""


@dataclass(frozen=True)
class Distillation:
    """What a file asks for by `kd`, or by Axolotl's keys."""

    teacher: str
    temperature: float = 1.0
    alpha: float = 1.0
    ce_weight: float = 0.0
    beta: float = 0.0
    """0: the divergence from the teacher, KL(teacher | student); 1: the other way round; between: from their mixture (generalised Jensen-Shannon)."""

    def compare(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        """Of each token, by logits of both; times the square of the temperature, so that gradients keep their size."""
        own, other = (torch.log_softmax(logits / self.temperature, -1) for logits in (student, teacher))
        if self.beta == 0:
            found = _diverge(other, own)
        elif self.beta == 1:
            found = _diverge(own, other)
        else:
            mixture = torch.logaddexp(other + math.log(self.beta), own + math.log1p(-self.beta))
            found = self.beta * _diverge(other, mixture) + (1 - self.beta) * _diverge(own, mixture)
        return found * self.temperature**2


def _diverge(true: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(true | other) of log-probabilities."""
    return (true.exp() * (true - other)).sum(-1)


# A member, what it is called in `kd` and in Axolotl's files, and its least and greatest value.
NUMBERS = (("temperature", "kd_temperature", 1e-3, 1e3), ("alpha", "kd_alpha", 0, 1e6), ("ce_weight", "kd_ce_alpha", 0, 1e6), ("beta", "kd_beta", 0, 1))
_OTHER = ("kd", "kd_teacher", "kd_trainer", "kd_normalize_topk")
OWN = (*_OTHER, *(foreign for _, foreign, _, _ in NUMBERS))
_ONLINE = ("kd_online_server_base_url", "kd_online_topk", "kd_online_server", "kd_temperature_min")


def read(keys: Mapping[str, Any], refuse: Callable[..., Exception]) -> Distillation | None:
    """By `refuse(message, error)`, which makes an error of the file."""
    online = next((name for name in _ONLINE if keys.get(name) is not None), None)
    if online:
        raise refuse(f"'{online}': a server of logits is not asked; 'kd_teacher' names the teacher's folder, which is part of the same program", "E045")
    given = keys.get("kd") or {}
    if not isinstance(given, Mapping):
        raise refuse(f"'kd': expected a map such as {{teacher: FOLDER, temperature: 2}}, found {given!r}", "E043")
    known = {"teacher": "kd_teacher", **{own: foreign for own, foreign, _, _ in NUMBERS}}
    other = next((name for name in given if name not in known), None)
    if other:
        raise refuse(f"'kd': expected keys out of {', '.join(known)}, found '{other}'", "E042")
    told = {own: given[own] if own in given else keys.get(foreign) for own, foreign in known.items()}
    if all(value is None for value in told.values()) and not keys.get("kd_trainer"):
        return None
    if not isinstance(told["teacher"], str):
        raise refuse("'kd' needs 'teacher', the folder or name of a model whose tokens are the same (in an Axolotl file 'kd_teacher'; rows of log-probabilities "
                     f"that somebody has written are not read), found {told['teacher']!r}", "E046")
    numbers = {}
    for name, foreign, least, most in NUMBERS:
        value = told[name]
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise refuse(f"'{name if name in given else foreign}': expected a number from {least:g} to {most:g}, found {value!r}", "E044")
        numbers[name] = float(value)
    wanted = Distillation(told["teacher"], **numbers)
    if not wanted.alpha and not wanted.ce_weight:
        raise refuse("'kd': 'alpha' and 'ce_weight' are both 0, which trains nothing; expected one above", "E044")
    return wanted
