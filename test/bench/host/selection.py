# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A few of all parts, in seconds, with bounds that hold on a machine that does other things meanwhile: that calibration, prediction and measurement fit
together, and that budgets are kept. How exact predictions are is for the whole parts on a quiet machine."""
import json
import re
import statistics

from . import limits, models, runs

# Predicted over measured.
LEAST, MOST = 0.3, 1.5
# Calibrations, each with its own measurements, of which one must fit.
TRIES = 3
SMALL_CONFIGS = [
    {"world": 2, "backend": "local", "shape": "small", "fsdp": {"prefetch": 2, "bucket_layout": "flat"}, "top": {}},
    {"world": 3, "backend": "local", "shape": "small", "fsdp": {"activation_checkpointing": True}, "top": {"gradient_accumulation_steps": 2}},
]


def prepare(arguments):
    pass


def measure_step(arguments, artifact):
    """Seconds of a step: the shortest and the median of the faster of two runs, and that run's profile."""
    tried = []
    for number in range(2):
        trace = artifact.with_suffix(f".trace{number}.json")
        seconds = [row["step_time_s"] for row in runs.run(arguments.bin, artifact, 2, "local", 8, f"--profile={trace}")]
        tried.append((min(seconds), statistics.median(seconds), trace))
    # A profile's medians belong to the steps of its own run.
    return min(tried)


def check_step(arguments, name, cluster):
    """What is predicted with this calibration beside what is measured now, and a profile that goes before the calibration."""
    model = arguments.work / "models" / f"{name}.pt2"
    runs.export(models.SIZES[name], model)
    artifact = arguments.work / "selection" / f"{name}.fsdp"
    runs.compile_model(arguments.bin, model, runs.make_config(2), cluster, artifact)
    predicted = runs.predict(arguments.bin, artifact, cluster)["seconds"]
    measured, typical, trace = measure_step(arguments, artifact)
    profiled = runs.predict(arguments.bin, artifact, cluster, f"--measured={trace}")["seconds"]
    fast = artifact.with_suffix(".fast.trace.json")
    # A profile in which each kernel takes next to nothing must show.
    text = json.loads(trace.read_text())
    for event in text["traceEvents"]:
        event.update({"dur": 0.001} if event.get("cat") == "compute" else {})
    fast.write_text(json.dumps(text))
    without = runs.predict(arguments.bin, artifact, cluster, f"--measured={fast}")["seconds"]
    problems = []
    if not LEAST < predicted / measured < MOST:
        problems.append(f"{predicted:.4f} s are predicted, {measured:.4f} s measured")
    if not LEAST < profiled / typical < MOST:
        problems.append(f"{profiled:.4f} s are predicted with the profile, {typical:.4f} s measured in the median")
    if not without < 0.5 * profiled:
        problems.append(f"the profile changes nothing: {without:.4f} s without kernels, {profiled:.4f} s with them")
    return {"what": f"step of {name}", "predicted_s": predicted, "measured_s": measured, "median_s": typical, "profiled_s": profiled, "problems": problems}


def check_steps(arguments):
    """Times of two very different models. A machine that was slower while it was calibrated than now, or the other way, is calibrated again: what is
    held to is that a calibration tells of the minute in which it was made."""
    for attempt in range(TRIES):
        rows = [check_step(arguments, name, arguments.work / "local.yaml") for name in ("small", "wide")]
        if rows[1]["predicted_s"] < 5 * rows[0]["predicted_s"]:
            rows[1]["problems"].append("a model of many times the work is not predicted to take five times as long")
        problems = [f"{row['what']}: {problem}" for row in rows for problem in row["problems"]]
        if not problems or attempt + 1 == TRIES:
            return rows
        print(f"calibrating again: {'; '.join(problems)}", flush=True)
        (arguments.work / "local.yaml").unlink()
        runs.calibrate(arguments.bin, arguments.work, "local", max(arguments.worlds))


def check_budgets(arguments):
    """Of some configs: what is predicted to be held is a budget that works, and a byte less is refused."""
    rows = []
    for number, case in enumerate(SMALL_CONFIGS):
        model, artifact, prediction = limits.compile_case(arguments, number, case)
        problems = limits.check_budgets(arguments, model, artifact, case, prediction["memory"]["held"])
        rows.append({"what": f"budget of config {number}", "problems": problems})
    return rows


def check_file(arguments):
    text = (arguments.work / "local.yaml").read_text()
    problems = [] if re.search(r"back end 'local'", text) else ["the file does not say which back end it is for"]
    if "staging: false" not in text:
        problems.append("ranks that are threads are said to stage what they send")
    return [{"what": "the cluster's file", "problems": problems}]


def measure(arguments):
    return say(check_file(arguments) + check_steps(arguments) + check_budgets(arguments))


def say(rows):
    for row in rows:
        print(f"{'FAIL ' if row['problems'] else 'ok   '} {row['what']}: {'; '.join(row['problems'])}", flush=True)
    return rows


def summarize(rows):
    return {"checks": len(rows), "failed": [row["what"] for row in rows if row["problems"]]}
