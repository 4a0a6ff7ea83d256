# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Archives whose directory says more than there is, and .pt2 programs."""

import struct
import zlib

from archives import finish_zip, flip_bit, make_zip, seed, zip_entry
from case import OPT, Case


def overlapping(count, size):
    """`count` rows of the directory for one entry of `size` bytes."""
    content = zlib.compress(b"\0" * size, 9)[2:-4]
    local, _ = zip_entry("m/0", content, 0, zlib.crc32(b"\0" * size), 8, size)
    directory = b"".join(zip_entry(f"m/{i}", content, 0, zlib.crc32(b"\0" * size), 8, size)[1] for i in range(count))
    return finish_zip(local, directory, count)


def cases():
    for suffix in ("pt", "pt2"):
        yield Case(f"zip/overlapping-{suffix}", {f"model.{suffix}": overlapping(800, 1 << 20)}, [OPT, f"model.{suffix}"], ("E003",), ("are also those of",))
        huge = make_zip({"m/data.pkl": b"x" * 20, "m/constants.pkl": b"x"}, **{"m/data.pkl": {"method": 8, "size": 2 << 30}})
        yield Case(f"zip/inflates-beyond-{suffix}", {f"model.{suffix}": huge}, [OPT, f"model.{suffix}"], ("E003",), ("cannot hold",))
        local, central = zip_entry("m/a", b"1", 0)
        second, row = zip_entry("m/a", b"2", len(local))
        yield Case(f"zip/two-of-a-name-{suffix}", {f"model.{suffix}": finish_zip(local + second, central + row, 2)}, [OPT, f"model.{suffix}"], ("E003",), ("two entries",))

    entries = seed("linear.pt2")
    samples = "linear/data/sample_inputs/model.pt"

    def with_samples(pickle, **more):
        inner = make_zip({"archive/data.pkl": pickle, "archive/version": b"3\n", **more})
        return {"model.pt2": make_zip({**entries, samples: inner})}
    explain = [OPT, "model.pt2"]
    yield Case("pt2/deep-samples", with_samples(b"\x80\x02" + b"(" * 20000 + b"t" * 20000 + b"."), explain, ("E014",), ("sample_inputs",))
    yield Case("pt2/long-text-in-samples", with_samples(b"\x80\x02X" + struct.pack("<I", 0x7fffffff) + b"x."), explain, ("E014",))
    deep = b"[" * 5000 + b"]" * 5000
    yield Case("pt2/deep-program", {"model.pt2": make_zip({**entries, "linear/models/model.json": deep})}, explain, ("E003", "E014"), ("nest",))
    yield Case("pt2/program-bit", {"model.pt2": flip_bit(make_zip(entries), entries["linear/models/model.json"])}, explain, ("E003",), ("checksum",))
