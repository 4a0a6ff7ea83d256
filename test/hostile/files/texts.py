# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configs, programs of MLIR, JSON of checkpoints and weights; files of other kinds."""

import json
import struct

from case import OPT, RUN, Case

CONFIG = "optimizer: {name: adamw, lr: 1e-3}\n"


def compile_with(name, config, ids, texts=(), **more):
    return Case(f"config/{name}", {"c.yaml": config.encode()}, [OPT, "linear.pt2", "--config=c.yaml", "--world=1", "-o", "out.fsdp"], ids, texts, status=2, **more)


def safetensors(header):
    return struct.pack("<Q", len(header)) + header


def program(name, text, ids=("E014",), texts=("levels deep",)):
    return Case(f"mlir/{name}", {"x.mlir": text.encode()}, [OPT, "x.mlir"], ids, texts)


def cases():
    # Numbers that later become 32 bits.
    for key in ("gradient_accumulation_steps", "fsdp_config: {min_num_params", "mesh: {dp_shard", "mesh: {dp_replicate",
                "lr_scheduler: {name: linear, warmup_steps", "lr_scheduler: {name: linear, total_steps"):
        for number in (9223372036854775807, 4294967296 * 4294967296):
            text = f"{CONFIG}{key}: {number}{'}' if '{' in key else ''}\n"
            short = key.split()[-1].strip("{:")
            if short in ("min_num_params", "warmup_steps", "total_steps") and number < 1 << 63:
                continue  # 64 bits wide all the way
            yield compile_with(f"{short}-{number}", text, ("E043", "E044", "E047"), (short,))
    yield compile_with("accumulation-past-32-bits", f"{CONFIG}gradient_accumulation_steps: 4294967297\n", ("E044",), ("c.yaml:2",))

    # Deep.
    yield compile_with("deep-lists", CONFIG + "seed: " + "[" * 30000 + "]" * 30000, ("E041",))
    yield compile_with("deep-maps", CONFIG + "seed: " + "{a: " * 10000 + "}" * 10000, ("E041",))
    yield compile_with("deep-blocks", CONFIG + "seed:\n" + "".join(" " * i + "-\n" for i in range(1, 300)) , ("E041", "E043"))
    yield compile_with("deep-dashes", CONFIG + "seed:\n  " + "- " * 20000 + "1\n", ("E041",))
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    yield compile_with("aliases-without-end", CONFIG + bomb, ("E042", "E041", "E043"))
    yield Case("config/large", {"c.yaml": b"#" * 60000 + b"\n\0\xff"}, [OPT, "linear.pt2", "--config=c.yaml", "-o", "out.fsdp"], ("E041", "E046"), status=2)

    for name, left, right in (("brackets", "[", "]"), ("tuples", "tuple<", ">"), ("parens", "(", ")")):
        body = left * 8000 + ("i1" if name == "tuples" else "") + right * 8000
        yield program(f"deep-{name}", f"module attributes {{a = {body}}} {{}}\n")
    yield program("deep-regions", "module {\n" * 5000 + "}\n" * 5000)
    yield program("deep-locations", "module {} loc(" + "callsite(" * 5000 + ")" * 5000 + ")\n")
    yield program("deep-signs", "module attributes {a = affine_map<(d0) -> (" + "-" * 8000 + "d0)>} {}\n")
    yield program("deep-behind-arrows", "module attributes {a = " + "[() -> (), " * 5000 + "]" * 5000 + "} {}\n")
    yield program("deep-behind-comparisons", "module attributes {a = " + "[affine_set<(d0) : (d0 >= 0)>, " * 1500 + "]" * 1500 + "} {}\n")

    deep = b"[" * 30000 + b"]" * 30000
    manifest = b'{"format": "fsdp-opt checkpoint", "format_version": 1, "checksum": "", "step": ' + deep + b"}"
    yield Case("checkpoint/deep-manifest", {"ck/step_1/manifest.json": manifest}, [RUN, "step.fsdp", "--steps=1", "--load=ck/step_1"], ("E014",), ("nests",))
    weights = [OPT, "linear.pt2", "--config=one.yaml", "-o", "out.fsdp"]
    yield Case("weights/deep-header", {"w.safetensors": safetensors(b'{"a":' + deep + b"}")}, [*weights, "--weights=w.safetensors"], ("E014",), ("nests",))
    yield Case("weights/deep-index", {"w.index.json": b'{"weight_map":' + deep + b"}"}, [*weights, "--weights=w.index.json"], ("E014",), ("nests",))
    yield Case("weights/header-beyond-file", {"w.safetensors": struct.pack("<Q", 99_000_000) + b"{}"}, [*weights, "--weights=w.safetensors"], ("E008",))
    far = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 4]}}).encode()
    yield Case("weights/shape-beyond-file", {"w.safetensors": safetensors(far) + b"0000"}, [*weights, "--weights=w.safetensors"], ("E008",))

    # Other kinds of files.
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    for name, content, ids, text in (
            ("model.safetensors", safetensors(header) + b"\0\1\2\3", ("E005",), "--weights"),
            ("model.gguf", b"GGUF\3\0\0\0" + bytes(range(256)), ("E005",), "GGUF"),
            ("model.bin", b"\x80\x02}q\x00." + bytes(range(256)), ("E005",), "pickle"),
            ("model.npy", b"\x93NUMPY\1\0" + bytes(range(256)), ("E005",), "NumPy"),
            ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(range(256)), ("E005",), "HDF5"),
            ("program.elf", b"\x7fELF" + bytes(range(256)), ("E050",), "no text"),
            ("model.zip", b"PK\3\4" + bytes(range(256)), ("E040",), ".pt2")):
        yield Case(f"other/{name}", {name: content}, [OPT, name], ids, (text,), status=None)
