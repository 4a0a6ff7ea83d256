# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of judged answers: pairs of a better and a worse one, or single ones that are good or bad."""
from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _samples, errors
from ._recipe import DataSet, Recipe
from ._recipe_losses import NUMBERS
from .tensor_file import write_tensors

Found = tuple[DataSet, str, Any]
_Row = dict[str, _samples.Sample]

# Where documents of Axolotl's KTO types have the question.
_QUESTIONS = {"argilla": "instruction", "intel": "question", "prompt_pairs": "prompt", "ultra": "prompt"}


def write(recipe: Recipe, tokenizer: Any, found: Iterator[Found], target: pathlib.Path) -> int:
    """All rows, as long as the recipe says; how many there are."""
    import torch
    loss = recipe.loss
    assert loss is not None
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    rows: list[_Row] = []
    desirable: list[float] = []  # a row's number of that name
    skipped = 0
    read = _read_answer if loss.is_unpaired else _read_pair
    for dataset, where, document in found:
        row, good = read(tokenizer, dataset, document, where)
        if any(len(each.ids) > recipe.length for each in row.values()):
            skipped += 1
            continue
        rows.append(row)
        desirable.append(good)
    if not rows:
        raise errors.make("E080", f"datasets: expected {_WORDS[loss.is_unpaired]} of up to {recipe.length} tokens, found none among {skipped}")
    left = 0
    if "mismatched" in loss.answers:
        left = _mismatch(rows, recipe)
    columns: dict[str, Any] = {}
    for name in loss.answers:
        for what, behind in (("ids", pad), ("labels", _samples.IGNORED)):
            values = [getattr(row[name], what) for row in rows]
            columns[f"{name}_{what}"] = torch.tensor([each + [behind] * (recipe.length - len(each)) for each in values])
    numbers = {"desirable": lambda: desirable[:len(rows)], "chosen_tokens": lambda: [len(row["chosen"].ids) for row in rows]}
    columns |= {name: torch.tensor(numbers[name](), dtype=NUMBERS[name]) for name in loss.numbers}
    write_tensors(target, columns)
    print(f"{target}: {len(rows)} {_WORDS[loss.is_unpaired]} of {recipe.length} tokens" + (f"; {skipped} are longer, and are left out" if skipped else "")
          + (f"; the last {left} fill no micro-batch, and are left out" if left else ""), flush=True)
    return len(rows)


_WORDS = {False: "pairs", True: "answers"}


def _mismatch(rows: list[_Row], recipe: Recipe) -> int:
    """Gives each row the answer of the one in front of it in its micro-batch, the first one that of the last. Returns how many fill none."""
    count = len(rows) // recipe.rows * recipe.rows
    if not count:
        raise errors.make("E080", f"datasets: expected answers for a micro-batch of {recipe.rows} rows, found {len(rows)}")
    left = len(rows) - count
    del rows[count:]
    for first in range(0, count, recipe.rows):
        group = rows[first:first + recipe.rows]
        for row, other in zip(group, [group[-1], *group[:-1]]):
            asked, (ids, labels) = _begin(row["answer"]), other["answer"]
            begin = _begin(other["answer"])
            row["mismatched"] = _samples.Sample((row["answer"].ids[:asked] + ids[begin:])[:recipe.length],
                                                (row["answer"].labels[:asked] + labels[begin:])[:recipe.length])
    return left


def _begin(sample: _samples.Sample) -> int:
    """Where the answer begins."""
    return next((place for place, label in enumerate(sample.labels) if label != _samples.IGNORED), len(sample.labels))


def _read_pair(tokenizer: Any, dataset: DataSet, document: Any, where: str) -> tuple[_Row, float]:
    return {name: _encode_pair(tokenizer, document, name, where) for name in ("chosen", "rejected")}, 0.0


def _encode_pair(tokenizer: Any, document: Any, name: str, where: str) -> _samples.Sample:
    """`prompt` and `chosen` or `rejected`, texts or lists of messages; or without a prompt two lists that begin alike."""
    if not isinstance(document, dict) or name not in document:
        raise errors.make("E080", f"{where}: expected 'prompt', 'chosen' and 'rejected', found {_describe(document)}")
    return _encode(tokenizer, document.get("prompt"), document[name], where)


def _encode(tokenizer: Any, prompt: Any, answer: Any, where: str) -> _samples.Sample:
    if isinstance(answer, list) and not prompt:
        prompt, answer = answer[:-1], answer[-1:]
    elif isinstance(answer, dict):
        answer = [answer]
    if isinstance(prompt, str) and isinstance(answer, list):
        prompt = [{"role": "user", "content": prompt}]
    return _samples.PromptCompletion(tokenizer, "", ["assistant"]).encode({"prompt": prompt, "completion": answer}, where)


def _describe(document: Any) -> str:
    return ", ".join(map(str, document)) if isinstance(document, dict) else type(document).__name__


def _take(document: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in document:
        raise errors.make("E080", f"{where}: expected '{name}', found {_describe(document)}")
    return document[name]


def _read_answer(tokenizer: Any, dataset: DataSet, document: Any, where: str) -> tuple[_Row, float]:
    """As TRL has them: `prompt`, `completion`, texts or lists of messages, and `label`; or by one of Axolotl's types."""
    if not isinstance(document, dict):
        raise errors.make("E080", f"{where}: expected 'prompt', 'completion' and 'label', found {_describe(document)}")
    kind = dataset.kind
    label = _take(document, str(kind.get("field_label", "label")) if isinstance(kind, Mapping) else "label", where)
    if not isinstance(label, (bool, int, float)) or label not in (0, 1):
        raise errors.make("E082", f"{where}: expected true or false as the label, found {label!r:.40}")
    make: Callable[[Any, Mapping[str, Any], str], tuple[Any, Any]] = _by_fields if isinstance(kind, Mapping) else _by_type
    prompt, answer = make(kind, document, where)
    return {"answer": _encode(tokenizer, prompt, answer, where)}, float(label)


def _by_fields(kind: Mapping[str, Any], document: Mapping[str, Any], where: str) -> tuple[Any, Any]:
    """Texts, by the names and formats that the type has."""
    found = {name: document.get(str(kind.get(f"field_{name}", name))) for name in ("system", "prompt", "completion")}
    for name in ("prompt", "completion"):
        if not isinstance(found[name], str):
            raise errors.make("E080", f"{where}: expected a text as '{kind.get(f'field_{name}', name)}', found {_describe(document)}")
    formats = [str(kind.get(f"{name}_format") or f"{{{name}}}") for name in ("prompt", "completion")]
    prompt, completion = (re.sub(r"\{(system|prompt|completion)\}", lambda match: str(found[match[1]] or ""), each) for each in formats)
    return prompt, completion


def _by_type(kind: Any, document: Mapping[str, Any], where: str) -> tuple[Any, Any]:
    """Messages where the type's name says which field is the question, through the tokenizer's own template; else what the document has."""
    kind = str(kind or "").partition(".")[2]
    if kind == "argilla_chat":
        return None, _take(document, "completion", where)
    if kind not in _QUESTIONS:
        return document.get("prompt"), _take(document, "completion", where)
    asked = [{"role": "user", "content": _take(document, _QUESTIONS[kind], where)}]
    if document.get("system"):
        asked.insert(0, {"role": "system", "content": document["system"]})
    return asked, [{"role": "assistant", "content": _take(document, "completion", where)}]
