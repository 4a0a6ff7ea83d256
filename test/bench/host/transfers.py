# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What calibration says of transfers between processes, alone and beside a computation: as a table, and whether it can be so."""
import os
import re

import yaml

from . import models, runs
from .selection import LEAST, MOST, prepare, say, summarize  # noqa: F401


def check_table(entry, crowded):
    """Problems of one collective's curves."""
    problems = []
    sizes = [size for size, _ in entry["seconds"]]
    for key in ("start", "finish", "beside", "lost"):
        if [size for size, _ in entry.get(key, [])] != sizes:
            problems.append(f"'{key}' is of other sizes than 'seconds'")
    if problems:
        return problems
    beside, lost = ([seconds for _, seconds in entry[key]] for key in ("beside", "lost"))
    if sorted(beside) != beside:
        problems.append("a larger transfer takes less beside a computation than a smaller one")
    if any(mine > theirs for mine, theirs in zip(lost, beside)):
        problems.append("a computation loses more time than the transfer beside it takes")
    if crowded and not lost[-1] > 0:
        problems.append("the largest transfer costs a computation on its core nothing")
    if crowded and not beside[0] > entry["seconds"][0][1]:
        problems.append("the smallest transfer does not wait for a core that computes")
    return problems


def check_skew(entry, crowded):
    """Problems of what one number of ranks waits for each other."""
    problems = []
    if any(later < sooner for (_, sooner), (_, later) in zip(entry["seconds"], entry["seconds"][1:])):
        problems.append("ranks come apart less in a longer time")
    if any(wait > span for span, wait in entry["seconds"]):
        problems.append("ranks come apart faster than time goes by")
    if crowded and not entry["seconds"][-1][1] > 0:
        problems.append("ranks that take turns on cores come at once")
    return problems


def measure(arguments):
    text = (arguments.work / "gloo.yaml").read_text()
    rows = [{"what": "the cluster's file", "problems": [] if re.search(r"back end 'gloo'", text) else ["the file does not say which back end it is for"]}]
    print("| transfer | ranks | bytes | alone, us | beside, us | lost, us |\n|---|---|---|---|---|---|")
    network, cores = yaml.safe_load(text)["network"], len(os.sched_getaffinity(0))
    for entry in network["measured"]:
        problems = check_table(entry, entry["ranks"] >= cores)
        rows.append({"what": f"{entry['kind']} of {entry['ranks']} ranks", "problems": problems})
        for (size, alone), (_, beside), (_, lost) in zip(*(entry.get(key, []) for key in ("seconds", "beside", "lost"))):
            print(f"| {entry['kind']} | {entry['ranks']} | {size:.0f} | {1e6 * alone:.0f} | {1e6 * beside:.0f} | {1e6 * lost:.0f} |")
    print("\n| ranks | since the last meeting, ms | apart, us |\n|---|---|---|")
    for entry in network["skew"]:
        rows.append({"what": f"skew of {entry['ranks']} ranks", "problems": check_skew(entry, entry["ranks"] > cores)})
        for span, wait in entry["seconds"]:
            print(f"| {entry['ranks']} | {1e3 * span:.1f} | {1e6 * wait:.0f} |")
    model, artifact = arguments.work / "models" / "small.pt2", arguments.work / "transfers" / "small.fsdp"
    runs.export(models.SIZES["small"], model)
    predicted = runs.compile_model(arguments.bin, model, runs.make_config(2), arguments.work / "gloo.yaml", artifact)["seconds"]
    measured = min(row["step_time_s"] for row in runs.run(arguments.bin, artifact, 2, "gloo", 30)[runs.WARMUP:])
    problems = [] if LEAST < predicted / measured < MOST else [f"{predicted:.4f} s are predicted, {measured:.4f} s measured"]
    rows.append({"what": "step of small", "problems": problems})
    return say(rows)
