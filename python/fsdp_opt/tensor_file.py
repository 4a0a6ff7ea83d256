# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Safetensors files of our own, for a moment: states on their way to and from the runtime."""
from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping

import torch

# As the runtime names types, and as the files do.
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
          "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f8e8m0fnu": torch.float8_e8m0fnu}
_NAMES = {**{name.upper(): dtype for name, dtype in DTYPES.items()}, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
_NAME_OF = {dtype: name for name, dtype in _NAMES.items()}


def read_tensors(path: str) -> dict[str, torch.Tensor]:
    """All tensors of a file that the runtime wrote, in one buffer."""
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        size = max((entry["data_offsets"][1] for name, entry in head.items() if name != "__metadata__"), default=0)
        buffer = bytearray(size)
        if file.readinto(buffer) != size:
            raise OSError(f"'{path}' is shorter than its head says")
    tensors = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        dtype, (begin, _) = _NAMES[entry["dtype"]], entry["data_offsets"]
        count = math.prod(entry["shape"])
        flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=begin) if count else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def write_tensors(path: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """A file that the runtime reads."""
    head, end = {}, 0
    flat = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    # Aligned to what they hold: the largest elements first.
    order = sorted(flat, key=lambda name: -flat[name].element_size())
    for name in order:
        tensor = flat[name]
        size = tensor.numel() * tensor.element_size()
        head[name] = {"dtype": _NAME_OF[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            if flat[name].numel():
                # Not by numpy, which torch can be installed without.
                size = flat[name].numel() * flat[name].element_size()
                file.write((ctypes.c_char * size).from_address(flat[name].data_ptr()))
