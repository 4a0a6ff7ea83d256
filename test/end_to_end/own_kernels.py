# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of our own (fsdp_config.kernels): models train as in PyTorch, code and interpreter give the same bits,
peaks are no higher, and artifacts say what a kernel stands for."""
import json

import torch
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, make_config, make_data, must, parse_arguments, run_cases, train, train_case

BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
# Of models of transformers these have the norms, gates and rotary embeddings that most have.
MODELS = (zoo.mlp, zoo.gpt, zoo.llama, zoo.vit, zoo.convnet, zoo.tagger, zoo.lora_llama, zoo.dpo)


def prepare(bin, folder, factory, world, steps=3, **config):
    torch.manual_seed(7)
    model, inputs = factory()
    save_file(make_data(inputs, world * steps * config.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
    return model.train(), inputs


def interpreted(bin, factory, world, **config):
    """The interpreter, which defines what kernels compute, and the code that is made of them: losses and weights bit for bit."""
    def case(folder):
        model, inputs = prepare(bin, folder, factory, world, **config)
        compile_step(bin, folder, model, inputs, make_config(world, kernels="on", **config), factory=factory)
        results = []
        for how in ("interpret", ""):
            metrics, final = folder / f"metrics{how}.jsonl", folder / f"final{how}.safetensors"
            must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=3", f"--metrics={metrics}", f"--export={final}",
                 cwd=folder, env={"FSDP_KERNELS": how} if how else {})
            results.append(([(row["loss"], row["grad_norm"]) for row in map(json.loads, metrics.read_text().splitlines())], final.read_bytes()))
        assert results[0] == results[1], f"{results[0][0]} interpreted, {results[1][0]} by code"
    return case


def no_higher(bin, factory, world, **config):
    """Peaks with kernels and without; there are kernels, and the plan names what they stand for."""
    def case(folder):
        model, inputs = prepare(bin, folder, factory, world, **config)
        peaks = {}
        for kernels in ("off", "on"):
            compile_step(bin, folder, model, inputs, make_config(world, kernels=kernels, **config), factory=factory, options=["--report=report.json"])
            peaks[kernels] = json.loads((folder / "report.json").read_text())["memory"]["peak"]
        assert peaks["on"] <= peaks["off"], f"{peaks}"
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        assert "= kernel " in text and "\nkernel 0\n" in text, "no kernel was made"
    return case


def refused(bin):
    def case(folder):
        model, inputs = prepare(bin, folder, zoo.mlp, 1)
        compile_step(bin, folder, model, inputs, make_config(1))
        for words, config in (("is not supported with", {"kernels": "on", "device": "cuda"}),):
            (folder / "fsdp.yaml").write_text(json.dumps(make_config(1, **config)))
            done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "other.fsdp", cwd=folder)
            assert done.returncode and words in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}
    for factory in MODELS:
        cases[f"{factory.__name__} world=1"] = train_case(bin, factory, 1, kernels="on")
    for factory, world, label, config in (
            (zoo.llama, 3, "", {}),
            (zoo.gpt, 2, "clip, micro-batches", {"max_grad_norm": 0.1, "gradient_accumulation_steps": 2}),
            (zoo.llama, 2, "recomputed", {"activation_checkpointing": True}),
            (zoo.gpt, 2, "chunks", {"loss_chunks": 2}),
            (zoo.llama, 2, "flat", {"bucket_layout": "flat"}),
            (zoo.gpt, 2, "offloaded", {"offload_params": True}),
            (zoo.llama, 4, "replicas", {"replicate": 2})):
        cases[f"{factory.__name__} world={world} {label}".strip()] = train_case(bin, factory, world, kernels="on", **config)
    for factory in (zoo.llama, zoo.gpt2, zoo.vit):
        cases[f"{factory.__name__} interpreted"] = interpreted(bin, factory, 2)
        cases[f"{factory.__name__} interpreted bf16"] = interpreted(bin, factory, 1, mixed_precision=BF16)
        cases[f"{factory.__name__} peak"] = no_higher(bin, factory, 2)
    cases["refused"] = refused(bin)
    run_cases(cases, arguments.only)


main()
