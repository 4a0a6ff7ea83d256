# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run that hangs leaves behind what its ranks were doing: fsdp-run --compare-records names the rank that is behind and
the transfer that it did not reach. SIGUSR1 writes the same of a run that goes on.
"""
import json
import re
import shutil
import signal
import time

import torch
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, make_config, make_data, must, parse_arguments, run_cases
from ranks import Ranks

WORLD, STEPS, DEADLINE = 4, 10_000_000, 4
METRICS = "--metrics=m.jsonl"  # what await_steps looks at


def prepare(bin, folder, world, factory=zoo.gpt, **config):
    torch.manual_seed(7)
    model, inputs = factory()
    model.train()
    save_file(make_data(inputs, world * 8), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, make_config(world, reshard_after_forward=True, **config))


def start(bin, folder, world, *options):
    return Ranks([bin / "fsdp-run", "step.fsdp", f"--steps={STEPS}", "--data=data.safetensors", *options], world, folder)


def steps_of(folder):
    file = folder / "m.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def await_steps(folder, ranks, more=5):
    wanted, end = steps_of(folder) + more, time.monotonic() + 120
    while steps_of(folder) < wanted:
        assert time.monotonic() < end and len(ranks.alive()) == len(ranks.processes), [ranks.message(r) for r in range(len(ranks.processes))]
        time.sleep(0.005)


def await_files(files):
    """Files that appear wholly or not at all."""
    end = time.monotonic() + 60
    while not all(file.exists() for file in files):
        assert time.monotonic() < end, f"{[file.name for file in files if not file.exists()]} do not come"
        time.sleep(0.01)


def only_run(folder):
    runs = list((folder / "flight-records").iterdir())
    assert len(runs) == 1 and re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", runs[0].name), runs
    return runs[0]


def compare(bin, folder, path, status):
    done = call(bin / "fsdp-run", f"--compare-records={path}", cwd=folder)
    assert done.returncode == status and not done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def ranks_of(text):
    """{0, 1, 2, 5} of "0-2, 5"."""
    spans = [span.split("-") for span in text.split(", ")]
    return {rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)}


def check_record(path, rank, world, artifact_text):
    """A record is of its rank, and its transfers are the artifact's, in their order."""
    record = json.loads(path.read_text())
    assert record["rank"] == rank and record["world_size"] == world and record["backend"] in ("gloo", "local"), record
    flights = record["collectives"]
    assert len(flights) == min(record["recorded"], 1000) and path.stat().st_size < 1 << 20, (len(flights), record["recorded"])
    assert [f["number"] for f in flights] == list(range(record["recorded"] - len(flights), record["recorded"]))
    programs = re.findall(r'^program "(.*)"$', artifact_text, re.M)
    assert len(programs) == 1, programs
    lines = dict(re.findall(r"^ *(\d+)  (.*)$", artifact_text.partition('\nprogram "')[2], re.M))
    positions = {}
    mine = [f for f in flights if f["at"]]
    assert len(mine) >= 40, len(mine)  # of four steps and more
    for flight in mine:
        assert flight["at"]["program"] in programs, flight
        line = lines[str(flight["at"]["instruction"])]
        assert f"{flight['kind']}.start " in line and f'"{flight["bucket"]}"' in line, (flight, line)
        assert 0 < flight["issued_ns"] <= record["written_ns"], flight
        assert flight["waited_ns"] == 0 or flight["issued_ns"] <= flight["waited_ns"], flight
        assert flight["completed_ns"] == 0 or 0 < flight["waited_ns"] <= flight["completed_ns"], flight
        before = positions.get(flight["group"])
        assert before is None or flight["position"] == before + 1, (before, flight)
        positions[flight["group"]] = flight["position"]
    for group, position in positions.items():
        assert record["groups"][group]["issued"] == position + 1, record["groups"]
    for kind in ("all_gather", "reduce_scatter"):
        sources = {f["at"]["source"] for f in mine if f["kind"] == kind}
        assert sources and all(re.search(r"\(.*zoo\.py:\d+\)$", source) for source in sources), (kind, sources)
    return record


def stopped(bin, victim):
    """SIGSTOP: the others' deadlines pass. Continued, the rank says itself where it was."""
    def case(folder):
        prepare(bin, folder, WORLD)
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        others = [rank for rank in range(WORLD) if rank != victim]
        # Without metrics, for which ranks exchange more than buckets.
        with start(bin, folder, WORLD, f"--deadline={DEADLINE}") as ranks:
            end = time.monotonic() + 120
            while "step 1/" not in ranks.message(0):
                assert time.monotonic() < end and len(ranks.alive()) == WORLD, ranks.message(0)
                time.sleep(0.05)
            time.sleep(1)
            ranks.signal(victim, signal.SIGSTOP)
            assert ranks.wait(60, others) is not None, f"ranks {ranks.alive()} do not end"
            run = only_run(folder)
            for rank in others:
                message = ranks.message(rank)
                assert ranks.status(rank) == 3 and re.search(r"^error\[fsdp-E09", message, re.M), (ranks.status(rank), message)
                assert f"--compare-records=flight-records/{run.name}" in message, message
                check_record(run / f"rank_{rank}.json", rank, WORLD, text)
            assert not (run / f"rank_{victim}.json").exists()
            said = compare(bin, folder, run, 1)
            named = re.search(rf"^rank {victim} is behind, at (\w+) of bucket '(\S*)' in step (\d+) \(number (\d+) of group '(\S+)'", said, re.M)
            assert named, said
            assert f"records of 3 of 4 ranks (gloo)\nrank {victim} left no record\n" in said, said
            # Whoever has to know where the records are from may give the folder above.
            assert compare(bin, folder, "flight-records", 1).partition(",")[2] == said.partition(",")[2]
            # It is the first of its group that somebody lacks. Whose part came before the rank stopped may have it.
            waiting = set()
            for rank in others:
                record = json.loads((run / f"rank_{rank}.json").read_text())
                names = [group["name"] for group in record["groups"]]
                for flight in record["collectives"]:
                    if flight["kind"] == "connect" or "group" not in flight or names[flight["group"]] != named[5] or flight["position"] > int(named[4]):
                        continue
                    if flight["position"] < int(named[4]):
                        assert flight["completed_ns"], flight
                        continue
                    assert (flight["kind"], flight["bucket"], flight["step"]) == (named[1], named[2], int(named[3])), (flight, named[0])
                    if flight["waited_ns"] and not flight["completed_ns"]:
                        waiting.add(rank)
                        assert record["groups"][flight["group"]]["waits_for"] == victim, record["groups"]
            listed = re.search(r"^  ranks? ([\d, -]+) waits? for it, ", said, re.M)
            assert waiting and waiting == ranks_of(listed[1]), (waiting, said)
            ranks.signal(victim, signal.SIGCONT)
            assert ranks.wait(60) is not None, "the rank that was stopped does not end"
        check_record(run / f"rank_{victim}.json", victim, WORLD, text)
        said = compare(bin, folder, run, 1)
        assert "records of 4 of 4 ranks" in said and re.search(rf"^rank {victim} is behind, at ", said, re.M), said
    return case


def failing(bin):
    """A rank that fails in a step takes the others along: all of them say where they were."""
    def case(folder):
        prepare(bin, folder, 2)
        with start(bin, folder, 2, METRICS, "--flight-records=kept", "--deadline=20") as ranks:
            await_steps(folder, ranks)
            ranks.signal(1, signal.SIGKILL)
            assert ranks.wait(60) is not None, f"ranks {ranks.alive()} do not end"
            assert ranks.status(0) == 3, ranks.message(0)
        assert not (folder / "flight-records").exists()
        said = compare(bin, folder, "kept", 1)
        assert "rank 1 left no record" in said and re.search(r"^rank 1 is behind, at ", said, re.M), said
    return case


def asked(bin, backend):
    """SIGUSR1 of a run that goes on, and ends well."""
    def case(folder):
        world = 2
        prepare(bin, folder, world)
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        with start(bin, folder, world if backend == "gloo" else 1, METRICS, f"--backend={backend}") as ranks:
            await_steps(folder, ranks)
            for rank in range(len(ranks.processes)):
                ranks.signal(rank, signal.SIGUSR1)
            end = time.monotonic() + 60
            while not (folder / "flight-records").exists() or not list((folder / "flight-records").iterdir()):
                assert time.monotonic() < end, "nothing is written"
                time.sleep(0.01)
            run = only_run(folder)
            files = [run / f"rank_{rank}.json" for rank in range(world)]
            await_files(files)
            records = [check_record(file, rank, world, text) for rank, file in enumerate(files)]
            assert all(record["cause"] == "SIGUSR1" for record in records), records
            # Again, later: the same file, of a later step.
            await_steps(folder, ranks)
            for rank in range(len(ranks.processes)):
                ranks.signal(rank, signal.SIGUSR1)
            end = time.monotonic() + 60
            while any(json.loads(file.read_text())["written_ns"] == record["written_ns"] for file, record in zip(files, records)):
                assert time.monotonic() < end, "no second record is written"
                time.sleep(0.01)
            await_steps(folder, ranks)
            ranks.signal(0, signal.SIGTERM)
            assert ranks.wait(60) is not None, "the run does not end"
            assert [ranks.status(rank) for rank in range(len(ranks.processes))] == [0] * len(ranks.processes), ranks.message(0)
            assert "SIGUSR1: the flight record is in 'flight-records/" in ranks.message(0), ranks.message(0)
        assert len(list(run.iterdir())) == world, list(run.iterdir())
        done = call(bin / "fsdp-run", f"--compare-records={run}", cwd=folder)
        assert done.returncode in (0, 1) and f"records of {world} of {world} ranks ({backend})" in done.stdout, (done.stdout, done.stderr)
    return case


def nothing_left(bin):
    """Runs that end well, that are refused, or that are told not to, write nothing."""
    def case(folder):
        prepare(bin, folder, 2)
        must(bin / "fsdp-run", "step.fsdp", "--steps=3", "--data=data.safetensors", cwd=folder)
        done = call(bin / "fsdp-run", "step.fsdp", "--steps=3", "--data=none.safetensors", cwd=folder)
        assert done.returncode == 1, done.stderr
        with start(bin, folder, 2, METRICS, "--flight-records=none", "--deadline=20") as ranks:
            await_steps(folder, ranks)
            ranks.signal(1, signal.SIGKILL)
            assert ranks.wait(60) is not None and ranks.status(0) == 3, ranks.message(0)
            assert "--compare-records" not in ranks.message(0), ranks.message(0)
        assert not (folder / "flight-records").exists() and not (folder / "none").exists()
    return case


def refusals(bin):
    def case(folder):
        def refused(error, *options):
            done = call(bin / "fsdp-run", *options, cwd=folder)
            assert done.returncode in (1, 2) and done.stderr.startswith(f"error[fsdp-{error}]") and not done.stdout, (options, done.stderr)
            return done.stderr
        refused("E001", "--compare-records=none")
        refused("E121", "--compare-records=.")
        refused("E040", "--compare-records=")
        assert "leave out PLAN" in refused("E040", "step.fsdp", "--compare-records=.")
        assert "leave out --steps" in refused("E040", "--compare-records=.", "--steps=3")
        refused("E040", "step.fsdp", "--flight-records", "", "--steps=1")
        (folder / "records").mkdir()
        file = folder / "records/rank_0.json"
        file.write_text("{}")
        refused("E121", "--compare-records=records")
        file.write_text("[" * 100_000)
        refused("E014", "--compare-records=records")
        file.unlink()
        shutil.copytree(folder / "records", file)
        refused("E013", "--compare-records=records")
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({
        "stopped rank 2": stopped(bin, 2),
        "stopped rank 0": stopped(bin, 0),  # which serves the store
        "killed": failing(bin),
        "asked gloo": asked(bin, "gloo"),
        "asked local": asked(bin, "local"),
        "nothing left": nothing_left(bin),
        "refusals": refusals(bin),
    }, arguments.only)


main()
