# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checks of run.py beside the table: programs of GoogleTest, training, operators, compute-sanitizer, two hosts."""
import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import time

import crowd
import kit
import two_hosts

PROGRAMS = ("gpu-test", "cuda-streams-test")
TRAINING = {"cases": "training", "families": "families"}  # parts and their stages


def case_names(manifest, of_families):
    """Checks of this project's models or of the families; the most telling cases of all models first."""
    models = [model for model in manifest["cases"] if (model in manifest["families"]) == of_families]
    most = max((len(manifest["cases"][model]) for model in models), default=0)
    ordered = [(model, manifest["cases"][model][number]) for number in range(most) for model in models if number < len(manifest["cases"][model])]
    return [f"{model} {case} world {world}" for model, (case, world, _) in ordered]


def plan(manifest, results, parts):
    """Names everything that there is to do in these parts, so that what is not done is seen."""
    is_gpu = manifest["device"] == "cuda"
    if "programs" in parts and is_gpu:
        for program in PROGRAMS:
            results.plan("programs", program)
    for part, stage in TRAINING.items():
        for name in case_names(manifest, part == "families") if part in parts else ():
            results.plan(stage, name)
    if "crowd" in parts:
        for name in crowd.names(manifest):
            results.plan("crowd", name)
    if "two-hosts" in parts:
        for name in two_hosts.names(manifest):
            results.plan("two hosts", name)
    if "operators" in parts:
        for group, names in manifest["operators"].items():
            results.plan("operators", kit.group_name(group, names))
    if "sanitizer" in parts and is_gpu:
        for name in sanitizer_names(manifest):
            results.plan("compute-sanitizer", name)
    for name, text in manifest["refused"].items():
        part = "operators" if name.startswith("operator ") else "families" if name.split()[0] in manifest["families"] else "cases"
        if part in parts:
            results.check(TRAINING.get(part, "operators"), name, "refused", text)


def run_programs(bin, results, clock):
    """Tests that need a GPU; one that is skipped there is not right."""
    for name in PROGRAMS:
        program = bin.parent / "test" / "bin" / name
        if clock.left() < 5:
            return
        if not program.exists():
            results.check("programs", name, "skipped", f"{program} is not there: build the target {name}")
            continue
        begin = time.monotonic()
        try:
            out, _ = kit.call([program], bin, kit.environment(bin), clock.left())
            state, text = ("fail", "a test was skipped: " + out[-1500:]) if "SKIPPED" in out else ("ok", "")
        except kit.Failure as failure:
            late = isinstance(failure, kit.Late) and clock.left() <= 0
            state, text = "not run" if late else "fail", str(failure)
        results.check("programs", name, state, text, time.monotonic() - begin)


def follow(stage, command, env, results, clock, expected, scratch):
    """Runs a process that prints verdicts, until the time is over; those of `expected` that it did not give, of which the first fails if it is at fault."""
    errors = pathlib.Path(tempfile.mkstemp(dir=scratch)[1])
    with open(errors, "w") as file:
        process = kit.start(command, kit.HERE, env, stderr=file)
    is_over = threading.Event()

    def watch():
        if not is_over.wait(max(clock.left(), 0)):
            kit.stop(process)

    watcher = threading.Thread(target=watch)
    watcher.start()
    missing = list(expected)
    try:
        for line in process.stdout:
            if line.startswith("{"):
                said = json.loads(line)
                results.check(stage, said["name"], said["state"], said.get("text", ""), said["seconds"])
                if said["name"] in missing:
                    missing.remove(said["name"])
        process.wait()
    finally:
        out_of_time = clock.left() <= 0
        is_over.set()
        watcher.join()
        kit.stop(process)
    if missing and not out_of_time:
        results.check(stage, missing[0], "fail", f"its process ended with {process.returncode}: {errors.read_text().strip()[-1000:]}")
    return missing


def run_workers(stage, part, tasks, out, bin, results, clock, at_once):
    """`tasks`: name of a check -> what its process is told. A process that ends early has failed in one, and another one goes on behind it."""
    names = list(tasks)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(max(at_once, 1)) as pool:
        def one(expected):
            while expected and clock.left() > 5:
                command = [sys.executable, kit.HERE / "run.py", part, out, "--bin", bin, "--only", *(tasks[name] for name in expected)]
                expected = follow(stage, command, None, results, clock, expected, scratch)[1:]
        list(pool.map(one, [names[k::at_once] for k in range(at_once)]))


def run_training(part, out, bin, manifest, results, clock, at_once):
    tasks = {name: name for name in case_names(manifest, part == "families")}
    run_workers(TRAINING[part], "work-cases", tasks, out, bin, results, clock, at_once)


def run_operators(out, bin, manifest, results, clock, at_once):
    tasks = {kit.group_name(group, names): group for group, names in sorted(manifest["operators"].items())}
    run_workers("operators", "work-operators", tasks, out, bin, results, clock, at_once)


def has_case(manifest, model, case, world):
    return any(made[:2] == [case, world] for made in manifest["cases"][model])


def run_two_hosts(out, bin, manifest, results, clock):
    for name, body in two_hosts.checks(out, bin, manifest):
        begin, left = time.monotonic(), clock.left()
        if left < 20:
            return
        try:
            body(left)
            state, text = "ok", ""
        except (kit.Failure, AssertionError) as failure:
            late = isinstance(failure, kit.Late) and clock.left() <= 0
            state, text = ("not run", f"not done within {left:.0f} s") if late else ("fail", str(failure))
        results.check("two hosts", name, state, text, time.monotonic() - begin)


def sanitizer_names(manifest):
    """memcheck of a step alone and of two ranks, as single launches and as a graph."""
    return {f"memcheck {model} zero3 world {world} graph {graph}": (model, world, graph)
            for model in list(manifest["cases"])[:1] for world in (1, 2) if has_case(manifest, model, "zero3", world) for graph in ("off", "on")}


def run_sanitizer(out, bin, manifest, results, clock):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        for name in sanitizer_names(manifest):
            results.check("compute-sanitizer", name, "skipped", "compute-sanitizer is not installed")
        return

    def one(item):
        name, (model, world, graph) = item
        begin, left = time.monotonic(), clock.left()
        if left < 10:
            return
        try:
            training = kit.Training(bin, out / "cases" / model, f"zero3-{world}.fsdp", "--steps=5", "--data=data.safetensors", f"--cuda-graph={graph}",
                                    before=(tool, "--tool=memcheck"))
            text = training.rows(left)[1]
            state, text = ("ok", "") if "ERROR SUMMARY: 0 errors" in text else ("fail", text[-1500:])
        except kit.Failure as failure:
            state, text = ("fail", str(failure)) if clock.left() > 0 else ("not run", f"not done within {left:.0f} s")
        results.check("compute-sanitizer", name, state, text, time.monotonic() - begin)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, sanitizer_names(manifest).items()))
