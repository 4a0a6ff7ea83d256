# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A disk that becomes full, read-only or unreadable, or a process that dies, at each single
call that a save makes: the error is clear, checkpoints are whole, and the next run goes on.

A library that is loaded before the C library (FaultyDisk.cpp) counts the calls and lets
them fail.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import struct

import zoo
from checkpoint import prepare
from harness import call, must, parse_arguments, run_cases
from kill import contents
from ranks import CLEAN, Ranks

REASONS = {"full": "No space left on device", "readonly": "Read-only file system", "lost": "Input/output error"}
SAVING = ("--save=ck", "--keep=2", "--load=latest")
PATIENCE = 120


class Disk:
    """Checkpoints after steps 1 and 2, and those that a run up to step 3 makes of them."""

    def __init__(self, bin, library, folder, world=2):
        self.bin, self.library, self.folder, self.world = bin, library, folder, world
        prepare(bin, folder, zoo.mlp, world, 3)
        self.command = [bin / "fsdp-run", folder / "step.fsdp", f"--data={folder / 'data.safetensors'}", "--steps=3"]
        must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=3", "--save=whole", "--save-every=1", cwd=folder)
        self.whole = {step: contents(folder / f"whole/step_{step}") for step in (1, 2, 3)}

    def make(self, name):
        """A folder with the checkpoints of steps 1 and 2 in it."""
        own = self.folder / name
        for step in (1, 2):
            shutil.copytree(self.folder / f"whole/step_{step}", own / f"ck/step_{step}")
        return own

    def environment(self, own, how, first=0, log=None, below="ck"):
        return {"LD_PRELOAD": str(self.library), "FAULTY_DISK": str(own / below), "FAULTY_DISK_HOW": how, "FAULTY_DISK_FROM": str(first),
                "FAULTY_DISK_LOG": str(log or ""), "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def run(self, own, options=SAVING, **faults):
        return call(*self.command, *options, cwd=own, env=self.environment(own, **faults) if faults else None)

    def list_calls(self):
        """What a save calls, in one of the orders in which ranks come to it."""
        own = self.make("calls")
        done = self.run(own, how="nothing", log=own / "log")
        assert done.returncode == 0, done.stderr
        self.check(own, {2, 3})
        return (own / "log").read_text().splitlines()

    def check(self, own, steps, extra=frozenset()):
        """Of these steps there are whole checkpoints, and nothing else but perhaps `extra`."""
        # The lock of a run that was killed means nothing.
        found = {path.name for path in (own / "ck").iterdir()} - {".fsdp-run.lock"}
        needed = {f"step_{step}" for step in steps}
        assert needed <= found <= needed | set(extra), f"{sorted(found)} are there, not {sorted(needed)}"
        for name in found:
            if re.fullmatch(r"step_\d+", name):
                assert contents(own / "ck" / name) == self.whole[int(name[5:])], f"{name} is another one"


def find_commit(calls):
    """The number of the call that makes the new checkpoint one, counted from 1."""
    numbers = [number for number, each in enumerate(calls, start=1) if re.fullmatch(r"rename .*/ck/step_3", each)]
    assert len(numbers) == 1 and len(calls) > numbers[0] + 3, calls
    # Both ranks' files, the manifest, and folders are on the disk before; the lock need not be.
    before = [each.split()[0] for each in calls[: numbers[0] - 1]]
    assert before.count("fsync") >= 6 and before.count("create") == 4 and calls[numbers[0] - 2].endswith("step_3.tmp"), calls
    assert calls[numbers[0]].startswith("fsync") and calls[numbers[0]].endswith("/ck"), calls
    return numbers[0]


def at_every_call(disk, calls, check):
    """Calls check(n) for each; two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, future in [(number, pool.submit(check, number)) for number in range(1, len(calls) + 1)]:
            try:
                future.result()
            except AssertionError as error:
                raise AssertionError(f"call {number} of {len(calls)}, {calls[number - 1]}: {error}") from None


def killed_case(bin, library):
    def case(folder):
        disk = Disk(bin, library, folder)
        calls = disk.list_calls()
        commit = find_commit(calls)

        def check(number):
            own = disk.make(f"killed {number}")
            done = disk.run(own, how="kill", first=number)
            assert done.returncode == -signal.SIGKILL, f"exit status {done.returncode}: {done.stderr}"
            is_committed = number > commit
            disk.check(own, {2, 3} if is_committed else {1, 2}, {"step_1", "step_1.tmp"} if is_committed else {"step_3.tmp"})
            done = disk.run(own)
            assert done.returncode == 0 and f"after step {3 if is_committed else 2} of" in done.stderr, done.stderr
            # What is left of the one that was being deleted goes with the next save.
            disk.check(own, {2, 3}, {"step_1", "step_1.tmp"} if is_committed else ())
            shutil.rmtree(own)

        at_every_call(disk, calls, check)
    return case


def failing_case(bin, library, how):
    def case(folder):
        disk = Disk(bin, library, folder)
        calls = disk.list_calls()
        commit = find_commit(calls)

        def check(number):
            own = disk.make(f"{how} {number}")
            done = disk.run(own, how=how, first=number)
            lines = done.stderr.splitlines()
            if number > commit + 1:
                # The old checkpoint is not deleted, which is no reason to stop.
                assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
                disk.check(own, {2, 3}, {"step_1", "step_1.tmp"})
            else:
                assert done.returncode == 1 and lines and lines[-1].startswith("error[fsdp-E104]") and REASONS[how] in lines[-1], (done.returncode, done.stderr)
                # What was written is deleted, where that can be; behind the rename it is a checkpoint.
                extra = {"step_3.tmp"} if how != "full" else set()
                disk.check(own, {1, 2}, {"step_3"} if number > commit else extra)
            assert disk.run(own).returncode == 0
            disk.check(own, {2, 3}, {"step_1", "step_1.tmp"} if number > commit else ())
            shutil.rmtree(own)

        # At each call where the disk is full; of the others, what differs.
        at_every_call(disk, calls if how == "full" else calls[:2], check)
        if how == "readonly":
            own = disk.make("before")
            done = disk.run(own, options=(*SAVING, "--metrics=m"), how=how, first=1)
            assert "'ck' cannot be written to: Read-only file system" in done.stderr and not (own / "m").exists(), done.stderr
    return case


def of_one_rank(bin, library):
    """Of four processes one cannot write: all end with its reason."""
    def case(folder):
        disk = Disk(bin, library, folder, 4)
        for victim, options in ((2, ()), (0, ("--save-sync",)), (3, ("--save-sync",))):
            own = disk.make(f"rank {victim}")
            with Ranks([*disk.command, *SAVING, *options], 4, own, envs={victim: disk.environment(own, "full", 2)}) as ranks:
                assert ranks.wait(PATIENCE) is not None, "it hangs"
                for rank in range(4):
                    last = ranks.message(rank).splitlines()[-1]
                    assert ranks.status(rank) == 1 and last.startswith("error[fsdp-E104]") and f"rank {victim}: " in last and REASONS["full"] in last, \
                        (rank, ranks.status(rank), ranks.message(rank))
            disk.check(own, {1, 2})
    return case


def results_case(bin, library):
    """Weights and metrics on a full disk: an error that names the file, and no half of one."""
    def case(folder):
        disk = Disk(bin, library, folder)
        own = disk.make("results")
        (own / "e").mkdir()
        for option, name in (("--export=e.safetensors", "e.safetensors"), ("--export=e/", "e/model.safetensors")):
            done = disk.run(own, options=("--load=ck", option, "--flight-records=none"), how="nothing", log=own / "log", below=name)
            calls = [each for each in (own / "log").read_text().splitlines() if not each.startswith("unlink ")]
            assert done.returncode == 0 and len(calls) > 3 and calls[-1].startswith("rename "), (done.stderr, calls)
            (own / name).unlink()
            (own / "log").unlink()
            for first in range(1, len(calls) + 1):
                done = disk.run(own, options=("--load=ck", option, "--flight-records=none"), how="full", first=first, below=name)
                last = done.stderr.splitlines()[-1]
                assert done.returncode == 1 and last.startswith("error[fsdp-E064]") and name in last and REASONS["full"] in last, (first, done.stderr)
                assert sorted(path.name for path in own.iterdir()) == ["ck", "e"] and not list((own / "e").iterdir()), "half a file is left"
        done = disk.run(own, options=("--load=ck", "--metrics=/dev/full"))
        assert done.returncode == 1 and "the metrics file '/dev/full' cannot be written: No space left on device" in done.stderr, done.stderr
    return case


def damaged_for_one_rank(bin, library):
    """A byte that one of four processes needs has changed, or a folder that one does not see."""
    def case(folder):
        disk = Disk(bin, library, folder, 4)
        own = disk.make("damaged")
        shard = own / "ck/step_2/shard-00003-model-00001-of-00001.safetensors"
        data = bytearray(shard.read_bytes())
        assert struct.unpack("<Q", data[:8])[0] + 8 < len(data)
        data[-1] ^= 1
        shard.write_bytes(data)
        with Ranks([*disk.command, "--load=ck/step_2"], 4, own) as ranks:
            assert ranks.wait(PATIENCE) is not None, "it hangs"
            owners = [rank for rank in range(4) if ranks.message(rank).splitlines()[-1].startswith("error[fsdp-E101]")]
            assert owners and len(owners) < 4, [ranks.message(rank) for rank in range(4)]
            for rank in range(4):
                last = ranks.message(rank).splitlines()[-1]
                assert ranks.status(rank) == (1 if rank in owners else 3), (rank, ranks.status(rank), last)
                assert shard.name in last and "is damaged: bytes" in last, last
                assert rank in owners or any(f"rank {owner} failed" in last for owner in owners), last
        # Rank 1 is on a machine that does not see the folder.
        (folder / "blind").mkdir()
        with Ranks([*disk.command, "--load=ck"], 4, disk.make("seeing"), folders={1: folder / "blind"}) as ranks:
            assert ranks.wait(PATIENCE) is not None, "it hangs"
            assert [ranks.status(rank) for rank in range(4)] == [3, 1, 3, 3], [ranks.message(rank) for rank in range(4)]
            for rank in range(4):
                assert "rank 1 does not find the checkpoint 'ck/step_2' that rank 0 has" in ranks.message(rank), ranks.message(rank)
    return case


def main():
    def extend(parser):
        parser.add_argument("--faulty-disk", type=lambda p: pathlib.Path(p).resolve(), required=True, help="the library of FaultyDisk.cpp")
    arguments = parse_arguments(extend)
    bin, library = arguments.bin, arguments.faulty_disk
    run_cases({
        "killed at every call": killed_case(bin, library),
        "full at every call": failing_case(bin, library, "full"),
        "read-only": failing_case(bin, library, "readonly"),
        "lost": failing_case(bin, library, "lost"),
        "full for one rank": of_one_rank(bin, library),
        "results": results_case(bin, library),
        "damaged for one rank": damaged_for_one_rank(bin, library),
    }, arguments.only)


if __name__ == "__main__":
    main()
