# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One artifact for several numbers of ranks: a run that loses ranks and gets them back, killed at random moments and in the middle of
a checkpoint, ends with the bits of one that was left alone on one rank. So does one under torchrun whose nodes come and go.
"""
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import yaml

from harness import call, launch, make_config, must, parse_arguments, run_cases, run_step
from kill import newest_of
from ranks import CLEAN, Ranks, find_port, kill_all
from restart import Agents
from same_bits import digest, dropped, make_model

WORLDS, GRAINS, LOSSES = (1, 2, 3, 4), 8, 20
# Ranks of the first runs that lose some; then they are random.
FIRST = (4, 2, 3)
CONFIG = {"max_grad_norm": 0.05}
# Seconds.
DEADLINE, PATIENCE = 15, 120


def prepare(bin, folder, steps):
    """The artifact, and the hashes of the run that nobody disturbs, on one rank."""
    make_model(folder, dropped, GRAINS, steps)
    config = make_config(1, **CONFIG)
    config["mesh"], config["fsdp_config"]["grains"] = {}, GRAINS
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", f"--world={','.join(map(str, WORLDS))}", "-o", "step.fsdp", cwd=folder)
    rows = run_step(bin, folder, 1, f"--steps={steps}", "--world=1", "--export=final.safetensors")
    assert len({row["loss"] for row in rows}) == steps, "nothing is trained: the test tests nothing"
    (folder / "metrics.jsonl").unlink()
    return digest(folder, rows)


def is_half_there(checkpoints):
    """Whether the newest checkpoint is one that nobody finished."""
    return newest_of(checkpoints, ".tmp") > newest_of(checkpoints)


def chosen(bin):
    """The plan of the ranks that are there, the same training by each; other numbers are refused."""
    def case(folder):
        want = prepare(bin, folder, 3)
        options = ["--steps=3", "--export=final.safetensors"]
        for world, backend in [*((world, "local") for world in WORLDS), (1, "gloo"), (3, "gloo")]:
            rows = run_step(bin, folder, world, *options, *([f"--world={world}"] if backend == "local" else []), backend=backend)
            assert len(rows[0]["rank_peak_rss_bytes"]) == world and digest(folder, rows) == want, (world, backend)
        dry = must(bin / "fsdp-run", "step.fsdp", "--dry-run", cwd=folder).stdout
        assert all(f"for {world} ranks, fingerprint" in dry for world in WORLDS), dry
        assert "for 2 ranks" not in must(bin / "fsdp-run", "step.fsdp", "--dry-run", "--world=3", cwd=folder).stdout
        done = call(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1", cwd=folder)
        assert done.returncode == 2 and "error[fsdp-E040]: 'step.fsdp' has plans for 1, 2, 3, 4 ranks" in done.stderr, done.stderr
        done = call(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1", "--world=6", cwd=folder)
        assert done.returncode == 3 and "error[fsdp-E096]: 'step.fsdp' has a plan for 1, 2, 3, 4 ranks, and 6 ranks are here" in done.stderr, done.stderr
        with Ranks([bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1"], 5, folder) as ranks:
            assert ranks.wait(60) is not None
            assert all(ranks.status(rank) == 3 and "and 5 ranks are here" in ranks.message(rank) for rank in range(5)), ranks.message(0)
    return case


def wait_for(aim, checkpoints, generator, ranks, world):
    """Returns after some more steps, at a random moment of one, of a save or of the commit of one."""
    step = newest_of(checkpoints) + generator.randint(1, 4)
    temporary = checkpoints / f"step_{step}.tmp"
    has_come = {"step": lambda: newest_of(checkpoints) >= step,
                "saving": lambda: temporary.exists() or newest_of(checkpoints) >= step,
                "commit": lambda: (temporary / "manifest.json").exists() or newest_of(checkpoints) >= step}[aim]
    end = time.monotonic() + PATIENCE
    while len(ranks.alive()) == world and not has_come():
        assert time.monotonic() < end, f"the run hangs: {ranks.message(0)}"
        time.sleep(0.001 if aim == "step" else 0)
    time.sleep(generator.random() * {"step": 0.02, "saving": 0.001, "commit": 0.0005}[aim])


def disturbed(bin, losses, seed):
    """So often ranks are lost, all of them or one that the others hear of, and the run goes on on another number of them; oftener until a
    checkpoint was half there once."""
    def case(folder):
        steps, generator, checkpoints = 25 * losses, random.Random(seed), folder / "ck"
        want, world, halves = prepare(bin, folder, steps), FIRST[0], 0
        command = [bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", f"--steps={steps}", "--save=ck", "--save-every=1", "--keep=2", "--load=latest",
                   "--metrics=metrics.jsonl", "--export=final.safetensors", f"--deadline={DEADLINE}"]
        (folder / "final.safetensors").unlink()
        for number in itertools.count():
            if number >= losses and halves:
                break
            with Ranks(command, world, folder) as ranks:
                wait_for(("saving", "step", "commit")[number % 3], checkpoints, generator, ranks, world)
                for rank in range(world) if generator.random() < 0.5 else [generator.randrange(world)]:
                    ranks.signal(rank)
                assert ranks.wait(DEADLINE + 30) is not None, f"ranks {ranks.alive()} do not end"
                failed = [rank for rank in range(world) if ranks.status(rank) not in (3, -signal.SIGKILL)]
                assert not failed, f"rank {failed[0]}, status {ranks.status(failed[0])}: {ranks.message(failed[0])}"
            halves += is_half_there(checkpoints)
            assert newest_of(checkpoints) < steps, "a loss came too late"
            world = FIRST[number + 1] if number + 1 < len(FIRST) else generator.choice([each for each in WORLDS if each != world])
        launch(bin, folder, world, "gloo", *command[1:])
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == list(range(steps)), f"{len(rows)} of {steps} steps"
        assert digest(folder, rows) == want, f"{digest(folder, rows)} instead of {want}"
    return case


class Node(Agents):
    """torchrun on one of the machines that are played, of which there may be one or two."""

    def __init__(self, command, folder, number, port):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=20",
                    "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=job", "--monitor-interval=0.1",
                    "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"]
        self.files = [folder / f"node{number}.err"]
        # Where agents share their store, one that comes later waits for ever for what is only said once.
        env = {**CLEAN, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        with open(self.files[0], "a") as stream:
            self.processes = [subprocess.Popen([str(c) for c in [*launcher, *command]], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=stream)]

    def lose(self):
        """The machine is gone, with all that ran on it."""
        left = self.ranks()
        self.processes[0].kill()
        kill_all(left.values())
        self.processes[0].wait()


def nodes_come_and_go(bin):
    """torchrun --nnodes=1:2: two ranks, four when a second machine comes, two when it is lost, four when it is back."""
    def case(folder):
        prepare(bin, folder, 1)
        (folder / "final.safetensors").unlink()
        checkpoints, port = folder / "ck", find_port()
        command = [bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1000000", "--save=ck", "--save-every=1", "--keep=2", "--load=latest",
                   "--metrics=metrics.jsonl", f"--deadline={2 * PATIENCE}"]

        def wait_for_ranks(world, agents):
            """Until so many have made a checkpoint together."""
            before, end = newest_of(checkpoints), time.monotonic() + PATIENCE
            while True:
                newest = newest_of(checkpoints)
                try:
                    if newest > before and json.loads((checkpoints / f"step_{newest}/manifest.json").read_text())["world_size"] == world:
                        return
                except OSError:
                    pass  # a newer one has replaced it
                assert time.monotonic() < end, f"{world} ranks do not come: {agents.output()[-3000:]}"
                time.sleep(0.02)
        with Node(command, folder, 0, port) as first:
            wait_for_ranks(2, first)
            with Node(command, folder, 1, port) as second:
                wait_for_ranks(4, first)
                second.lose()
                wait_for_ranks(2, first)
            with Node(command, folder, 1, port) as second:
                wait_for_ranks(4, first)
                # As a queue ends a job.
                os.kill(first.ranks()[0], signal.SIGTERM)
                statuses = [node.processes[0].wait(PATIENCE) for node in (first, second)]
            assert statuses == [0, 0], f"exit status {statuses}: {first.output()[-3000:]}"
        last = newest_of(checkpoints)
        must(bin / "fsdp-run", "step.fsdp", "--world=3", f"--steps={last}", "--load=ck", "--export=final.safetensors", cwd=folder)
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == list(range(last)), f"{len(rows)} of {last} steps"
        found = digest(folder, rows)
        (folder / "metrics.jsonl").unlink()
        rows = run_step(bin, folder, 1, f"--steps={last}", "--world=1", "--export=final.safetensors")
        assert digest(folder, rows) == found, f"after {last} steps"
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "chosen": chosen(bin),
        "3 losses": disturbed(bin, 3, 1),
    }
    if arguments.all:
        cases["nodes"] = nodes_come_and_go(bin)
        cases.update({f"{LOSSES} losses, seed {seed}": disturbed(bin, LOSSES, seed) for seed in (2, 3)})
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
