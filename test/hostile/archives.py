# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Zip archives, pickles and TorchScript models, byte by byte."""

import pathlib
import struct
import zlib

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "archive"


def read_zip(data):
    """Names (with the root folder) to contents, of stored and deflated entries."""
    import io
    import zipfile
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def zip_entry(name, content, offset, crc=None, method=0, size=None):
    """The local header with its bytes, and the row of the directory."""
    crc = zlib.crc32(content) if crc is None else crc
    size = len(content) if size is None else size
    shared = struct.pack("<HHHIIIIHH", 20, 0, method, 0, crc, len(content), size, len(name), 0)
    local = b"PK\3\4" + shared + name.encode() + content
    central = b"PK\1\2" + struct.pack("<H", 20) + shared + struct.pack("<HHHII", 0, 0, 0, 0, offset) + name.encode()
    return local, central


def make_zip(entries, **changes):
    """Stored entries with right checksums; `changes` gives one entry's others, by name."""
    body, directory = b"", b""
    for name, content in entries.items():
        local, central = zip_entry(name, content, len(body), **changes.get(name, {}))
        body += local
        directory += central
    return finish_zip(body, directory, len(entries))


def finish_zip(body, directory, count):
    return body + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def seed(name):
    return read_zip((SEEDS / name).read_bytes())


def flip_bit(data, content):
    """`data` with one bit of the only place where `content` lies changed."""
    at = data.index(content)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


MODULE = b"\x80\x02c__torch__\nModel\n)\x81}X\x08\0\0\0training\x88sb."
HEAD = """class Model(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
"""


def script(body, head=HEAD, data=MODULE, constants=b"\x80\x02).", signature="self: __torch__.Model,\n    x: Tensor", more=None):
    """A .pt whose forward has `body`."""
    code = head + f"  def forward({signature}) -> Tensor:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return make_zip({"m/version": b"3\n", "m/byteorder": b"little", "m/data.pkl": data, "m/constants.pkl": constants,
                     "m/code/__torch__.py": code.encode(), **(more or {})})
