# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of several lengths: which inputs have as many numbers as tokens, and what stands behind shorter rows."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import transformers

from . import _training_arguments, errors
from ._training_rows import Rows

# What is behind shorter rows where a mask hides it, unless somebody says otherwise.
_PADS: dict[str, float] = {"input_ids": 0, "token_type_ids": 0}

_PROGRAMS = 4
_PROBED = 256
_MULTIPLE = 8


def check_lengths(given: Iterable[int] | None, pad: Mapping[str, float] | None, tokenizer: Any) -> tuple[list[int], dict[str, float]]:
    """What the trainer was told: lengths, and what inputs have behind shorter rows."""
    lengths, values = sorted(set(given or ())), dict(pad or {})
    if given is not None and (len(lengths) < 2 or lengths[0] < 1):
        raise _training_arguments.refuse("lengths", f"expected two numbers of tokens or more, found {lengths}")
    known = getattr(tokenizer, "pad_token_id", None)
    if known is not None:
        values.setdefault("input_ids", known)
    return lengths, values


def _probe(rows: Rows, row: int) -> Mapping[str, Any]:
    """A batch of one row alone, which draws nothing that the training would draw."""
    with torch.random.fork_rng(devices=[]):
        return rows.collate([rows.dataset[row] for _ in range(rows.size)])


def _count(batch: Mapping[str, Any], main: str) -> int | None:
    value = batch.get(main)
    return value.shape[1] if isinstance(value, torch.Tensor) and value.dim() > 1 else None


def choose_lengths(rows: Rows, others: Iterable[Any], model: Any, is_causal: bool) -> tuple[list[int], dict[str, float]]:
    """For batches of different lengths some that waste little: of the longest row of a step the quarters, and the longest of all rows.

    And what is behind shorter rows. Nothing if batches have one length, or if their inputs do not all have a number for each token.
    `others`: datasets that are read, too.
    """
    dataset, main = rows.dataset, getattr(model, "main_input_name", "input_ids")
    config = getattr(model, "config", None)
    with torch.random.fork_rng(devices=[]):
        first = dataset[0]
        if not (isinstance(first, Mapping) and main in first and _is_row(first[main])):
            return [], {}
        some = {len(dataset[row][main]) for row in range(0, len(dataset), max(1, len(dataset) // _PROBED))}
        if len(some) < 2:
            return [], {}
        counts = count_tokens(dataset, "", main)
    shortest, longest = (pick(range(len(counts)), key=counts.__getitem__) for pick in (min, max))
    batches = [_probe(rows, row) for row in (shortest, longest)]
    low, high = (_count(batch, main) for batch in batches)
    if low is None or high is None or low == high:
        return [], {}
    for name, value in batches[0].items():
        if isinstance(value, torch.Tensor) and value.dim() > 1 and value.shape[1] != batches[1][name].shape[1] and value.shape[1] != low:
            return [], {}
    if "attention_mask" not in batches[0] and not is_causal:
        raise _training_arguments.refuse("data_collator", "makes batches of different lengths without 'attention_mask', so that the model would see what is behind "
                                                          "shorter rows; give it a mask, or pad all rows to one length")
    added = max(0, high - counts[longest])  # of what the collator puts to a row, or rounds up to
    of_step = rows.size * rows.place.all * rows.parts
    order = rows.order(0)
    steps = sorted(max(counts[row] for row in order[begin:begin + of_step]) for begin in range(0, len(order), of_step))
    evaluated = [max(count_tokens(each, "", main), default=0) for each in others if hasattr(each, "__len__")]
    greatest = max([high, *(each + added for each in evaluated)])
    wanted = [steps[min(len(steps) - 1, len(steps) * part // _PROGRAMS)] + added for part in range(1, _PROGRAMS)]
    most = getattr(config, "max_position_embeddings", None)
    lengths = sorted({min(_round(each, most), _round(greatest, most)) for each in [*wanted, greatest]})
    known = {**_PADS, **({"input_ids": config.pad_token_id} if getattr(config, "pad_token_id", None) is not None else {})}
    return (lengths if len(lengths) > 1 else [max(2, lengths[0] // 2), lengths[0]]), {name: value for name, value in known.items() if name in batches[0]}


def _round(tokens: int, most: int | None) -> int:
    up = math.ceil(tokens / _MULTIPLE) * _MULTIPLE
    return most if most is not None and tokens <= most < up else up


def _is_row(value: Any) -> bool:
    """Whether it has something for each token."""
    return isinstance(value, (list, tuple)) or (hasattr(value, "ndim") and value.ndim > 0)


def collate_rows(features: list[Any], pad: Mapping[str, float], names: list[str]) -> Mapping[str, Any]:
    """Pads to the longest row what has a number for each of its tokens. `names`: what the model's forward takes."""
    def is_ragged(name: str) -> bool:
        return all(_is_row(each[name]) and len(each[name]) == len(each["input_ids"]) for each in features)
    ragged = [name for name in features[0] if is_ragged(name)] if "input_ids" in features[0] else []
    batch: dict[str, Any] = transformers.default_data_collator([{name: value for name, value in each.items() if name not in ragged}
                                                                 for each in features])
    for name in ragged:
        rows = [torch.as_tensor(each[name]) for each in features]
        value = pad.get(name, {"labels": -100, "attention_mask": 0}.get(name))
        if value is None:
            if len({len(row) for row in rows}) > 1:
                raise errors.make("E087", f"pad: nothing says what is behind shorter rows of '{name}'; expected pad={{'{name}': VALUE}}, or a "
                                          "tokenizer with a pad_token_id as processing_class")
            value = 0
        batch[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)
    if "attention_mask" in names and "attention_mask" not in batch and "input_ids" in ragged:
        rows = [torch.ones(len(each["input_ids"]), dtype=torch.int64) for each in features]
        batch["attention_mask"] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return batch


def count_tokens(dataset: Any, column: str, main: str) -> list[int]:
    """Tokens of each row: its column of that name, or of its input `main`."""
    if not hasattr(dataset, "__len__"):
        raise _training_arguments.refuse("train_sampling_strategy", "'group_by_length' needs a train_dataset with a length")
    if column in (getattr(dataset, "column_names", None) or ()):
        return list(dataset[column])
    return [len(dataset[number][main]) for number in range(len(dataset))]


def find_ragged(model: Any, batch: Mapping[str, torch.Tensor]) -> list[str]:
    """Inputs with a number for each token: as long as the main one."""
    name = getattr(model, "main_input_name", "input_ids")
    main = batch.get(name)
    if main is None or main.dim() < 2:
        raise _training_arguments.refuse("lengths", f"expected rows of tokens as '{name}', found {', '.join(batch)}")
    if main.shape[1] < 2:
        raise _training_arguments.refuse("train_dataset", "expected more than one token in the rows of the first batch, with which the model is exported")
    return [name for name, value in batch.items() if value.dim() > 1 and value.shape[1] == main.shape[1]]
