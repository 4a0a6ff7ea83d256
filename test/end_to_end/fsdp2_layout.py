# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buckets as FSDP2 lays them out: the same numbers as in rows, bit by bit, in one call a bucket.

Sums over ranks have a fixed order, so the layout of a transfer must not show in any
bit of what is trained. Where two ranks add, their order does not matter either: then
PyTorch's own fully_shard, over gloo, has to agree in every bit, too. Its optimizer
takes powers of two for learning rates, since the order of its roundings is its own.
"""
import pathlib
import sys
from collections import Counter

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

import warm
import zoo
from flat import shapes
from harness import batch_of, call, compile_step, export, make_config, make_data, must, parse_arguments, run_cases, train
from ranks import end_rank
from report import Pairs, counted, make_report

BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


def pairs():
    return Pairs(), {"x": torch.randn(4, 6), "y": torch.randn(4, 2)}


def same_as_rows(bin, factory, world, backend="local", steps=3, precision=None, **config):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        save_file(make_data(inputs, world * steps * config.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
        found = {}
        for layout in ("rows", "fsdp2"):
            settings = make_config(world, bucket_layout=layout, **config)
            settings["fsdp_config"]["mixed_precision"] = precision or {}
            compile_step(bin, folder, model, inputs, settings)
            (folder / "metrics.jsonl").unlink(missing_ok=True)
            found[layout] = train(bin, folder, world, steps, backend, options=["--poison"])
        numbers = {layout: [(row["loss"], row["grad_norm"]) for row in rows] for layout, (rows, _) in found.items()}
        assert len(numbers["rows"]) == steps and numbers["fsdp2"] == numbers["rows"], numbers
        assert all(row["unplanned_bytes"] == 0 for row in found["fsdp2"][0]), found["fsdp2"][0]
        rows, copied = found["rows"][1], found["fsdp2"][1]
        assert set(rows) == set(copied) >= set(start)
        for name, value in rows.items():
            assert torch.equal(value, copied[name]), f"{name} differs by {(value - copied[name]).abs().max()}"
        assert any(not torch.equal(value, rows[name]) for name, value in start.items()), "nothing moved: the case tests nothing"
    return case


def by_type(collectives):
    """Bytes by kind, group, bucket and type: rows of several types travel in one call, FSDP2's layout has one for each type."""
    moved = Counter()
    for row in collectives:
        for dtype, size in row.get("bytes_by_dtype", {row["dtype"]: row["bytes"]}).items():
            moved[row["kind"], row["group"], row["bucket"].split("/")[0], dtype] += row["count"] * size
    return moved


def one_call(bin, factory, world, types=frozenset({"f32"}), **config):
    """What moves in rows moves in as many bytes, in one tensor for a bucket and type, and a run says so, too."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        reports = {layout: make_report(bin, folder, model, inputs, world, bucket_layout=layout, **config) for layout in ("rows", "fsdp2")}
        moved = {layout: by_type(report["collectives"]) for layout, report in reports.items()}
        found, expected = moved["fsdp2"], moved["rows"]
        assert found == expected, f"found {found}, expected {expected}"
        found = reports["fsdp2"]["collectives"]
        assert all(row["tensors"] == 1 for row in found), found
        assert {row["dtype"] for row in found} == types, found
        assert any(row["members"] > 1 for row in found), "no bucket of several parameters: the case tests nothing"
        traffic = {}
        for row in found:
            calls, size = traffic.get((row["kind"], row["group"]), (0, 0))
            traffic[row["kind"], row["group"]] = (calls + row["count"], size + row["count"] * row["bytes"])
        assert counted(bin, folder, world, inputs) == traffic, traffic
        # Copies take memory, which is planned: a piece of a gather at least.
        assert reports["fsdp2"]["memory"]["peak"] > reports["rows"]["memory"]["peak"]
    return case


def refused(bin):
    """By name, what FSDP2's layout is not there for; elsewhere it goes on."""
    def case(folder):
        import yaml
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "model.pt2")
        config = make_config(2, bucket_layout="fsdp2", shard_dims={"net.0.weight": 1})
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        assert done.returncode == 2, done.stderr
        assert "'shard_dims' of 'net.0.weight' is no dim 0, which 'bucket_layout: fsdp2' needs" in done.stderr, done.stderr
        config["fsdp_config"]["overrides"] = [{"modules": "net.0", "bucket_layout": "rows"}]
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
    return case


# Model -> factory and the modules that are wrapped on their own.
PEERS = {
    "shapes": (shapes, lambda model: []),
    "pairs": (pairs, lambda model: model.blocks),
    "gpt": (zoo.gpt, lambda model: [m for m in model.modules() if isinstance(m, zoo.GptBlock)]),
}


def train_with_pytorch(name, folder, steps, precise):
    """One rank of fully_shard; rank 0 saves the trained parameters."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    factory, blocks = PEERS[name]
    torch.manual_seed(7)
    model, inputs = factory()
    options = {"mesh": init_device_mesh("cpu", (world,)), "reshard_after_forward": True}
    if not precise:
        options["mp_policy"] = MixedPrecisionPolicy(**{key: getattr(torch, dtype) for key, dtype in BF16.items()})
    for module in [*blocks(model), model]:
        # Gloo takes the sum for the mean.
        fully_shard(module, **options).set_force_sum_reduction_for_comms(True)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    data = load_file(folder / "data.safetensors")
    for step in range(steps):
        out = model(**batch_of(data, inputs, step * world + rank))
        (out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out).backward()
        optimizer.step()
        optimizer.zero_grad()
    full = {k: v.full_tensor().detach() for k, v in model.named_parameters(remove_duplicate=False)}
    if rank == 0:
        save_file({k: v.clone() for k, v in full.items()}, folder / "pytorch.safetensors")
    end_rank()


def same_as_pytorch(bin, name, precise=True, steps=3):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = PEERS[name][0]()
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        save_file(make_data(inputs, 2 * steps), folder / "data.safetensors")
        config = make_config(2, {"name": "sgd", "lr": 0.5}, bucket_layout="fsdp2", reshard_after_forward=True)
        if not precise:
            config["fsdp_config"]["mixed_precision"] = BF16
        compile_step(bin, folder, model, inputs, config)
        _, final = train(bin, folder, 2, steps)
        must(*warm.torchrun(2), pathlib.Path(__file__).resolve(), "--peer", name, folder, steps, int(precise), cwd=folder)
        want = load_file(folder / "pytorch.safetensors")
        assert set(want) == set(start) <= set(final)
        for key, value in want.items():
            assert torch.equal(value, final[key]), f"{key} differs by {(value - final[key]).abs().max():.2e}, moved by {(value - start[key]).abs().max():.2e}"
        assert any(not torch.equal(value, start[key]) for key, value in want.items()), "nothing moved: the case tests nothing"
    return case


def main():
    if "--peer" in sys.argv:
        name, folder, steps, precise = sys.argv[sys.argv.index("--peer") + 1:]
        return train_with_pytorch(name, pathlib.Path(folder), int(steps), bool(int(precise)))
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}

    def same(factory, world, label="", **config):
        cases[f"{factory.__name__} as in rows, world={world} {label}".strip()] = same_as_rows(bin, factory, world, **config)

    for world in (1, 2, 3, 4):
        same(shapes, world)
    same(pairs, 3, "zero2", reshard_after_forward=False)
    same(pairs, 4, "parts of 2", reshard_after_forward=2)
    same(pairs, 4, "replicas", replicate=2, reshard_after_forward=True)
    same(zoo.gpt, 3, "clip", reshard_after_forward=True, max_grad_norm=0.1)
    same(zoo.gpt, 2, "bf16", precision={**BF16, "reduce_dtype": "bfloat16"}, reshard_after_forward=True)
    same(pairs, 2, "two types", precision=BF16, overrides=[{"modules": "*.up", "mixed_precision": {}}], reshard_after_forward=True)
    same(zoo.scaled, 4, "scalar, replicas", replicate=2)
    same(zoo.lora, 2, "frozen", reshard_after_forward=True)
    for mode in ("each", "last", "all_reduce_last"):
        same(pairs, 4, f"micro-batches, {mode}", replicate=2, gradient_accumulation_steps=3, gradient_sync=mode)
    same(pairs, 3, "kept for micro-batches", gradient_accumulation_steps=3, reshard_after_forward=False, reshard_after_backward=False)
    same(shapes, 3, "gloo", backend="gloo")

    cases["one call, odd shapes"] = one_call(bin, shapes, 3, reshard_after_forward=True)
    cases["one call, replicas"] = one_call(bin, pairs, 4, replicate=2, reshard_after_forward=True)
    cases["one call, parts of 2"] = one_call(bin, pairs, 4, reshard_after_forward=2)
    cases["a call for each type"] = one_call(bin, pairs, 2, reshard_after_forward=True, types={"bf16", "f32"},
                                             overrides=[{"modules": "*.up", "mixed_precision": BF16}])
    cases["refused"] = refused(bin)

    for name in PEERS:
        cases[f"{name} as under PyTorch"] = same_as_pytorch(bin, name)
    cases["pairs as under PyTorch, bf16"] = same_as_pytorch(bin, "pairs", precise=False)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
