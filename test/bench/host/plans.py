# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many plans of three models on gloo ranks: does the prediction rank them as they are, and is the one that `schedule: auto` chooses among the best?

Plans differ in buckets, layout, prefetch, what stays gathered and what is computed again. All plans of a model on so many ranks (a group) are measured once, which ranks them. The
fastest of some thirty noisy numbers is a lucky one, so the fastest three of a group, the default and `auto` are measured again, in turns, and of those rounds alone the fastest median
of a plan's steps counts.
"""
import json
import random
import statistics
import sys
import time

from . import models, runs

WORLDS, SEED = (2, 3, 4), 7
FINALISTS, FINAL_ROUNDS = 3, 4
# Where a model's blocks are, and how many.
BLOCKS = {"decoder": ("blocks", 6), "perceptron": ("net", 8), "gpt": ("net.blocks", 6)}
DEFAULT_COUNT = 300


def random_config(model, dice):
    """Of fsdp_config."""
    prefix, layers = BLOCKS[model]
    config = {"prefetch": dice.choice((0, 1, 1, 2, 4)), "bucket_layout": dice.choice(("rows", "flat"))}
    together = dice.choice((1, 1, 1, 2, 3, layers))
    if together > 1:
        config["buckets"] = {f"part{i // together}": [f"{prefix}.{k}" for k in range(i, min(i + together, layers))] for i in range(0, layers, together)}
    config["reshard_after_forward"] = dice.choice((True, True, False))
    again = dice.choice((None, None, "full", "selective"))
    if again:
        config["activation_checkpointing"] = {"policy": again, "every": dice.choice((1, 2, 3)), "modules": [f"{prefix}.{k}" for k in range(layers)]}
    return config


def cases(arguments):
    """The plans that `auto` chooses, and random ones, each once: (model, world, number, config)."""
    count = arguments.count or DEFAULT_COUNT
    dice = random.Random(SEED)
    names = [name for name in models.PLANNED if not arguments.only or name in arguments.only.split("|")]
    found, seen = [], set()
    for name in names:
        for world in WORLDS:
            found.append((name, world, "auto", {"schedule": "auto"}))
            found.append((name, world, "default", {}))
    while len(found) < count:
        name, world = names[len(found) % len(names)], dice.choice(WORLDS)
        config = random_config(name, dice)
        key = (name, world, json.dumps(config, sort_keys=True))
        if key not in seen:
            seen.add(key)
            found.append((name, world, str(len(found)), config))
    return found[arguments.first:]


def compile_case(arguments, name, world, number, config):
    model = arguments.work / "models" / f"{name}.pt2"
    runs.export(models.PLANNED[name], model)
    artifact = arguments.work / "plans" / f"{name}.{world}.{number}.fsdp"
    return artifact, runs.compile_model(arguments.bin, model, runs.make_config(world, **config), arguments.work / "gloo.yaml", artifact)


def prepare(arguments):
    for case in cases(arguments):
        compile_case(arguments, *case)


def name_of(case):
    return ".".join(map(str, case[:3]))


def measure_again(arguments, case, times):
    artifact, prediction = compile_case(arguments, *case)
    times.add(name_of(case), runs.measure(arguments.bin, artifact, case[1], "gloo", prediction["seconds"], seconds=0.8))


def finalists(times, group):
    fastest = sorted(group, key=lambda case: min(times.of(name_of(case))))[:FINALISTS]
    return fastest + [case for case in group if case[2] in ("auto", "default") and case not in fastest]


def measure(arguments):
    begin = time.monotonic()
    is_late = lambda: time.monotonic() - begin > arguments.seconds
    all_cases = cases(arguments)
    once, again = runs.Times(arguments.work / "plans.runs.json"), runs.Times(arguments.work / "plans.finals.json")
    for number, case in enumerate(all_cases):
        if not once.of(name_of(case)) and not is_late():
            measure_again(arguments, case, once)
            print(f"{number + 1} of {len(all_cases)}: {case[0]} on {case[1]} ranks, {case[2]}: {1e3 * once.of(name_of(case))[-1]:.2f} ms", file=sys.stderr, flush=True)
    groups = {}
    for case in all_cases:
        groups.setdefault(case[:2], []).append(case)
    if all(once.of(name_of(case)) for case in all_cases):
        for round in range(FINAL_ROUNDS):
            for group in groups.values():
                for case in finalists(once, group):
                    if len(again.of(name_of(case))) <= round and not is_late():
                        measure_again(arguments, case, again)
            print(f"round {round + 1} of {FINAL_ROUNDS} of the fastest", file=sys.stderr, flush=True)
    rows = []
    for case in all_cases:
        name, world, number, config = case
        rounds = once.of(name_of(case))
        if not rounds:
            continue
        artifact, prediction = compile_case(arguments, *case)
        if arguments.predict_again:
            prediction = runs.predict(arguments.bin, artifact, arguments.work / "gloo.yaml")
        rows.append({"model": name, "ranks": world, "plan": number, "config": config, "predicted_s": prediction["seconds"],
                     "measured_s": min(rounds), "rounds": rounds, "finals": again.of(name_of(case))})
    return rows


def ranks_of(values):
    """Places in the order, equal ones sharing theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0.0] * len(values)
    i = 0
    while i < len(order):
        k = i
        while k + 1 < len(order) and values[order[k + 1]] == values[order[i]]:
            k += 1
        for place in range(i, k + 1):
            places[order[place]] = (i + k) / 2
        i = k + 1
    return places


def spearman(rows):
    """Empty where all are alike or there are too few to say."""
    if len(rows) < 4:
        return None
    a, b = (ranks_of([row[key] for row in rows]) for key in ("predicted_s", "measured_s"))
    try:
        return statistics.correlation(a, b)
    except statistics.StatisticsError:
        return None


def summarize(rows):
    summary = {"plans": len(rows), "spearman": spearman(rows), "by_model": {}, "auto_over_best": {}}
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows]
    summary["median_abs_error"] = statistics.median(errors)
    spreads = [max(row["finals"]) / min(row["finals"]) - 1 for row in rows if len(row["finals"]) > 1]
    summary["spread_of_finals"] = statistics.median(spreads) if spreads else None
    for name in sorted({row["model"] for row in rows}):
        mine = [row for row in rows if row["model"] == name]
        summary["by_model"][name] = {"plans": len(mine), "spearman": spearman(mine)}
        for world in sorted({row["ranks"] for row in mine}):
            same = [row for row in mine if row["ranks"] == world]
            summary["by_model"][name][f"spearman_on_{world}"] = spearman(same)
            finals = {row["plan"]: min(row["finals"]) for row in same if row["finals"]}
            if "auto" in finals:
                best = min(finals, key=finals.get)
                summary["auto_over_best"][f"{name} on {world}"] = {
                    "ratio": finals["auto"] / finals[best], "to_default": finals["auto"] / finals["default"], "best": best,
                    "config": next(row["config"] for row in same if row["plan"] == best)}
    return summary
