# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The data sets of a file as rows, for training and for validation."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _samples, _sources, data, errors
from ._recipe import DataSet, Recipe
from .tensor_file import write_tensors

PAIRS = ("chosen_ids", "chosen_labels", "rejected_ids", "rejected_labels")


class Prepared(NamedTuple):
    """Files of rows."""

    train: pathlib.Path
    rows: int
    validation: pathlib.Path | None
    validation_rows: int


def prepare(recipe: Recipe, tokenizer: Any) -> Prepared:
    """Writes what is not there yet. A file's name holds what it depends on: another one is made of other data, lengths or templates."""
    folder = recipe.output / "data"
    folder.mkdir(parents=True, exist_ok=True)
    template = getattr(tokenizer, "chat_template", None)
    told = [recipe.length, recipe.packs, recipe.validation, recipe.seed, recipe.loss, str(template), len(tokenizer),
            *(_fingerprint(each) for each in recipe.datasets), "|", *(_fingerprint(each) for each in recipe.test_datasets)]
    name = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
    train, validation, note = (folder / f"{kind}-{name}{suffix}" for kind, suffix in
                               (("train", ".safetensors"), ("validation", ".safetensors"), ("rows", ".json")))
    if not note.exists():
        write = _write_pairs if recipe.loss else _write_rows
        found = _count(recipe) if recipe.validation >= 1 and not recipe.test_datasets else 0
        if found and found <= recipe.validation:
            raise errors.make("E044", f"{recipe.path}: 'val_set_size': expected fewer than the {found} samples that there are, found {recipe.validation:g}")
        share = recipe.validation / found if found else recipe.validation
        rows = write(recipe, tokenizer, _split(recipe.datasets, share if not recipe.test_datasets else 0.0, recipe.seed, False), train)
        more = 0
        if recipe.test_datasets:
            more = write(recipe, tokenizer, _split(recipe.test_datasets, 0.0, recipe.seed, False), validation)
        elif share:
            more = write(recipe, tokenizer, _split(recipe.datasets, share, recipe.seed, True), validation)
        temporary = note.with_suffix(".new")
        temporary.write_text(json.dumps({"train": rows, "validation": more}))
        os.replace(temporary, note)
    counts = json.loads(note.read_text())
    return Prepared(train, counts["train"], validation if counts["validation"] else None, counts["validation"])


def _fingerprint(dataset: DataSet) -> list[Any]:
    files: list[Any] = []
    if not dataset.path.startswith("hf:"):
        files = [[path, os.stat(path).st_size, os.stat(path).st_mtime_ns] for path in _sources.find_files(dataset.path)]
    return [dataset.path, dataset.form, dataset.column, dataset.split, *dataset.train_on, *files]


_Found = tuple[DataSet, str, Any]


def _read(datasets: list[DataSet]) -> Iterator[_Found]:
    for dataset in datasets:
        for where, document in _sources.read_documents(dataset.path, dataset.split):
            yield dataset, where, document


def _count(recipe: Recipe) -> int:
    return sum(1 for _ in _read(recipe.datasets))


def _split(datasets: list[DataSet], share: float, seed: int, chosen: bool) -> Iterator[_Found]:
    """Each sample is drawn for validation or not, in both passes alike."""
    draw = random.Random(seed)
    for found in _read(datasets):
        if (draw.random() < share) == chosen:
            yield found


def _write_rows(recipe: Recipe, tokenizer: Any, found: Iterator[_Found], target: pathlib.Path) -> int:
    forms: dict[int, _samples.Form] = {}

    def encode() -> Iterator[dict[str, list[int]]]:
        for dataset, where, document in found:
            form = forms.setdefault(id(dataset), _samples.FORMS[dataset.form](tokenizer, dataset.column, dataset.train_on))
            sample = form.encode(document, where)
            yield {"input_ids": sample.ids, "labels": sample.labels}
    written = data.write_rows(encode(), target, tokenizer=tokenizer, length=recipe.length, form="rows", pack=recipe.packs, position_ids=recipe.packs)
    print(f"{target}: {written.documents - written.skipped} samples in {written.rows} rows of {recipe.length} tokens"
          + (f"; {written.skipped} are longer than that, or train nothing, and are left out" if written.skipped else ""), flush=True)
    return written.rows


def _write_pairs(recipe: Recipe, tokenizer: Any, found: Iterator[_Found], target: pathlib.Path) -> int:
    import torch
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    columns: dict[str, list[list[int]]] = {name: [] for name in PAIRS}
    skipped = 0
    for _, where, document in found:
        pair = [_answer(tokenizer, document, name, where) for name in ("chosen", "rejected")]
        if any(len(each.ids) > recipe.length for each in pair):
            skipped += 1
            continue
        for name, each in zip(("chosen", "rejected"), pair):
            missing = recipe.length - len(each.ids)
            columns[f"{name}_ids"].append(each.ids + [pad] * missing)
            columns[f"{name}_labels"].append(each.labels + [_samples.IGNORED] * missing)
    rows = len(columns["chosen_ids"])
    if not rows:
        raise errors.make("E080", f"datasets: expected pairs of up to {recipe.length} tokens, found none among {skipped}")
    write_tensors(target, {name: torch.tensor(each) for name, each in columns.items()})
    print(f"{target}: {rows} pairs of {recipe.length} tokens" + (f"; {skipped} are longer, and are left out" if skipped else ""), flush=True)
    return rows


def _answer(tokenizer: Any, document: Any, name: str, where: str) -> _samples.Sample:
    """`prompt` and `chosen` or `rejected`, texts or lists of messages; or without a prompt two lists that begin alike."""
    if not isinstance(document, dict) or name not in document:
        found = ", ".join(map(str, document)) if isinstance(document, dict) else type(document).__name__
        raise errors.make("E080", f"{where}: expected 'prompt', 'chosen' and 'rejected', found {found}")
    prompt, answer = document.get("prompt"), document[name]
    if isinstance(answer, list) and not prompt:
        prompt, answer = answer[:-1], answer[-1:]
    elif isinstance(answer, dict):
        answer = [answer]
    if isinstance(prompt, str) and isinstance(answer, list):
        prompt = [{"role": "user", "content": prompt}]
    return _samples.PromptCompletion(tokenizer, "", ["assistant"]).encode({"prompt": prompt, "completion": answer}, where)
