# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of our own in artifacts for GPUs: the assembler takes the text of each, no register lies in memory, and long rows
are read 16 bytes at a time. Without a GPU; without the toolkit's ptxas all that is looked at is that there is a text.

`--table` prints what each kernel takes.
"""
import json
import pathlib
import re
import shutil
import sys

import torch

import zoo
from harness import compile_step, make_config, must, must_refuse, parse_arguments, run_cases

BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
LONGEST = 255  # registers of a thread
seen = {}


def find_assembler():
    places = ("/usr/local/cuda/bin/ptxas", "/opt/cuda/bin/ptxas", "/usr/bin/ptxas")
    return shutil.which("ptxas") or next((place for place in places if pathlib.Path(place).exists()), None)


def assemble(folder, text, target):
    """Registers and bytes of memory by entry."""
    said = must(find_assembler(), "-v", f"-arch={target}", text, "-o", folder / "kernel.cubin", cwd=folder).stderr
    found = {}
    for entry, spilled, registers in re.findall(r"Function properties for (\w+)\s.*?(\d+) bytes spill stores.*?Used (\d+) registers", said, re.S):
        found[entry] = int(registers), int(spilled)
    assert "kernel" in found and "kernel_aligned" in found, said
    return found


def compile_decoder(bin, folder, config):
    """The decoder of test/gpu, whose rows have the lengths of models that are trained."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
    import models
    with torch.device("meta"):
        model = models.decoder("1b")
    inputs = {name: value.to("meta") for name, value in models.tokens("1b").items()}
    torch.export.save(torch.export.export(model, (), inputs), folder / "model.pt2")
    (folder / "fsdp.yaml").write_text(json.dumps(config))
    must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)


def case(bin, factory, targets, table, vectors=0, **config):
    """`factory`: of a model, or compiles one; `vectors`: so many kernels read 16 bytes at a time at least."""
    def run(folder):
        torch.manual_seed(7)
        settings = make_config(2, kernels="on", device="cuda", **config)
        if factory is compile_decoder:
            compile_decoder(bin, folder, settings)
        else:
            model, inputs = factory()
            compile_step(bin, folder, model.train(), inputs, settings)
        loads = 0
        for target in targets:
            names = must(bin.parent / "test" / "bin" / "fsdp-kernel-text", "step.fsdp", target, folder, cwd=folder).stdout.splitlines()
            assert names, "no kernel was made"
            for number, name in (line.split(" ", 1) for line in names):
                text = (folder / f"{number}.ptx").read_text()
                wide = len(re.findall(r"ld\.global\S*\.(?:v4\.[bfu]32|v2\.[bfu]64)", text))
                loads += wide > 0
                if text in seen or not find_assembler():
                    continue
                seen[text] = assemble(folder, folder / f"{number}.ptx", target)
                for entry, (registers, spilled) in seen[text].items():
                    assert spilled == 0 and registers <= LONGEST, f"{name}, {entry}, {target}: {registers} registers, {spilled} bytes of them in memory"
                if table:
                    registers = ", ".join(f"{entry} {count}" for entry, (count, _) in seen[text].items())
                    print(f"{target:7} {registers:50} {wide:3} loads of 16 bytes  {name[:100]}", flush=True)
        assert loads >= vectors, f"{loads} kernels read 16 bytes at a time"
    return run


def refused(bin):
    def run(folder):
        model, inputs = zoo.mlp()
        compile_step(bin, folder, model, inputs, make_config(1))
        must_refuse(bin, folder, {"'kernels: on' is not supported with a GPU before sm_80": {"kernels": "on", "device": "cuda", "cuda_arch": "sm_75"}})
    return run


def main():
    arguments = parse_arguments(lambda parser: parser.add_argument("--table", action="store_true"))
    bin, table = arguments.bin, arguments.table
    every = ("sm_80", "sm_90", "sm_100")
    cases = {"refused": refused(bin), "llama bf16": case(bin, zoo.llama, every, table, vectors=2, mixed_precision=BF16),
             "gpt clip": case(bin, zoo.gpt, every[1:2], table, max_grad_norm=0.1)}
    if arguments.all:
        cases["decoder"] = case(bin, compile_decoder, every, table, vectors=20, mixed_precision=BF16, max_grad_norm=1.0)
        for factory in (zoo.mlp, zoo.tiny, zoo.scaled, zoo.convnet, zoo.tagger, zoo.gpt, zoo.llama, zoo.looped, zoo.dpo, zoo.lora, zoo.lora_llama,
                        zoo.grouped, zoo.bert, zoo.gpt2, zoo.vit):
            for name, config in (("f32", {}), ("bf16 recomputed", {"mixed_precision": BF16, "activation_checkpointing": True})):
                # Running statistics are refused in bfloat16; the other has nothing that follows.
                if (factory, name) in ((zoo.convnet, "bf16 recomputed"), (zoo.dpo, "f32")):
                    continue
                cases[f"{factory.__name__} {name}, all"] = case(bin, factory, every, table, **config)
    run_cases(cases, arguments.only)


main()
