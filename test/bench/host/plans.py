# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many plans of three models on gloo ranks: does the prediction rank them as they are, and is the one that `schedule: auto` chooses among the best?

Plans differ in buckets, layout, prefetch, what stays gathered and what is computed again. All plans take turns, several rounds; of a plan's rounds the
fastest median of its steps counts.
"""
import json
import random
import statistics
import time

from . import models, runs

WORLDS, ROUNDS, SEED = (2, 3, 4), 2, 7
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


def measure(arguments):
    begin = time.monotonic()
    store = arguments.work / "plans.runs.json"
    times = json.loads(store.read_text()) if store.exists() else {}
    todo = [(round, case) for round in range(ROUNDS) for case in cases(arguments)]
    for round, case in todo:
        if time.monotonic() - begin > arguments.seconds:
            break
        name, world, number, config = case
        done = times.setdefault(f"{name}.{world}.{number}", [])
        if len(done) > round:
            continue
        artifact, prediction = compile_case(arguments, *case)
        done.append(runs.measure(arguments.bin, artifact, world, "gloo", prediction["seconds"], seconds=0.8))
        store.write_text(json.dumps(times))
    rows = []
    for case in cases(arguments):
        name, world, number, config = case
        if not times.get(f"{name}.{world}.{number}"):
            continue
        artifact, prediction = compile_case(arguments, *case)
        if arguments.predict_again:
            prediction = runs.predict(arguments.bin, artifact, arguments.work / "gloo.yaml")
        rows.append({"model": name, "ranks": world, "plan": number, "config": config, "predicted_s": prediction["seconds"],
                     "measured_s": min(times[f"{name}.{world}.{number}"]), "rounds": times[f"{name}.{world}.{number}"]})
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
    summary["noise"] = statistics.median(abs(row["rounds"][0] / row["rounds"][1] - 1) for row in rows if len(row["rounds"]) > 1) \
        if any(len(row["rounds"]) > 1 for row in rows) else None
    for name in sorted({row["model"] for row in rows}):
        mine = [row for row in rows if row["model"] == name]
        summary["by_model"][name] = {"plans": len(mine), "spearman": spearman(mine)}
        for world in sorted({row["ranks"] for row in mine}):
            same = [row for row in mine if row["ranks"] == world]
            summary["by_model"][name][f"spearman_on_{world}"] = spearman(same)
            auto = [row for row in same if row["plan"] == "auto"]
            if auto and len(same) > 1:
                best = min(same, key=lambda row: row["measured_s"])
                summary["auto_over_best"][f"{name} on {world}"] = {"ratio": auto[0]["measured_s"] / best["measured_s"], "best": best["plan"], "config": best["config"]}
    return summary
