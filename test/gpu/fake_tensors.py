# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a printed plan says of every operator's results, beside what PyTorch's fake tensors on a GPU say."""
import ast
import re
import struct

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "ui64": torch.uint64, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2, "f8E8M0FNU": torch.float8_e8m0fnu, "i1": torch.bool, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128}
FORMATS = {"contiguous": torch.contiguous_format, "preserve": torch.preserve_format, "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d}
# Where fake tensors are not what a plan says, by operator and number of the result: strides that depend on the library
# which LibTorch takes when it runs (cuSOLVER or MAGMA). The runtime copies what comes in other strides.
# Of images with few channels PyTorch's decomposition, which its fake tensors run, gives the upsampled ones in rows; the kernel
# writes into what its structured meta function has, which is the input's format.
EXPLAINED = {("_linalg_svd", 2), ("linalg_eig", 1), ("upsample_bilinear2d", 0), ("upsample_trilinear3d", 0)}
# Whose fake tensors say nothing: without a driver, or of other types than bfloat16, which the kernel takes as well.
UNKNOWN = {**dict.fromkeys(("_batch_norm_with_update_functional", "multi_margin_loss_backward", "multilabel_margin_loss_backward"), "NVIDIA driver|CUDA driver"),
           "_grouped_mm": "Expected inputs of BF16 type"}
# Asked in float16 where they are in bfloat16: cuDNN lays out both alike on GPUs from sm_80 on, but without a driver PyTorch takes it to have no bfloat16.
ASKED_IN_HALF = {"convolution", "convolution_backward"}


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
    if parts := re.match(r"dense<\((\S+),(\S+)\)> : tensor<complex<f64>>$", text):
        return complex(float(parts[1]), float(parts[2]))
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


def call(name, arguments, operands_types, device="cuda"):
    """The results' layouts as PyTorch says."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tensors = iter(operands_types)
    is_half = packet in ASKED_IN_HALF and device == "cuda" and any(t and t[2] is torch.bfloat16 for t in operands_types)
    lowered, raised = ({torch.bfloat16: torch.float16}, {torch.float16: torch.bfloat16}) if is_half else ({}, {})

    def make():
        shape, strides, dtype = next(tensors)
        dtype = lowered.get(dtype, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device=device).zero_()

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
            given = torch.device(device)
        if parameter.kwarg_only:
            keywords[parameter.name] = given
        else:
            positional.append(given)
    assert not named, f"{name} takes no {sorted(named)}"
    made = op(*positional, **keywords)
    made = made if isinstance(made, (tuple, list)) else (made,)
    flat = [t for each in made for t in (each if isinstance(each, (tuple, list)) else (each,))]
    # Numbers are no values of a plan.
    return [(tuple(t.shape), tuple(t.stride()), raised.get(t.dtype, t.dtype)) if t is not None else None for t in flat if t is None or torch.is_tensor(t)]


def are_wrong(number, planned, fake, *of):
    """Whether fake tensors say the same of the CPU, whose kernel does as planned: then they are no witness of a GPU either."""
    try:
        said = call(*of, device="cpu")
        with unset_fake_temporarily():
            done = call(*of, device="cpu")
    except RuntimeError:
        return False
    return same(said[number], fake) and same(done[number], planned)


def differences(text, known):
    """Results of a printed program that are not as PyTorch says; and how many operators it has. Those in `known` were compared before."""
    every = operators(text)
    lines = len(re.findall(r"= aten\.", text))
    assert lines >= len(every) > 0 and sum(LINE.match(line.strip()) is not None for line in text.splitlines()) >= lines, "not all operators were read"
    different = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        for name, arguments, given, results in every:
            if (key := repr((name, re.sub(r"%[\w.#$-]+", "%", repr(arguments)), given, results))) in known:
                continue
            known.add(key)
            try:
                got = call(name, arguments, given)
            except RuntimeError as error:
                if name not in UNKNOWN or not re.search(UNKNOWN[name], str(error)):
                    different.append(f"{name}: {type(error).__name__}: {error}; {arguments} of {given}")
                continue
            if len(got) != len(results):
                different.append(f"{name}: {len(results)} results, PyTorch has {len(got)}; {arguments} of {given}")
                continue
            for number, (planned, fake) in enumerate(zip(results, got)):
                if fake and planned and not same(planned, fake) and (name, number) not in EXPLAINED and not are_wrong(number, planned, fake, name, arguments, given):
                    different.append(f"{name} #{number}: planned {planned}, PyTorch says {fake}; {arguments} of {given}")
    return different, lines
