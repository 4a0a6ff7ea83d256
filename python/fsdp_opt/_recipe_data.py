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

from . import _recipe_answers, _samples, _sources, data, errors
from ._recipe import DataSet, Recipe
from ._recipe_answers import Found


class Prepared(NamedTuple):
    """Files of rows."""

    train: pathlib.Path
    rows: int
    validation: pathlib.Path | None
    validation_rows: int
    documents_per_row: int
    """Of both; 0 where rows are not packed."""


def prepare(recipe: Recipe, tokenizer: Any) -> Prepared:
    """Writes what is not there yet. A file's name holds what it depends on: another one is made of other data, lengths or templates."""
    folder = recipe.output / "data"
    folder.mkdir(parents=True, exist_ok=True)
    template = getattr(tokenizer, "chat_template", None)
    told = ["counted", recipe.length, recipe.packs, recipe.validation, recipe.seed, recipe.loss and [recipe.loss.kind, recipe.loss.answers], str(template), len(tokenizer),
            *([recipe.rows] if recipe.loss and "mismatched" in recipe.loss.answers else []),
            *(_fingerprint(each) for each in recipe.datasets), "|", *(_fingerprint(each) for each in recipe.test_datasets)]
    name = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
    train, validation, note = (folder / f"{kind}-{name}{suffix}" for kind, suffix in
                               (("train", ".safetensors"), ("validation", ".safetensors"), ("rows", ".json")))
    if not note.exists():
        write = _write_answers if recipe.loss else _write_rows
        found = _count(recipe) if recipe.validation >= 1 and not recipe.test_datasets else 0
        if found and found <= recipe.validation:
            raise errors.make("E044", f"{recipe.path}: 'val_set_size': expected fewer than the {found} samples that there are, found {recipe.validation:g}")
        share = recipe.validation / found if found else recipe.validation
        rows = write(recipe, tokenizer, _split(recipe.datasets, share if not recipe.test_datasets else 0.0, recipe.seed, False), train)
        more = (0, 0)
        if recipe.test_datasets:
            more = write(recipe, tokenizer, _split(recipe.test_datasets, 0.0, recipe.seed, False), validation)
        elif share:
            more = write(recipe, tokenizer, _split(recipe.datasets, share, recipe.seed, True), validation)
        temporary = note.with_suffix(".new")
        temporary.write_text(json.dumps({"train": rows[0], "validation": more[0], "documents": max(rows[1], more[1])}))
        os.replace(temporary, note)
    counts = json.loads(note.read_text())
    return Prepared(train, counts["train"], validation if counts["validation"] else None, counts["validation"], counts["documents"])


def _fingerprint(dataset: DataSet) -> list[Any]:
    files: list[Any] = []
    if not dataset.path.startswith("hf:"):
        files = [[path, os.stat(path).st_size, os.stat(path).st_mtime_ns] for path in _sources.find_files(dataset.path)]
    return [dataset.path, dataset.form, dataset.column, dataset.split, dataset.kind, *dataset.train_on, *files]


def _read(datasets: list[DataSet]) -> Iterator[Found]:
    for dataset in datasets:
        for where, document in _sources.read_documents(dataset.path, dataset.split):
            yield dataset, where, document


def _count(recipe: Recipe) -> int:
    return sum(1 for _ in _read(recipe.datasets))


def _split(datasets: list[DataSet], share: float, seed: int, chosen: bool) -> Iterator[Found]:
    """Each sample is drawn for validation or not, in both passes alike."""
    draw = random.Random(seed)
    for found in _read(datasets):
        if (draw.random() < share) == chosen:
            yield found


def _write_answers(recipe: Recipe, tokenizer: Any, found: Iterator[Found], target: pathlib.Path) -> tuple[int, int]:
    return _recipe_answers.write(recipe, tokenizer, found, target), 0


def _write_rows(recipe: Recipe, tokenizer: Any, found: Iterator[Found], target: pathlib.Path) -> tuple[int, int]:
    """Rows, and the most documents of one."""
    forms: dict[int, _samples.Form] = {}

    def encode() -> Iterator[dict[str, list[int]]]:
        for dataset, where, document in found:
            form = forms.setdefault(id(dataset), _samples.FORMS[dataset.form](tokenizer, dataset.column, dataset.train_on))
            sample = form.encode(document, where)
            yield {"input_ids": sample.ids, "labels": sample.labels}
    written = data.write_rows(encode(), target, tokenizer=tokenizer, length=recipe.length, form="rows", pack=recipe.packs, position_ids=recipe.packs)
    print(f"{target}: {written.documents - written.skipped} samples in {written.rows} rows of {recipe.length} tokens"
          + (f"; {written.skipped} are longer than that, or train nothing, and are left out" if written.skipped else ""), flush=True)
    return written.rows, written.documents_per_row if recipe.packs else 0
