# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Learning rates of each step of a run against transformers' own functions, and against what torchtitan and Axolotl compute."""
import math
import sys

import torch
from harness import parse_arguments, run_cases
from transformers import get_scheduler
from transformers.trainer_utils import SchedulerType

from fsdp_opt import _native

LR = 2e-3

# Schedule, its arguments there, and here if they have other names.
CASES = [
    ("constant", {}), ("constant_with_warmup", {}), ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.25}),
    ("cosine_with_min_lr", {"min_lr": 1e-4}), ("cosine_with_min_lr", {"min_lr_rate": 0.3, "num_cycles": 0.75}),
    ("cosine_with_restarts", {}), ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {}), ("polynomial", {"power": 2.5, "lr_end": 1e-4}), ("polynomial", {"power": 0.5}),
    ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 7}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}), ("cosine_warmup_with_min_lr", {"min_lr": 1e-4, "warmup_lr_rate": 0.2}),
    ("warmup_stable_decay", {"num_decay_steps": 6}), ("warmup_stable_decay", {"num_decay_steps": 6, "num_stable_steps": 4, "min_lr_ratio": 0.2}),
    ("warmup_stable_decay", {"num_decay_steps": 0}),
    *(("warmup_stable_decay", {"num_decay_steps": 5, "decay_type": decay, "warmup_type": warmup, "min_lr_ratio": 0.1})
      for decay in ("linear", "cosine", "1-sqrt") for warmup in ("linear", "cosine", "1-sqrt")),
]
OPTIONS = {"min_lr": "min", "min_lr_rate": "min_ratio", "min_lr_ratio": "min_ratio", "lr_end": "min"}


def write(name, warmup, total, arguments):
    """As fsdp-run's --lr-schedule."""
    given = {**({"warmup": warmup} if warmup else {}), "total": total, **{OPTIONS.get(key, key): value for key, value in arguments.items()}}
    return name + ":" + ",".join(f"{key}={value}" for key, value in given.items())


def near(own, theirs, what):
    assert len(own) == len(theirs)
    for step, (a, b) in enumerate(zip(own, theirs)):
        assert math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15), f"{what}, step {step}: {a!r}, expected {b!r}"


def of_transformers(name, warmup, total, arguments):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    rates = get_scheduler(name, optimizer, warmup, total, scheduler_specific_kwargs=arguments)
    found = []
    for _ in range(total):
        found.append(optimizer.param_groups[0]["lr"] / LR)
        optimizer.step()
        rates.step()
    return found


def transformers_own(folder):
    for name, arguments in CASES:
        for warmup, total in ((0, 20), (3, 20), (1, 14), (5, 11)):
            if warmup and name == "constant":
                continue
            near(_native.rate_factors(write(name, warmup, total, arguments), LR, total), of_transformers(name, warmup, total, arguments),
                 write(name, warmup, total, arguments))
    without = {each.value for each in SchedulerType} - {name for name, _ in CASES}
    assert without == {"reduce_lr_on_plateau", "greedy"}, without
    for name in (*without, "one_cycle"):
        assert _native.why_no_schedule(name), name
        try:
            _native.rate_factors(name, LR, 3)
        except ValueError as error:
            assert "cannot be had: " in str(error), error
        else:
            raise AssertionError(f"{name} was not refused")


def reflected(folder):
    """Axolotl's RexLR counts its steps from 1."""
    for warmup, total, least in ((0, 10, 0.0), (3, 12, 0.0), (4, 9, 0.25)):
        def rate(count, warmup=warmup, total=total, least=least):
            if count <= warmup:
                return count / warmup
            if count - warmup >= total - warmup:
                return least
            z = (total - count) / (total - warmup)
            return least + (1 - least) * z / (0.1 + 0.9 * z)
        near(_native.rate_factors(write("rex", warmup, total, {"min_lr_ratio": least} if least else {}), LR, total),
             [rate(step + 1) for step in range(total)], f"rex {warmup} {total}")


def axolotls(folder):
    """Its cosines: one that grows by the square of the steps, one that ends before the run does."""
    for warmup, total in ((0, 10), (3, 12), (5, 9)):
        def grown(step, power, warmup=warmup):
            return (step / max(1, warmup)) ** power

        def quadratic(step, warmup=warmup, total=total, grown=grown):
            return grown(step, 2) if step < warmup else max(0.0, 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup))))
        near(_native.rate_factors(write("cosine", warmup, total, {"warmup_power": 2}), LR, total), [quadratic(step) for step in range(total)],
             f"quadratic warm-up {warmup} {total}")
        for ratio, least in ((0.75, 0.1), (0.5, 0.2), (1.0, 0.3)):
            def early(step, warmup=warmup, end=int(total * ratio), least=least, grown=grown):
                step = min(step, end)
                if step < warmup:
                    return grown(step, 1)
                return (1 - least) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, end - warmup))) + least
            if int(total * ratio) > warmup:
                near(_native.rate_factors(write("cosine", warmup, total, {"constant_ratio": ratio, "min_lr_ratio": least}), LR, total),
                     [early(step) for step in range(total)], f"constant end {warmup} {total} {ratio}")


def torchtitans(folder):
    """Its warm-up counts from 1, and a step more that is never made keeps the last rate above the least."""
    down = {"linear": lambda p: 1 - p, "sqrt": lambda p: 1 - math.sqrt(p), "cosine": lambda p: (1 + math.cos(math.pi * p)) / 2}
    for kind, shape in down.items():
        for warmup, total, ratio, least in ((0, 10, None, 0), (3, 12, None, 0.1), (2, 15, 0.3, 0), (2, 10, 0.25, 0.2), (4, 10, 0.9, 0)):
            decay = total - warmup if ratio is None else min(round(total * ratio), total - warmup)

            def rate(step, warmup=warmup, total=total, decay=decay, least=least, shape=shape):
                if step < warmup:
                    return (step + 1) / warmup
                if step < total + 1 - decay:
                    return 1.0
                return least + (1 - least) * shape((step - total + decay) / decay)
            arguments = {"decay_type": kind, **({} if ratio is None else {"decay_ratio": ratio}), **({"min_lr_ratio": least} if least else {})}
            near(_native.rate_factors(write("linear_warmup_stable_decay", warmup, total, arguments), LR, total), [rate(step) for step in range(total)],
                 f"torchtitan's {kind} {warmup} {total} {ratio}")


run_cases({"transformers' own": transformers_own, "Axolotl's rex": reflected, "Axolotl's cosines": axolotls, "torchtitan's": torchtitans}, parse_arguments().only)
