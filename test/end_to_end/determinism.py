# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equal inputs give equal artifacts, and equal artifacts equal runs, bit by bit.

local and gloo add in different orders, so they agree to rounding.
"""
import torch
from safetensors.torch import save_file

import warm
import zoo
from harness import compile_step, export, make_config, make_data, must, parse_arguments, run_cases, train


def prepare(bin, folder, factory, world, steps):
    torch.manual_seed(3)
    model, inputs = factory()
    save_file(make_data(inputs, world * steps), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, make_config(world, max_grad_norm=1.0))


def repeat_case(bin, factory, world, backend):
    def case(folder):
        prepare(bin, folder, factory, world, 3)
        runs = [train(bin, folder, world, 3, backend, str(i)) for i in range(2)]
        numbers = [[(row["loss"], row["grad_norm"]) for row in rows] for rows, _ in runs]
        assert numbers[0] == numbers[1], f"losses differ: {numbers}"
        assert (folder / "final0.safetensors").read_bytes() == (folder / "final1.safetensors").read_bytes(), "weights differ"
    return case


def back_ends_agree(bin):
    def case(folder):
        prepare(bin, folder, zoo.gpt, 3, 3)
        (rows_a, a), (rows_b, b) = (train(bin, folder, 3, 3, backend, backend) for backend in ("local", "gloo"))
        for x, y in zip(rows_a, rows_b):
            assert abs(x["loss"] - y["loss"]) < 1e-5, (x, y)
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-5)
    return case


def same_artifact(bin):
    def case(folder):
        prepare(bin, folder, zoo.gpt, 2, 1)
        first = (folder / "step.fsdp").read_bytes()
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        assert (folder / "step.fsdp").read_bytes() == first, "two compilations differ"
    return case


def same_program(bin):
    """Equal archives are captured as equal programs, with all locations."""
    def case(folder):
        for factory in (zoo.mlp, zoo.partial, zoo.convnet, zoo.tagger, zoo.gpt, zoo.llama, zoo.lora_llama, zoo.bert, zoo.gpt2, zoo.vit):
            model, inputs = factory()
            model.train()
            export(model, inputs, folder / "model.pt2")
            first, second = (must(bin / "fsdp-opt", "model.pt2", "--mlir-print-debuginfo", "-o", "-", cwd=folder).stdout for _ in range(2))
            assert first and first == second, f"two captures of {factory.__name__} differ"
    return case


def main():
    arguments = parse_arguments()
    cases = {
        "two captures": same_program(arguments.bin),
        "two compilations": same_artifact(arguments.bin),
        "mlp world=3 local": repeat_case(arguments.bin, zoo.mlp, 3, "local"),
        "convnet world=2 local": repeat_case(arguments.bin, zoo.convnet, 2, "local"),
        "gpt world=3 gloo": repeat_case(arguments.bin, zoo.gpt, 3, "gloo"),
        "local and gloo": back_ends_agree(arguments.bin),
    }
    # Nothing may depend on addresses.
    with warm.off():
        run_cases(cases, arguments.only)


main()
