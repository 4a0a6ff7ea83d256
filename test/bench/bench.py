# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All benchmarks in one run: what a step costs beside its kernels, its parts, and whole training steps against PyTorch.

    bench.py --bin build/bin [--steps 12] [--repeat 3] [--shapes 128x4 512x8] [--json out.json]

Times of shared machines mean little by themselves, so everything is a ratio to something real of the same run: contenders take turns `--repeat`
times, and medians of their steps are compared. `pytorch` is as many processes of plain PyTorch as there are ranks, at once and without
communication: what sharding that costs nothing would take. `fsdp2` is PyTorch's fully_shard over gloo. Every rank has one thread. Peaks are
resident bytes of all ranks; `tensors` and `scratch` are the planned regions of one rank. Needs torch (2.11), transformers, safetensors, pyyaml.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
WORLD, BATCH, SEQUENCE, WARMUP = 2, 2, 64, 3


def make_model(shape):
    import torch
    import transformers
    width, layers = map(int, shape.split("x"))
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=2000, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64), num_key_value_heads=max(1, width // 64), max_position_embeddings=SEQUENCE))
    ids = torch.randint(0, 2000, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(1))
    return model.train(), {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def peak_bytes():
    """Of this process alone: getrusage would begin with its parent's."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024


def peer(kind, shape, steps):
    """One rank of a PyTorch contender: its step times and peak as a line of JSON."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    model, inputs = make_model(shape)
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        from ranks import end_rank
        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (WORLD,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        times.append(time.perf_counter() - begin)
    line = json.dumps({"times": times, "peak": peak_bytes()})
    if kind == "fsdp2":
        lines = [None] * WORLD
        dist.all_gather_object(lines, line)
        if dist.get_rank() == 0:
            print("\n".join(lines), flush=True)
        end_rank()
    print(line)


def run_pytorch(kind, shape, steps):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--peer", kind, shape, str(steps)]
    if kind == "fsdp2":
        command[1:1] = ["-m", "torch.distributed.run", f"--nproc-per-node={WORLD}", "--standalone"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
                 for _ in range(1 if kind == "fsdp2" else WORLD)]
    rows = []
    for process in processes:
        out, err = process.communicate(timeout=600)
        if process.returncode:
            sys.exit(f"{kind} failed:\n{err[-1000:]}")
        rows += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {"step_s": max(statistics.median(r["times"][WARMUP:]) for r in rows), "peak_bytes": sum(r["peak"] for r in rows)}


def run_ours(bin, folder, backend, steps):
    import harness
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    metrics = harness.run_step(bin, folder, WORLD, f"--steps={steps}", "--threads=1", backend=backend)
    resident = metrics[-1]["rank_peak_rss_bytes"]
    return {"step_s": statistics.median(r["step_time_s"] for r in metrics[WARMUP:]),
            "peak_bytes": resident[0] if backend == "local" else sum(resident),
            "unplanned_bytes": max(r["unplanned_bytes"] for r in metrics)}


def whole_steps(args):
    import harness
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    report = {}
    for shape in args.shapes:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model, inputs = make_model(shape)
            tensors = {k: v for k, v in inputs.items() if not isinstance(v, bool)}
            config = harness.make_config(WORLD, optimizer={"name": "adamw", "lr": 1e-4})
            config["fsdp_config"] = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
                                     "reshard_after_forward": True}
            harness.compile_step(args.bin, folder, model, inputs, config, options=["--report=report.json"])
            harness.save_file({k: v.repeat(WORLD, 1) for k, v in tensors.items()}, folder / "data.safetensors")
            memory = json.loads((folder / "report.json").read_text())["memory"]
            contenders = {"pytorch": lambda: run_pytorch("pytorch", shape, args.steps),
                          "fsdp2": lambda: run_pytorch("fsdp2", shape, args.steps),
                          "local": lambda: run_ours(args.bin, folder, "local", args.steps),
                          "gloo": lambda: run_ours(args.bin, folder, "gloo", args.steps)}
            samples = {name: [] for name in contenders}
            for _ in range(args.repeat):
                for name, run in contenders.items():
                    samples[name].append(run())
        rows = {name: {key: statistics.median(s[key] for s in each) for key in each[0]} for name, each in samples.items()}
        ratios = {"local_step_over_pytorch": rows["local"]["step_s"] / rows["pytorch"]["step_s"],
                  "gloo_step_over_fsdp2": rows["gloo"]["step_s"] / rows["fsdp2"]["step_s"],
                  "local_peak_over_fsdp2": rows["local"]["peak_bytes"] / rows["fsdp2"]["peak_bytes"],
                  "gloo_peak_over_fsdp2": rows["gloo"]["peak_bytes"] / rows["fsdp2"]["peak_bytes"]}
        report[shape] = {"contenders": rows, "ratios": ratios, "tensors_bytes": memory["peak"], "scratch_bound_bytes": memory["scratch_bound"]}
        print(f"decoder {shape}: tensors {memory['peak'] / 2**20:.1f} MiB a rank, scratch at most {memory['scratch_bound'] / 2**20:.1f} MiB")
        for name, row in rows.items():
            print(f"  {name:8s} {row['step_s'] * 1e3:9.1f} ms  {row['peak_bytes'] / 2**20:7.0f} MiB")
        for name, ratio in ratios.items():
            print(f"  {name:24s} {ratio:5.2f}", flush=True)
    return report


def run_benchmark(bin, name):
    """What a program of Google Benchmark measured."""
    program = bin.parent / "test/bin" / name
    return json.loads(subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout)["benchmarks"]


def parts(bin, program, counter):
    """A ratio for each of the program's benchmarks."""
    rows = {}
    for row in run_benchmark(bin, program):
        rows[row["name"]] = {counter: row[counter], "real_time": row["real_time"], "time_unit": row["time_unit"]}
        print(f"{row['name']:36s} {counter} {row[counter]:7.4f}  {row['real_time']:12.2f} {row['time_unit']}")
    return rows


def executor(bin):
    """Nanoseconds of a tiny kernel in a step, and of the same kernel called directly."""
    rows = {}
    for row in run_benchmark(bin, "executor-bench"):
        name = row["name"].split("/")[1]
        rows[name] = {key: row[key] for key in ("step_ns", "functions_ns", "out_ns", "overhead_ns")}
        print(f"{name:12s} {row['step_ns']:6.0f} ns in a step, {row['functions_ns']:6.0f} ns by its function, {row['out_ns']:6.0f} ns with out=")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), default=pathlib.Path("build/bin").resolve())
    parser.add_argument("--shapes", nargs="*", default=["128x4", "512x8"], help="width x layers")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer(args.peer[0], args.peer[1], int(args.peer[2]))
    report = {"executor": executor(args.bin), "transfers": parts(args.bin, "transfer-bench", "over_memcpy"),
              "packing": parts(args.bin, "packing-bench", "over_bound"), "steps": whole_steps(args)}
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
