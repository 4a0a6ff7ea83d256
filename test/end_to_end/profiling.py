# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A profile holds all that the plan says, on all ranks, and its sums are the step's time."""
import collections
import json
import math
import re

import torch
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, make_config, make_data, must, parse_arguments, run_cases, run_step


def active_instructions(text, world):
    """Program -> index -> line, of the instructions of a printed artifact that leave something to do in a step."""
    programs, lines, shapes = {}, None, {}
    for line in text.splitlines():
        if start := re.match(r'program "(.*)"$', line):
            lines, shapes = programs.setdefault(start[1], {}), {}
        for value, shape in re.findall(r"(%\d+) : \w+\[([\d, ]*)\]", line):
            shapes[value] = [int(size) for size in shape.split(",") if size]
        numbered = re.match(r" *(\d+)  (.*)$", line)
        if lines is None or not numbered:
            continue
        index, body = int(numbered[1]), numbered[2].split("  # ")[0]
        defined, _, made_by = body.partition(" = ")
        if body.startswith("free "):
            continue
        if made_by.startswith("aten::") and re.search(r" in %\d+", defined):
            continue
        if padded := re.match(r"zero_padding (%\d+) over", body):
            if shapes[padded[1]][0] % world == 0:
                continue
        lines[index] = body
    return programs


def check_nesting(slices):
    """Slices of one thread lie within each other or apart, to the nanosecond."""
    def nanoseconds(slice):
        begin = round(slice["ts"] * 1000)
        return begin, begin + round(slice["dur"] * 1000)
    open_ends = []
    for slice in sorted(slices, key=lambda s: (nanoseconds(s)[0], -nanoseconds(s)[1])):
        begin, end = nanoseconds(slice)
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], f"{slice['name']} ends at {end} behind {open_ends[-1]}"
        open_ends.append(end)


def check_rank(rank, events, threads, plan, programs_of_step, steps):
    compute = [e for e in events if threads[rank, e["tid"]] == "compute"]
    transfers = [e for e in events if threads[rank, e["tid"]] != "compute"]
    by_thread = collections.defaultdict(list)
    for event in events:
        by_thread[event["tid"]].append(event)
    for slices in by_thread.values():
        check_nesting(slices)
    assert [e["args"]["step"] for e in compute if e["cat"] == "step"] == steps

    for step in steps:
        def mine(category):
            return [e for e in compute if e["cat"] in category and e["args"]["step"] == step]
        ran = [e["name"] for e in sorted(mine({"program"}), key=lambda e: e["ts"])]
        assert ran == programs_of_step, f"rank {rank} ran {ran} in step {step}"
        kinds = {"compute": 0, "start": 0, "wait": 0}
        for number, program in enumerate(programs_of_step):
            found = {}
            for event in mine(kinds):
                if event["args"]["micro_batch"] == number:
                    assert event["args"]["program"] == program
                    assert event["args"]["instruction"] not in found, f"{event['name']} ran twice"
                    found[event["args"]["instruction"]] = event
            expected = plan[program]
            assert set(found) == set(expected), f"rank {rank}, step {step}, {program}: {set(found) ^ set(expected)}"
            order = sorted(found, key=lambda index: found[index]["ts"])
            assert order == sorted(expected), f"rank {rank}, step {step}, {program}: out of order"
            for index, event in found.items():
                made_by = expected[index].partition(" = ")[2]
                kinds[event["cat"]] += 1
                if made_by.startswith("wait "):
                    assert event["cat"] == "wait", event
                elif re.match(r"\w+\.start ", made_by):
                    assert event["cat"] == "start" and event["name"].split()[0] == made_by.split()[0], event
                    assert f'"{event["args"]["bucket"]}"' in made_by, event
                else:
                    assert event["cat"] == "compute", event
                    if made_by.startswith("aten::"):
                        assert made_by.startswith(event["name"] + "("), (event, made_by)
        assert all(kinds.values()), kinds
        own = [e for e in transfers if e["args"]["step"] == step]
        assert len(own) == kinds["start"] == kinds["wait"], (len(own), kinds)
        for transfer in own:
            arguments = transfer["args"]
            assert arguments["bucket"] and arguments["bytes"] > 0 and arguments["group"] == "dp_shard", transfer
            start = [e for e in mine({"start"}) if e["args"]["instruction"] == arguments["instruction"]
                     and e["args"]["micro_batch"] == arguments["micro_batch"]]
            waits = [e for e in mine({"wait"}) if abs(e["ts"] + e["dur"] - transfer["ts"] - transfer["dur"]) < 0.002]
            assert len(start) == 1 and abs(start[0]["ts"] - transfer["ts"]) < 0.002, transfer
            assert len(waits) == 1 and waits[0]["args"]["bucket"] == arguments["bucket"], transfer
            assert abs(waits[0]["dur"] - arguments["exposed_us"]) < 0.002, transfer
    return compute, transfers


def check(trace, printed, rows, world, programs_of_step, steps):
    plan = active_instructions(printed, world)
    events = trace["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    ranks = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert [ranks[rank].split(" on ")[0] for rank in range(world)] == [f"rank {rank}" for rank in range(world)], ranks
    assert len(ranks) == world
    other = trace["fsdp"]
    assert other["steps"] == steps and len(other["ranks"]) == world, other
    by_kind = collections.Counter()
    for rank in range(world):
        own = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        compute, transfers = check_rank(rank, own, threads, plan, programs_of_step, steps)
        sums = {category: math.fsum(e["dur"] for e in compute if e["cat"] == category)
                for category in ("step", "compute", "wait", "start", "inputs")}
        said = other["ranks"][rank]
        for key, category in {"step_us": "step", "compute_us": "compute", "exposed_us": "wait", "starts_us": "start",
                              "inputs_us": "inputs"}.items():
            assert abs(said[key] - sums[category]) < 0.01, (key, said, sums)
        parts = [said[f"{part}_us"] for part in ("compute", "exposed", "starts", "inputs", "other")]
        assert min(parts) >= 0 and abs(math.fsum(parts) - said["step_us"]) < 0.01, said
        assert said["clock_uncertainty_us"] == 0, said
        for transfer in transfers:
            by_kind[transfer["args"]["collective"], transfer["args"]["bucket"] == "metrics"] += transfer["args"]["bytes"]
        if rank == 0:
            step_times = [rows[step]["step_time_s"] for step in steps]
            assert abs(math.fsum(step_times) * 1e6 - said["step_us"]) < 0.01, (step_times, said)
            for event in (e for e in compute if e["cat"] == "step"):
                assert abs(rows[event["args"]["step"]]["step_time_s"] * 1e6 - event["dur"]) < 0.002, event
    # As the metrics count them.
    counted = collections.Counter()
    for step in steps:
        for each in rows[step]["collectives"]:
            counted["all_reduce" if each["kind"] == "metrics" else each["kind"], each["kind"] == "metrics"] += each["bytes"]
    assert by_kind == {key: bytes * world for key, bytes in counted.items()}, (by_kind, counted)
    said = collections.Counter()
    for each in other["transfers"]:
        said[each["kind"], each["bucket"] == "metrics"] += each["bytes"]
        assert 0 <= each["exposed_us"] <= each["in_flight_us"], each
    assert said == by_kind, (said, by_kind)
    flows = collections.Counter((e["ph"], e["id"]) for e in events if e["ph"] in "stf")
    transfers = sum(1 for e in events if e.get("cat") == "transfer" and e["ph"] == "X")
    assert set(flows.values()) == {1} and len(flows) == 3 * transfers, len(flows)


def check_beside(bin, folder, trace):
    """fsdp-opt shows the medians of what the trace says beside its prediction."""
    must(bin / "fsdp-opt", "step.fsdp", "--print-plan=plan.json", "--print-plan=plan.html", "--print-plan=plan.txt", "--cluster=cpu",
         "--profile=trace.json", cwd=folder)
    plan = json.loads((folder / "plan.json").read_text())
    times = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event.get("cat") in ("compute", "start", "wait", "transfer") and event["ph"] == "X":
            times[event["args"]["program"], event["cat"], event["args"]["instruction"]].append(event["dur"])

    def median(*key):
        return sorted(times[key])[(len(times[key]) - 1) // 2]
    compute = 0
    for program in plan["programs"]:
        name = program["name"]
        assert program["transfers"] and program["measured"]["runs"] > 0, program
        for transfer in program["transfers"]:
            measured = transfer["measured"]
            for key, category, at in (("in_flight", "transfer", "start"), ("starting", "start", "start"), ("exposed", "wait", "wait")):
                assert abs(measured[f"{key}_seconds"] * 1e6 - median(name, category, transfer[at])) < 0.01, (key, transfer)
            assert abs(measured["ratio"] - transfer["in_flight_seconds"] / measured["in_flight_seconds"]) < 1e-6, transfer
        compute += program["runs"] * math.fsum(median(*key) for key in times if key[0] == name and key[1] == "compute")
    said = plan["measured"]
    assert abs(said["compute"]["measured_seconds"] * 1e6 - compute) < 0.1, (said["compute"], compute)
    for parts in ("kernels", "operators"):
        assert abs(math.fsum(each["measured_seconds"] for each in said[parts].values()) * 1e6 - compute) < 0.1, said[parts]
    assert '"measured":{' in (folder / "plan.html").read_text()
    assert "beside" in (folder / "plan.txt").read_text().splitlines()[0]


def profile_case(bin, factory, world, backend="local", micro_batches=1, **config):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        steps = 5
        if micro_batches > 1:
            config["gradient_accumulation_steps"] = micro_batches
        save_file(make_data(inputs, world * steps * micro_batches), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(world, **config))
        printed = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        programs = ["train/step"] if micro_batches == 1 else ["train/first", *["train/middle"] * (micro_batches - 2), "train/last"]
        for options, expected in (["--profile-steps=1:2"], [1, 2]), ([], [3, 4]):
            trace = folder / "trace.json"
            rows = run_step(bin, folder, world, f"--steps={steps}", "--profile=trace.json", *options, backend=backend)
            read = json.loads(trace.read_text())
            check(read, printed, rows, world, programs, expected)
            check_beside(bin, folder, read)
            trace.unlink()
    return case


def same_results(bin):
    """A profiled run trains as any other, and its tables are on stdout."""
    def case(folder):
        model, inputs = zoo.mlp()
        compile_step(bin, folder, model, inputs, make_config(2))
        save_file(make_data(inputs, 8), folder / "data.safetensors")
        plain = run_step(bin, folder, 2, "--steps=4", "--export=plain.safetensors")
        profiled = run_step(bin, folder, 2, "--steps=4", "--export=profiled.safetensors", "--profile=trace.json")
        assert [row["loss"] for row in plain] == [row["loss"] for row in profiled]
        assert (folder / "plain.safetensors").read_bytes() == (folder / "profiled.safetensors").read_bytes()
        out = must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=4", "--profile=trace.json", cwd=folder).stdout
        assert re.search(r"^profile of step 3,.*trace\.json", out, re.M), out
        assert re.search(r"^rank +step ms +compute +exposed +starts +inputs +other$", out, re.M), out
        assert len(re.findall(r"^(0|1|mean) +[\d.]+ .*%$", out, re.M)) == 3, out
        assert re.search(r"^operator +calls +ms", out, re.M) and "aten::" in out, out
        assert re.search(r"all_gather +1 +\d", out), out
    return case


def refusals(bin):
    def case(folder):
        model, inputs = zoo.mlp()
        compile_step(bin, folder, model, inputs, make_config(2))

        def refused(error, *options):
            done = call(bin / "fsdp-run", "step.fsdp", "--data=sample", *options, cwd=folder)
            assert done.returncode in (1, 2) and f"error[fsdp-{error}]" in done.stderr, (options, done.stderr)
            return done.stderr
        assert "FIRST:COUNT" in refused("E040", "--steps=9", "--profile=t.json", "--profile-steps=3")
        assert "9 steps" in refused("E040", "--steps=9", "--profile=t.json", "--profile-steps=8:2")
        assert "--profile=FILE.json" in refused("E040", "--steps=9", "--profile-steps=1:1")
        refused("E040", "--steps=0", "--profile=t.json")
        refused("E040", "--dry-run", "--profile=t.json")
        refused("E040", "--steps=1", "--backend=fake", "--profile=t.json")
        refused("E064", "--steps=1", "--profile=none/t.json")
        assert "profile fewer steps" in refused("E040", "--steps=90000000", "--profile=t.json", "--profile-steps=0:80000000")
        assert not list(folder.glob("*t.json*"))
        # What was measured of another artifact says nothing of this one.
        must(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1", "--profile=mlp.json", cwd=folder)
        compile_step(bin, folder, *zoo.gpt(), make_config(2))
        done = call(bin / "fsdp-opt", "step.fsdp", "--print-plan", "--cluster=cpu", "--profile=mlp.json", cwd=folder)
        assert done.returncode == 1 and "error[fsdp-E054]" in done.stderr and "profile this one" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({
        "mlp local": profile_case(bin, zoo.mlp, 2, reshard_after_forward=True),
        "gpt local": profile_case(bin, zoo.gpt, 2, max_grad_norm=0.1),
        "gpt gloo": profile_case(bin, zoo.gpt, 2, "gloo", reshard_after_forward=True),
        "gpt accumulation": profile_case(bin, zoo.gpt, 2, micro_batches=3),
        "mlp three ranks": profile_case(bin, zoo.mlp, 3),
        "same results": same_results(bin),
        "refusals": refusals(bin),
    }, arguments.only)


main()
