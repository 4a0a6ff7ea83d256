# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tools over files that were made to do harm.

Each module in files/ has a function `cases`, which gives cases (case.py). A tool
must refuse each with one of the error ids, in time, with little memory, by no
signal, and without writing anything. With --write=DIR the files are left there.
"""

import argparse
import importlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "files"), str(HERE.parent / "end_to_end")]

import warm  # noqa: E402
from archives import SEEDS  # noqa: E402
from case import OPT, RUN  # noqa: E402

MOST_BYTES = 64 << 10
CONFIG = "mesh: {dp_shard: 1}\noptimizer: {name: sgd, lr: 0.1}\n"


def all_cases():
    for path in sorted((HERE / "files").glob("*.py")):
        yield from importlib.import_module(path.stem).cases()


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class Harness:
    def __init__(self, tools):
        self.tools = tools
        self.holder = tempfile.TemporaryDirectory()
        self.base = pathlib.Path(self.holder.name) / "base"
        self.base.mkdir()
        shutil.copy(SEEDS / "linear.pt2", self.base)
        (self.base / "one.yaml").write_text(CONFIG)
        subprocess.run([tools[OPT], "linear.pt2", "--config=one.yaml", "-o", "step.fsdp"], cwd=self.base, check=True,
                       stderr=subprocess.PIPE)

    def prepare(self, case, folder):
        for path, content in case.files.items():
            path = folder / path
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                assert len(content) <= MOST_BYTES, f"{case.name}: {len(content)} bytes"
                path.write_bytes(content)

    def run(self, case):
        """What is wrong, if anything."""
        holder = pathlib.Path(self.holder.name) / "run"
        folder = holder / "files"
        shutil.copytree(self.base, folder)
        self.prepare(case, folder)
        before = list_files(holder)
        env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        env["OMP_NUM_THREADS"] = "1"
        begin = time.monotonic()

        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if not self.tools["is_sanitized"]:
                resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        with open(holder.parent / "out", "w+b") as out, open(holder.parent / "err", "w+b") as err:
            process = warm.start([self.tools[case.command[0]], *case.command[1:]], folder, env, out, err, limit)
            usage = self.wait(process, case.seconds)
            out.seek(0)
            err.seek(0)
            stdout, stderr = out.read(1 << 20), err.read(1 << 20).decode(errors="replace")
        seconds = time.monotonic() - begin
        after = list_files(holder)
        problems = self.judge(case, process.returncode, stdout.decode(errors="replace") + stderr, usage, seconds)
        if after != before:
            problems.append(f"wrote {sorted(set(after) - set(before))}, removed {sorted(set(before) - set(after))}")
        if case.check:
            problems += filter(None, [case.check(folder)])
        shutil.rmtree(holder)
        return problems, seconds, usage

    @staticmethod
    def wait(process, seconds):
        """Resident bytes at their peak."""
        if isinstance(process, warm.Process):
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                process.returncode = "time"
            return process.resident_bytes
        end = time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_maxrss * 1024
            if time.monotonic() > end:
                process.kill()
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = "time"
                return usage.ru_maxrss * 1024
            time.sleep(0.005)

    def judge(self, case, status, text, resident, seconds):
        problems = []
        found = re.search(r"fsdp-(E\d+)\]", text)
        told = text[:300].replace("\n", " | ")
        if status == "time":
            return [f"still ran after {seconds:.0f} s: {told}"]
        if status < 0:
            return [f"ended by signal {-status}: {told}"]
        if status != case.status if case.status is not None else status not in (0, 1, 2):
            problems.append(f"status {status}: {told}")
        if not found or found[1] not in case.errors:
            problems.append(f"expected {' or '.join(case.errors)}: {told}")
        problems += [f"does not say '{each}': {told}" for each in case.says if each not in text]
        if "\0" in text:
            problems.append("prints bytes of the file")
        if resident > case.megabytes << 20 and not self.tools["is_sanitized"]:
            problems.append(f"took {resident >> 20} MiB")
        return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, help="folder of fsdp-opt and fsdp-run")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--write", type=pathlib.Path, help="write the files to this folder and run nothing")
    parser.add_argument("--sanitized", action="store_true", help="do not limit memory")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    chosen = [case for case in all_cases() if re.search(args.only, case.name)]
    if args.write:
        for case in chosen:
            Harness.prepare(None, case, args.write / case.name)
        return 0
    harness = Harness({OPT: args.bin.resolve() / OPT, RUN: args.bin.resolve() / RUN, "is_sanitized": args.sanitized})
    bad = 0
    for case in chosen:
        problems, seconds, resident = harness.run(case)
        bad += bool(problems)
        for problem in problems:
            print(f"{case.name}: {problem}")
        if args.v:
            print(f"{'bad ' if problems else 'good'} {seconds:5.2f} s {resident >> 20:5} MiB {case.name}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} files were refused as they should be")
    return bool(bad or not chosen)


if __name__ == "__main__":
    sys.exit(main())
