# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Under torchrun a job whose ranks are killed goes on by itself from its last checkpoint,
and ends with the bits of one that was left alone: with one agent, and with two, as on two
machines.
"""
import json
import random
import subprocess
import sys
import time

from safetensors.torch import load_file

import random_training
import warm
from checkpoint import assert_same, newest, prepare, train, without_times
from harness import parse_arguments, run_cases
from ranks import CLEAN, find_port, find_ranks, kill_all

WORLD, STEPS = 4, 40
# Seconds; --deadline is longer, so that whoever waits for it fails the test.
PATIENCE = 120


class Agents:
    """torchrun, once for each of the machines that are played."""

    def __init__(self, command, folder, nodes, restarts):
        where = ["--standalone"] if nodes == 1 else [f"--nnodes={nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{find_port()}", "--rdzv-id=job"]
        launcher = [sys.executable, "-m", "torch.distributed.run", "--no-python", f"--nproc-per-node={WORLD // nodes}", f"--max-restarts={restarts}", *where]
        self.files = [folder / f"agent{node}.err" for node in range(nodes)]
        self.processes = []
        command[0], env = warm.for_launchers(command[0], {**CLEAN, "OMP_NUM_THREADS": "1"})
        for file in self.files:
            with open(file, "w") as stream:
                self.processes.append(subprocess.Popen([str(c) for c in [*launcher, *command]], cwd=folder, env=env,
                                                       stdout=subprocess.DEVNULL, stderr=stream))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        left = self.ranks()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        kill_all(left.values())

    def ranks(self):
        """Process ids, by rank."""
        return find_ranks({process.pid for process in self.processes})

    def output(self):
        return "\n".join(file.read_text() for file in self.files)


def wait_until(condition, agents, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not come: {agents.output()[-12000:]}"
        assert all(process.poll() is None for process in agents.processes), f"ended before {what}: {agents.output()[-12000:]}"
        time.sleep(0.002)


def restart_case(bin, nodes, kills, seed):
    """`kills`: "starting", before anything is trained, or "training", one after the other."""
    def case(folder):
        generator = random.Random(seed)
        prepare(bin, folder, random_training.gpt, WORLD, STEPS)
        rows, want = train(bin, folder, WORLD, STEPS, "gloo")
        command = [bin / "fsdp-run", "step.fsdp", f"--steps={STEPS}", "--data=data.safetensors", "--save=ck", "--save-every=1", "--keep=2",
                   "--load=latest", "--metrics=m.jsonl", "--export=again.safetensors", f"--deadline={2 * PATIENCE}"]
        with Agents(command, folder, nodes, len(kills)) as agents:
            killed = set()
            for kill in kills:
                before = newest(folder / "ck")
                wait_until(lambda: len(found := agents.ranks()) == WORLD and not killed & set(found.values()), agents, "the next start")
                if kill == "training":
                    wait_until(lambda: newest(folder / "ck") > before, agents, "the next checkpoint")
                time.sleep(generator.random() * 0.05)
                ranks = agents.ranks()
                assert len(ranks) == WORLD, f"ranks {sorted(ranks)} are left before the kill: {agents.output()[-12000:]}"
                kill_all([ranks[generator.randrange(WORLD)]])
                killed.update(ranks.values())
            for process in agents.processes:
                process.wait(PATIENCE)
            statuses = [process.returncode for process in agents.processes]
            assert not any(statuses), f"exit status {statuses}: {agents.output()[-12000:]}"
            output = agents.output()
        assert "continuing after step" in output, output
        assert newest(folder / "ck") == STEPS and sorted(p.name for p in (folder / "ck").iterdir()) == [f"step_{STEPS - 1}", f"step_{STEPS}"]
        assert without_times(json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()) == without_times(rows)
        assert_same(load_file(folder / "again.safetensors"), want)
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({
        "one agent": restart_case(bin, 1, ("training", "training", "starting"), 1),
        "two agents": restart_case(bin, 2, ("training", "starting", "training"), 2),
        "two agents, starting": restart_case(bin, 2, ("starting", "training"), 3),
    }, arguments.only)


if __name__ == "__main__":
    main()
