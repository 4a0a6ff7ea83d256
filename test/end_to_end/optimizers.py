# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameter groups, learning-rate schedules and norms equal torch.optim's, transformers' and torch.nn.utils'."""
import torch
from safetensors.torch import save_file

import zoo
from harness import ADAMW, compare, compile_step, flat, make_config, make_data, parse_arguments, reference, run_cases, train

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
NO_DECAY = {"params": ["*.bias", "*norm*"], "weight_decay": 0.0}
MLP_NO_DECAY = {**NO_DECAY, "params": ["*.bias", "*.2.weight"]}


def mixed():
    """Gradients of two types, a frozen parameter, and one with fewer rows than ranks."""

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(5, 7).double(), torch.nn.Linear(7, 3)
            self.gain = torch.nn.Parameter(torch.ones(1, 7))
            self.second.bias.requires_grad_(False)

        def forward(self, x, y):
            hidden = torch.tanh(self.first(x.double())).float() * self.gain
            return torch.nn.functional.mse_loss(self.second(hidden), y)

    return Mixed(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}


def optimizer_case(bin, factory, world, steps=4, options=(), overrides=None, **config):
    """`options` are fsdp-run's; what they amount to in the config is in `overrides`."""
    def case(folder):
        torch.manual_seed(11)
        model, inputs = factory()
        model.train()
        settings = make_config(world, **config)
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, world * steps)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings)
        rows, final = train(bin, folder, world, steps, options=options)
        rates = []
        want = reference(model, inputs, data, world, steps, {**settings, **(overrides or {})}, rates=rates)
        compare(rows, final, *want, start)
        for row, rate in zip(rows, rates):
            assert abs(row["lr"] - rate) <= 1e-6 * max(rates), f"step {row['step']}: lr {row['lr']} instead of {rate}"
    return case


def main():
    arguments = parse_arguments()
    cases = {}

    def add(name, factory, world, also_flat=False, **options):
        cases[f"{name} {factory.__name__} world={world}"] = flat(optimizer_case(arguments.bin, factory, world, **options), also_flat)

    groups = {
        "no decay": {**ADAMW, "groups": [MLP_NO_DECAY]},
        "rates": {**ADAMW, "groups": [MLP_NO_DECAY, {"params": "*.3.*", "lr": 1e-3}, {"params": "*.0.weight", "lr": 5e-2, "betas": [0.5, 0.6], "eps": 1e-2}]},
        "momenta": {**SGD, "groups": [{"params": "*.bias", "momentum": 0.0}, {"params": "*.3.weight", "momentum": 0.5, "nesterov": True}]},
        "nesterov": {**SGD, "nesterov": True},
    }
    # Each of them somewhere; --all: everywhere.
    worlds = {"no decay": (1, 3), "rates": (2, 3), "momenta": (3,), "nesterov": (2,), "tied": (2, 3), "all in groups": (3,)}
    for world in (1, 2, 3):
        def here(name, world=world):
            return arguments.all or world in worlds[name]

        for name, optimizer in groups.items():
            if here(name):
                add(name, zoo.mlp, world, also_flat=world > 1 and name != "nesterov", optimizer=optimizer)
        # The group is that of either name.
        if here("tied"):
            add("tied", zoo.gpt, world, also_flat=True, optimizer={**ADAMW, "groups": [NO_DECAY, {"params": "*head.weight", "lr": 2e-2}]})
        if here("all in groups"):
            add("all in groups", zoo.tiny, world, also_flat=True, optimizer={**SGD, "lr": 0.5, "groups": [{"params": "*", "lr": 0.05}]})
        for row, order in enumerate((1, 2, "inf")):
            for column, factory in enumerate((zoo.mlp, zoo.tiny, mixed)):
                if arguments.all or (row + column) % 3 + 1 == world:
                    add(f"norm {order}", factory, world, also_flat=factory is not zoo.mlp and world > 1, optimizer=SGD, max_grad_norm=0.05, grad_norm_type=order)
    add("norm inf, not clipped", zoo.llama, 2, also_flat=True, grad_norm_type="inf")
    add("norm 1, f64", zoo.double, 3, also_flat=True, grad_norm_type=1, max_grad_norm=0.2)

    schedules = {
        "linear": {"name": "linear", "warmup_steps": 2, "total_steps": 6},
        "cosine": {"name": "cosine", "warmup_steps": 1, "total_steps": 7},
        "cosine to a least rate": {"name": "cosine_with_min_lr", "warmup_steps": 1, "total_steps": 6, "min_lr": 1e-3},
        "warm-up": {"name": "constant_with_warmup", "warmup_steps": 3},
        "ratio of the run": {"name": "linear", "warmup_ratio": 0.3},
        "cosine that waits": {"name": "warmup_stable_decay", "warmup_steps": 1, "total_steps": 6, "num_decay_steps": 3, "decay_type": "1-sqrt",
                              "min_lr_ratio": 0.1},
    }
    for name, schedule in schedules.items():
        if arguments.all or "cosine" in name:
            add(name, zoo.mlp, 2, steps=6, lr_scheduler=schedule)
        if arguments.all or name != "cosine":
            add(name + ", groups", zoo.mlp, 3, also_flat=name == "linear", steps=6, lr_scheduler=schedule, optimizer=groups["rates"])
    add("by name alone", zoo.mlp, 2, lr_scheduler="cosine")
    add("nothing compiled again: lr", zoo.mlp, 2, also_flat=True, optimizer=groups["rates"], options=["--lr=2e-2"],
        overrides={"optimizer": {**groups["rates"], "lr": 2e-2, "groups": [
            {k: 2 * v if k == "lr" else v for k, v in group.items()} for group in groups["rates"]["groups"]]}})
    add("nothing compiled again: schedule", zoo.mlp, 2, steps=6, lr_scheduler={"name": "linear", "total_steps": 3},
        options=["--lr-schedule=cosine_with_min_lr:warmup=2,total=6,min=1e-3"],
        overrides={"lr_scheduler": {"name": "cosine_with_min_lr", "warmup_steps": 2, "total_steps": 6, "min_lr": 1e-3}})
    run_cases(cases, arguments.only)


main()
