# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where documents come from: files, datasets of Hugging Face's, or whatever gives them one after another."""
from __future__ import annotations

import glob
import gzip
import importlib
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union

from . import errors

Source = Union[str, "os.PathLike[str]", Iterable[Any]]
Document = tuple[str, Any]
"""Where it is, for errors, and a text or a mapping."""

_BATCH = 1000


def need(module: str, what: str) -> Any:
    """A module of a package that this one does without; ModuleNotFoundError says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(f"{what} needs the package {package}: pip install {package}", name=package) from error


def read_texts(source: Source, column: str, split: str) -> Iterator[str]:
    """The texts of `column`, or documents that are texts."""
    for where, document in read_documents(source, split, column):
        if isinstance(document, Mapping):
            if column not in document:
                raise errors.make("E080", f"{where}: expected '{column}', found {', '.join(map(str, document))}; name another one as column=")
            document = document[column]
        if isinstance(document, list):
            raise errors.make("E082", f"{where}: expected a text, found {type(document).__name__}; of messages and other documents that are trained in "
                                      "part write_rows(form=\"chat\") makes rows (docs/Data.md)")
        if not isinstance(document, str):
            raise errors.make("E082", f"{where}: expected a text, found {type(document).__name__}")
        yield document


def read_documents(source: Source, split: str, column: str | None = None) -> Iterator[Document]:
    """As they are. Of Parquet files `column` alone is read, if it is given."""
    if isinstance(source, str) and source.startswith("hf:"):
        name, _, config = source.removeprefix("hf:").partition(":")
        return _number(need("datasets", "a dataset of Hugging Face's").load_dataset(name, config or None, split=split, streaming=True), source)
    if isinstance(source, (str, os.PathLike)):
        return itertools.chain.from_iterable(_READERS[_suffix(path) or ""](path, column) for path in find_files(os.fspath(source)))
    if isinstance(source, Mapping) and not hasattr(source, "column_names"):
        raise errors.make("E040", f"source: expected one split of a dataset, found {', '.join(map(str, source))}; choose one")
    return _number(source, "source")


def _number(documents: Iterable[Any], where: str) -> Iterator[Document]:
    for number, document in enumerate(documents):
        yield f"{where}, document {number}", document


def find_files(source: str) -> list[str]:
    """Of a folder, a pattern or a path, in the order in which they are read."""
    if os.path.isdir(source):
        found = sorted(str(path) for path in pathlib.Path(source).rglob("*") if path.is_file() and _suffix(str(path)))
    else:
        found = sorted(glob.glob(source)) or ([source] if os.path.exists(source) else [])
    if not found:
        raise errors.make("E080", f"source: '{source}' is no file of documents and matches none")
    unknown = next((path for path in found if not _suffix(path)), None)
    if unknown:
        raise errors.make("E040", f"source: expected files that end with {', '.join(_READERS)}, found '{unknown}'")
    return found


def _suffix(path: str) -> str | None:
    return next((suffix for suffix in _READERS if path.endswith(suffix)), None)


def _read_lines(path: str, column: str | None) -> Iterator[Document]:
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                document = json.loads(line)
            except ValueError as error:
                raise errors.make("E080", f"'{path}', line {number}: expected a JSON object, found {line.strip()[:40]!r}") from error
            yield f"'{path}', line {number}", document


def _read_json(path: str, column: str | None) -> Iterator[Document]:
    """One list of objects, or one object a line."""
    with open(path, encoding="utf-8") as file:
        first = next((character for character in iter(lambda: file.read(1), "") if not character.isspace()), "")
    if first != "[":
        yield from _read_lines(path, column)
        return
    with open(path, encoding="utf-8") as file:
        try:
            documents = json.load(file)
        except ValueError as error:
            raise errors.make("E080", f"'{path}': expected a list of JSON objects: {error}") from error
    yield from _number(documents, f"'{path}'")


def _read_parquet(path: str, column: str | None) -> Iterator[Document]:
    parquet = need("pyarrow.parquet", "a Parquet file")
    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if column and column not in names:
            raise errors.make("E080", f"'{path}': expected a column '{column}', found {', '.join(names)}")
        for batch in file.iter_batches(batch_size=_BATCH, columns=[column] if column else None):
            for document in batch.to_pylist():
                yield f"'{path}'", document


def _read_text(path: str, column: str | None) -> Iterator[Document]:
    lines: list[str] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                lines.append(line)
            elif lines:
                yield f"'{path}'", "".join(lines)
                lines = []
    if lines:
        yield f"'{path}'", "".join(lines)


_READERS: dict[str, Callable[[str, str | None], Iterator[Document]]] = {
    ".jsonl": _read_lines, ".jsonl.gz": _read_lines, ".json": _read_json, ".parquet": _read_parquet, ".txt": _read_text}
