# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients that the optimizer divides (gradient_division): the same bits as by reductions where
the divisor is a power of two, and PyTorch's values for every other."""
import torch
from safetensors.torch import save_file

import zoo
from harness import compile_step, make_config, make_data, parse_arguments, run_cases, train, train_case

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


def same_bits(bin, factory, world, steps=3, is_left=True, **config):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        micro_batches = config.get("gradient_accumulation_steps", 1)
        save_file(make_data(inputs, world * steps * micro_batches), folder / "data.safetensors")
        results = []
        for division in ("reduction", "optimizer"):
            compile_step(bin, folder, model.train(), inputs, make_config(world, gradient_division=division, **config),
                         options=[f"--save-stages={division}"])
            rows, final = train(bin, folder, world, steps)
            results.append(([(row["loss"], row["grad_norm"]) for row in rows], final))
            sharded = (folder / division / "2-sharded.mlir").read_text()
            assert ("fsdp.optimizer_divisor" in sharded) == (is_left and division == "optimizer"), f"divided elsewhere with {division}"
        (rows, final), (other_rows, other) = results
        assert rows == other_rows, f"{rows} became {other_rows}"
        for name, value in final.items():
            assert torch.equal(value, other[name]), f"{name} differs"
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}
    for factory, world, label, config in (
            (zoo.mlp, 2, "", {}),
            (zoo.gpt, 4, "clip", {"max_grad_norm": 0.1}),
            (zoo.gpt, 4, "replicas", {"replicate": 2, "optimizer": SGD}),
            (zoo.mlp, 2, "flat", {"bucket_layout": "flat"}),
            (zoo.mlp, 2, "bf16", {"mixed_precision": BF16}),
            (zoo.mlp, 2, "micro-batches, clip", {"gradient_accumulation_steps": 3, "max_grad_norm": 0.1, "reshard_after_forward": False}),
            (zoo.gpt, 4, "replicas of the last micro-batch", {"replicate": 2, "gradient_accumulation_steps": 2, "gradient_sync": "all_reduce_last"}),
            (zoo.mlp, 2, "ignored", {"ignored_params": "*.bias"})):
        cases[f"{factory.__name__} world={world} {label}".strip()] = same_bits(bin, factory, world, **config)
    cases["f16 stays with the reductions"] = same_bits(bin, zoo.mlp, 2, is_left=False, mixed_precision={"param_dtype": "float16", "reduce_dtype": "float16"})
    for factory, config in ((zoo.mlp, {}), (zoo.gpt, {"max_grad_norm": 0.1}), (zoo.tiny, {"optimizer": SGD})):
        cases[f"{factory.__name__} world=3 as PyTorch"] = train_case(bin, factory, 3, gradient_division="optimizer", **config)
    cases["mlp world=1"] = train_case(bin, zoo.mlp, 1, gradient_division="optimizer")
    cases["mlp world=3 gloo"] = train_case(bin, zoo.mlp, 3, backend="gloo", gradient_division="optimizer", gradient_accumulation_steps=2)
    run_cases(cases, arguments.only)


main()
