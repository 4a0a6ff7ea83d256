# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training on ranks that are threads equals PyTorch's."""
import zoo
from harness import flat, parse_arguments, run_cases, train_case

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
PLAIN_SGD = {"name": "sgd", "lr": 0.1}
ADAM = {"name": "adam", "lr": 1e-2, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}


def main():
    arguments = parse_arguments()
    cases = {}

    def add(factory, world, label="", also_flat=False, **config):
        name = " ".join(filter(None, [factory.__name__, f"world={world}", label]))
        cases[name] = flat(train_case(arguments.bin, factory, world, **config), also_flat)

    for world in (1, 2, 3, 4) if arguments.all else (1, 3, 4):
        add(zoo.mlp, world, "zero3", also_flat=world == 4, reshard_after_forward=True)
    add(zoo.mlp, 2, "adam", optimizer=ADAM)
    add(zoo.mlp, 3, "sgd zero2", also_flat=True, optimizer=SGD, reshard_after_forward=False)
    add(zoo.mlp, 2, "plain sgd, one bucket", also_flat=True, optimizer=PLAIN_SGD, auto_wrap_policy="NO_WRAP")
    add(zoo.mlp, 2, "by size", also_flat=True, auto_wrap_policy="SIZE_BASED_WRAP", min_num_params=100)
    add(zoo.mlp, 3, "named buckets", also_flat=True, buckets={"ends": ["net.0", "net.3.bias"], "norm": "net.2.*"}, reshard_after_forward=True)
    add(zoo.gpt, 2, "named buckets", buckets={"norms": "*norm*", "embedding": "*embed*"}, reshard_after_forward=True)
    for world in (1, 3, 4) if arguments.all else (3, 4):
        add(zoo.tiny, world, "sgd", also_flat=world == 3, optimizer=SGD, reshard_after_forward=True)
    add(zoo.double, 3, "adamw", also_flat=True)
    add(zoo.partial, 2, "adamw", also_flat=True, reshard_after_forward=True)
    add(zoo.convnet, 2, "zero3 sgd", optimizer=PLAIN_SGD, reshard_after_forward=True)
    add(zoo.convnet, 3, "zero2", also_flat=True, reshard_after_forward=False)
    add(zoo.tagger, 3, "zero3", also_flat=True, reshard_after_forward=True)
    blocks = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "GptBlock"}
    if arguments.all:
        add(zoo.gpt, 1, "zero3", reshard_after_forward=True, **blocks)
    add(zoo.gpt, 2, "zero3 clip", also_flat=True, reshard_after_forward=True, max_grad_norm=0.1, **blocks)
    add(zoo.gpt, 4, "zero2", also_flat=True, reshard_after_forward=False, **blocks)
    add(zoo.gpt, 3, "default policy")
    add(zoo.llama, 2, "zero3", reshard_after_forward=True)
    add(zoo.llama, 4, "zero2 clip sgd", also_flat=True, optimizer=SGD, reshard_after_forward=False, max_grad_norm=0.5)
    for factory in (zoo.lora, zoo.dpo, zoo.looped):
        if arguments.all or factory is zoo.lora:
            add(factory, 1, "sgd", optimizer=PLAIN_SGD)
        if arguments.all or factory is not zoo.looped:
            add(factory, 2, "zero3 adam", optimizer=ADAM, reshard_after_forward=True, **blocks)
        if arguments.all or factory is not zoo.dpo:
            add(factory, 3, "zero3 sgd", also_flat=True, optimizer=SGD, reshard_after_forward=True)
    add(zoo.grouped, 2, "groups of heads", optimizer=SGD)
    add(zoo.lora, 2, "zero2", also_flat=True, reshard_after_forward=False)
    add(zoo.lora_llama, 3, "zero3 adam", optimizer=ADAM, reshard_after_forward=True)
    for form in ("traced", "scripted"):
        add(zoo.mlp, 3, form, form=form, reshard_after_forward=True)
        add(zoo.convnet, 2, form, form=form, optimizer=PLAIN_SGD)
    add(zoo.gpt, 2, "traced", form="traced", reshard_after_forward=True)
    run_cases(cases, arguments.only)


main()
