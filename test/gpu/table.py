# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A decoder's step by PyTorch and by fsdp-run: time, memory, and what the GPU had nothing to do.

Each contender is measured in a process of its own, alone on the machine, and again
in another one in which its activities are listed, since that takes time itself.
"""
import ctypes
import json
import statistics
import sys
import threading
import time

import yaml

import gaps
import kit
import predict

WARMUP, STEPS = 5, 12  # fsdp-run captures its graph after three steps
TRACED = 5
LIMIT = 180  # seconds for a contender
# Name: kind, ranks, --cuda-graph, what is otherwise, what it computes: "reduced", cuBLAS may add parts of products up in bfloat16; "kernels", kernels of
# our own. The most telling first.
ROWS = {
    "fsdp-run, graph": ("fsdp-run", 1, "on", "", "mixed_precision bfloat16, reduced in float32"),
    "FSDP2, eager": ("fsdp2", 1, None, "", "MixedPrecisionPolicy(bfloat16, reduced in float32), a unit for each block"),
    "fsdp-run, graph, kernels": ("fsdp-run", 1, "on", "kernels", "fsdp_config.kernels: on"),
    "torch.compile": ("compile", 1, None, "", "bfloat16 copies of float32 weights, the whole model compiled"),
    "FSDP2, torch.compile": ("fsdp2+compile", 1, None, "", "as FSDP2, blocks and the loss compiled"),
    "eager": ("eager", 1, None, "", "bfloat16 copies of float32 weights"),
    "fsdp-run, single launches": ("fsdp-run", 1, "off", "", "as with a graph"),
    "fsdp-run, graph, reduced sums": ("fsdp-run", 1, "on", "reduced", "reduced_precision_reduction: true"),
    "FSDP2, eager, reduced sums": ("fsdp2", 1, None, "reduced", "allow_bf16_reduced_precision_reduction, PyTorch's default"),
    "fsdp-run, 2 ranks, graph": ("fsdp-run", 2, "on", "", "twice the batch; PyTorch has no counterpart: NCCL refuses two ranks on one GPU"),
    "fsdp-run, 2 ranks, single launches": ("fsdp-run", 2, "off", "", "as with a graph"),
}
OURS, KERNELS, FSDP2, COMPILE = "fsdp-run, graph", "fsdp-run, graph, kernels", "FSDP2, eager", "torch.compile"
ATTENTION = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}


def artifact_of(world, variant):
    return f"{world}{variant and '-' + variant}.fsdp"


def prepare(out, bin, size, device, arch):
    """Exports the decoder without weights and compiles it: the kernel of its attention, and what is predicted of one rank's step."""
    import torch
    import models
    folder = out / "decoder"
    folder.mkdir(exist_ok=True)
    with torch.device("meta"):
        model = models.decoder(size)
    inputs = {k: v.to("meta") for k, v in models.tokens(size).items()}
    torch.export.save(torch.export.export(model, (), inputs), folder / "model.pt2")
    for world, variant in sorted({(world, variant) for _, world, _, variant, _ in ROWS.values()}):
        # The key is for GPUs alone.
        own = {"cuda_arch": arch, **({"reduced_precision_reduction": True} if variant == "reduced" else {})} if device == "cuda" else {}
        config = {"fsdp_version": 2, "mesh": {"dp_shard": world}, "device": device, **own,
                  "fsdp_config": {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}, "kernels": "on" if variant == "kernels" else "off"},
                  "optimizer": {"name": "adamw", "lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}}
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        kit.call([bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", artifact_of(world, variant)], folder, kit.environment(bin), 600)
    names = json.loads((folder / "report.json").read_text())["ops"]
    (folder / "report.json").unlink()
    (folder / "fsdp.yaml").unlink()
    found = [backend for part, backend in ATTENTION.items() if any(f"scaled_dot_product_{part}_attention" in name for name in names)]
    if len(found) != 1:
        raise kit.Failure(f"expected one kernel of attention in the decoder's step, found {found or 'none'} among {sorted(names)}")
    return {"attention": found[0], **{what: predict.prepare(folder, bin, artifact_of(1, variant), device, arch)
                                      for what, variant in (("predicted", ""), ("predicted_kernels", "kernels"))}}


class NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class DeviceMemory:
    """`most`: of the GPU's bytes, how many more than at the begin were in use meanwhile; None if the driver does not say."""

    def __init__(self, is_gpu):
        self.most, self.nvml, self.handle = None, None, ctypes.c_void_p()
        if is_gpu:
            try:
                self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
                if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
                    self.nvml = None
            except OSError:
                pass

    def used(self):
        memory = NvmlMemory()
        return None if self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)) else memory.used

    def watch(self, before):
        while not self.is_over.wait(0.02):
            self.most = max(self.most or 0, (self.used() or 0) - before)

    def __enter__(self):
        self.is_over, self.thread = threading.Event(), None
        before = self.used() if self.nvml else None
        if before is not None:
            self.thread = threading.Thread(target=self.watch, args=[before])
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        if self.thread:
            self.thread.join()


class Table:
    def __init__(self, out, bin, manifest, results, scratch):
        self.out, self.bin, self.results, self.scratch = out, bin, results, scratch
        self.device, self.size, self.attention = manifest["device"], manifest["size"], manifest["attention"]
        self.weights, self.data, self.number = scratch / "weights.safetensors", scratch / "data.safetensors", 0
        for name, (_, world, _, _, says) in ROWS.items():
            results.row(name, state="not run", ranks=world, says=says)

    def contender(self, kind, *options, env=None):
        # Threads that wait for each other's turn on a busy machine would take most of a rehearsal.
        alone = {"OMP_NUM_THREADS": "1"} if self.device == "cpu" else {}
        return kit.start([sys.executable, kit.HERE / "contenders.py", kind, "--size", self.size, "--device", self.device, "--weights", self.weights,
                          "--data", self.data, *options], self.scratch, {**kit.environment(self.bin), **alone, **(env or {})})

    def write_files(self, timeout):
        ranks = max(world for _, world, _, _, _ in ROWS.values())
        kit.finish(self.contender("files", "--batches", ranks * (WARMUP + STEPS)), timeout)

    def run(self, name, warmup, steps, timeout, env=None):
        """Seconds of each step, losses of all, bytes of tensors, and the process."""
        kind, world, graph, variant, _ = ROWS[name]
        if kind == "fsdp-run":
            options = [f"--steps={warmup + steps}", f"--data={self.data}", f"--weights={self.weights}"]
            options += [f"--cuda-graph={graph}"] if self.device == "cuda" else []
            training = kit.Training(self.bin, self.out / "decoder", artifact_of(world, variant), *options, env=env)
            rows, _ = training.rows(timeout)
            return {"seconds": [r["step_time_s"] for r in rows[warmup:]], "losses": [r["loss"] for r in rows],
                    "tensor_bytes": world * rows[-1]["peak_memory_bytes"], "resident_bytes": rows[-1]["rank_peak_rss_bytes"][0], "pid": training.process.pid}
        self.number += 1
        backend = "inductor" if self.device == "cuda" else "aot_eager"
        process = self.contender(kind, "--store", self.scratch / f"store-{self.number}", "--attention", self.attention, "--backend", backend,
                                 "--warmup", warmup, "--steps", steps, *(["--reduced-sums"] if variant == "reduced" else []), env=env)
        out, _ = kit.finish(process, timeout)
        return {**json.loads(out.strip().splitlines()[-1]), "pid": process.pid}

    def measure(self, name, left):
        begin, timeout = time.monotonic(), min(LIMIT, left)
        try:
            with DeviceMemory(self.device == "cuda") as memory:
                made = self.run(name, WARMUP, STEPS, timeout)
            row = self.results.rows[name]
            row.setdefault("rounds", []).append(made["seconds"])
            every = [s for one in row["rounds"] for s in one]
            used = memory.most if self.device == "cuda" else made["resident_bytes"]
            self.results.row(name, state="ok", seconds=statistics.median(every), quartiles=statistics.quantiles(every, n=4)[::2],
                             tensor_bytes=made["tensor_bytes"], process_bytes=used, losses=made["losses"])
            self.results.say(f"{name}: {1000 * row['seconds']:.1f} ms a step (took {time.monotonic() - begin:.0f} s)")
        except kit.Failure as failure:
            self.results.say(f"{name}: {failure}")
            if not (isinstance(failure, kit.Late) and timeout < LIMIT):
                self.results.row(name, state="fail", text=str(failure))
            elif "seconds" not in self.results.rows[name]:
                self.results.row(name, text=f"not done within the {timeout:.0f} s that were left")

    def trace(self, name, library, timeout):
        """Lists the activities of some steps."""
        prefix = self.scratch / f"gaps-{list(ROWS).index(name)}"
        try:
            made = self.run(name, WARMUP, TRACED, timeout, {"CUDA_INJECTION64_PATH": str(library), "FSDP_GAPS": str(prefix)})
            path = prefix.with_name(f"{prefix.name}.{made['pid']}")
            if not path.exists():
                raise gaps.Incomplete("no activity was recorded")
            found = gaps.analyse(gaps.read(path), made["seconds"])
            path.unlink()
            self.results.row(name, gaps={**found, "seconds": statistics.median(made["seconds"])})
            self.results.say(f"{name}: idle for {found['idle_share']:.1%} of a step of {found['kernels']:.0f} kernels")
        except (kit.Failure, gaps.Incomplete, ValueError) as error:
            self.results.row(name, gaps_text=str(error))
            self.results.say(f"{name}, activities: {error}")

    def compare(self):
        """Goals as (text, found, reached), and whether all computed the same."""
        rows = self.results.rows
        self.results.goals = goals(rows)
        first = {n: row["losses"] for n, row in rows.items() if row.get("losses") and row["ranks"] == 1}
        for name, losses in first.items():
            other = next(iter(first.values()))
            # The same weights and rows; kernels sum in other orders.
            if abs(losses[0] - other[0]) > 1e-3 * abs(other[0]) or abs(losses[-1] - other[-1]) > 1e-2 * abs(other[-1]):
                self.results.row(name, state="fail", text=f"losses {losses[0]:.4f} to {losses[-1]:.4f}, but {other[0]:.4f} to {other[-1]:.4f} of {next(iter(first))}")
        self.results.save()


def goals(rows):
    def ratio(key, other, own=OURS):
        have, want = rows.get(own, {}).get(key), rows.get(other, {}).get(key)
        return have / want if have and want else None

    kernels = [{"goal": f"kernels: {what} at most 1 of {OURS}'s", "found": ratio(key, OURS, KERNELS), "reached": (ratio(key, OURS, KERNELS) or 2) <= 1}
               for key, what in (("seconds", "time"), ("tensor_bytes", "memory of tensors"))]
    asked = [("seconds", FSDP2, 0.8, "time"), ("seconds", COMPILE, 1.0, "time")]
    asked += [(key, other, 0.85, what) for key, what in (("process_bytes", "memory of the process"), ("tensor_bytes", "memory of tensors"))
              for other in (FSDP2, COMPILE)]
    return [{"goal": f"{what}: at most {bound} of {other}'s", "found": ratio(key, other),
             "reached": ratio(key, other) is not None and ratio(key, other) <= bound} for key, other, bound, what in asked] + kernels


def markdown(rows, goals):
    if not rows:
        return []
    def one_line(text):
        return " ".join(text.split()).replace("|", "/")[:400]

    def gib(value):
        return f"{value / 2**30:.2f}" if value else "-"
    lines = ["## A step of the decoder", "", "| | ms a step | quartiles | process, GiB | tensors, GiB | idle | kernels a step | longest idle, µs | loss, first and last | what it computes |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        if "seconds" not in row:
            lines.append(f"| {name} | {row['state']} |" + " - |" * 7 + f" {one_line(row.get('text', row['says']))} |")
            continue
        found = row.get("gaps")
        idle = f"{found['idle_share']:.1%} | {found['kernels']:.0f} | {found['longest_idle_us']:.0f}" if found else "- | - | -"
        low, high = row["quartiles"]
        says = row["says"] + (f"; {row['text']}" if row["state"] == "fail" else "") + (f"; activities: {row['gaps_text'][:200]}" if "gaps_text" in row else "")
        lines.append(f"| {name} | {1e3 * row['seconds']:.1f} | {1e3 * low:.1f} to {1e3 * high:.1f} | {gib(row['process_bytes'])} | {gib(row['tensor_bytes'])} | {idle} | "
                     f"{row['losses'][0]:.4f}, {row['losses'][-1]:.4f} | {one_line(says)} |")
    lines += [""] + [f"- {g['goal']}: " + ("not measured" if g["found"] is None else f"{g['found']:.2f}, {'reached' if g['reached'] else 'missed'}") for g in goals]
    return lines + [""]
