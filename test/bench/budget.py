# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What schedule: auto makes of falling budgets: decoders of 8B and 70B shapes on 64 H100s.

    budget.py --bin build/bin [--models 8b 70b] [--steps 10] [--below 4] [--json out.json]

Budgets go from what zero-2 holds down to what zero-3 holds, and further down, where only recomputation, chunks of the loss and offloading help, to the
least that is found. Checks what the project promises: each answer is within its budget, a smaller budget is never faster (within 1 %), no answer is
slower than the default's or those of peers' rules (schedule: fsdp2, deepcompile, inductor) where these fit, and a compile takes less than 60 s. Nothing is
trained: models are exported on the meta device. Needs torch and transformers.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch
import transformers
import yaml

SHAPES = {"8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
          "70b": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64)}
TOKENS = {"8b": 8192, "70b": 4096}
SECONDS, TOLERANCE = 60, 1.01
PEERS = ("fsdp2", "deepcompile", "inductor")


def export(name, path):
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=128256, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, **SHAPES[name]))
        ids = torch.zeros(1, TOKENS[name], dtype=torch.int64)
    model.train()
    torch.export.save(torch.export.export(model, (), {"input_ids": ids, "labels": ids.clone(), "use_cache": False}, strict=False), path)


class Compiler:
    def __init__(self, bin, folder, world, cluster):
        self.bin, self.folder, self.world, self.cluster = bin, folder, world, cluster

    def compile(self, fsdp=None, **config):
        """The prediction, what was said, and seconds; None instead of the prediction if it is refused."""
        keys = {"fsdp_version": 2, "device": "cuda", "cluster": self.cluster, "mesh": {"dp_shard": self.world},
                "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
                                "mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}, **(fsdp or {})},
                "optimizer": {"name": "adamw", "lr": 3.0e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}, "max_grad_norm": 1.0, **config}
        (self.folder / "c.yaml").write_text(yaml.safe_dump(keys))
        begin = time.monotonic()
        done = subprocess.run([self.bin / "fsdp-opt", "model.pt2", "--config=c.yaml", "--print-plan=p.json", "-o", "step.fsdp"], cwd=self.folder,
                              capture_output=True, text=True)
        seconds = time.monotonic() - begin
        if done.returncode == 0:
            return json.loads((self.folder / "p.json").read_text()), done.stderr, seconds
        if "error[fsdp-E053]" not in done.stderr:
            sys.exit(done.stderr)
        return None, done.stderr, seconds


def describe(said):
    """The decisions of the notes, without those that were not taken."""
    lines = [line.removeprefix("note:   ") for line in said.splitlines() if line.startswith("note:   ")]
    return "; ".join(line for line in lines if not line.endswith(": none")) or "the default's"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), default=pathlib.Path("build/bin").resolve())
    parser.add_argument("--models", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--world", type=int, default=64)
    parser.add_argument("--cluster", default="h100x8")
    parser.add_argument("--steps", type=int, default=10, help="budgets from zero-2 to zero-3")
    parser.add_argument("--below", type=int, default=4, help="and from there to the least")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows, failures = [], []
    for name in args.models:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            export(name, folder / "model.pt2")
            compiler = Compiler(args.bin, folder, args.world, args.cluster)
            zero2, zero3 = (compiler.compile({"reshard_after_forward": reshard})[0] for reshard in (False, True))
            default, _, seconds = compiler.compile()
            rivals = {"the default": default, **{peer: compiler.compile(schedule=peer)[0] for peer in PEERS}}
            top, middle = zero2["memory"]["held"], zero3["memory"]["held"]
            refusal = compiler.compile(schedule="auto", memory_budget="1GiB")[1]
            least = int(re.search(r"a memory_budget of (\d+)B works", refusal)[1])
            print(f"{name}: zero-2 {top / 2**30:.1f} GiB {1e3 * zero2['seconds']:.1f} ms, zero-3 {middle / 2**30:.1f} GiB {1e3 * zero3['seconds']:.1f} ms, "
                  f"least {least / 2**30:.1f} GiB; the default compiles in {seconds:.1f} s", flush=True)
            for rival, each in rivals.items():
                print(f"  {rival}: {each['memory']['held'] / 2**30:.2f} GiB held, {1e3 * each['seconds']:.1f} ms", flush=True)
            budgets = [top - (top - middle) * i // (args.steps - 1) for i in range(args.steps)]
            budgets += [middle - (middle - least) * (i + 1) // args.below for i in range(args.below)]
            last = 0
            for budget in budgets:
                prediction, said, seconds = compiler.compile(schedule="auto", memory_budget=f"{budget}B")
                where = f"{name} within {budget / 2**30:.2f} GiB"
                if prediction is None:
                    failures.append(f"{where}: refused")
                    continue
                held, step = prediction["memory"]["held"], prediction["seconds"]
                print(f"  {budget / 2**30:7.2f} GiB: {held / 2**30:7.2f} GiB held, {1e3 * step:8.1f} ms, compiled in {seconds:5.1f} s; {describe(said)}", flush=True)
                rows.append({"model": name, "budget": budget, "held": held, "seconds": step, "compile_seconds": seconds, "decisions": describe(said)})
                if held > budget:
                    failures.append(f"{where}: holds {held / 2**30:.2f} GiB")
                if step * TOLERANCE < last:
                    failures.append(f"{where}: faster than within more memory")
                # How early it gathers depends on the budget.
                rivals["deepcompile"] = compiler.compile(schedule="deepcompile", memory_budget=f"{budget}B")[0] or rivals["deepcompile"]
                for rival, each in rivals.items():
                    if each["memory"]["held"] <= budget and step > each["seconds"]:
                        failures.append(f"{where}: slower than {rival}, which takes {1e3 * each['seconds']:.1f} ms")
                if seconds > SECONDS:
                    failures.append(f"{where}: compiled in {seconds:.0f} s; promised are {SECONDS}")
                last = max(last, step)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
