# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the same bits on any number of ranks cost: steps of grains beside as many micro-batches without (`fast`), and beside PyTorch's
fully_shard over gloo with the same accumulation (`fsdp2`).

    grains.py --bin build/bin [--shapes 128x4 512x8] [--world 2] [--grains 8] [--steps 8] [--repeat 5] [--worlds 1 2 4]

All are timed by turns in one run, a thread a rank; compared are median steps. Bytes are those that a rank's collectives exchange in a step, as the
compiler reports them. Then each trains the same steps on `--worlds` ranks, and the hashes of the weights say whether their bits depend on that.
Needs torch (2.11), transformers, safetensors, pyyaml.
"""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / "end_to_end"), str(pathlib.Path(__file__).parent)]
WARMUP, COMPARED, CLIP = 2, 3, 1.0
CONTENDERS = ("fast", "grains", "fsdp2")


def digest(tensors):
    import torch
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def peer(folder, shape, grains, steps):
    """One rank of fully_shard; times and the weights' hash as a line of JSON of rank 0."""
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import bench
    from harness import ADAMW, batch_of
    from ranks import end_rank
    torch.set_num_threads(1)
    model, inputs = bench.make_model(shape)
    inputs = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    data = load_file(folder / "data.safetensors")
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    options = {name: value for name, value in ADAMW.items() if name != "name"}
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **options)
    times, mine = [], grains // world
    for step in range(steps):
        begin = time.perf_counter()
        for number in range(mine):
            model.set_requires_gradient_sync(number + 1 == mine)
            loss = model(**batch_of(data, inputs, step * grains + rank * mine + number), use_cache=False).loss
            (loss / mine).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        times.append(time.perf_counter() - begin)
    weights = {name: value.full_tensor() for name, value in model.named_parameters()}
    if rank == 0:
        print(json.dumps({"times": times, "hash": digest(weights)}), flush=True)
    end_rank()


def run_peer(arguments, folder, shape, world, steps):
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}", "--standalone", __file__, f"--shapes={shape}", "--peer", folder,
               f"--grains={arguments.grains}", f"--steps={steps}"]
    done = subprocess.run([str(c) for c in command], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-1500:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def compile_ours(arguments, folder, shape, name, world):
    """The artifact in a folder of its own; bytes that a rank's collectives exchange in a step."""
    import bench
    from harness import compile_step, make_config
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    own = folder / f"{name}-{world}"
    own.mkdir(exist_ok=True)
    model, inputs = bench.make_model(shape)
    config = make_config(world, reshard_after_forward=True, auto_wrap_policy="TRANSFORMER_BASED_WRAP", transformer_layer_cls_to_wrap="LlamaDecoderLayer", max_grad_norm=CLIP)
    if name == "grains":
        config["fsdp_config"]["grains"] = arguments.grains
    else:
        config["fsdp_config"]["gradient_sync"] = "last"
        config["gradient_accumulation_steps"] = arguments.grains // world
    compile_step(arguments.bin, own, model, inputs, config, options=["--report=report.json"])
    return sum(each["bytes"] * each["count"] for each in json.loads((own / "report.json").read_text())["collectives"])


def run_ours(folder, arguments, name, world, steps):
    from harness import launch
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    from safetensors.torch import load_file
    own = folder / f"{name}-{world}"
    (own / "m.jsonl").unlink(missing_ok=True)
    launch(arguments.bin, own, world, "gloo", "step.fsdp", "--data=../data.safetensors", "--threads=1", f"--steps={steps}", "--metrics=m.jsonl", "--export=final.safetensors")
    rows = [json.loads(line) for line in (own / "m.jsonl").read_text().splitlines()]
    return {"times": [row["step_time_s"] for row in rows], "hash": digest(load_file(own / "final.safetensors"))}


def measure(arguments, folder, shape):
    import torch
    from safetensors.torch import save_file

    import bench
    _, inputs = bench.make_model(shape)
    ids = torch.randint(0, 2000, (len(inputs["input_ids"]) * arguments.grains * COMPARED, bench.SEQUENCE), generator=torch.Generator().manual_seed(2))
    save_file({"input_ids": ids, "labels": ids.clone()}, folder / "data.safetensors")
    times, wire = {name: [] for name in CONTENDERS}, {}
    for name in CONTENDERS[:2]:
        wire[name] = compile_ours(arguments, folder, shape, name, arguments.world)
    for _ in range(arguments.repeat):
        for name in CONTENDERS:
            found = run_peer(arguments, folder, shape, arguments.world, arguments.steps) if name == "fsdp2" else run_ours(folder, arguments, name, arguments.world, arguments.steps)
            times[name] += found["times"][WARMUP:]
    hashes = {name: {} for name in CONTENDERS}
    for world in arguments.worlds:
        for name in CONTENDERS[:2]:
            compile_ours(arguments, folder, shape, name, world)
            hashes[name][world] = run_ours(folder, arguments, name, world, COMPARED)["hash"]
        hashes["fsdp2"][world] = run_peer(arguments, folder, shape, world, COMPARED)["hash"]
    first = statistics.median(times["fast"])
    for name in CONTENDERS:
        step = statistics.median(times[name])
        sent = f"{wire[name]:,} | {wire[name] / wire['fast']:.3f}" if name in wire else " | "
        count = len(set(hashes[name].values()))
        print(f"| {shape} | {name} | {step * 1e3:.1f} | {step / first:.3f} | {sent} | {'the same' if count == 1 else f'{count} different'} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--shapes", nargs="*", default=["128x4", "512x8"])
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--grains", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--worlds", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--peer", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer, arguments.shapes[0], arguments.grains, arguments.steps)
    print(f"{arguments.grains} micro-batches on {arguments.world} ranks; weights after {COMPARED} steps on {', '.join(map(str, arguments.worlds))} ranks\n")
    print("| shape | | step, ms | to fast | bytes a rank exchanges | to fast | weights on all worlds |\n|---|---|---|---|---|---|---|")
    for shape in arguments.shapes:
        with tempfile.TemporaryDirectory() as name:
            measure(arguments, pathlib.Path(name), shape)


if __name__ == "__main__":
    main()
