# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicted and measured times of steps of many models, on one rank and more.

All cases take turns, several rounds, since a machine may take twice as long for minutes; of a case's rounds the fastest median of its steps counts.
"""
import statistics
import sys
import time

from . import models, runs

ROUNDS = 3


def cases(arguments):
    families = {**models.SIZES, **(models.load(arguments.models) if arguments.models else models.ZOO)}
    for name, make in families.items():
        if arguments.only and not any(part in name for part in arguments.only.split("|")):
            continue
        for world in arguments.worlds:
            for backend in ("local", "gloo"):
                if world > 1 or backend == "local":
                    yield name, make, world, backend


def compile_case(arguments, name, make, world, backend):
    model = arguments.work / "models" / f"{name}.pt2"
    runs.export(make, model)
    artifact = arguments.work / "steps" / f"{name}.{world}.{backend}.fsdp"
    cluster = arguments.work / f"{backend}.yaml"
    return artifact, runs.compile_model(arguments.bin, model, runs.make_config(world), cluster, artifact)


def prepare(arguments):
    for case in cases(arguments):
        compile_case(arguments, *case)


def measure(arguments):
    begin, times = time.monotonic(), runs.Times(arguments.work / "steps.runs.json")
    for round, (name, make, world, backend) in ((round, case) for round in range(ROUNDS) for case in cases(arguments)):
        if time.monotonic() - begin > arguments.seconds:
            break
        key = f"{name}.{world}.{backend}"
        if len(times.of(key)) > round:
            continue
        artifact, prediction = compile_case(arguments, name, make, world, backend)
        times.add(key, runs.measure(arguments.bin, artifact, world, backend, prediction["seconds"]))
        print(f"round {round + 1} of {ROUNDS}: {name} on {world} {backend} ranks, {1e3 * times.of(key)[-1]:.3f} ms", file=sys.stderr, flush=True)
    rows = []
    print(f"{'model':12s} {'ranks':>5s} {'back end':8s} {'predicted ms':>12s} {'measured ms':>12s} {'error':>7s}")
    for name, make, world, backend in cases(arguments):
        rounds = times.of(f"{name}.{world}.{backend}")
        if not rounds:
            continue
        artifact, prediction = compile_case(arguments, name, make, world, backend)
        if arguments.predict_again:
            prediction = runs.predict(arguments.bin, artifact, arguments.work / f"{backend}.yaml")
        expected, seconds = prediction["seconds"], min(rounds)
        error = expected / seconds - 1
        rows.append({"model": name, "ranks": world, "backend": backend, "predicted_s": expected, "measured_s": seconds, "error": error, "rounds": rounds})
        print(f"{name:12s} {world:5d} {backend:8s} {1e3 * expected:12.3f} {1e3 * seconds:12.3f} {100 * error:6.1f}%", flush=True)
    return rows


def summarize(rows):
    errors = sorted(abs(row["error"]) for row in rows)
    summary = {"cases": len(rows), "median_abs_error": statistics.median(errors), "p90_abs_error": errors[int(0.9 * (len(errors) - 1))]}
    for key in ("backend", "ranks", "model"):
        summary[f"median_abs_error_by_{key}"] = {str(value): statistics.median(abs(row["error"]) for row in rows if row[key] == value)
                                                 for value in sorted({row[key] for row in rows})}
    return summary
