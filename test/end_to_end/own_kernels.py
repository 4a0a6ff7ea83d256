# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of our own (fsdp_config.kernels): models train as in PyTorch, code and interpreter give the same bits,
peaks are no higher, and artifacts say what a kernel stands for."""
import json
import shutil

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

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
        compile_step(bin, folder, model, inputs, make_config(world, kernels="on", **config))
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
            compile_step(bin, folder, model, inputs, make_config(world, kernels=kernels, **config), options=["--report=report.json"])
            peaks[kernels] = json.loads((folder / "report.json").read_text())["memory"]["peak"]
        assert peaks["on"] <= peaks["off"], f"{peaks}"
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        assert "= kernel " in text and "\nkernel 0\n" in text, "no kernel was made"
        # The gradients of what q, k and v, and gate and up, read; its layers have no biases.
        assert factory is not zoo.llama or "aten::addmm" in text, "no product adds"
    return case


class Layers(nn.Module):
    """Parameters with updates of their own, and some that are too small for that; two are tied, one is frozen."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(48, 33), nn.LayerNorm(33)
        self.up, self.down, self.head = nn.Linear(33, 64), nn.Linear(64, 33), nn.Linear(33, 48, bias=False)
        self.head.weight = self.embed.weight
        self.up.bias.requires_grad = False

    def forward(self, tokens, targets):
        hidden = self.embed(tokens)
        hidden = hidden + self.down(nn.functional.silu(self.up(self.norm(hidden))))
        return nn.functional.cross_entropy(self.head(hidden).float().flatten(0, 1), targets.flatten())


def layers():
    tokens = torch.randint(0, 48, (4, 9))
    return Layers(), {"tokens": tokens, "targets": tokens.clone()}


def has_update(bin, folder, name="adamw"):
    assert f"= kernel {name}" in must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout, "no update is in a kernel"


def updated(bin, world, **config):
    """Updates are in kernels, and models train as in PyTorch."""
    train_as_ever = train_case(bin, layers, world, kernels="on", **config)

    def case(folder):
        train_as_ever(folder)
        has_update(bin, folder, config.get("optimizer", {"name": "adamw"})["name"])
    return case


def as_without(bin, world, **config):
    """In lower precision: steps go as far, and where they go without kernels."""
    def case(folder):
        config["optimizer"] = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
        model, inputs = prepare(bin, folder, layers, world, **config)
        start = {name: value.detach().clone() for name, value in model.named_parameters()}
        moved, losses = {}, {}
        for kernels in ("off", "on"):
            compile_step(bin, folder, model, inputs, make_config(world, kernels=kernels, **config))
            rows, final = train(bin, folder, world, 3)
            losses[kernels] = torch.tensor([row["loss"] for row in rows])
            moved[kernels] = torch.cat([(final[name].float() - value).flatten() for name, value in start.items() if name in final])
        has_update(bin, folder, "sgd")
        assert (losses["on"] / losses["off"] - 1).abs().max() < 0.01, losses
        apart = (moved["on"] - moved["off"]).norm() / moved["off"].norm()
        assert moved["off"].norm() > 0 and apart < 0.02, f"{apart:.1%} of the way apart"
    return case


def no_class(bin):
    """A target that is no class is refused, although a kernel makes the loss."""
    def case(folder):
        model, inputs = prepare(bin, folder, layers, 1, mixed_precision=BF16)
        inputs["targets"][1, 2] = 48
        save_file(make_data(inputs, 1), folder / "data.safetensors")
        data = load_file(folder / "data.safetensors")
        data["targets"][1, 2] = 48
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(1, kernels="on", mixed_precision=BF16))
        assert "nll_loss_forward" in "".join(line for line in must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout.splitlines() if "= kernel" in line)
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", cwd=folder)
        assert done.returncode and "48" in done.stderr and "E072" in done.stderr, done.stderr
    return case


def given_code(bin):
    """Code in the artifact, on a machine that makes none: the same bits, if the artifact is trusted and has some that the processor runs."""
    def case(folder):
        model, inputs = prepare(bin, folder, zoo.mlp, 2)
        alone = folder / "alone"
        alone.mkdir()
        for file in (bin / "fsdp-run", bin.parent / "lib" / "libfsdp-runtime.so"):
            shutil.copy(file, alone)
        compile_step(bin, folder, model, inputs, make_config(2, kernels="on"))
        (folder / "step.fsdp").rename(folder / "none.fsdp")

        def run(program, artifact, *options):
            metrics, final = folder / "metrics.jsonl", folder / "final.safetensors"
            done = call(program / "fsdp-run", artifact, "--data=data.safetensors", "--steps=3", f"--metrics={metrics}", f"--export={final}", *options,
                        cwd=folder, env={"XDG_CACHE_HOME": str(folder / "cache"), "LD_LIBRARY_PATH": str(program)})
            return done, None if done.returncode else ([json.loads(row)["loss"] for row in metrics.read_text().splitlines()], final.read_bytes())

        made = run(bin, "none.fsdp")[1]
        shutil.rmtree(folder / "cache")
        kept = lambda: list((folder / "cache").rglob("*.code"))
        for targets in ("x86-64-v3", "aarch64,x86-64-v3,x86-64-v4,sm_90"):
            compile_step(bin, folder, model, inputs, make_config(2, kernels="on"), options=[f"--kernel-code={targets}"])
            done, got = run(alone, "step.fsdp", "--trust")
            assert got == made, f"{targets}: {done.stderr}"
            assert not kept(), targets
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        assert "\nkernel 0 with code for aarch64, x86-64-v3, x86-64-v4, sm_90\n" in text, text[-2000:]
        refused = run(alone, "step.fsdp")[0]
        assert refused.returncode and "E079" in refused.stderr and "is run with --trust alone" in refused.stderr, refused.stderr
        # Where code can be made, a stranger's is not needed.
        assert run(bin, "step.fsdp")[1] == made and kept()
        compile_step(bin, folder, model, inputs, make_config(2, kernels="on"), options=["--kernel-code=sm_90"])
        for artifact in ("step.fsdp", "none.fsdp"):
            refused = run(alone, artifact, "--trust")[0]
            assert refused.returncode and "E079" in refused.stderr and "--kernel-code for this machine" in refused.stderr, refused.stderr
        refused = call(bin / "fsdp-opt", "model.pt2", "--config=config.yaml", "--kernel-code=sm_70", "-o", "x.fsdp", cwd=folder)
        assert "expected x86-64-v3, x86-64-v4, aarch64, sm_80, sm_90 or sm_100" in refused.stderr, refused.stderr
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
    half = {"param_dtype": "float16", "reduce_dtype": "float32"}
    for world, label, config in (
            (1, "", {}), (2, "", {}),
            (1, "adam", {"optimizer": {"name": "adam", "lr": 0.01, "weight_decay": 0.1}}),
            (2, "sgd", {"optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}})):
        cases[f"updates world={world} {label}".strip()] = updated(bin, world, **config)
    for world, label, config in (
            (1, "bf16", {"mixed_precision": BF16}), (1, "bf16, clip", {"mixed_precision": BF16, "max_grad_norm": 0.1}),
            (2, "bf16 throughout", {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"}}),
            (1, "float16, loss scale", {"mixed_precision": half, "loss_scale": "dynamic"})):
        cases[f"updates world={world} {label}"] = as_without(bin, world, **config)
    cases["updates interpreted"] = interpreted(bin, layers, 1, mixed_precision=BF16, max_grad_norm=0.1)
    for factory in (zoo.llama, zoo.gpt2, zoo.vit):
        cases[f"{factory.__name__} interpreted"] = interpreted(bin, factory, 2)
        cases[f"{factory.__name__} interpreted bf16"] = interpreted(bin, factory, 1, mixed_precision=BF16)
        cases[f"{factory.__name__} peak"] = no_higher(bin, factory, 2)
    # Weights are copies there, and freed between their layer's forward and backward: nothing is computed from them again.
    cases["llama peak, freed copies of weights"] = no_higher(bin, zoo.llama, 4, replicate=2, bucket_layout="fsdp2", mixed_precision=BF16)
    cases["given code"] = given_code(bin)
    cases["a target that is no class"] = no_class(bin)
    run_cases(cases, arguments.only)


main()
