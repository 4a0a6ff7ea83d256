#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans for a GPU can be had, and what they say of every operator's results equals what PyTorch's fake tensors on a GPU say.

    fake_cuda.py --bin build/bin [--only MODEL] [--all] [--models FILE ...]

A result whose shape, strides or type was planned wrongly is found by the runtime on
the GPU, when the artifact is loaded (E073). PyTorch knows them without a GPU: its
fake tensors have a device, and so the layouts that its kernels there give.

--all takes all models, with each config of CONFIGS and for each GPU of ARCHS, and
all operators of PyTorch's database with operands in each order in memory.
"""
import ast
import importlib.util
import itertools
import logging
import pathlib
import re
import struct
import sys

import torch
import yaml
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end")]
import layout_models  # noqa: E402
import harness  # noqa: E402
import models  # noqa: E402
import operators as database  # noqa: E402
import zoo  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "ui64": torch.uint64, "i1": torch.bool, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128}
FORMATS = {"contiguous": torch.contiguous_format, "preserve": torch.preserve_format, "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d}
ARCHS = ("sm_80", "sm_90", "sm_100")
BF16, F16 = ({"param_dtype": name, "reduce_dtype": "float32"} for name in ("bfloat16", "float16"))
CONFIGS = {"zero3": {"reshard_after_forward": True}, "bf16": {"mixed_precision": BF16}, "ckpt": {"activation_checkpointing": True}}
PRECISIONS = {"f32": {}, "bf16": {"mixed_precision": BF16}, "f16": {"mixed_precision": F16}}
ORDERS = ("rows", "columns", "channels_last")
# What a test with each change takes: of the zoo in float32 for one GPU; of both in bfloat16.
MODELS = ("mlp", "tiny", "double", "convnet", "tagger", "gpt", "looped", "dpo", "lora_llama", "llama", "bert", "gpt2", "vit")
LOWERED = ("gpt", "llama", "bert")
# Models that PyTorch refuses so, too: their batch norms have statistics in float32.
NOT_LOWERED = {"convnet"}
# How many calls one plan has at first; a plan that cannot be had is halved until the call at fault stands alone.
TOGETHER = 12
# Where fake tensors are not what a plan says, by operator and number of the result: strides that depend on the library
# which LibTorch takes when it runs (cuSOLVER or MAGMA). The runtime copies what comes in other strides.
# Of images with few channels PyTorch's decomposition, which its fake tensors run, gives the upsampled ones in rows; the kernel
# writes into what its structured meta function has, which is the input's format.
EXPLAINED = {("_linalg_svd", 2), ("linalg_eig", 1), ("upsample_bilinear2d", 0)}
# Calls that plans for a GPU refuse by design, of those that plans for the CPU take.
REFUSED = set()
# Whose fake tensors say nothing: without a driver, or of other types than bfloat16, which the kernel takes as well.
UNKNOWN = {**dict.fromkeys(("_batch_norm_with_update_functional", "multi_margin_loss_backward", "multilabel_margin_loss_backward"), "NVIDIA driver|CUDA driver"),
           "_grouped_mm": "Expected inputs of BF16 type"}


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


def call(name, arguments, operands_types, device="cuda"):
    """The results' layouts as PyTorch says."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tensors = iter(operands_types)

    def make():
        shape, strides, dtype = next(tensors)
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
    return [(tuple(t.shape), tuple(t.stride()), t.dtype) if t is not None else None for t in flat if t is None or torch.is_tensor(t)]


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


def plan(bin, folder, config, **target):
    (folder / "fsdp.yaml").write_text(yaml.safe_dump({**config, **target}))
    return harness.must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "-", cwd=folder).stdout


def check(bin, factory, arch, config):
    """Every operator of a model's plan."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        harness.export(model.train(), inputs, folder / "model.pt2")
        different, lines = differences(plan(bin, folder, harness.make_config(2, **config), device="cuda", cuda_arch=arch), set())
        print(f"      {lines} operators")
        assert not different, f"{len(different)} results differ:\n" + "\n".join(different)
    return case


def decoder():
    """The table's, whose attention is cuDNN's."""
    with torch.device("meta"):
        return models.decoder("1b"), {k: v.to("meta") for k, v in models.tokens("1b").items()}


def check_operators(bin, every, precisions, archs, orders):
    """Each K-th operator of PyTorch's database, and its derivative: what a plan for the CPU takes, one for a GPU takes, too."""
    def case(folder):
        tools, known, different, lines, refused, count = database.sweep(), set(), [], 0, 0, 0
        (folder / "exported").mkdir()
        for order in orders:
            calls = tools.repeatable_calls(every, order)
            groups = [g for i in range(0, len(calls), TOGETHER) for g in tools.export(calls[i:i + TOGETHER], folder / "exported", []).items()]
            for precision, arch in itertools.product(precisions, archs):
                left = list(groups)
                while left:
                    source, own = left.pop(0)
                    (folder / "model.pt2").write_bytes(pathlib.Path(source).read_bytes())
                    config = {"fsdp_version": 2, "mesh": {"dp_shard": 1}, "optimizer": {"name": "sgd", "lr": 1.0}, "fsdp_config": PRECISIONS[precision]}
                    names = f"{', '.join(c.name for c in own)} ({order}, {precision}, {arch})"
                    try:
                        text = plan(bin, folder, config, device="cuda", cuda_arch=arch)
                    except AssertionError as error:
                        if len(own) > 1:
                            half = len(own) // 2
                            left += [g for part in (own[:half], own[half:]) for g in tools.export(part, folder / "exported", []).items()]
                            continue
                        refused += 1
                        if own[0].name not in REFUSED and planned_for_cpu(bin, folder, config):
                            different.append(f"{names} has a plan for the CPU, but not for a GPU: {error}")
                        continue
                    try:
                        found, more = differences(text, known)
                    except Exception as error:
                        found, more = [f"{type(error).__name__}: {error}"], 0
                    different, lines = different + [f"{each} in {names}" for each in found], lines + more
                count += len(calls)
        print(f"      {lines} operators of {count} calls, {refused} of which are refused")
        assert lines and not different, f"{len(different)} results differ:\n" + "\n".join(different)
    return case


def planned_for_cpu(bin, folder, config):
    try:
        return plan(bin, folder, config)
    except AssertionError:
        return None


def load(path):
    """MODELS of a Python file."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


def main():
    def extend(parser):
        parser.add_argument("--every", type=int, help="take each K-th operator of PyTorch's database (default: 40, with --all: 1)")
        parser.add_argument("--models", nargs="*", default=[], help="Python files whose MODELS are taken as well, with --all")
        parser.add_argument("--arch", nargs="*", default=ARCHS, help="with --all")
    arguments = harness.parse_arguments(extend)
    logging.disable()  # PyTorch shows what it cannot export or compute
    factories = {name: getattr(zoo, name) for name in MODELS} | layout_models.MODELS
    if arguments.all:
        factories |= {name: getattr(zoo, name) for name in ("partial", "scaled", "lora")}
        factories |= {f"{pathlib.Path(path).stem}.{name}": factory for path in arguments.models for name, factory in load(path).items()}
        wanted = [(name, label, arch) for name, label, arch in itertools.product(factories, CONFIGS, arguments.arch)]
    else:
        wanted = [(name, "zero3", "sm_90") for name in MODELS] + [(name, "bf16", "sm_90") for name in LOWERED]
        wanted += [(name, "bf16" if i % 2 else "ckpt", ARCHS[i % 3]) for i, name in enumerate(layout_models.MODELS)]
    cases = {f"{name} {label} {arch}": check(arguments.bin, factories[name], arch, CONFIGS[label])
             for name, label, arch in wanted if label != "bf16" or name.rpartition(".")[2] not in NOT_LOWERED}
    cases["decoder bf16 sm_90"] = check(arguments.bin, decoder, "sm_90", CONFIGS["bf16"])
    if arguments.all:
        cases |= {f"operators {precision} {order}": check_operators(arguments.bin, arguments.every or 1, [precision], arguments.arch, [order])
                  for precision, order in itertools.product(PRECISIONS, ORDERS)}
    else:
        cases["operators f32"] = check_operators(arguments.bin, arguments.every or 40, ["f32"], ["sm_90"], ["rows"])
        cases["operators bf16"] = check_operators(arguments.bin, arguments.every or 39, ["bf16"], ["sm_100"], ["columns"])
    harness.run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
