# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Token files out of text: Hugging Face datasets, Parquet, JSON lines and plain text, tokenized and packed.

    fsdp_opt.data.write_tokens("corpus/*.jsonl", "train.bin", tokenizer="tokenizer.json")
    fsdp_opt.data.write_rows("corpus.parquet", "train.safetensors", tokenizer=tokenizer, length=2048)

What is read is never held whole. A call that was interrupted, made again, goes on where the file ends.
Tokenizers come from the package tokenizers or transformers, or are functions of a text.
"""
from __future__ import annotations

import array
import errno
import hashlib
import itertools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, Union

from . import _samples, _sources, errors

Path = Union[str, "os.PathLike[str]"]
Source = _sources.Source
Tokenizer = Union[Path, Callable[[str], Any], Any]

_BATCH = 1000  # documents that are tokenized at once, and after which it can go on
_JOURNAL = ".progress.json"


class Written(NamedTuple):
    """What a file holds."""

    path: pathlib.Path
    documents: int
    tokens: int
    """With the ends of documents."""
    rows: int
    """Of `write_rows`; 0 of `write_tokens`, whose rows the model's shape decides."""
    seconds: float
    """Of this call."""
    skipped: int = 0
    """Documents that were left out: longer than a row, or without anything to train."""
    documents_per_row: int = 0
    """The most of a packed row, parts of documents and what fills a row's end among them: what the config's key of that name has to hold."""


def write_tokens(source: Source, target: Path, *, tokenizer: Tokenizer, column: str = "text", split: str = "train", end: int | None = None,
                 dtype: str | None = None, limit: int | None = None, progress: bool | None = None) -> Written:
    """Writes all documents, one behind the other, each with an end, as `data: {tokens: target}` reads them (docs/Data.md).

    Args:
        source: files or patterns of them, by their names: .jsonl, .jsonl.gz, .json (one object a line), .parquet, and .txt, whose
            documents are parted by empty lines; a folder of such; "hf:NAME" or "hf:NAME:CONFIG", which is streamed by the package
            datasets; or documents: texts, or mappings with `column`.
        target: a file of unsigned numbers in the machine's byte order, nanoGPT's format.
        tokenizer: a tokenizer.json, a folder or name that transformers' AutoTokenizer takes, an object of tokenizers or transformers,
            or a function from a text to its ids.
        column: of the documents that have several.
        split: of "hf:" datasets.
        end: the id behind each document; by default the tokenizer's end of text. -1: none.
        dtype: "uint16", or "uint32", which the config's `data: {dtype: uint32}` says; by default what the vocabulary needs.
        limit: tokens after which it ends, with the document it is in.
        progress: a line on stderr; by default on terminals.

    Returns when the file is complete; until then it is called `target` with ".part", and beside it lies what to go on from.

    Raises:
        errors.DataError: E080 for a source without documents or `column`, E082 for an id that `dtype` does not hold.
        errors.UsageError: E040 for an argument; ModuleNotFoundError says which package to install.
        errors.Error: E064 for a disk that is full.
    """
    return _Writer(source, pathlib.Path(target), tokenizer, column, split, end, limit, progress, 1, dtype).run()


def write_rows(source: Source, target: Path, *, tokenizer: Tokenizer, length: int, column: str = "text", split: str = "train",
               end: int | None = None, position_ids: bool = False, document_ids: bool = False, limit: int | None = None,
               progress: bool | None = None, pack: bool = True, form: str | None = None, train_on: Iterable[str] = ("assistant",)) -> Written:
    """Packs documents into rows of `length` tokens, as `data: {samples: target}` reads them: a safetensors file of int64 tensors.

    `input_ids` and `labels` are the tokens; labels of a document's first token are -100, which no token in front of it predicts.
    Documents may reach over several rows; what does not fill the last row is left out. Without `pack` each document is a row
    of its own length, and one that is longer than `length` goes on in further rows; `row_offsets` says where rows begin (docs/Data.md).

    Args:
        length: tokens of a row.
        position_ids: adds each token's place in its document.
        document_ids: adds the number of each token's document in its row, from 0 on, for masks that part documents.
        pack: whether rows are filled up, rather than a document each.
        form: of documents that are trained in part: "chat", lists of messages (`messages` or `conversations`, or `column`) through the
            tokenizer's own template; "alpaca" (`instruction`, `input`, `output`); "prompt_completion"; "completion", a text each; "rows",
            ready `input_ids` and `labels`. Each stays whole in one row, whose end is padding that is not trained; what is longer than
            `length`, or trains nothing, is left out, and counted in `skipped`.
        train_on: roles of messages that are trained.
        Others as of `write_tokens`.
    """
    if form is not None:
        return _write_samples(source, target, tokenizer, length, column, split, position_ids, document_ids, limit, progress, pack, form, train_on)
    if length < 2:
        raise errors.make("E040", f"length: expected a number from 2, found {length}")
    if document_ids and not pack:
        raise errors.make("E040", "document_ids: expected pack=True, where a row has several documents")
    kind = _RowWriter if pack else _DocumentWriter
    return kind(source, pathlib.Path(target), tokenizer, column, split, end, limit, progress, length, position_ids, document_ids).run()


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class _Writer:
    """A stream of documents into a file that grows batch by batch, with a journal of how far it has come."""

    def __init__(self, source: Source, target: pathlib.Path, tokenizer: Tokenizer, column: str, split: str, end: int | None, limit: int | None,
                 progress: bool | None, length: int, dtype: str | None) -> None:
        if dtype not in (None, "uint16", "uint32"):
            raise errors.make("E040", f"dtype: expected uint16 or uint32, found '{dtype}'")
        self.target, self.limit, self.length = target, limit, length
        self.encode, self.end, vocabulary = _tokenizer(tokenizer, end)
        self.dtype = dtype or ("uint16" if vocabulary is not None and vocabulary <= 1 << 16 else "uint32")
        self.documents = self._read(source, column, split)
        self.part = target.with_name(target.name + ".part")
        self.journal = target.with_name(target.name + _JOURNAL)
        self.shows = sys.stderr.isatty() if progress is None else progress
        # What has to be the same to go on: the call. What is read may be a stream that nobody can compare.
        named = source if isinstance(source, (str, os.PathLike)) else "documents"
        self.call = hashlib.sha256(json.dumps([str(named), column, split, self.end, self.dtype, length, limit, self._kind()]).encode()).hexdigest()
        self.state: dict[str, Any] = {"call": self.call, "documents": 0, "tokens": 0, "bytes": 0}

    def _kind(self) -> list[Any]:
        return ["tokens"]

    def _read(self, source: Source, column: str, split: str) -> Iterator[Any]:
        return _sources.read_texts(source, column, split)

    def run(self) -> Written:
        try:
            return self._run()
        except OSError as error:
            # Of a write, which says neither where it was nor of what.
            if error.errno not in _NO_ROOM or error.filename is not None:
                raise
            raise errors.make("E064", f"'{self.part}' cannot be written: {error.strerror}; where there is room, the same call goes on from there") from error

    def _run(self) -> Written:
        begin, shown = time.monotonic(), 0.0
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._resume()
        already, before = self.state["documents"], self.state["tokens"]
        documents = itertools.islice(self.documents, already, None)
        with open(self.part, "r+b" if self.part.exists() else "w+b") as file:
            file.truncate(self.state["bytes"])
            file.seek(self.state["bytes"])
            while not self._is_full() and (batch := list(itertools.islice(documents, _BATCH))):
                for ids in self.encode(batch):
                    self.state["tokens"] += self._write(file, ids)
                    self.state["documents"] += 1
                    if self._is_full():
                        break
                self._save(file)
                if self.shows and time.monotonic() - shown > 0.1:
                    shown = time.monotonic()
                    self._show(self.state["tokens"] - before, shown - begin)
            if not self.state["documents"]:
                raise errors.make("E080", "source: expected documents, found none")
            complete = self._finish(file)
        if self.shows:
            self._show(self.state["tokens"] - before, time.monotonic() - begin)
            print(file=sys.stderr)
        os.replace(complete, self.target)
        self.journal.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)
        return Written(self.target, self.state["documents"], self.state["tokens"], self.state.get("rows", 0), time.monotonic() - begin,
                       self.state.get("skipped", 0), self.state.get("most", 0))

    def _is_full(self) -> bool:
        return self.limit is not None and self.state["tokens"] >= self.limit

    def _resume(self) -> None:
        try:
            found = json.loads(self.journal.read_text())
        except (OSError, ValueError):
            return
        if found.get("call") == self.call and self.part.exists() and self.part.stat().st_size >= found["bytes"]:
            self.state = found

    def _save(self, file: BinaryIO) -> None:
        file.flush()
        self.state["bytes"] = file.tell()
        temporary = self.journal.with_name(self.journal.name + ".new")
        temporary.write_text(json.dumps(self.state))
        os.replace(temporary, self.journal)

    def _show(self, tokens: int, seconds: float) -> None:
        rate = tokens / seconds if seconds else 0.0
        print(f"\r\033[K{self.target.name}: {self.state['documents']:,} documents  {self.state['tokens']:,} tokens  {rate / 1e6:.2f} million/s",
              end="", file=sys.stderr, flush=True)

    def _write(self, file: BinaryIO, ids: Iterable[int]) -> int:
        try:
            tokens = array.array("H" if self.dtype == "uint16" else "I", ids)
            if self.end >= 0:
                tokens.append(self.end)
        except OverflowError as error:
            raise errors.make("E082", f"tokenizer: expected ids that {self.dtype} holds, found another one; give dtype='uint32'") from error
        tokens.tofile(file)
        return len(tokens)

    def _finish(self, file: BinaryIO) -> pathlib.Path:
        """The complete file, on the disk."""
        os.fsync(file.fileno())
        return self.part


class _RowWriter(_Writer):
    """Rows of a fixed length. The part file has the columns row by row; the complete one has a head and each column whole."""

    def __init__(self, source: Source, target: pathlib.Path, tokenizer: Tokenizer, column: str, split: str, end: int | None, limit: int | None,
                 progress: bool | None, length: int, position_ids: bool, document_ids: bool) -> None:
        self.names = ["input_ids", "labels", *(["position_ids"] if position_ids else []), *(["document_ids"] if document_ids else [])]
        super().__init__(source, target, tokenizer, column, split, end, limit, progress, length, "uint32")
        # Of the row that is being filled, kept in the journal, too.
        self.state.update({"rows": 0, "open": {name: [] for name in self.names}, "begun": 0, "most": 0})

    def _kind(self) -> list[Any]:
        return ["counted rows", *self.names]

    def _write(self, file: BinaryIO, ids: Iterable[int]) -> int:
        tokens = list(ids)
        if self.end >= 0:
            tokens.append(self.end)
        row, at = self.state["open"], 0
        while at < len(tokens):
            have = len(row["input_ids"])
            count = min(self.length - have, len(tokens) - at)
            piece = tokens[at:at + count]
            row["input_ids"] += piece
            row["labels"] += [-100, *piece[1:]] if at == 0 else piece
            if "position_ids" in row:
                row["position_ids"] += range(at, at + count)
            if "document_ids" in row:
                row["document_ids"] += [row["document_ids"][-1] + 1 if have else 0] * count
            at += count
            self.state["begun"] += 1
            if len(row["input_ids"]) == self.length:
                self.state["most"], self.state["begun"] = max(self.state["most"], self.state["begun"]), 0
                for name in self.names:
                    array.array("q", row[name]).tofile(file)
                    row[name] = []
                self.state["rows"] += 1
        return len(tokens)

    def _finish(self, file: BinaryIO) -> pathlib.Path:
        """Columns one behind the other, a block of rows at a time."""
        rows, width = self.state["rows"], 8 * self.length
        if not rows:
            raise errors.make("E080", f"source: expected {self.length} tokens for a row, found {self.state['tokens']}")
        head = {name: {"dtype": "I64", "shape": [rows, self.length], "data_offsets": [number * rows * width, (number + 1) * rows * width]}
                for number, name in enumerate(self.names)}
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        ordered = self.part.with_name(self.part.name + ".columns")
        of_row = width * len(self.names)
        with open(ordered, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for number in range(len(self.names)):
                file.seek(0)
                for first in range(0, rows, 1024):
                    block = memoryview(file.read(of_row * min(1024, rows - first)))
                    for begin in range(number * width, len(block), of_row):
                        out.write(block[begin:begin + width])
            out.flush()
            os.fsync(out.fileno())
        return ordered


def _write_samples(source: Source, target: Path, tokenizer: Tokenizer, length: int, column: str, split: str, position_ids: bool, document_ids: bool,
                   limit: int | None, progress: bool | None, pack: bool, form: str, train_on: Iterable[str]) -> Written:
    if form not in _samples.FORMS:
        raise errors.make("E040", f"form: expected one of {', '.join(_samples.FORMS)}, found '{form}'")
    if isinstance(tokenizer, (str, os.PathLike)):
        path = os.fspath(tokenizer)
        transformers = _sources.need("transformers", f"the tokenizer '{path}'")
        tokenizer = (transformers.PreTrainedTokenizerFast(tokenizer_file=path) if path.endswith(".json")
                     else transformers.AutoTokenizer.from_pretrained(path))
    if form != "rows" and not hasattr(tokenizer, "apply_chat_template"):
        raise errors.make("E040", f"tokenizer: expected one of transformers, whose words form='{form}' is made of, found {type(tokenizer).__name__}")
    return _SampleWriter(source, pathlib.Path(target), tokenizer, column if column != "text" else "", split, limit, progress, length, position_ids,
                         document_ids, pack, form, tuple(train_on)).run()


class _SampleWriter(_RowWriter):
    """Samples, each whole in a row: the first of the open rows that has room takes it."""

    _OPEN = 16

    def __init__(self, source: Source, target: pathlib.Path, tokenizer: Any, column: str, split: str, limit: int | None, progress: bool | None,
                 length: int, position_ids: bool, document_ids: bool, pack: bool, form: str, train_on: tuple[str, ...]) -> None:
        self.form = _samples.FORMS[form](tokenizer, column, train_on)
        self.how = [form, *train_on, pack]
        self.packs = pack
        pad = getattr(tokenizer, "pad_token_id", None)
        end = getattr(tokenizer, "eos_token_id", None)
        self.pad = int(pad if pad is not None else end if end is not None else 0)
        super().__init__(source, target, lambda text: [], column, split, -1, limit, progress, length, position_ids, document_ids)
        self.state.update({"rows": 0, "open": [], "skipped": 0, "most": 0})
        self.encode = lambda batch: (self.form.encode(document, where) for where, document in batch)

    def _kind(self) -> list[Any]:
        return ["counted samples", *self.names, *self.how]

    def _read(self, source: Source, column: str, split: str) -> Iterator[Any]:
        return _sources.read_documents(source, split)

    def _write(self, file: BinaryIO, sample: Any) -> int:
        count = len(sample.ids)
        labels = [_samples.IGNORED, *sample.labels[1:]]  # nothing predicts the first
        if count > self.length or all(label == _samples.IGNORED for label in labels):
            self.state["skipped"] += 1
            return 0
        rows: list[dict[str, list[int]]] = self.state["open"]
        row = next((each for each in rows if len(each["input_ids"]) + count <= self.length), None) if self.packs else None
        if row is None:
            if len(rows) == (self._OPEN if self.packs else 1):
                self._close(file, rows.pop(max(range(len(rows)), key=lambda at: len(rows[at]["input_ids"]))))
            row = {"begins": [], **{name: [] for name in self.names}}
            rows.append(row)
        document = row["document_ids"][-1] + 1 if row.get("document_ids") else 0
        columns = {"input_ids": sample.ids, "labels": labels, "position_ids": range(count), "document_ids": [document] * count}
        row["begins"].append(len(row["input_ids"]))
        for name in self.names:
            row[name] += columns[name]
        return count

    def _close(self, file: BinaryIO, row: dict[str, list[int]]) -> None:
        missing = self.length - len(row["input_ids"])
        # Padding is a document of its own.
        document = row["document_ids"][-1] + 1 if row.get("document_ids") else 0
        columns = {"input_ids": [self.pad] * missing, "labels": [_samples.IGNORED] * missing, "position_ids": range(missing),
                   "document_ids": [document] * missing}
        for name in self.names:
            array.array("q", [*row[name], *columns[name]]).tofile(file)
        self.state["rows"] += 1
        self.state["most"] = max(self.state["most"], len(row["begins"]) + (missing > 0))

    def _finish(self, file: BinaryIO) -> pathlib.Path:
        for row in self.state["open"]:
            self._close(file, row)
        self.state["open"] = []
        if not self.state["rows"]:
            raise errors.make("E080", f"source: expected samples of up to {self.length} tokens of which some are trained, found none among "
                                      f"{self.state['skipped']}")
        return super()._finish(file)


class _DocumentWriter(_RowWriter):
    """Rows of lengths of their own. The part file has for each row its length and then the columns; the complete one a head and each
    column whole."""

    def _kind(self) -> list[Any]:
        return ["documents", *self.names]

    def _write(self, file: BinaryIO, ids: Iterable[int]) -> int:
        tokens = list(ids)
        if self.end >= 0:
            tokens.append(self.end)
        for at in range(0, len(tokens), self.length):
            piece = tokens[at:at + self.length]
            columns = {"input_ids": piece, "labels": [-100, *piece[1:]] if at == 0 else piece, "position_ids": range(at, at + len(piece))}
            array.array("q", [len(piece)]).tofile(file)
            for name in self.names:
                array.array("q", columns[name]).tofile(file)
            self.state["rows"] += 1
        return len(tokens)

    def _finish(self, file: BinaryIO) -> pathlib.Path:
        rows, tokens = self.state["rows"], self.state["tokens"]
        if not rows:
            raise errors.make("E080", f"source: expected tokens for a row, found {self.state['documents']} documents without any")
        head, end = {}, 0
        for name, count in (*((name, tokens) for name in self.names), ("row_offsets", rows + 1)):
            head[name] = {"dtype": "I64", "shape": [count], "data_offsets": [end, end + 8 * count]}
            end += 8 * count
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        ordered = self.part.with_name(self.part.name + ".columns")
        with open(ordered, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for number in range(len(self.names) + 1):
                file.seek(0)
                begin = 0
                if number == len(self.names):
                    out.write(begin.to_bytes(8, "little"))
                for _ in range(rows):
                    length = int.from_bytes(file.read(8), "little")
                    columns = file.read(8 * length * len(self.names))
                    begin += length
                    out.write(columns[8 * length * number:8 * length * (number + 1)] if number < len(self.names) else begin.to_bytes(8, "little"))
            out.flush()
            os.fsync(out.fileno())
        return ordered


# What makes tokens of them.

def _tokenizer(given: Tokenizer, end: int | None) -> tuple[Callable[[list[str]], Iterable[Iterable[int]]], int, int | None]:
    """(ids of several texts, the id behind each or -1, how many ids there are)."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        if path.endswith(".json"):
            given = _sources.need("tokenizers", f"the tokenizer '{path}'").Tokenizer.from_file(path)
        else:
            given = _sources.need("transformers", f"the tokenizer '{path}'").AutoTokenizer.from_pretrained(path)
    if hasattr(given, "encode_batch"):  # of tokenizers
        names = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[SEP]")
        found = next((id for id in map(given.token_to_id, names) if id is not None), None)
        return lambda texts: (each.ids for each in given.encode_batch(texts, add_special_tokens=False)), _end(end, found), given.get_vocab_size()
    if hasattr(given, "eos_token_id"):  # of transformers
        return (lambda texts: given(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"],
                _end(end, given.eos_token_id), len(given))
    if callable(given):
        return lambda texts: (list(given(text)) for text in texts), _end(end, None), None
    raise errors.make("E040", f"tokenizer: expected a path, a tokenizer or a function, found {type(given).__name__}")


def _end(given: int | None, found: int | None) -> int:
    if given is None and found is None:
        raise errors.make("E040", "end: the tokenizer does not say what ends a document; expected an id, or -1 for none")
    return int(given if given is not None else found)  # type: ignore[arg-type]
