#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention under masks that models compute, each layer under another one: flags of kernels, blocks of queries, tensors. Keys and values have fewer heads than queries.

Training equals PyTorch's, whatever the ranks share; what each mask became is in the report.
"""
import functools
import json

import zoo
from harness import compile_step, make_config, parse_arguments, run_cases, train_case
from parallel import SGD, parallel_case, rounded_case
from precision import BF16, precision_case

SEQ = 48
every = functools.partial(zoo.forms, SEQ)
windows = functools.partial(zoo.forms, SEQ, ("window", "causal", "window"))
# Long enough to be attended in blocks.
packed = functools.partial(zoo.forms, 192, zoo.DATA_FORMS)


def told(bin):
    """What the report says of each mask."""
    def case(folder):
        module, inputs = every()
        compile_step(bin, folder, module, inputs, make_config(2), options=["--report=report.json", "--save-stages=stages"])
        found = [(row["module"], row["mask"]) for row in json.loads((folder / "report.json").read_text())["attention"]]
        forms = ["tensor" if form in ("holes", "data") else form for form in zoo.FORMS]
        assert found == [(f"layers.{i}", form) for i, form in enumerate(forms)], found
        module, inputs = windows()
        compile_step(bin, folder, module, inputs, make_config(2), options=["--save-stages=windows"])
        captured = next((folder / "windows").glob("1-*.mlir")).read_text()
        assert f"{SEQ}x{SEQ}x" not in captured, "a tensor of all queries by all keys is left"
    return case


def each_form(bin):
    """Each form alone, on each number of ranks, in each mode."""
    cases = {}
    for form in zoo.FORMS + zoo.DATA_FORMS:
        factory = functools.partial(zoo.forms, 192, (form,) if form in zoo.FORMS else ("documents", form))
        for world in (1, 2, 3, 4):
            cases[f"{form} checkpointed world={world}"] = train_case(bin, factory, world, activation_checkpointing=True)
            cases[f"{form} chunks world={world}"] = train_case(bin, factory, world, loss_chunks=4)
            cases[f"{form} bf16 world={world}"] = precision_case(bin, factory, world, 2e-2, mixed_precision=BF16)
        for shard in (1, 2):
            cases[f"{form} tp=2 shard={shard}"] = parallel_case(bin, factory, 2, shard=shard)
            cases[f"{form} cp=2 shard={shard}"] = parallel_case(bin, factory, cp=2, shard=shard, rotates=None)
    return cases


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "told": told(bin),
        "every world=1": train_case(bin, every, 1),
        "every world=3": train_case(bin, every, 3, reshard_after_forward=True),
        "every traced": train_case(bin, every, 2, form="traced"),
        "every checkpointed": train_case(bin, every, 2, activation_checkpointing=True),
        "windows selective": train_case(bin, windows, 4, activation_checkpointing={"policy": "selective"}),
        "windows chunks": train_case(bin, windows, 2, loss_chunks=4),
        "every tp=2": parallel_case(bin, every, 2),
        "windows tp=2 by sequence": parallel_case(bin, windows, 2, sequence_parallel=True),
        "windows cp=2": parallel_case(bin, windows, cp=2, gathers=None, rotates=None),
        "packed world=1": train_case(bin, packed, 1),
        "packed world=3": train_case(bin, packed, 3, activation_checkpointing=True),
        "packed tp=2": parallel_case(bin, packed, 2),
        "packed cp=2": parallel_case(bin, packed, cp=2),
        "packed bf16": rounded_case(bin, packed, {}, 2, optimizer=SGD, mixed_precision=BF16),
        "every bf16": rounded_case(bin, every, {}, 2, optimizer=SGD, mixed_precision=BF16),
    }
    if arguments.all:
        cases |= each_form(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
