#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans for a GPU can be had, and what they say of every operator's results equals what PyTorch's fake tensors on a GPU say.

    fake_cuda.py --bin build/bin [--only MODEL] [--all] [--models FILE ...] [--table FILE]

A result whose shape, strides or type was planned wrongly is found by the runtime on
the GPU, when the artifact is loaded (E073). PyTorch knows them without a GPU: its
fake tensors have a device, and so the layouts that its kernels there give.

--all takes all models, with each config of CONFIGS and for each GPU of ARCHS, and
all operators of PyTorch's database with operands in each order in memory; --table
writes which models have plans.
"""
import importlib.util
import inspect
import itertools
import logging
import pathlib
import sys
import tempfile

import torch
import yaml

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end")]
import families  # noqa: E402
import harness  # noqa: E402
import layout_models  # noqa: E402
import models  # noqa: E402
import operators as database  # noqa: E402
import zoo  # noqa: E402
from fake_tensors import differences  # noqa: E402

ARCHS = ("sm_80", "sm_90", "sm_100")
BF16, F16 = ({"param_dtype": name, "reduce_dtype": "float32"} for name in ("bfloat16", "float16"))
CONFIGS = {"zero3": {"reshard_after_forward": True}, "bf16": {"mixed_precision": BF16}, "ckpt": {"activation_checkpointing": True}}
# Numbers of few bits, of models with sizes for them; products of such are from sm_89 on.
NARROW = {"float8": {"float8": {}}, "float8 gathers": {"float8": {"enable_fsdp_float8_all_gather": True}, "mixed_precision": BF16},
          "float8 rows": {"float8": {"recipe": "rowwise"}, "mixed_precision": BF16},
          "float8 blocks": {"float8": {"recipe": "mxfp8"}, "mixed_precision": BF16}}
# Of which only what is no kernel of our own is looked at: gradients that products write in float32.
OWN = {"kernels": {"kernels": "on", "mixed_precision": BF16}}
PRECISIONS = {"f32": {}, "bf16": {"mixed_precision": BF16}, "f16": {"mixed_precision": F16}}
ORDERS = ("rows", "columns", "channels_last")
# What a test with each change takes: of the zoo in float32 for one GPU; of both in bfloat16.
MODELS = ("mlp", "tiny", "double", "convnet", "tagger", "gpt", "looped", "dpo", "lora_llama", "llama", "bert", "gpt2", "vit")
LOWERED = ("gpt", "llama", "bert")
# Refused by design, with words of the error: batch norms whose statistics stay in float32, which PyTorch refuses, too.
STATISTICS = "running statistics of Float, which mixed precision leaves as they are; PyTorch refuses that"
REFUSED_MODELS = {(name, "bf16"): STATISTICS for name in ("convnet", "resnet")}
# How many calls one plan has at first; a plan that cannot be had is halved until the call at fault stands alone.
TOGETHER = 12
# Calls that plans for a GPU refuse by design, of those that plans for the CPU take.
REFUSED = set()


def plan(bin, folder, config, **target):
    (folder / "fsdp.yaml").write_text(yaml.safe_dump({**config, **target}))
    return harness.must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "-", cwd=folder).stdout


class Exports:
    """Each model's program, which all of its plans are made of."""

    def __init__(self, folder, factories):
        self.folder, self.factories = folder, factories

    def copy(self, name, folder):
        path = self.folder / f"{name}.pt2"
        if not path.exists():
            torch.manual_seed(7)
            model, inputs = self.factories[name]()
            harness.export(model.train(), inputs, path)
        (folder / "model.pt2").write_bytes(path.read_bytes())


def check(bin, exports, name, label, arch, verdicts):
    """Every operator of a model's plan; or, where it has none by design, why."""
    words = REFUSED_MODELS.get((name.rpartition(".")[2], label))

    def case(folder):
        verdicts[name, label, arch] = "FAIL"
        exports.copy(name, folder)
        config = harness.make_config(2, **{**CONFIGS, **NARROW, **OWN}[label])
        if words:
            try:
                plan(bin, folder, config, device="cuda", cuda_arch=arch)
            except AssertionError as error:
                assert words in str(error), f"is refused for another reason: {error}"
                verdicts[name, label, arch] = "refused"
                return
            raise AssertionError(f"expected a refusal, since it has {words}; found a plan")
        text = plan(bin, folder, config, device="cuda", cuda_arch=arch)
        different, lines = differences(text, set())
        print(f"      {lines} operators")
        assert label not in OWN or "aten.mm.dtype(" in text, "no product writes float32"
        assert not different, f"{len(different)} results differ:\n" + "\n".join(different)
        verdicts[name, label, arch] = "ok"
    return case


def table(verdicts):
    """A line for each model: a verdict for each config, or one for each GPU where they differ."""
    archs = sorted({arch for _, _, arch in verdicts}, key=lambda arch: int(arch.removeprefix("sm_")))
    lines = ["| model | " + " | ".join(CONFIGS) + " |", "|---" * (len(CONFIGS) + 1) + "|"]
    for name in dict.fromkeys(name for name, _, _ in verdicts):
        cells = []
        for label in CONFIGS:
            said = [verdicts.get((name, label, arch), "-") for arch in archs]
            cells.append(said[0] if len(set(said)) == 1 else ", ".join(f"{arch} {each}" for arch, each in zip(archs, said)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    counts = {verdict: list(verdicts.values()).count(verdict) for verdict in ("ok", "refused", "FAIL")}
    return "\n".join([*lines, "", f"{counts['ok']} plans as PyTorch says, {counts['refused']} refused by design, {counts['FAIL']} wrong; for {', '.join(archs)}", ""])


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
        parser.add_argument("--table", type=pathlib.Path, help="a file for the models' verdicts")
    arguments = harness.parse_arguments(extend)
    logging.disable()  # PyTorch shows what it cannot export or compute
    factories = {name: getattr(zoo, name) for name in MODELS} | layout_models.MODELS | {"decoder": decoder}
    if arguments.all:
        factories |= {name: make for name, make in inspect.getmembers(zoo, inspect.isfunction)
                      if make.__module__ == "zoo" and not inspect.signature(make).parameters}
        factories |= {f"families.{name}": make for name, make in families.FAMILIES.items()}
        factories |= {f"{pathlib.Path(path).stem}.{name}": make for path in arguments.models for name, make in load(path).items()}
        wanted = list(itertools.product(factories, CONFIGS, arguments.arch))
    else:
        wanted = [(name, "zero3", "sm_90") for name in MODELS] + [(name, "bf16", "sm_90") for name in LOWERED]
        wanted += [(name, "bf16" if i % 2 else "ckpt", ARCHS[i % 3]) for i, name in enumerate(layout_models.MODELS)]
        wanted += [("convnet", "bf16", "sm_100"), ("decoder", "bf16", "sm_90")]
    wanted += [("even", label, arch) for label, arch in zip(NARROW, ("sm_89", "sm_90", "sm_100", "sm_100"), strict=True)]
    wanted += [(name, "kernels", arch) for name, arch in zip(("llama", "gpt", "decoder"), ARCHS)]
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        exports = Exports(pathlib.Path(folder), factories)
        cases = {" ".join(each): check(arguments.bin, exports, *each, verdicts) for each in wanted}
        if arguments.all:
            # Exports, which take longest, serve all precisions.
            cases |= {f"operators {order}": check_operators(arguments.bin, arguments.every or 1, PRECISIONS, arguments.arch, [order]) for order in ORDERS}
        else:
            cases["operators f32"] = check_operators(arguments.bin, arguments.every or 40, ["f32"], ["sm_90"], ["rows"])
            cases["operators bf16"] = check_operators(arguments.bin, arguments.every or 39, ["bf16"], ["sm_100"], ["columns"])
        try:
            harness.run_cases(cases, arguments.only)
        finally:
            if arguments.table:
                arguments.table.write_text(table(verdicts))


if __name__ == "__main__":
    main()
