# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training over meshes equals PyTorch's: replicas of shards (HSDP), parts kept between
forward and backward (reshard_after_forward: k), parameters that are not sharded.

Each case runs with poisoned memory: padding or anything else that a step reads
without having written it would turn into NaN.
"""
import copy

import torch
from safetensors.torch import save_file

import zoo
from harness import OPTIMIZERS, batch_of, compile_step, flat, make_config, make_data, parse_arguments, run_cases, train, train_case

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}


def local_case(bin, factory, world, pattern, is_local):
    """Every rank trains its own copy of what `is_local` names; all else is averaged. The export has rank 0's."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        steps = 3
        config = make_config(world, optimizer=SGD, ignored_params=pattern, reduce_ignored_params=False, reshard_after_forward=True)
        data = make_data(inputs, world * steps)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, config)
        rows, final = train(bin, folder, world, steps, options=["--poison"])

        ranks = [copy.deepcopy(model) for _ in range(world)]
        options = {k: v for k, v in SGD.items() if k != "name"}
        optimizers = [OPTIMIZERS["sgd"](rank.parameters(), **options) for rank in ranks]
        for step in range(steps):
            losses = [rank(**batch_of(data, inputs, step * world + i)) for i, rank in enumerate(ranks)]
            for rank, loss in zip(ranks, losses):
                rank.zero_grad()
                loss.backward()
            for name, _ in model.named_parameters():
                if not is_local(name):
                    mean = torch.stack([rank.get_parameter(name).grad for rank in ranks]).mean(0)
                    for rank in ranks:
                        rank.get_parameter(name).grad = mean.clone()
            for optimizer in optimizers:
                optimizer.step()
            loss = sum(loss.item() for loss in losses) / world
            assert abs(rows[step]["loss"] - loss) < 2e-5, (rows[step], loss)
        names = dict(model.named_parameters())
        assert any(not torch.equal(ranks[0].get_parameter(n), ranks[1].get_parameter(n)) for n in names), "nothing is local"
        for name in names:
            torch.testing.assert_close(final[name], ranks[0].get_parameter(name).detach(), rtol=1e-4, atol=1e-5)
    return case


def main():
    arguments = parse_arguments()
    cases = {}

    def add(factory, world, label, also_flat=False, **config):
        cases[f"{factory.__name__} world={world} {label}"] = flat(train_case(arguments.bin, factory, world, run_options=["--poison"], **config), also_flat)

    for world in (2, 4) if arguments.all else (4,):
        add(zoo.mlp, world, "hsdp", also_flat=True, replicate=2, reshard_after_forward=True)
        add(zoo.mlp, world, "parts of 2", also_flat=True, reshard_after_forward=2)
    add(zoo.tiny, 4, "hsdp sgd", also_flat=True, replicate=2, optimizer=SGD, reshard_after_forward=True)
    add(zoo.tiny, 4, "parts of 2, sgd", optimizer=SGD, reshard_after_forward=2)
    add(zoo.gpt, 4, "hsdp, parts of 2, clip", also_flat=True, replicate=2, reshard_after_forward=2, max_grad_norm=0.1)
    add(zoo.gpt, 6, "3 replicas, zero2", also_flat=True, replicate=3, reshard_after_forward=False, max_grad_norm=0.1)
    add(zoo.gpt, 3, "replicas alone", replicate=3, max_grad_norm=0.1)
    add(zoo.convnet, 4, "hsdp sgd", also_flat=True, replicate=2, optimizer=SGD)
    add(zoo.lora, 4, "hsdp, parts of 2", also_flat=True, replicate=2, optimizer=SGD, reshard_after_forward=2)
    add(zoo.double, 4, "hsdp", replicate=2)
    for world in (1, 2, 3) if arguments.all else (3,):
        add(zoo.scaled, world, "scalar, clip", also_flat=True, max_grad_norm=0.1)
    add(zoo.scaled, 4, "scalar, hsdp, clip", also_flat=True, replicate=2, max_grad_norm=0.1)
    add(zoo.scaled, 3, "ignored, clip", also_flat=True, ignored_params=["*.bias", "first.*"], max_grad_norm=0.1)
    add(zoo.gpt, 2, "ignored tied", ignored_params="*emb*", optimizer=SGD)
    add(zoo.gpt, 4, "hsdp over gloo", also_flat=True, backend="gloo", replicate=2, reshard_after_forward=2, max_grad_norm=0.1)
    add(zoo.scaled, 2, "ignored over gloo", also_flat=True, backend="gloo", ignored_params="first.*", max_grad_norm=0.1)
    cases["scaled world=2 kept local"] = flat(local_case(
        arguments.bin, zoo.scaled, 2, ["norm.*", "temperature"], lambda n: n.startswith("norm.") or n == "temperature"))
    run_cases(cases, arguments.only)


main()
