# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that are started in different ways are refused, on all of them, before the first step."""
import re
import shutil
import signal

import torch
from safetensors.torch import save_file

import zoo
from harness import compile_step, make_config, make_data, parse_arguments, run_cases
from ranks import Ranks


def prepare(bin, folder, world=2):
    torch.manual_seed(7)
    model, inputs = zoo.mlp()
    data = make_data(inputs, 8)
    save_file(data, folder / "data.safetensors")
    save_file({k: v + 1 for k, v in data.items()}, folder / "other.safetensors")
    (folder / "elsewhere").mkdir()
    shutil.copy(folder / "data.safetensors", folder / "elsewhere" / "d.safetensors")
    compile_step(bin, folder, model, inputs, make_config(world, eval={"data": "data.safetensors"}))


class Differing(Ranks):
    """Ranks of which each has options of its own."""

    def __init__(self, bin, folder, own, common=(), envs={}):
        script = "\n".join(f"{rank}) set -- {' '.join(options)};;" for rank, options in enumerate(own))
        (folder / "start.sh").write_text(
            f"case $RANK in\n{script}\nesac\nexec {bin / 'fsdp-run'} step.fsdp --deadline=60 {' '.join(common)} \"$@\"\n")
        super().__init__(["bash", "start.sh"], len(own), folder, envs=envs)


DATA = "--data=data.safetensors"
# What ranks 0 and 1 are told, and what both of them say; all of a list at once.
DIFFERENCES = {
    "values": [
        (["--steps=3"], ["--steps=4"], "--steps is 3 on rank 0, 4 on rank 1"),
        (["--lr=0.1"], ["--lr=0.2"], "--lr is 0.1 on rank 0, 0.2 on rank 1"),
        (["--lr-schedule=linear"], ["--lr-schedule=cosine"], "--lr-schedule is linear on rank 0, cosine on rank 1"),
        (["--seed=1"], ["--seed=2"], "--seed is 1 on rank 0, 2 on rank 1"),
        ([DATA, "--data-options=shuffle=true"], [DATA, "--data-options=seed=1"], "--data-options is shuffle=true on rank 0, seed=1 on rank 1"),
        (["--on-nonfinite=ignore"], ["--on-nonfinite=stop"], "--on-nonfinite is ignore on rank 0, stop on rank 1"),
        (["--save=ck", "--save-every=1"], ["--save=kc", "--save-every=2"], "--save is ck on rank 0, kc on rank 1"),
        ([], [], "--save-every is 1 on rank 0, 2 on rank 1"),
        (["--eval-every=1"], ["--eval-every=2"], "--eval-every is 1 on rank 0, 2 on rank 1"),
        (["--matmul=onednn"], ["--matmul=blas"], "--matmul is onednn on rank 0, blas on rank 1")],
    "one rank alone": [
        ([DATA, "--steps=2", "--lr=0.1"], [DATA, "--steps=2"], "--lr is 0.1 on rank 0, not given on rank 1"),
        (["--export=e.safetensors"], [], "--export is e.safetensors on rank 0, not given on rank 1"),
        ([], ["--metrics=m.jsonl"], "--metrics is not given on rank 0, m.jsonl on rank 1"),
        (["--save=ck", "--load=latest"], [], "--save is ck on rank 0, not given on rank 1"),
        ([], [], "--load is latest of ck on rank 0, not given on rank 1"),
        (["--eval-batches=1"], [], "--eval-batches is 1 on rank 0, not given on rank 1"),
        (["--poison"], [], "--poison is set on rank 0, not given on rank 1"),
        ([], ["--debug-nan"], "--debug-nan is not given on rank 0, set on rank 1")],
    "profile": [([DATA, "--steps=9", "--profile=p.json"], [DATA, "--steps=9"], "--profile is p.json on rank 0, not given on rank 1")],
    "sample": [([DATA, "--steps=2"], ["--data=sample", "--steps=2"], "--data is data.safetensors on rank 0, sample on rank 1")],
    "no data": [([DATA, "--steps=2"], ["--steps=2"], "--data is data.safetensors on rank 0, not given on rank 1")],
}


def refused(ranks, *patterns):
    assert ranks.wait(60) is not None, f"ranks {ranks.alive()} do not end"
    for rank in range(len(ranks.processes)):
        message = ranks.message(rank)
        assert ranks.status(rank) == 3 and message.startswith("error[fsdp-E120]: "), f"rank {rank}: {ranks.status(rank)}: {message}"
        for pattern in patterns:
            assert re.search(pattern, message), f"rank {rank}: {pattern!r} is not in {message}"


def options_differ(bin):
    def case(folder):
        prepare(bin, folder)
        before = sorted(p.name for p in folder.iterdir())
        for differences in DIFFERENCES.values():
            own = [[option for each in differences for option in each[rank]] for rank in (0, 1)]
            with Differing(bin, folder, own) as ranks:
                refused(ranks, *(re.escape(each[2]) for each in differences))
        left = {p.name for p in folder.iterdir()} - set(before)
        assert left == {"start.sh", "run.rank0.err", "run.rank1.err"}, left
    return case


def three_ranks(bin):
    """Ranks that say the same are named together; all differences at once."""
    def case(folder):
        prepare(bin, folder, 3)
        with Differing(bin, folder, [["--lr=0.1"], ["--lr=0.2", "--seed=3"], ["--lr=0.1"]], [DATA, "--steps=2"]) as ranks:
            refused(ranks, r"--lr is 0\.1 on ranks 0, 2, 0\.2 on rank 1", "--seed is not given on ranks 0, 2, 3 on rank 1")
    return case


def contents_differ(bin):
    """Data is compared by what it holds, wherever it lies."""
    def case(folder):
        prepare(bin, folder)
        with Differing(bin, folder, [[DATA], ["--data=other.safetensors"]], ["--steps=2"]) as ranks:
            refused(ranks, r"the data is 'data\.safetensors', \d+ bytes of content \w{8} on rank 0, 'other\.safetensors', \d+ bytes of content \w{8} on rank 1")
        with Differing(bin, folder, [["--eval-data=data.safetensors"], ["--eval-data=other.safetensors"]], [DATA, "--steps=2"]) as ranks:
            refused(ranks, "the validation's data is 'data.safetensors'")
        with Differing(bin, folder, [[DATA], ["--data=elsewhere/d.safetensors"]], ["--steps=2"]) as ranks:
            assert ranks.wait(60) is not None and [ranks.status(rank) for rank in (0, 1)] == [0, 0], [ranks.message(rank) for rank in (0, 1)]
        # Paths that rank 0 alone writes to may be others, too.
        with Differing(bin, folder, [["--metrics=a.jsonl"], ["--metrics=b.jsonl"]], [DATA, "--steps=2"]) as ranks:
            assert ranks.wait(60) is not None and [ranks.status(rank) for rank in (0, 1)] == [0, 0], [ranks.message(rank) for rank in (0, 1)]
        assert (folder / "a.jsonl").exists() and not (folder / "b.jsonl").exists()
    return case


def environment_differs(bin):
    def case(folder):
        prepare(bin, folder)
        with Differing(bin, folder, [[], []], [DATA, "--steps=2"], envs={1: {"ATEN_CPU_CAPABILITY": "default"}}) as ranks:
            refused(ranks, "the environment's ATEN_CPU_CAPABILITY is not given on rank 0, default on rank 1")
    return case


def ended_at_the_start(bin):
    """A signal while ranks start up ends that rank at once, and those that have come know."""
    def case(folder):
        prepare(bin, folder, 3)
        # Rank 2 never comes: how long a start takes is nobody's to say.
        (folder / "late.sh").write_text(f"while test $RANK = 2; do sleep 60; done\nexec {bin / 'fsdp-run'} step.fsdp --deadline=60 {DATA} --steps=100000000\n")
        for number in (signal.SIGTERM, signal.SIGINT):
            with Ranks(["bash", "late.sh"], 3, folder) as ranks:
                assert ranks.meet(1), f"ranks 0 and 1 do not wait: {ranks.message(0)} {ranks.message(1)}"
                ranks.signal(0, number)
                assert ranks.wait(30, (0, 1)) is not None, f"ranks {ranks.alive()} wait for one that was ended: {ranks.message(0)} {ranks.message(1)}"
                assert ranks.status(0) == -number and "while ranks started up" in ranks.message(0), (ranks.status(0), ranks.message(0))
                assert ranks.status(1) == 3, (ranks.status(1), ranks.message(1))
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({"options": options_differ(bin), "three ranks": three_ranks(bin), "contents": contents_differ(bin), "environment": environment_differs(bin),
               "ended at the start": ended_at_the_start(bin)}, arguments.only)


main()
