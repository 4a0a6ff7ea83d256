#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What plans for a GPU say of every operator's results equals what PyTorch's fake tensors on a GPU say.

    fake_cuda.py --bin build/bin [--only MODEL]

A result whose shape, strides or type was planned wrongly is found by the runtime on
the GPU, when the artifact is loaded (E073). PyTorch knows them without a GPU: its
fake tensors have a device, and so the layouts that its kernels there give.
"""
import ast
import logging
import pathlib
import re
import struct
import sys

import torch
import yaml
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end")]
import harness  # noqa: E402
import models  # noqa: E402
import operators as database  # noqa: E402
import zoo  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "ui64": torch.uint64, "i1": torch.bool, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128}
FORMATS = {"contiguous": torch.contiguous_format, "preserve": torch.preserve_format, "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d}
TARGET = {"device": "cuda", "cuda_arch": "sm_90"}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
MODELS = ("mlp", "tiny", "double", "convnet", "tagger", "gpt", "looped", "dpo", "lora_llama", "llama", "bert", "gpt2", "vit")
# Where fake tensors are not what a plan says, by operator and number of the result: strides that depend on the library
# which LibTorch takes when it runs (cuSOLVER or MAGMA). The runtime copies what comes in other strides.
EXPLAINED = {("_linalg_svd", 2), ("linalg_eig", 1)}
# Whose fake tensors ask a driver, and where there is none say nothing.
NEED_DRIVER = {"_batch_norm_with_update_functional", "multi_margin_loss_backward", "multilabel_margin_loss_backward"}
LOWERED = ("gpt", "llama", "bert")


def split(text, separator=","):
    """At separators outside of brackets and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for at, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "([{<":
            depth += 1
        elif not quoted and c in ")]}>" and text[at - 1:at + 1] != "->":
            depth -= 1
        elif c == separator and depth == 0 and not quoted:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [p for p in (*parts, text[begin:].strip()) if p]


def layout(text):
    """(shape, strides, type) of tensor<2x3xf32, #aten.strides<1, 2>>; nothing of a result that is not there."""
    if text == "none":
        return None
    inner = split(text.removeprefix("tensor<")[:-1])
    *shape, dtype = re.match(r"((?:\d+x)*)(.*)", inner[0]).groups()
    shape = [int(n) for n in shape[0].split("x") if n]
    strides = [int(n) for n in re.findall(r"-?\d+", inner[1])] if len(inner) > 1 else None
    if strides is None:
        strides, step = [], 1
        for n in reversed(shape):
            strides.insert(0, step)
            step *= max(n, 1)
    return tuple(shape), tuple(strides), DTYPES[dtype]


def same(one, other):
    """Strides of dims of one element, or of none at all, say nothing."""
    if one[0] != other[0] or one[2] != other[2]:
        return False
    return 0 in one[0] or all(a == b for n, a, b in zip(one[0], one[1], other[1]) if n != 1)


def value(text):
    if text in DTYPES:
        return DTYPES[text]
    if text.startswith('"'):
        return FORMATS.get(text[1:-1], text[1:-1])
    if bits := re.match(r"0x([0-9A-F]{16}) : f64", text):  # infinities and NaNs
        return struct.unpack(">d", bytes.fromhex(bits[1]))[0]
    text = re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", re.sub(r"\bnone\b", "None", text)))
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        raise AssertionError(f"a value that is not understood: {text}") from None


LINE = re.compile(r"^(?:%\S+(?::\d+)? = )?aten\.([\w.]+)\((.*)\)\s*(?:\{fsdp\.[^}]*\}\s*)?: \((.*)\) -> (.*)$")


def operators(text):
    """Each operator of a program once: (name, operands and attributes, types of operands, types of results)."""
    found = {}
    for line in text.splitlines():
        if match := LINE.match(line.strip()):
            name, arguments, given, results = match.groups()
            results = results[1:-1] if results.startswith("(") else results
            # Values have names of their own; which are the same does not matter.
            key = name, re.sub(r"%[\w.#$-]+", "%", arguments), given, results
            found.setdefault(key, (name, split(arguments), [layout(t) for t in split(given)], [layout(t) for t in split(results)]))
    return list(found.values())


def call(name, arguments, operands_types):
    """The results' layouts as PyTorch says."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tensors = iter(operands_types)

    def make():
        shape, strides, dtype = next(tensors)
        return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")

    def operand(text):
        if text.startswith("["):
            return [operand(t) for t in split(text[1:-1])]
        return None if text == "none" else make()

    operands = iter([a for a in arguments if not re.match(r"\w+ = ", a)])
    named = {k: value(v) for k, v in (a.split(" = ", 1) for a in arguments if re.match(r"\w+ = ", a))}
    positional, keywords = [], {}
    for parameter in op._schema.arguments:
        if "Tensor" in str(parameter.type):
            given = operand(next(operands, "none"))  # the last are left out if they are not there
        elif parameter.name in named:
            given = named.pop(parameter.name)
        elif parameter.has_default_value():
            given = parameter.default_value
        elif parameter.name == "device" or str(parameter.type).startswith("Optional"):
            given = None
        else:
            raise AssertionError(f"{name} has no argument {parameter.name}: {arguments}")
        if parameter.name == "device":
            given = torch.device("cuda")
        if parameter.kwarg_only:
            keywords[parameter.name] = given
        else:
            positional.append(given)
    assert not named, f"{name} takes no {sorted(named)}"
    made = op(*positional, **keywords)
    made = made if isinstance(made, (tuple, list)) else (made,)
    flat = [t for each in made for t in (each if isinstance(each, (tuple, list)) else (each,))]
    # Numbers are no values of a plan.
    return [(tuple(t.shape), tuple(t.stride()), t.dtype) if t is not None else None for t in flat if t is None or torch.is_tensor(t)]


def differences(text):
    """Results of a printed program that are not as PyTorch says; and how many operators it has."""
    every = operators(text)
    lines = len(re.findall(r"= aten\.", text))
    assert lines >= len(every) > 0 and sum(LINE.match(line.strip()) is not None for line in text.splitlines()) >= lines, "not all operators were read"
    different = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        for name, arguments, given, results in every:
            try:
                got = call(name, arguments, given)
            except RuntimeError as error:
                assert re.search("NVIDIA driver|CUDA driver", str(error)) and name in NEED_DRIVER, f"{name}: {error}; {arguments} of {given}"
                continue
            assert len(got) == len(results), f"{name}: {len(results)} results, PyTorch has {len(got)}"
            for number, (planned, fake) in enumerate(zip(results, got)):
                if fake and planned and not same(planned, fake) and (name, number) not in EXPLAINED:
                    different.append(f"{name} #{number}: planned {planned}, PyTorch says {fake}; {arguments} of {given}")
    return different, lines


def plan(bin, folder, config):
    (folder / "fsdp.yaml").write_text(yaml.safe_dump({**config, **TARGET}))
    return harness.must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "-", cwd=folder).stdout


def check(bin, factory, config):
    """Every operator of a model's plan."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        harness.export(model.train(), inputs, folder / "model.pt2")
        different, lines = differences(plan(bin, folder, harness.make_config(2, **config)))
        print(f"      {lines} operators")
        assert not different, f"{len(different)} results differ:\n" + "\n".join(different)
    return case


def decoder():
    """The table's, whose attention is cuDNN's."""
    with torch.device("meta"):
        return models.decoder("1b"), {k: v.to("meta") for k, v in models.tokens("1b").items()}


def check_operators(bin, every):
    """Each K-th operator of PyTorch's database, and its derivative."""
    def case(folder):
        tools, different, lines, refused = database.sweep(), [], 0, 0
        logging.disable()  # torch.export shows the graphs of what it cannot export
        calls = tools.repeatable_calls(every)
        (folder / "exported").mkdir()
        groups = [g for i in range(0, len(calls), database.TOGETHER) for g in tools.export(calls[i:i + database.TOGETHER], folder / "exported", []).items()]
        while groups:
            source, own = groups.pop(0)
            (folder / "model.pt2").write_bytes(pathlib.Path(source).read_bytes())
            try:
                text = plan(bin, folder, {"fsdp_version": 2, "mesh": {"dp_shard": 1}, "optimizer": {"name": "sgd", "lr": 1.0}})
            except AssertionError:
                groups += [g for c in own for g in tools.export([c], folder / "exported", []).items()] if len(own) > 1 else []
                refused += len(own) == 1
                continue
            try:
                found, count = differences(text)
            except Exception as error:
                found, count = [f"{', '.join(c.name for c in own)}: {type(error).__name__}: {error}"], 0
            different, lines = different + found, lines + count
        print(f"      {lines} operators of {len(calls)} calls, {refused} of which are refused")
        assert lines and not different, f"{len(different)} results differ:\n" + "\n".join(different)
    return case


def main():
    arguments = harness.parse_arguments(lambda parser: parser.add_argument("--every", type=int, default=40, help="take each K-th operator of PyTorch's database"))
    cases = {name: check(arguments.bin, getattr(zoo, name), {}) for name in MODELS}
    cases |= {f"{name} in bfloat16": check(arguments.bin, getattr(zoo, name), {"mixed_precision": BF16}) for name in LOWERED}
    cases["decoder in bfloat16"] = check(arguments.bin, decoder, {"mixed_precision": BF16})
    cases["operators"] = check_operators(arguments.bin, arguments.every)
    harness.run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
