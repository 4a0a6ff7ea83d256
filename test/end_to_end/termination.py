"""SIGTERM ends a training run between two steps: saved, with exit status 0, on all ranks after
the same step, whichever of them got the signal.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import torch
from safetensors.torch import load_file, save_file

import zoo
from harness import compile_step, make_config, make_data, must, parse_arguments, run_cases

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
    processes = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for rank in range(world if backend == "gloo" else 1):
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        if backend == "gloo":
            env |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(subprocess.Popen(command(bin, STEPS, f"--backend={backend}", "--metrics=m.jsonl", *options), cwd=folder, env=env,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return processes


def await_steps(folder, processes, count=3):
    end = time.time() + 120
    file = folder / "m.jsonl"
    while not file.exists() or file.read_text().count("\n") < count:
        assert time.time() < end and all(p.poll() is None for p in processes), [p.stderr.read() for p in processes if p.poll() is not None]
        time.sleep(0.01)


def finish(processes):
    return [(p.communicate(timeout=60), p.returncode) for p in processes]


def ends(bin, world, backend="local", to=None, options=(), **config):
    """`to`: the ranks whose processes get the signal; None: all."""
    def case(folder):
        prepare(bin, folder, world, **config)
        processes = start(bin, folder, world, backend, "--save=ck", "--export=final.safetensors", *options)
        await_steps(folder, processes)
        for rank, process in enumerate(processes):
            if to is None or rank in to:
                process.send_signal(signal.SIGTERM)
        done = finish(processes)
        assert all(status == 0 for _, status in done), [(status, err[-500:]) for (_, err), status in done]
        found = sorted((folder / "ck").iterdir(), key=lambda p: int(p.name[5:]))
        last = int(found[-1].name[5:])
        assert 3 <= last < STEPS and all((p / "manifest.json").exists() for p in found), found
        message = done[0][0][1]
        assert f"SIGTERM: stopped after {last} of {STEPS} steps" in message and "--load=latest" in message and "--export was not written" in message, message[-500:]
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
        processes = start(bin, folder, 2, "local")
        await_steps(folder, processes)
        processes[0].send_signal(signal.SIGTERM)
        ((_, err), status), = finish(processes)
        assert status == 0 and "nothing was saved, since no --save=DIR says where" in err, (status, err[-500:])
    return case


def obeys_the_second(bin):
    """A process that cannot end its step ends at once when it is asked again."""
    def case(folder):
        prepare(bin, folder, 2)
        processes = start(bin, folder, 2, "gloo", "--save=ck")
        await_steps(folder, processes)
        processes[1].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        for _ in range(2):
            processes[0].send_signal(signal.SIGTERM)
            time.sleep(0.5)
        try:
            assert processes[0].wait(timeout=20) == -signal.SIGTERM
        finally:
            processes[1].kill()
            finish(processes)
    return case


def inference(bin):
    """Nothing is to be saved: the signal does what it does to any process."""
    def case(folder):
        prepare(bin, folder, 2, mode="inference")
        processes = start(bin, folder, 2, "local")
        await_steps(folder, processes)
        processes[0].send_signal(signal.SIGTERM)
        (_, status), = finish(processes)
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
        "unsaved": ends_unsaved(bin), "second signal": obeys_the_second(bin), "inference": inference(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
