# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models trained by fsdp-run and by PyTorch on the same device: losses, gradient norms, final weights.

`prepare` exports and compiles; `work` is a process that trains some models in some
cases and prints a line of JSON about each.
"""
import contextlib
import copy
import functools
import hashlib
import importlib.util
import json
import math
import pathlib
import shutil
import sys
import tempfile
import time

import torch
import yaml
from safetensors.torch import load_file, save_file

import kit

sys.path.insert(0, str(kit.HERE.parent / "end_to_end"))
import families  # noqa: E402
import harness  # noqa: E402
import quantized  # noqa: E402
import zoo  # noqa: E402

STEPS = 6  # some as single launches, some as a graph
WORLDS = 4  # ranks whose steps have rows of their own; the rows of more micro-batches come again
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
# The most telling first.
CASES = {
    "zero3": {"reshard_after_forward": True},
    "bf16": {"reshard_after_forward": True, "optimizer": SGD, "mixed_precision": BF16},
    "kernels": {"reshard_after_forward": True, "kernels": "on"},
    "qlora": {"reshard_after_forward": True, "quantize": {"kind": "nf4", "double_quant": True}},
    "qlora8": {"reshard_after_forward": False, "quantize": {"kind": "int8", "block_size": 128}},
    "bf16kernels": {"reshard_after_forward": True, "optimizer": SGD, "mixed_precision": BF16, "kernels": "on", "max_grad_norm": 0.05},
    "ckpt": {"activation_checkpointing": True},
    "everything": {"activation_checkpointing": True, "offload_params": True, "gradient_accumulation_steps": 2, "max_grad_norm": 0.05, "optimizer": SGD},
    "optoffload": {"offload_optimizer": True},
    "offload": {"offload_params": True},
    "actoffload": {"activation_offloading": True},
    "accumulate": {"reshard_after_forward": True, "gradient_accumulation_steps": 3, "optimizer": SGD},
    "tp2": {"mesh": {"tp": 2}, "tp_plan": "auto"},
    "tp2sp": {"mesh": {"tp": 2}, "tp_plan": "auto", "sequence_parallel": True},
    "cp2": {"mesh": {"cp": 2}},
    "selective": {"activation_checkpointing": {"policy": "selective"}},
    "chunks": {"loss_chunks": 4},
    "clip": {"reshard_after_forward": True, "max_grad_norm": 0.05},
    "flat": {"reshard_after_forward": True, "bucket_layout": "flat"},
    "wires": {"reshard_after_forward": True, "optimizer": SGD, "mixed_precision": BF16, "reduce_wire_dtype": "bfloat16", "max_grad_norm": 0.05},
    "zero2": {"reshard_after_forward": False},
    "hsdp": {"reshard_after_forward": True, "replicate": 2},
    "hpz2": {"reshard_after_forward": 2},
    "sgd": {"reshard_after_forward": True, "optimizer": SGD},
    "adam": {"reshard_after_forward": True, "optimizer": {"name": "adam", "lr": 1e-3, "betas": [0.8, 0.95], "eps": 1e-3, "weight_decay": 0.1}},
}
# A step with the host's work in it is never captured as a whole.
HOST_WORK = ("everything", "optoffload", "offload", "actoffload")
# The models of this project that a case is made for; the others have no such parts, or their sizes do not divide.
ONLY = {"tp2": ("gpt", "llama", "forms"), "tp2sp": ("gpt", "llama"), "cp2": ("llama",), "chunks": ("gpt", "llama"), "qlora": ("lora",), "qlora8": ("lora",)}
FAMILY_CASES = ("zero3", "bf16", "kernels", "ckpt")
# What one call of efficient attention asks for beside the plan when it is captured,
# and then only: its seed and offset lie on the device in a graph, else on the host.
EFFICIENT_ATTENTION = "_scaled_dot_product_efficient_attention"
BYTES_IN_CAPTURES = 16


def bert():
    """Without dropout, whose draws are no reference's."""
    model, inputs = zoo.bert()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model, inputs


def forms():
    """Every form of masks, of positions and of data."""
    return zoo.forms(192, (*zoo.FORMS, *zoo.DATA_FORMS))


OWN = (zoo.gpt, zoo.mlp, zoo.llama, zoo.convnet, zoo.tagger, bert, zoo.vit, zoo.lora, forms)


def factories(file):
    """Models by name: the table MODELS of a file, or this project's and the families."""
    if not file:
        return {**{f.__name__: f for f in OWN}, **families.FAMILIES}
    spec = importlib.util.spec_from_file_location("given_models", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


def computes_lowered(model, inputs):
    """Whether PyTorch computes with bfloat16 weights: buffers stay float32, and not every operator takes both."""
    low = copy.deepcopy(model).to("meta")
    for parameter in low.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    batch = {k: (v.to("meta", torch.bfloat16) if v.is_floating_point() else v.to("meta")) if torch.is_tensor(v) else v for k, v in inputs.items()}
    try:
        low(**batch)
    except RuntimeError as error:
        return "dtype" not in str(error)  # some look at data, of which there is none
    return True


def makes_sense(name, case, world, model, inputs):
    if case in ("hsdp", "hpz2") and world % 2 or world % together(case) or case == "wires" and world == 1:
        return False
    if name in families.FAMILIES and case not in FAMILY_CASES or name in {f.__name__ for f in OWN} and name not in ONLY.get(case, (name,)):
        return False
    # Running statistics in float32 refuse a batch in bfloat16, which the meta device does not see.
    has_statistics = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules())
    return not is_lowered(case) or not has_statistics and computes_lowered(model, inputs)


def is_lowered(case):
    """Whether weights are bfloat16 where they are computed with."""
    return CASES[case].get("mixed_precision") == BF16


def together(case):
    """How many ranks compute one batch."""
    return math.prod(CASES[case].get("mesh", {}).values())


def config_of(case, world, device, arch):
    own = copy.deepcopy(CASES[case])
    mesh = own.pop("mesh", {})
    config = harness.make_config(world // together(case), **own)
    config["mesh"].update(mesh)
    return {**config, "device": device, **({"cuda_arch": arch} if device == "cuda" else {})}


def export(name, factory, folder, kept):
    """Fills the folder with the exported model, its first state and data; `kept`, if given, keeps them for the next time."""
    sources = [pathlib.Path(module.__file__) for module in (harness, zoo, families)] + [pathlib.Path(__file__)]
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources) + torch.__version__.encode()).hexdigest()[:16]
    store = kept / digest / name if kept else None
    if store and store.exists():
        return shutil.copytree(store, folder, dirs_exist_ok=True)
    torch.manual_seed(7)
    model, inputs = factory()
    model.train()
    harness.export(model, inputs, folder / "model.pt2")
    data = harness.make_data({k: v for k, v in inputs.items() if torch.is_tensor(v)}, WORLDS * STEPS)
    if "attention_mask" in data:
        data["attention_mask"].fill_(1)
    torch.save({"state": model.state_dict(), "inputs": inputs}, folder / "start.pt")
    save_file(data, folder / "data.safetensors")
    if store:
        store.parent.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=store.parent)) / name
        shutil.copytree(folder, made)
        with contextlib.suppress(OSError):  # another process has just kept the same
            made.replace(store)
        shutil.rmtree(made.parent)
    return folder


def prepare(out, bin, name, factory, steps, device, arch, kept=None):
    """Of `steps`, pairs of a case and a number of ranks: (case, world, calls of efficient attention in a micro-batch) of all that was compiled, and what
    the compiler said to the others."""
    folder = out / "cases" / name
    folder.mkdir(parents=True, exist_ok=True)
    export(name, factory, folder, kept)
    model, inputs = factory()
    made, refused = [], {}
    for case, world in steps:
        if not makes_sense(name, case, world, model, inputs):
            continue
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config_of(case, world, device, arch)))
        try:
            kit.call([bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", f"{case}-{world}.fsdp"], folder, kit.environment(bin), 300)
            report = folder / "report.json"
            calls = sum(n for op, n in json.loads(report.read_text())["ops"].items() if op.removeprefix("aten.") == EFFICIENT_ATTENTION)
            report.unlink()
            made.append([case, world, calls // CASES[case].get("gradient_accumulation_steps", 1)])
        except kit.Failure as failure:
            refused[f"{name} {case} world {world}"] = str(failure)
    (folder / "fsdp.yaml").unlink(missing_ok=True)
    return made, refused


def lowered_reference(model, inputs, data, world, steps, config):
    """As harness.reference, computing with bfloat16 copies of the weights."""
    micro_batches = config.get("gradient_accumulation_steps", 1)
    model = copy.deepcopy(model)
    optimizer = harness.make_optimizer(model, config["optimizer"])
    rows = []
    for step in range(steps):
        loss_sum = 0.0
        for number in range(world * micro_batches):
            low = copy.deepcopy(model)
            for parameter in low.parameters():
                parameter.data = parameter.data.to(torch.bfloat16)
            batch = harness.batch_of(data, inputs, step * world * micro_batches + number)
            out = low(**{k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in batch.items()})
            loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            loss.float().backward()
            loss_sum += loss.item() / world / micro_batches
            for parameter, other in zip(model.parameters(), low.parameters()):
                if other.grad is not None:
                    gradient = other.grad.float() / world / micro_batches
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.get("max_grad_norm", float("inf")))
        optimizer.step()
        optimizer.zero_grad()
        rows.append((loss_sum, norm.item()))
    return rows, {k: v.detach() for k, v in model.named_parameters(remove_duplicate=False)}


def compare_lowered(rows, final, want_rows, want, start):
    """To what bfloat16 resolves: kernels round in other places."""
    for row, (loss, norm) in zip(rows, want_rows, strict=True):
        assert abs(row["loss"] - loss) <= 1e-2 * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
        assert abs(row["grad_norm"] - norm) <= 5e-2 * norm, f"step {row['step']}: grad_norm {row['grad_norm']} instead of {norm}"
    moved = {k: (want[k] - start[k]).abs().mean().item() for k in want}
    for name, value in want.items():
        error = (final[name] - value).abs().mean().item()
        assert error <= 0.1 * moved[name] + 1e-3 * max(moved.values()), f"{name}: mean error {error:.2e} where it moved by {moved[name]:.2e}"


def train(bin, folder, artifact, graph, final):
    options = [f"--steps={STEPS}", "--data=data.safetensors", f"--export={final}"]
    return kit.Training(bin, folder, artifact, *options, *([f"--cuda-graph={graph}"] if graph else []))


def check_allocations(graph, rows, parts, calls):
    """No byte beside the plan from the second step on, but for what is explained: once for each of the programs that make a step."""
    taken = {row["step"]: row["unplanned_bytes"] for row in rows[1:] if row["unplanned_bytes"]}
    explained = calls * parts * BYTES_IN_CAPTURES if graph in ("on", "auto") else 0
    assert sum(taken.values()) <= explained, f"--cuda-graph={graph}: bytes that were not planned, by step: {taken}; explained are {explained}"


def graphs_of(case, device):
    return (("auto" if case in HOST_WORK else "on"), "off") if device == "cuda" else (None,)


class References:
    """PyTorch's rows, parameters and buffers; cases that differ in nothing that it knows share them."""

    def __init__(self, device):
        self.device, self.made = device, {}

    def get(self, folder, factory, case, world, config):
        batches = world // together(case)
        key = str((folder, batches, is_lowered(case), *(config.get(k) for k in ("gradient_accumulation_steps", "max_grad_norm", "optimizer", "quantize"))))
        if key not in self.made:
            self.made[key] = self.compute(folder, factory, case, batches, config)
        return self.made[key]

    def compute(self, folder, factory, case, batches, config):
        begin = torch.load(folder / "start.pt")
        model, _ = factory()
        model.load_state_dict(begin["state"])
        if told := config.get("quantize"):
            for parameter in quantized.chosen(model, told).values():
                parameter.data.copy_(quantized.store(parameter.data, told))
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        model.train().to(self.device)
        inputs = {k: v.to(self.device) for k, v in begin["inputs"].items() if torch.is_tensor(v)}
        model.forward = functools.partial(model.forward, **{k: v for k, v in begin["inputs"].items() if not torch.is_tensor(v)})
        data = {k: v.to(self.device) for k, v in load_file(folder / "data.safetensors").items()}
        made = lowered_reference(model, inputs, data, batches, STEPS, config) if is_lowered(case) else harness.reference(model, inputs, data, batches, STEPS, config)
        return (made[0], *({k: v.cpu() for k, v in tensors.items()} for tensors in made[1:]), start)


def check(bin, folder, factory, case, world, calls, device, arch, references):
    config = config_of(case, world, device, arch)
    with tempfile.TemporaryDirectory() as scratch:
        # Both at once: they take more time to start than to train. Meanwhile PyTorch's.
        graphs = graphs_of(case, device)
        files = [pathlib.Path(scratch) / f"{graph}.safetensors" for graph in graphs]
        runs = [train(bin, folder, f"{case}-{world}.fsdp", graph, file) for graph, file in zip(graphs, files)]
        try:
            want = references.get(folder, factory, case, world, config)
            rows = [run.rows(120)[0] for run in runs]
        finally:
            for run in runs:
                kit.stop(run.process)
        finals = [load_file(file) for file in files]
    seen = [[(row["loss"], row["grad_norm"]) for row in each] for each in rows]
    assert all(each == seen[0] for each in seen), f"a graph gives other losses or norms than single launches: {seen}"
    for key, value in finals[0].items():
        assert torch.equal(value, finals[-1][key]), f"a graph gives another {key} than single launches"
    (compare_lowered if is_lowered(case) else harness.compare)(rows[0], finals[0], *want)
    # Last: numbers tell more.
    parts = min(3, config.get("gradient_accumulation_steps", 1))
    for graph, each in zip(graphs, rows):
        check_allocations(graph, each, parts, calls)


def work(out, bin, names):
    """Trains what the names of checks say; prints each verdict as a line of JSON."""
    manifest = kit.read_manifest(out)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    known, references = factories(out / "models.py" if manifest["has_models"] else None), References(manifest["device"])
    for name in names:
        model, case, _, ranks = name.rsplit(" ", 3)
        begin, said = time.monotonic(), {"name": name, "state": "ok"}
        calls = next(n for c, w, n in manifest["cases"][model] if (c, w) == (case, int(ranks)))
        try:
            check(bin, out / "cases" / model, known[model], case, int(ranks), calls, manifest["device"], manifest["arch"], references)
        except ImportError as error:
            said.update(state="skipped", text=str(error))
        except Exception as error:
            said.update(state="fail", text=f"{type(error).__name__}: {error}")
        print(json.dumps({**said, "seconds": time.monotonic() - begin}), flush=True)
