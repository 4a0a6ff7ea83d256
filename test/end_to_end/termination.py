# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SIGTERM, or SIGINT, ends a training run between two steps: saved, with exit status 0, on all ranks after
the same step, whichever of them got the signal.
"""
import signal
import time

import torch
from safetensors.torch import load_file, save_file

import zoo
from harness import compile_step, make_config, make_data, must, parse_arguments, run_cases
from ranks import Ranks

STEPS = 100_000


def prepare(bin, folder, world, **config):
    torch.manual_seed(7)
    model, inputs = zoo.mlp()
    model.train()
    save_file(make_data(inputs, world * 8), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, make_config(world, **config))


def command(bin, steps, *options):
    return [str(bin / "fsdp-run"), "step.fsdp", f"--steps={steps}", "--data=data.safetensors", *options]


def start(bin, folder, world, backend, *options):
    """One process, or one for each rank."""
    return Ranks([*command(bin, STEPS, f"--backend={backend}", "--metrics=m.jsonl"), *options], world if backend == "gloo" else 1, folder)


def await_steps(folder, ranks, count=3):
    end = time.time() + 120
    file = folder / "m.jsonl"
    while not file.exists() or file.read_text().count("\n") < count:
        assert time.time() < end and len(ranks.alive()) == len(ranks.processes), [ranks.message(rank) for rank in range(len(ranks.processes))]
        time.sleep(0.01)


def finish(ranks):
    """What the ranks' processes ended with."""
    assert ranks.wait(60) is not None, f"ranks {ranks.alive()} do not end"
    return [ranks.status(rank) for rank in range(len(ranks.processes))]


def ends(bin, world, backend="local", to=None, options=(), number=signal.SIGTERM, **config):
    """`to`: the ranks whose processes get the signal; None: all."""
    def case(folder):
        prepare(bin, folder, world, **config)
        with start(bin, folder, world, backend, "--save=ck", "--export=final.safetensors", *options) as ranks:
            await_steps(folder, ranks)
            for rank in ranks.alive():
                if to is None or rank in to:
                    # A launcher hands on what the terminal has sent already.
                    ranks.signal(rank, number)
                    ranks.signal(rank, number)
            done = finish(ranks)
            assert all(status == 0 for status in done), [(status, ranks.message(rank)[-500:]) for rank, status in enumerate(done)]
            message = ranks.message(0)
        found = sorted((folder / "ck").iterdir(), key=lambda p: int(p.name[5:]))
        last = int(found[-1].name[5:])
        assert 3 <= last < STEPS and all((p / "manifest.json").exists() for p in found), found
        assert f"{number.name}: stopped after {last} of {STEPS} steps" in message and "--load=latest" in message and "--export was not written" in message, message[-500:]
        assert not (folder / "final.safetensors").exists()
        assert len((folder / "m.jsonl").read_text().splitlines()) == last
        # What was saved is what a run of so many steps has, and a run goes on from it.
        must(*command(bin, last, "--export=want.safetensors"), cwd=folder)
        must(*command(bin, last, "--load=latest", "--save=ck", "--export=have.safetensors"), cwd=folder)
        want, have = (load_file(folder / f"{name}.safetensors") for name in ("want", "have"))
        assert want and all(torch.equal(want[k], have[k]) for k in want), "the checkpoint is not of the step that it says"
    return case


def ends_unsaved(bin):
    def case(folder):
        prepare(bin, folder, 2)
        with start(bin, folder, 2, "local") as ranks:
            await_steps(folder, ranks)
            ranks.signal(0, signal.SIGTERM)
            status, = finish(ranks)
            message = ranks.message(0)
        assert status == 0 and "nothing was saved, since no --save=DIR says where" in message, (status, message[-500:])
    return case


def obeys_the_second(bin, number=signal.SIGTERM):
    """A process that cannot end its step ends at once when it is asked again."""
    def case(folder):
        prepare(bin, folder, 2)
        with start(bin, folder, 2, "gloo", "--save=ck") as ranks:
            await_steps(folder, ranks)
            ranks.signal(1, signal.SIGSTOP)
            time.sleep(0.5)
            # Two that come before the process runs again are one.
            for _ in range(40):
                ranks.signal(0, number)
                if ranks.wait(0.5, [0]) is not None:
                    break
            assert ranks.wait(20, [0]) is not None and ranks.status(0) == -number, ranks.status(0)
    return case


def inference(bin):
    """Nothing is to be saved: the signal does what it does to any process."""
    def case(folder):
        prepare(bin, folder, 2, mode="inference")
        with start(bin, folder, 2, "local") as ranks:
            await_steps(folder, ranks)
            ranks.signal(0, signal.SIGTERM)
            status, = finish(ranks)
        assert status == -signal.SIGTERM, status
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "local/1": ends(bin, 1), "local/2": ends(bin, 2), "local/4": ends(bin, 4, replicate=2),
        "local/while saving": ends(bin, 2, options=["--save-every=1", "--keep=2"]),
        "gloo/1": ends(bin, 1, "gloo"), "gloo/all": ends(bin, 3, "gloo"), "gloo/rank 0": ends(bin, 3, "gloo", [0]), "gloo/rank 2": ends(bin, 3, "gloo", [2]),
        "gloo/two": ends(bin, 4, "gloo", [1, 3], replicate=2), "gloo/while saving": ends(bin, 2, "gloo", [1], options=["--save-every=2", "--keep=2"]),
        "gloo/accumulation": ends(bin, 2, "gloo", [1], gradient_accumulation_steps=3),
        "SIGINT": ends(bin, 2, number=signal.SIGINT), "SIGINT, gloo": ends(bin, 2, "gloo", number=signal.SIGINT),
        "SIGINT twice": obeys_the_second(bin, signal.SIGINT),
        "unsaved": ends_unsaved(bin), "second signal": obeys_the_second(bin), "inference": inference(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
