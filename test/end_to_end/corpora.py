# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp_opt.data: documents become token files and rows, which runs read; an interrupted call goes on with the same bytes.

Parquet and Hugging Face datasets are tried where pyarrow and datasets are installed.
"""
import contextlib
import copy
import gzip
import importlib.util
import io
import json
import resource
import sys

import numpy
import torch
from safetensors.torch import load_file
from tokenizers import ByteLevelBPETokenizer, Tokenizer

import fsdp_opt
from fsdp_opt import data
from harness import make_config, parse_arguments, run_cases

TEXTS = [f"Document {number} of some, " * (1 + number % 4) + "which ends here." for number in range(2500)]


def has(package):
    if importlib.util.find_spec(package):
        return True
    print(f"      {package} is not installed: its part is left out")
    return False


def make_tokenizer(folder):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXTS[:50], vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    trained.save(str(folder / "tokenizer.json"))
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def expected(tokenizer, texts=TEXTS):
    end = tokenizer.token_to_id("<|endoftext|>")
    return [[*tokenizer.encode(text, add_special_tokens=False).ids, end] for text in texts]


def sources(folder):
    """All kinds of files give the same tokens."""
    tokenizer = make_tokenizer(folder)
    want = numpy.array(sum(expected(tokenizer), []), dtype=numpy.uint16)
    half = len(TEXTS) // 2
    lines = [json.dumps({"id": number, "body": text}) + "\n" for number, text in enumerate(TEXTS)]
    (folder / "lines").mkdir()
    (folder / "lines" / "a.jsonl").write_text("".join(lines[:half]) + "\n")
    with gzip.open(folder / "lines" / "b.jsonl.gz", "wt") as file:
        file.write("".join(lines[half:]))
    (folder / "plain.txt").write_text("\n\n".join(TEXTS) + "\n")
    every = {"pattern": (str(folder / "lines" / "*.jsonl*"), {"column": "body"}), "folder": (folder / "lines", {"column": "body"}),
             "texts": (iter(TEXTS), {}), "mappings": ([{"text": text} for text in TEXTS], {})}
    if has("pyarrow"):
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.table({"body": TEXTS, "id": range(len(TEXTS))}), folder / "all.parquet", row_group_size=700)
        every["parquet"] = (folder / "all.parquet", {"column": "body"})
    if has("datasets"):
        import datasets
        every["datasets"] = (datasets.Dataset.from_dict({"text": TEXTS}), {})
        every["datasets, streamed"] = (datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(), {})
    for name, (source, options) in every.items():
        written = data.write_tokens(source, folder / "out.bin", tokenizer=folder / "tokenizer.json" if name == "folder" else tokenizer, **options)
        have = numpy.fromfile(folder / "out.bin", dtype=numpy.uint16)
        assert numpy.array_equal(have, want), f"{name}: {len(have)} tokens instead of {len(want)}, or others"
        assert (written.documents, written.tokens) == (len(TEXTS), len(want)), (name, written)
    # A text file's documents keep their line ends.
    data.write_tokens(folder / "plain.txt", folder / "out.bin", tokenizer=tokenizer)
    want = numpy.array(sum(expected(tokenizer, [text + "\n" for text in TEXTS]), []), dtype=numpy.uint16)
    assert numpy.array_equal(numpy.fromfile(folder / "out.bin", dtype=numpy.uint16), want), "plain text"
    import transformers
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>")
    fast.save_pretrained(folder / "fast")
    data.write_tokens(iter(TEXTS), folder / "fast.bin", tokenizer=folder / "fast", dtype="uint32", limit=5000)
    have = numpy.fromfile(folder / "fast.bin", dtype=numpy.uint32)
    assert 5000 <= len(have) < 5200 and have.tolist() == sum(expected(tokenizer), [])[:len(have)], "transformers' tokenizer"
    assert not [path for path in folder.iterdir() if ".part" in path.name or "progress" in path.name], "something was left behind"


class Stop(Exception):
    pass


def interrupted(folder):
    """A call that was ended goes on behind what is on the disk; another call begins anew."""
    calls = 0

    def bytes_of(text):
        nonlocal calls
        calls += 1
        if calls == 1700:
            raise Stop
        return text.encode()
    for write, options in ((data.write_tokens, {}), (data.write_rows, {"length": 24, "position_ids": True, "document_ids": True}),
                           (data.write_rows, {"length": 24, "position_ids": True, "pack": False})):
        calls = 10000
        write(iter(TEXTS), folder / "whole", tokenizer=bytes_of, end=256, **options)
        calls = 0
        with contextlib.suppress(Stop):
            write(iter(TEXTS), folder / "parts", tokenizer=bytes_of, end=256, **options)
        assert not (folder / "parts").exists() and (folder / "parts.part").exists()
        with open(folder / "parts.part", "ab") as file:
            file.write(b"cut off")  # of a write that was not recorded
        calls = 10000
        again = write(iter(TEXTS), folder / "parts", tokenizer=bytes_of, end=256, **options)
        assert calls == 10000 + len(TEXTS) - 1000, f"{calls - 10000} documents were tokenized"
        assert (folder / "parts").read_bytes() == (folder / "whole").read_bytes() and again.documents == len(TEXTS), "other bytes"
        assert not (folder / "parts.part").exists()
        (folder / "parts").unlink()
        calls = 0
        with contextlib.suppress(Stop):
            write(iter(TEXTS), folder / "parts", tokenizer=bytes_of, end=256, **options)
        calls = 10000
        write(iter(TEXTS), folder / "parts", tokenizer=bytes_of, end=255, **options)
        assert calls == 10000 + len(TEXTS), "what another call wrote was taken"
        (folder / "parts").unlink()


def rows(folder):
    """Rows are the tokens one behind the other; places and documents are counted, labels begin anew."""
    tokenizer = make_tokenizer(folder)
    written = data.write_rows(iter(TEXTS), folder / "rows.safetensors", tokenizer=tokenizer, length=40, position_ids=True, document_ids=True)
    documents, length = expected(tokenizer), 40
    flat = torch.tensor(sum(documents, []))
    count = len(flat) // length
    flat = flat[:count * length].view(count, length)
    places = torch.cat([torch.arange(len(each)) for each in documents])[:count * length].view(count, length)
    numbers = torch.cat([torch.full((len(each),), number) for number, each in enumerate(documents)])[:count * length].view(count, length)
    found = load_file(folder / "rows.safetensors")
    assert written.rows == count > 1024 and list(found) and torch.equal(found["input_ids"], flat)
    assert torch.equal(found["labels"], torch.where(places == 0, -100, flat)), "labels"
    assert torch.equal(found["position_ids"], places), "places"
    assert torch.equal(found["document_ids"], numbers - numbers[:, :1]), "documents"
    assert written.documents_per_row == max(len(row.unique()) for row in numbers) > 1, written


def documents(folder):
    """Rows of their own lengths are the documents, and long ones go on in further rows."""
    tokenizer = make_tokenizer(folder)
    written = data.write_rows(iter(TEXTS), folder / "rows.safetensors", tokenizer=tokenizer, length=25, position_ids=True, pack=False)
    whole = expected(tokenizer)
    want = [(each[at:at + 25], at) for each in whole for at in range(0, len(each), 25)]
    found = load_file(folder / "rows.safetensors")
    offsets = found["row_offsets"].tolist()
    assert written.rows == len(want) == len(offsets) - 1 > len(TEXTS) and offsets[-1] == written.tokens == sum(map(len, whole)), written
    assert len({len(tokens) for tokens, _ in want}) > 3, "rows are all as long"
    for number, (tokens, at) in enumerate(want):
        row = slice(offsets[number], offsets[number + 1])
        assert found["input_ids"][row].tolist() == tokens, f"row {number}"
        assert found["labels"][row].tolist() == ([-100, *tokens[1:]] if at == 0 else tokens), f"labels of row {number}"
        assert found["position_ids"][row].tolist() == list(range(at, at + len(tokens))), f"places of row {number}"
    refused("E040", "where a row has several documents", lambda: data.write_rows(["a"], folder / "r", tokenizer=str.encode, end=0, length=8,
                                                                                 document_ids=True, pack=False))


def full(folder):
    """A disk that has no room left: the error names the file, and the call, made again, goes on."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for write, options in ((data.write_tokens, {}), (data.write_rows, {"length": 30}), (data.write_rows, {"length": 30, "pack": False})):
        def make(name):
            return write(iter(TEXTS), folder / name, tokenizer=str.encode, end=256, **options)
        make("whole")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
        try:
            refused("E064", f"'{folder / 'parts'}.part' cannot be written: File too large", lambda: make("parts"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        make("parts")
        assert (folder / "parts").read_bytes() == (folder / "whole").read_bytes(), "other bytes"
        (folder / "parts").unlink()


def trained(folder):
    """Runs read both kinds of files."""
    class Next(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(300, 16), torch.nn.Linear(16, 300)

        def forward(self, input_ids, labels):
            return torch.nn.functional.cross_entropy(self.head(self.embed(input_ids))[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    tokenizer = make_tokenizer(folder)
    model, ids = Next(), torch.ones(2, 40, dtype=torch.int64)
    data.write_tokens(iter(TEXTS), folder / "train.bin", tokenizer=tokenizer)
    data.write_rows(iter(TEXTS), folder / "rows.safetensors", tokenizer=tokenizer, length=40)
    losses = {}
    artifact = fsdp_opt.compile(copy.deepcopy(model), kwargs={"input_ids": ids, "labels": ids.clone()}, config=make_config(2), out=folder / "step.fsdp")
    for name, options in (("train.bin", {"data_options": "inputs=input_ids+labels"}), ("rows.safetensors", {})):
        with fsdp_opt.Session(artifact, data=folder / name, threads=1, **options) as step:
            losses[name] = step().loss.item()
    flat = torch.tensor(sum(expected(tokenizer, TEXTS[:40]), []))[:160].view(4, 40)
    with torch.no_grad():
        want = sum(model(part, part).item() for part in flat.split(2)) / 2
    assert abs(losses["train.bin"] - want) < 1e-5, (losses, want)
    assert abs(losses["rows.safetensors"] - want) < 0.3 and losses["rows.safetensors"] != losses["train.bin"], (losses, want)


def refused(id, part, call):
    try:
        call()
    except fsdp_opt.Error as error:
        assert error.id == id and part in str(error), error
        return
    raise AssertionError(f"{id} was not raised")


def refusals(folder):
    def write(source, **options):
        return data.write_tokens(source, folder / "out.bin", **{"tokenizer": str.encode, "end": 0, **options})
    (folder / "bad.jsonl").write_text('{"text": "a"}\n{"text": 5}\n')
    (folder / "worse.jsonl").write_text('{"text": "a"}\nno\n')
    (folder / "what.csv").write_text("a,b\n")
    refused("E080", "is no file of documents", lambda: write(folder / "nowhere*.jsonl"))
    refused("E040", "expected files that end with .jsonl", lambda: write(folder / "what.csv"))
    refused("E082", "line 2: expected a text, found int", lambda: write(folder / "bad.jsonl"))
    refused("E080", "line 2: expected a JSON object", lambda: write(folder / "worse.jsonl"))
    refused("E080", "expected 'body', found text", lambda: write([{"text": "a"}], column="body"))
    refused("E080", "expected documents, found none", lambda: write([]))
    refused("E082", "dtype='uint32'", lambda: write(["a"], tokenizer=lambda text: [70000], dtype="uint16"))
    refused("E040", "expected an id, or -1 for none", lambda: write(["a"], end=None))
    refused("E040", "expected uint16 or uint32", lambda: write(["a"], dtype="int8"))
    refused("E040", "expected one split of a dataset, found train, test", lambda: write({"train": [], "test": []}))
    refused("E080", "expected 64 tokens for a row, found 2", lambda: data.write_rows(["a"], folder / "r", tokenizer=str.encode, end=0, length=64))
    # What is not installed is named.
    (folder / "some.parquet").write_bytes(b"PAR1")
    hidden = {name: sys.modules.get(name) for name in ("pyarrow", "pyarrow.parquet")}
    sys.modules.update(dict.fromkeys(hidden))
    try:
        write(folder / "some.parquet")
        raise AssertionError("Parquet was read without pyarrow")
    except ModuleNotFoundError as error:
        assert "pip install pyarrow" in str(error), error
    finally:
        for name, module in hidden.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
        write(["a"] * 5, progress=True)
    assert "out.bin: 5 documents  10 tokens" in shown.getvalue(), shown.getvalue()


TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|endoftext|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def chats(folder):
    """Of chats and their kin the answers are trained; each sample is whole in one row, and what is packed begins at position 0."""
    from transformers import PreTrainedTokenizerFast

    make_tokenizer(folder)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>", chat_template=TEMPLATE)

    def talk(number):
        messages = [{"role": "user", "content": f"Document {number}?"}, {"role": "assistant", "content": "which ends here." * (1 + number % 3)}]
        return messages * (1 + number % 2)
    talks = [talk(number) for number in range(40)]
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in talks))
    old = [{"conversations": [{"from": {"user": "human", "assistant": "gpt"}[m["role"]], "value": m["content"]} for m in each]} for each in talks]
    found = []
    for source in (folder / "chats.jsonl", old):
        written = data.write_rows(source, folder / "rows.safetensors", tokenizer=tokenizer, length=64, form="chat", position_ids=True)
        assert written.documents == 40 and written.skipped > 0, written
        found.append(load_file(folder / "rows.safetensors"))
    rows = found[0]
    assert written.documents_per_row == int((rows["position_ids"] == 0).sum(1).max()) > 1, written
    assert all(torch.equal(rows[name], found[1][name]) for name in rows), "older files say the same"
    seen = []
    for ids, labels, places in zip(rows["input_ids"].tolist(), rows["labels"].tolist(), rows["position_ids"].tolist()):
        begins = [at for at, place in enumerate(places) if place == 0]
        assert begins[0] == 0 and len(ids) == 64
        for begin, end in zip(begins, [*begins[1:], 64]):
            kept = [id for id in labels[begin:end] if id != -100]
            if kept:
                seen.append((tokenizer.decode(ids[begin:end]), tokenizer.decode(kept)))
            assert all(label in (-100, id) for id, label in zip(ids[begin:end], labels[begin:end]))
    want = []
    for each in talks:
        text = "".join(f"<|{m['role']}|>{m['content']}<|endoftext|>" for m in each)
        if len(tokenizer(text)["input_ids"]) <= 64:
            want.append((text, "".join(m["content"] + "<|endoftext|>" for m in each if m["role"] == "assistant")))
    assert sorted(seen) == sorted(want), (seen[:2], want[:2])
    other = {"alpaca": {"instruction": "Say", "input": "", "output": "which ends here."}, "completion": {"text": "which ends here."},
             "prompt_completion": {"prompt": "Document 1 of some, ", "completion": "which ends here."}, "rows": {"input_ids": [1, 2, 3], "labels": [-100, -100, 3]}}
    for form, document in other.items():
        written = data.write_rows([document], folder / "one.safetensors", tokenizer=tokenizer, length=512, form=form, pack=False)
        row = load_file(folder / "one.safetensors")
        kept = [id for id in row["labels"][0].tolist() if id != -100]
        text = tokenizer.decode(kept)
        assert kept == [3] if form == "rows" else "which ends here.<|endoftext|>".endswith(text) and "here." in text, (form, text)
    for document, form, words in (({"text": "x"}, "chat", "expected 'messages'"), ({"messages": "x"}, "chat", "a list of messages"),
                                  ({"input_ids": [1, 2], "labels": [1]}, "rows", "as many labels"), ({"text": "x"}, "other", "expected one of")):
        try:
            data.write_rows([document], folder / "no.safetensors", tokenizer=tokenizer, length=8, form=form)
        except fsdp_opt.Error as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{document} is no {form}")
    turning = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>",
                                      chat_template="{% for m in messages %}{{ loop.length|string + m['content'] }}{% endfor %}")
    try:
        data.write_rows(folder / "chats.jsonl", folder / "no.safetensors", tokenizer=turning, length=64, form="chat")
    except fsdp_opt.Error as error:
        assert "otherwise when more follows" in str(error), error
    else:
        raise AssertionError("nobody knows which tokens are a message's own")


def main():
    arguments = parse_arguments()
    torch.manual_seed(7)
    run_cases({"sources": sources, "interrupted": interrupted, "rows": rows, "documents": documents, "chats": chats, "a full disk": full, "trained": trained, "refusals": refusals}, arguments.only)


if __name__ == "__main__":
    main()
