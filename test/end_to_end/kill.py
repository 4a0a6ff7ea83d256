# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank that is killed, at whatever moment, ends the run with an error on every other
rank within the deadline and damages no checkpoint; called again, the run ends with the
bits of one that was left alone.

The moments are random, but follow from --seed. A moment aims at a phase: starting; any
time of a step; a save; the commit of one. Where the kill hit is seen from the folder.
"""
import collections
import json
import pathlib
import random
import re
import shutil
import signal
import time

from safetensors.torch import load_file

import random_training
from checkpoint import assert_same, manifest_of, prepare, without_times
from harness import parse_arguments, run_cases
from ranks import Ranks

WORLD, STEPS = 4, 30
# Seconds; a rank that is merely slow, on a busy machine, is not to count as lost.
DEADLINE, PATIENCE = 15, 150
# A deadline is counted from when a rank begins to wait, which a slow disk puts off; the store's server lets the others leave first.
GRACE = 30
PHASES = ("starting", "step", "saving", "committing", "removing", "ended")
COLUMNS = ("kills", "errors", "resumed", "hangs", "damaged", "unclear")
LAYOUTS = {"rows": {}, "hsdp flat": dict(replicate=2, bucket_layout="flat", reshard_after_forward=True)}


def newest_of(folder, suffix=""):
    """The highest step_N of the folder, 0 if there is none."""
    return max((int(match[1]) for path in folder.glob("step_*") if (match := re.fullmatch(r"step_(\d+)" + re.escape(suffix), path.name))), default=0)


def contents(path):
    """Names and bytes of a checkpoint's files."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


class Undisturbed:
    """A run that nobody disturbs, with all of its checkpoints."""

    def __init__(self, bin, folder, config):
        self.folder = folder
        prepare(bin, folder, random_training.gpt, WORLD, STEPS, **config)
        self.command = [bin / "fsdp-run", "../step.fsdp", f"--steps={STEPS}", "--data=../data.safetensors", "--metrics=m.jsonl", "--export=e.safetensors"]
        own = folder / "undisturbed"
        own.mkdir()
        with Ranks([*self.command, "--save=ck", "--save-every=1", f"--deadline={PATIENCE}"], WORLD, own) as ranks:
            begin = time.monotonic()
            while not (own / "m.jsonl").exists() and ranks.alive():
                time.sleep(0.001)
            self.start_seconds = time.monotonic() - begin
            assert ranks.wait(PATIENCE) is not None, "the run that nobody disturbed hangs"
            assert [ranks.status(rank) for rank in range(WORLD)] == [0] * WORLD, ranks.message(0)
        self.checkpoints = {step: contents(own / f"ck/step_{step}") for step in range(1, STEPS + 1)}
        self.rows = without_times(json.loads(line) for line in (own / "m.jsonl").read_text().splitlines())
        self.weights = load_file(own / "e.safetensors")
        assert len({row["loss"] for row in self.rows}) == STEPS, "nothing is trained: the test tests nothing"


class Moment:
    """Which rank is to be killed when, and how the run saves."""

    def __init__(self, generator):
        self.aim = generator.choices(("starting", "step", "saving", "commit"), (15, 40, 25, 20))[0]
        self.victim = generator.choice((0, 0, 0, 1, 2, 3)) if self.aim == "commit" else generator.randrange(WORLD)
        self.every = generator.randint(1, 3)
        self.is_sync = generator.random() < 0.4
        # A step that ends with a save, for those that aim at one.
        self.step = self.every * generator.randint(1, (STEPS - 1) // self.every)
        self.fraction = generator.random()

    def __str__(self):
        return f"rank {self.victim}, {self.aim} at step {self.step}, --save-every={self.every}{' --save-sync' if self.is_sync else ''}"

    def options(self):
        return ["--save=ck", "--load=latest", f"--save-every={self.every}", "--keep=2", *(["--save-sync"] if self.is_sync else [])]

    def wait(self, folder, undisturbed, ranks):
        """Returns at the moment, or when the run ends before it came."""
        if self.aim == "starting":
            time.sleep(self.fraction * undisturbed.start_seconds)
            return
        metrics, checkpoints = folder / "m.jsonl", folder / "ck"
        manifest = checkpoints / f"step_{self.step}.tmp/manifest.json"
        has_come = {
            "step": lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= self.step,
            "saving": lambda: newest_of(checkpoints, ".tmp") >= self.step,
            # Between it and the rename is an fsync.
            "commit": lambda: manifest.exists() or newest_of(checkpoints) >= self.step,
        }[self.aim]
        while len(ranks.alive()) == WORLD and not has_come():
            time.sleep(0 if self.aim == "commit" else 0.0005)
        time.sleep(self.fraction * {"step": 0.04, "saving": 0.008, "commit": 0.002}[self.aim])


def see_phase(folder):
    checkpoints = folder / "ck"
    newest, temporary = newest_of(checkpoints), newest_of(checkpoints, ".tmp")
    if newest == STEPS:
        return "ended"
    if temporary and temporary < newest:
        return "removing"
    if temporary:
        return "committing" if (checkpoints / f"step_{temporary}.tmp/manifest.json").exists() else "saving"
    return "step" if newest or (folder / "m.jsonl").exists() else "starting"


def is_clear(message, victim):
    """Whether it says which rank is gone; the one that serves the store cannot be told from it."""
    first = message.splitlines()[-1] if message else ""
    # "rank 2", or "ranks 2, 3" of which 3 only waits for it.
    named = {int(number) for names in re.findall(r"ranks? (\d+(?:, \d+)*)", first) for number in names.split(", ")}
    return bool(re.match(r"error\[fsdp-E09[0125]\]: ", first)) and (victim in named or (victim == 0 and "store" in first))


def find_damage(folder, undisturbed, least):
    """What is wrong with the checkpoints; every one that is there has to be the undisturbed run's."""
    checkpoints = folder / "ck"
    steps = sorted(int(path.name[5:]) for path in checkpoints.glob("step_*") if not path.name.endswith(".tmp"))
    for step in steps:
        if contents(checkpoints / f"step_{step}") != undisturbed.checkpoints[step]:
            return f"step_{step} is not the undisturbed run's"
    if least and (not steps or steps[-1] < least):
        return f"step_{least} was there, {steps} are"
    return f"{steps} are there" if len(steps) > 3 else None


def resume(folder, undisturbed, moment):
    """What was wrong with the run that went on."""
    newest = newest_of(folder / "ck")
    with Ranks([*undisturbed.command, *moment.options(), f"--deadline={PATIENCE}"], WORLD, folder, "resumed") as ranks:
        if ranks.wait(PATIENCE) is None:
            return "it hangs"
        if any(ranks.status(rank) for rank in range(WORLD)):
            return f"exit status {[ranks.status(rank) for rank in range(WORLD)]}: {ranks.message(0)}"
        expected = f"continuing after step {newest} of" if newest else "from scratch"
        if expected not in ranks.message(0):
            return f"it does not say '{expected}': {ranks.message(0)}"
    rows = without_times(json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines())
    if rows != undisturbed.rows:
        return "its losses are others"
    assert_same(load_file(folder / "e.safetensors"), undisturbed.weights)
    left = sorted(path.name for path in (folder / "ck").iterdir())
    if len(left) != 2 or f"step_{STEPS}" not in left:
        return f"its folder has {left}"
    return find_damage(folder, undisturbed, STEPS)


class Tally:
    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.problems = []
        self.worst = collections.Counter()
        self.missed = 0

    def note(self, phase, column, moment=None, text=""):
        self.counts[phase][column] += 1
        if text:
            self.problems.append(f"{moment}; it hit {phase}: {text}")
            print(f"    {column}: {self.problems[-1]}", flush=True)

    def total(self, column):
        return sum(counts[column] for counts in self.counts.values())

    def __str__(self):
        lines = ["phase       " + "".join(f"{column:>9}" for column in COLUMNS) + "   worst time to the last exit"]
        for phase in [phase for phase in PHASES if phase in self.counts]:
            lines.append(f"{phase:<12}" + "".join(f"{self.counts[phase][column]:>9}" for column in COLUMNS) + f"   {self.worst[phase]:.1f} s")
        lines.append(f"{'all':<12}" + "".join(f"{self.total(column):>9}" for column in COLUMNS) + f"   {max(self.worst.values(), default=0):.1f} s")
        return "\n".join(lines)


def try_moment(moment, folder, undisturbed, tally):
    folder.mkdir()
    with Ranks([*undisturbed.command, *moment.options(), f"--deadline={DEADLINE}"], WORLD, folder) as ranks:
        moment.wait(folder, undisturbed, ranks)
        phase, least = see_phase(folder), newest_of(folder / "ck")
        others = [rank for rank in ranks.alive() if rank != moment.victim]
        if moment.victim not in ranks.alive() or len(others) != WORLD - 1:
            tally.missed += 1  # the run was faster
            return
        ranks.signal(moment.victim)
        tally.note(phase, "kills")
        seconds = ranks.wait(DEADLINE + GRACE, others)
        if seconds is None:
            said = [f"rank {rank} ended with {ranks.status(rank)}: {ranks.message(rank)}" for rank in others if rank not in ranks.alive()]
            return tally.note(phase, "hangs", moment, "; ".join([f"ranks {ranks.alive()} do not end", *said]))
        ranks.wait(GRACE, [moment.victim])
        tally.worst[phase] = max(tally.worst[phase], seconds)
        assert ranks.status(moment.victim) in (0, -signal.SIGKILL), ranks.message(moment.victim)
        # It may have been done with its part; then the others must have been, too.
        is_done = all(ranks.status(rank) == 0 for rank in others) and newest_of(folder / "ck") == STEPS and (folder / "e.safetensors").exists()
        unclear = [rank for rank in others if ranks.status(rank) != 3 or not is_clear(ranks.message(rank), moment.victim)]
        if unclear and not is_done:
            tally.note(phase, "unclear", moment, "; ".join(f"rank {rank} ended with {ranks.status(rank)}: {ranks.message(rank)}" for rank in unclear))
        else:
            tally.note(phase, "errors")
    if damage := find_damage(folder, undisturbed, least):
        return tally.note(phase, "damaged", moment, damage)
    if problem := resume(folder, undisturbed, moment):
        return tally.note(phase, "damaged", moment, "resumed, " + problem)
    tally.note(phase, "resumed")


def kill_case(bin, moments, seed):
    def case(folder):
        all_undisturbed = []
        for name, config in LAYOUTS.items():
            (folder / name).mkdir()
            all_undisturbed.append(Undisturbed(bin, folder / name, config))
        generator, tally, number = random.Random(seed), Tally(), 0
        while tally.total("kills") < moments and tally.missed <= moments:
            moment, undisturbed = Moment(generator), generator.choice(all_undisturbed)
            own = undisturbed.folder / f"moment {number}"
            try_moment(moment, own, undisturbed, tally)
            shutil.rmtree(own)
            number += 1
        print(tally, flush=True)
        assert tally.total("kills") == moments, f"{tally.missed} runs ended before their kill"
        assert not tally.problems, f"{len(tally.problems)} problems, the first: {tally.problems[0]}"
        assert tally.total("errors") == tally.total("resumed") == moments
    return case


def main():
    def extend(parser):
        parser.add_argument("--moments", type=int, default=8, help="kills; 100 are the full test")
        parser.add_argument("--seed", type=int, default=1)
    arguments = parse_arguments(extend)
    run_cases({"killed rank": kill_case(arguments.bin, arguments.moments, arguments.seed)}, arguments.only)


if __name__ == "__main__":
    main()
