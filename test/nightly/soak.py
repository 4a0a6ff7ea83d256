#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A long run whose ranks are killed again and again ends with the bits of one that was left alone.

    soak.py --bin DIR [--steps 10000] [--kills 100] [--world 2] [--folder DIR] [--seed 1]

After each kill, at a random moment, the same command goes on from the newest
checkpoint. With --folder everything is kept there: called again, the soak goes
on where it was ended itself.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))

from safetensors.torch import load_file  # noqa: E402

import random_training  # noqa: E402
from checkpoint import assert_same, prepare, without_times  # noqa: E402
from kill import newest_of  # noqa: E402
from ranks import Ranks  # noqa: E402

DEADLINE, GRACE = 30, 60


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.command = [options.bin / "fsdp-run", "../step.fsdp", f"--steps={options.steps}", "--data=../data.safetensors",
                        "--metrics=m.jsonl", "--export=e.safetensors", "--log-level=error"]
        self.state_file = folder / "state.json"
        wanted = {"steps": options.steps, "kills": options.kills, "world": options.world, "seed": options.seed}
        if self.state_file.exists():
            self.state = json.loads(self.state_file.read_text())
            assert self.state["options"] == wanted, f"{folder} is a soak of other options: {self.state['options']}"
        else:
            prepare(options.bin, folder, random_training.gpt, options.world, options.steps)
            self.state = {"options": wanted, "killed": 0, "restarts": 0, "missed": 0, "worst": 0.0, "undisturbed": False}
            self.store()

    def store(self):
        self.state_file.write_text(json.dumps(self.state))

    def run_undisturbed(self):
        own = self.folder / "undisturbed"
        if self.state["undisturbed"]:
            return own
        own.mkdir(exist_ok=True)
        (own / "m.jsonl").unlink(missing_ok=True)
        with Ranks([*self.command, "--deadline=600"], self.options.world, own) as ranks:
            assert ranks.wait(self.options.limit) is not None, "the run that nobody disturbs hangs"
            assert all(ranks.status(rank) == 0 for rank in range(self.options.world)), ranks.message(0)
        self.state["undisturbed"] = True
        self.store()
        return own

    def disturb(self):
        """One run up to its kill, or to its end."""
        options, own = self.options, self.folder / "disturbed"
        own.mkdir(exist_ok=True)
        killed = self.state["killed"]
        generator = random.Random(f"{options.seed}/{self.state['restarts']}")
        every = max(1, options.steps // (4 * (options.kills + 1)))
        # The kills lie evenly over the steps.
        at = (killed + 1) * options.steps // (options.kills + 1) if killed < options.kills else None
        command = [*self.command, "--save=ck", "--load=latest", f"--save-every={every}", "--keep=2", f"--deadline={DEADLINE}"]
        self.state["restarts"] += 1
        self.store()
        with Ranks(command, options.world, own) as ranks:
            if at is None:
                assert ranks.wait(options.limit) is not None, "the last part of the run hangs"
                assert all(ranks.status(rank) == 0 for rank in range(options.world)), ranks.message(0)
                return True
            begin = time.monotonic()
            while len(ranks.alive()) == options.world and newest_of(own / "ck") < at - every:
                assert time.monotonic() - begin < options.limit, "a part of the run hangs"
                time.sleep(0.002)
            time.sleep(generator.random() * 0.5)
            victim = generator.randrange(options.world)
            if len(ranks.alive()) < options.world:
                failed = [rank for rank in range(options.world) if ranks.status(rank)]
                assert not failed, f"a run that nobody killed failed: {ranks.message(failed[0])}"
                self.state["missed"] += 1
                return all(ranks.status(rank) == 0 for rank in range(options.world))
            ranks.signal(victim)
            seconds = ranks.wait(DEADLINE + GRACE)
            assert seconds is not None, f"ranks {ranks.alive()} do not end after rank {victim} was killed"
            self.state["worst"] = max(self.state["worst"], seconds)
            self.state["killed"] += 1
            self.store()
            return False

    def compare(self, undisturbed):
        own = self.folder / "disturbed"
        rows = [without_times(json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()) for folder in (undisturbed, own)]
        assert len(rows[0]) == self.options.steps, f"{len(rows[0])} steps were made"
        assert rows[0] == rows[1], "the losses are others"
        assert len({row["loss"] for row in rows[0]}) > 1, "nothing is trained"
        assert_same(load_file(own / "e.safetensors"), load_file(undisturbed / "e.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--limit", type=float, default=14400, help="seconds that one run may take")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = options.folder or pathlib.Path(root)
        folder.mkdir(parents=True, exist_ok=True)
        soak = Soak(options, folder)
        undisturbed = soak.run_undisturbed()
        while not soak.disturb():
            pass
        soak.compare(undisturbed)
        state = soak.state
    print(f"{options.steps} steps on {options.world} ranks, {state['killed']} kills, {state['restarts']} starts, {state['missed']} missed; "
          f"peers ended within {state['worst']:.1f} s; losses and weights are the undisturbed run's")
    return 0 if state["killed"] == options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
