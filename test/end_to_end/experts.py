# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixtures of experts of Hugging Face's transformers, and operators of libraries by their decompositions, train as in PyTorch."""
import torch
import torch.nn as nn
import transformers
import transformers.integrations.moe
import yaml
from safetensors.torch import save_file

from harness import call, compare, export, make_config, make_data, must, parse_arguments, reference, run_cases, train, train_case

SGD = {"name": "sgd", "lr": 0.1}


class Loss(nn.Module):
    """The loss of a language model alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids, use_cache=False).loss


SHAPES = {"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 16, "num_experts_per_tok": 2}


def mixtral(**changed):
    config = transformers.MixtralConfig(**{**SHAPES, "intermediate_size": 24, "num_local_experts": 4, **changed})
    return Loss(transformers.MixtralForCausalLM(config)), {"ids": torch.randint(0, 61, (2, 7))}


def qwen3_moe():
    config = transformers.Qwen3MoeConfig(**SHAPES, intermediate_size=24, moe_intermediate_size=12, num_experts=5, head_dim=4)
    return Loss(transformers.Qwen3MoeForCausalLM(config)), {"ids": torch.randint(0, 61, (2, 7))}


def uses_fallback():
    """Lets PyTorch do what the export says, for operands that its own kernel refuses."""
    transformers.integrations.moe._can_use_grouped_mm = lambda *operands: False


def odd_sizes():
    """Rows of the experts' matrices do not begin at multiples of 16 bytes."""
    uses_fallback()
    return mixtral(intermediate_size=23)


def in_double():
    uses_fallback()
    model, inputs = mixtral(num_hidden_layers=1)
    return model.double(), inputs


def batched():
    return mixtral(experts_implementation="batched_mm")


class Direct(nn.Module):
    """Experts that call LibTorch's product of groups themselves; which rows each gets is data, and one may get none."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(61, 16), nn.Linear(24, 5)
        self.experts = nn.Parameter(torch.randn(4, 16, 24) * 0.2)

    def forward(self, ids, kind):
        rows = self.embed(ids).flatten(0, 1)[torch.argsort(kind.flatten())]
        ends = (kind.flatten() == torch.arange(4).unsqueeze(1)).sum(1).cumsum(0).int()
        made = torch._grouped_mm(rows.bfloat16(), self.experts.bfloat16(), offs=ends)
        return self.out(made.float()).square().mean()


def calls_directly(bin, world):
    """Losses, norms and weights as PyTorch's; the CPU's kernel, unlike the others, takes memory that no plan has."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = Direct(), {"ids": torch.randint(0, 61, (2, 7)), "kind": torch.randint(0, 4, (2, 7))}
        config = make_config(world, SGD)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        export(model, inputs, folder / "model.pt2")
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        start = {k: v.detach().clone() for k, v in model.named_parameters()}
        data = make_data(inputs, world * 3)
        save_file(data, folder / "data.safetensors")
        rows, final = train(bin, folder, world, 3)
        compare(rows, final, *reference(model, inputs, data, world, 3, config), start)
    return case


# An operator of a library, with a backward of its own.
torch.library.define("endtoend::cube", "(Tensor x) -> Tensor")
torch.library.impl("endtoend::cube", "cpu", lambda x: x.pow(3))
torch.library.register_fake("endtoend::cube", lambda x: torch.empty_like(x))
torch.library.register_autograd("endtoend::cube", lambda ctx, gradient: gradient * 3 * ctx.saved_tensors[0].square(),
                                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


class Cubed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        return self.b(torch.ops.endtoend.cube(self.a(x))).square().mean()


def library_operator(bin):
    """Refused as it is, with the way out; by it, trained as in PyTorch."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs, config = Cubed(), {"x": torch.randn(4, 5)}, make_config(2, SGD)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
        compile = [bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp"]
        export(model, inputs, folder / "model.pt2")
        done = call(*compile, cwd=folder)
        assert done.returncode == 1 and "error[fsdp-E021]: endtoend::cube (at " in done.stderr, done.stderr
        assert "run_decompositions({torch.ops.endtoend.cube.default: function})" in done.stderr, done.stderr
        program = torch.export.export(model, (), inputs)
        program = program.run_decompositions({torch.ops.endtoend.cube.default: lambda x: x * x * x})
        torch.export.save(program, folder / "model.pt2")
        must(*compile, cwd=folder)
        start = {k: v.detach().clone() for k, v in model.named_parameters()}
        data = make_data(inputs, 6)
        save_file(data, folder / "data.safetensors")
        rows, final = train(bin, folder, 2, 3)
        compare(rows, final, *reference(model, inputs, data, 2, 3, config), start)
    return case


def main():
    arguments = parse_arguments()
    cases = {"operator of a library": library_operator(arguments.bin)}
    for factory, worlds in ((mixtral, (1, 2, 3)), (qwen3_moe, (1, 2, 3)), (batched, (2,)), (odd_sizes, (2,)), (in_double, (2,))):
        for world in worlds:
            cases[f"{factory.__name__} world={world}"] = train_case(arguments.bin, factory, world, optimizer=SGD, reshard_after_forward=True)
    cases |= {f"direct world={world}": calls_directly(arguments.bin, world) for world in (1, 2)}
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
