# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nothing that a GPU's run reads or writes is left without an order, in any mode; without a GPU.

A device that the host plays (test/unit/runtime/cuda/FarDevice.h) orders every access of kernels, copies, transfers and the
host by happens-before, and does its work as late as it may, or at random: what is not ordered is named, and gives other
numbers than the host's.
"""
import json

import torch
from safetensors.torch import save_file

import zoo
from harness import compile_step, export, make_config, make_data, must, parse_arguments, run_cases
from offload import Blocks

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
EIGHT = {"pad_inner_dim": True}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
STEPS = 6  # three, then the capture's, and launches of what it kept


def blocks():
    return Blocks(), {"x": torch.randn(4, 7), "y": torch.randn(4, 7)}


def wide():
    """Activations that are worth a copy."""
    return Blocks(width=32), {"x": torch.randn(64, 7), "y": torch.randn(64, 7)}


def plain():
    """Whose operators a processor has with a GPU's types."""
    return zoo.Classifier(torch.nn.Sequential(torch.nn.Linear(19, 48), torch.nn.Tanh(), torch.nn.Linear(48, 7))), {"x": torch.randn(6, 19), "y": torch.randint(0, 7, (6,))}


def prepare(bin, folder, factory, world, config, readers):
    torch.manual_seed(7)
    model, inputs = factory()
    count = readers * (STEPS + 1) * config.get("gradient_accumulation_steps", 1)
    save_file(make_data(inputs, count), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, config)


def check(found, graphs, kernels=False):
    for each in found:
        way = each["way"]
        assert not each["error"], f"{way}: {each['error']}"
        assert not each["races"], f"{way}: {len(each['races'])} races: " + "\n".join(each["races"][:5])
        assert each["compared"] > 100, f"{way}: only {each['compared']} pairs of accesses were compared"
        # Rehearsed, launched one by one, and then perhaps in a capture alone.
        assert not kernels or each["kernels"] > 10, f"{way}: {each['kernels']} launches of kernels of our own"
        assert each["same"], f"{way}: other numbers than the host's"
        if way.startswith("graphs"):
            assert not graphs or each["launches"] > 0, f"{way}: {each['launches']} launches of graphs"


def case(bin, factory, world=2, graphs=True, mesh=None, readers=None, nccl=False, pinned=True, **config):
    """`graphs`: some program runs as a graph, as no host takes part in it. `nccl`: a device for each rank."""
    def run(folder):
        settings = make_config(world, **config)
        settings["mesh"].update(mesh or {})
        settings["fsdp_config"]["cpu_offload_pin_memory"] = pinned
        prepare(bin, folder, factory, world, settings, readers or world)
        command = [bin.parent / "test" / "bin" / "fsdp-races", "step.fsdp", "data.safetensors", STEPS]
        check(json.loads(must(*command, *(["nccl"] if nccl else []), *(["gpu"] if config.get("device") == "cuda" else []), *([] if graphs else ["single"]), cwd=folder).stdout), graphs, settings["fsdp_config"].get("kernels") == "on")
    return run


def wide_products(bin, micro_batches, dtype):
    """Products that write gradients in float32: with kernels, losses and norms are those without within rounding."""
    def run(folder):
        config = {"device": "cuda", "mixed_precision": {"param_dtype": dtype, "reduce_dtype": "float32"}, "gradient_accumulation_steps": micro_batches}
        rows = {}
        for kernels in ("off", "on"):
            prepare(bin, folder, plain, 2, make_config(2, kernels=kernels, **config), 2)
            plan = must(bin / "fsdp-opt", "step.fsdp", cwd=folder).stdout
            assert ("aten::mm.dtype" in plan) == (kernels == "on"), "other products are told to write float32"
            found = json.loads(must(bin.parent / "test" / "bin" / "fsdp-races", "step.fsdp", "data.safetensors", STEPS, "gpu", cwd=folder).stdout)
            check(found, graphs=True)
            rows[kernels] = [[float.fromhex(number) for number in line.split()] for line in found[0]["losses"].splitlines()]
        assert len(rows["on"]) == STEPS and rows["on"] != rows["off"], rows
        for step, pair in enumerate(zip(rows["off"], rows["on"])):
            assert all(abs(one - other) <= 0.01 * abs(one) for one, other in zip(*pair)), f"step {step}: {pair}"
    return run


class Spread(torch.nn.Module):
    """Numbers of many sizes: a scale that is another block's makes another loss."""

    def __init__(self, rows=64, width=160):
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 96), torch.nn.Linear(96, width, bias=False)
        for module, size in ((self.first, width), (self.second, 96)):
            module.weight.data *= 2.0 ** torch.randint(-3, 4, (len(module.weight), 1)) * 2.0 ** torch.randint(-3, 4, (size // 32,)).repeat_interleave(32)
        self.register_buffer("sizes", 2.0 ** (torch.randint(-4, 5, (rows, 1)) + torch.randint(-4, 5, (width // 32,)).repeat_interleave(32)))

    def forward(self, x):
        y = self.second(torch.tanh(self.first(x * self.sizes)) * self.sizes[:, :96])
        return (y * self.sizes).square().mean()


def spread():
    return Spread(), {"x": torch.randn(64, 160)}


def scaled_blocks(bin):
    """Products of blocks as GPUs have them: scales lie in tiles where their blocks are, and losses are those of the numbers that blocks stand for."""
    def run(folder):
        rows = {}
        for device in ({"device": "cpu"}, {"device": "cuda", "cuda_arch": "sm_100"}):
            prepare(bin, folder, spread, 2, make_config(2, optimizer={"name": "sgd", "lr": 1e-8}, float8={"recipe": "mxfp8"}, mixed_precision=BF16, **device), 2)
            if device["device"] == "cuda":
                assert "f8e8m0" in must(bin / "fsdp-opt", "step.fsdp", cwd=folder).stdout, "no scale of a block is left"
            found = json.loads(must(bin.parent / "test" / "bin" / "fsdp-races", "step.fsdp", "data.safetensors", STEPS, *(["gpu"] if device["device"] == "cuda" else []), cwd=folder).stdout)
            check(found, graphs=True)
            rows[device["device"]] = [[float.fromhex(number) for number in line.split()] for line in found[0]["losses"].splitlines()]
        assert len(rows["cuda"]) == STEPS, rows
        for step, pair in enumerate(zip(rows["cpu"], rows["cuda"])):
            assert all(abs(one - other) <= 0.01 * abs(one) for one, other in zip(*pair)), f"step {step}: {pair}"
    return run


def planted(bin):
    """Faults in a session are named: waits that are left out or are for another event, one at a time, a
    lifetime that ends early, a kernel that leaves its stream, and copies that wait for the one that was waited for last in place of the one that was started last."""
    def run(folder):
        prepare(bin, folder, blocks, 2, make_config(2, offload_optimizer=True), 2)
        found = json.loads(must(bin.parent / "test" / "bin" / "fsdp-races", "step.fsdp", "data.safetensors", 2, "faults", cwd=folder).stdout)
        assert found["none"]["reported"] == found["none"]["wrong"] == 0, found["none"]
        for name, least in (("missing wait", 0.4), ("stale wait", 0.4), ("missing sync", 0.5), ("early free", 1), ("last waited for", 1)):
            each = found[name]
            assert each["reported"] >= least * each["tried"] > 0, (name, each)
            assert each["silent"] == 0, f"{name}: other numbers than the host's, and nothing is named: {each}"
            assert "nothing orders it before" in each["example"], (name, each)
        # Of a wait that is not named, all accesses have the order without that they have with it, or those that conflict do.
        for name in ("missing wait", "stale wait", "missing sync"):
            each = found[name]
            assert each["misjudged"] == 0 and each["needed"] == each["reported"], (name, each)
            assert each["needed"] + each["implied"] + each["idle"] == each["tried"], (name, each)
        assert all(sum(waits.values()) > 0 for waits in found["waits"].values()) and len(found["waits"]) == 3, found["waits"]
        # Where kernels keep what they work in is known, too: of one that strays from its stream nothing else is out of order.
        stray = found["stray kernel"]
        assert stray["reported"] > 0 and stray["silent"] == stray["of operands"] == 0, stray
        # As losses were wrong on a GPU: an update on the host reads a gradient that is on its way.
        assert found["last waited for"]["wrong"] > 0 and "CopyAcross" in found["last waited for"]["example"] and "Update" in found["last waited for"]["example"], found
    return run


def changing(bin, nccl=False, **config):
    """Programs for several shapes, each with its graph, in turn."""
    def run(folder):
        torch.manual_seed(7)
        model, inputs = zoo.gpt()
        sizes = (4, 7)
        (folder / "fsdp.yaml").write_text(json.dumps(make_config(2, **config)))
        export(model, inputs, folder / "model.pt2", dims={name: {1: torch.export.Dim.AUTO} for name in inputs})
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", f"--dim=x.1={','.join(map(str, sizes))}", "-o", "step.fsdp", cwd=folder)
        for size in sizes:
            resized = {name: torch.randint(0, int(value.max()) + 1, (len(value), size)) for name, value in inputs.items()}
            save_file(make_data(resized, 2), folder / f"{size}.safetensors")
        command = [bin.parent / "test" / "bin" / "fsdp-races", "step.fsdp", ",".join(f"{size}.safetensors" for size in sizes), 2 * STEPS]
        check(json.loads(must(*command, *(["nccl"] if nccl else []), cwd=folder).stdout), graphs=True)
    return run


# Left out, as nothing of the kind runs on a GPU: fsdp_config.grains, which is refused with device: cuda; several machines, whose ranks ask no more of their device than those of one; and of the ranks of an artifact for
# inference, which has the gathers of one for training and nothing else.
def cases(bin):
    yield "planted faults", planted(bin)
    offload = {"offload_optimizer": True}
    yield "zero3", case(bin, blocks)
    yield "flat, 3 ranks", case(bin, blocks, 3, bucket_layout="flat")
    yield "fsdp2", case(bin, blocks, 3, bucket_layout="fsdp2", max_grad_norm=0.05)
    yield "offload_optimizer", case(bin, blocks, graphs=False, **offload)
    yield "offload_optimizer, one rank", case(bin, blocks, 1, graphs=False, **offload)
    yield "offload_optimizer, gpt", case(bin, zoo.gpt, graphs=False, **offload)
    yield "offload_optimizer, clip, micro-batches", case(bin, blocks, graphs=False, max_grad_norm=0.05, gradient_accumulation_steps=3, **offload)
    yield "offload_optimizer, activations, micro-batches", case(bin, wide, activation_offloading=True, gradient_accumulation_steps=2, **offload)
    yield "offload_optimizer, sums of whole gradients", case(bin, blocks, gradient_accumulation_steps=2, gradient_sync="last", **offload)
    yield "offload_params", case(bin, blocks, graphs=False, offload_params=True)
    yield "offload_params, clip, micro-batches", case(bin, blocks, graphs=False, offload_params=True, max_grad_norm=0.05, gradient_accumulation_steps=2, optimizer=SGD)
    yield "offload_params, bf16, kept gathered", case(bin, zoo.gpt, graphs=False, offload_params=True, mixed_precision=BF16, reshard_after_forward=False)
    yield "offload_params, pageable", case(bin, blocks, graphs=False, offload_params=True, pinned=False)
    yield "activation offloading", case(bin, wide, activation_offloading=True)
    yield "everything", case(bin, wide, graphs=False, activation_offloading=True, offload_params=True, activation_checkpointing=True, gradient_accumulation_steps=2, max_grad_norm=0.05)
    yield "recompute", case(bin, zoo.gpt, activation_checkpointing=True)
    yield "micro-batches, clip", case(bin, zoo.gpt, gradient_accumulation_steps=3, max_grad_norm=0.1)
    yield "bf16", case(bin, zoo.gpt, mixed_precision=BF16)
    yield "recompute in part", case(bin, zoo.gpt, activation_checkpointing={"policy": "selective"})
    yield "float16", case(bin, zoo.gpt, mixed_precision={"param_dtype": "float16", "reduce_dtype": "float32"}, loss_scale="dynamic")
    yield "float8", case(bin, wide, 3, float8=EIGHT)
    yield "float8, kept in parts, recompute", case(bin, wide, 4, float8=EIGHT, reshard_after_forward=2, activation_checkpointing=True)
    yield "states of eight bits", case(bin, blocks, optimizer={"name": "adamw", "lr": 0.01, "state_dtype": "int8"})
    coded = {"quantize": {"kind": "nf4", "double_quant": True}}
    yield "bases in codes", case(bin, zoo.lora, 3, **coded)
    yield "bases in codes, for GPUs, micro-batches", case(bin, zoo.lora, device="cuda", gradient_accumulation_steps=2, quantize={"kind": "fp4", "block_size": 32})
    yield "bases in codes, offload_params", case(bin, zoo.lora, graphs=False, offload_params=True, **coded)
    yield "shapes that change", changing(bin)
    yield "HSDP", case(bin, blocks, 4, replicate=2, readers=4)
    yield "HSDP, offload_optimizer", case(bin, blocks, 4, graphs=False, replicate=2, readers=4, max_grad_norm=0.05, **offload)
    yield "kept in parts", case(bin, blocks, 4, reshard_after_forward=2)
    yield "kept in parts, offload_params", case(bin, blocks, 4, graphs=False, reshard_after_forward=2, offload_params=True)
    yield "tp", case(bin, zoo.gpt, 1, mesh={"tp": 2}, tp_plan="auto")
    yield "cp", case(bin, zoo.llama, 1, mesh={"cp": 2})
    yield "tp, cp, offload_optimizer", case(bin, zoo.llama, 1, graphs=False, mesh={"tp": 2, "cp": 2}, tp_plan="auto", **offload)
    yield "validation", case(bin, blocks, eval={"data": "data.safetensors", "batches": 2})
    yield "validation, offload_optimizer", case(bin, blocks, eval={"data": "data.safetensors", "batches": 2}, **offload)
    kernels = {"kernels": "on"}
    yield "kernels", case(bin, zoo.llama, **kernels)
    yield "kernels, bf16, clip, micro-batches", case(bin, zoo.llama, mixed_precision=BF16, max_grad_norm=0.1, gradient_accumulation_steps=2, **kernels)
    yield "kernels, offload_optimizer", case(bin, zoo.gpt, graphs=False, **offload, **kernels)
    yield "draws", case(bin, dropout, graphs=False)
    apart = {"nccl": True}
    for world in (2, 8):
        yield f"NCCL, {world} ranks", case(bin, blocks, world, max_grad_norm=0.05, **apart)
    yield "NCCL, HSDP, offload_optimizer", case(bin, blocks, 4, graphs=False, replicate=2, **offload, **apart)
    yield "NCCL, kept in parts", case(bin, blocks, 4, reshard_after_forward=2, **apart)
    yield "NCCL, flat, float8, recompute", case(bin, wide, 3, bucket_layout="flat", float8=EIGHT, activation_checkpointing=True, **apart)
    yield "NCCL, bases in codes", case(bin, zoo.lora, 3, **coded, **apart)
    yield "NCCL, tp, cp, validation", case(bin, zoo.llama, 1, mesh={"tp": 2, "cp": 2}, tp_plan="auto", eval={"data": "data.safetensors", "batches": 2}, **apart)
    # Of kernels that a processor has as well.
    yield "kernels, for GPUs", case(bin, zoo.mlp, 3, device="cuda", max_grad_norm=0.1, **kernels)
    # Products that write gradients in float32.
    yield "kernels, for GPUs, bf16, micro-batches", case(bin, zoo.mlp, device="cuda", mixed_precision=BF16, max_grad_norm=0.1, gradient_accumulation_steps=2, **kernels)
    for dtype in ("bfloat16", "float16"):
        yield f"products in float32, {dtype}", wide_products(bin, 1, dtype)
        yield f"products in float32, {dtype}, micro-batches", wide_products(bin, 2, dtype)
    yield "scales of blocks, for GPUs", scaled_blocks(bin)
    for wire in ("bfloat16", "float8"):
        narrow = {"device": "cuda", "reduce_wire_dtype": wire}
        yield f"wires, {wire}, 3 ranks", case(bin, blocks, 3, max_grad_norm=0.05, **narrow)
        yield f"NCCL, wires, {wire}, micro-batches", case(bin, blocks, 3, gradient_accumulation_steps=2, **narrow, **apart)
    yield "NCCL, wires, HSDP, flat, offload_optimizer", case(bin, blocks, 4, graphs=False, replicate=2, bucket_layout="flat", device="cuda", reduce_wire_dtype="bfloat16", **offload, **apart)
    yield "NCCL, kernels", case(bin, zoo.llama, **kernels, **apart)
    yield "NCCL, offload_params, bf16", case(bin, zoo.gpt, graphs=False, offload_params=True, mixed_precision=BF16, **apart)
    yield "NCCL, shapes that change", changing(bin, nccl=True)
    yield "NCCL, micro-batches, activations", case(bin, wide, 4, activation_offloading=True, gradient_accumulation_steps=2, **apart)


def dropout():
    model, inputs = blocks()
    model.norm = torch.nn.Sequential(model.norm, torch.nn.Dropout(0.2))
    return model, inputs


if __name__ == "__main__":
    args = parse_arguments()
    run_cases(dict(cases(args.bin)), args.only)
