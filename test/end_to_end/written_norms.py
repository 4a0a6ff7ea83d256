# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Norms that a model writes out, as LibTorch's (fsdp_config.norms: fused): in f32 models train as in PyTorch, in bf16 to the bit as with
nn.RMSNorm in their place, which rounds once less than the model does; TorchScript is refused."""
import json

import torch
import torch.nn as nn
import yaml
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, make_config, make_data, must, parse_arguments, run_cases, train_case

BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class Written(nn.Module):
    """transformers' spelling of nn.RMSNorm."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, torch.finfo(torch.float32).eps if norm.eps is None else norm.eps

    def forward(self, x):
        input_dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(input_dtype)


def written_llama():
    model, inputs = zoo.llama()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.RMSNorm):
                setattr(module, name, Written(child))
    return model, inputs


def as_module(bin, world, **config):
    """Losses and weights of the model with its own norms, and of the one with nn.RMSNorm."""
    def case(folder):
        results = {}
        for factory, norms in ((written_llama, "fused"), (zoo.llama, "written"), (written_llama, "written")):
            torch.manual_seed(7)
            model, inputs = factory()
            save_file(make_data(inputs, world * 3), folder / "data.safetensors")
            compile_step(bin, folder, model.train(), inputs, make_config(world, norms=norms, mixed_precision=BF16, **config))
            metrics, final = folder / f"{factory.__name__}-{norms}.jsonl", folder / f"{factory.__name__}-{norms}.safetensors"
            must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=3", f"--metrics={metrics}", f"--export={final}", cwd=folder)
            results[factory, norms] = [(row["loss"], row["grad_norm"]) for row in map(json.loads, metrics.read_text().splitlines())], final.read_bytes()
        fused, module, as_written = (results[key] for key in ((written_llama, "fused"), (zoo.llama, "written"), (written_llama, "written")))
        assert fused == module, f"{fused[0]} fused, {module[0]} with nn.RMSNorm"
        assert fused[1] != as_written[1], "the norm rounds as it is written"
        for (loss, norm), (other, other_norm) in zip(fused[0], as_written[0]):
            assert abs(loss - other) < 2e-2 * abs(other) and abs(norm - other_norm) < 5e-2 * other_norm, (fused[0], as_written[0])
    return case


def refused(bin):
    def case(folder):
        model, inputs = zoo.mlp()
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(1, norms="fused")))
        torch.jit.trace(model, example_kwarg_inputs=inputs, check_trace=False).save(str(folder / "model.pt"))
        done = call(bin / "fsdp-opt", "model.pt", "--config=fsdp.yaml", "--input=x:f32[4,19]", "--input=y:i64[4]", "-o", "step.fsdp", cwd=folder)
        assert done.returncode and "is TorchScript, in which norms that are written out are not looked for" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({
        "f32": train_case(bin, written_llama, 1, norms="fused"),
        "f32 world=2 kernels": train_case(bin, written_llama, 2, norms="fused", kernels="on"),
        "f32 recomputed": train_case(bin, written_llama, 2, norms="fused", activation_checkpointing=True),
        "bf16 as nn.RMSNorm": as_module(bin, 1),
        "bf16 as nn.RMSNorm, kernels": as_module(bin, 1, kernels="on"),
        "torchscript": refused(bin),
    }, arguments.only)


main()
