# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of several lengths: which inputs have as many numbers as tokens, and what stands behind shorter rows."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers

from . import _training_arguments, errors


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
