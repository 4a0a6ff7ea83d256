# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the parts share: folders, programs, the clock."""
import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import weakref

HERE = pathlib.Path(__file__).resolve().parent
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Clock:
    """What is left of so many seconds."""

    def __init__(self, seconds):
        self.begin, self.seconds = time.monotonic(), seconds

    def left(self):
        return self.begin + self.seconds - time.monotonic()

    def part(self, share, least=0):
        """A clock for this share of what is left, but for no less than so many seconds as long as there are as many."""
        return Clock(min(self.left(), max(share * self.left(), least)))


class Failure(Exception):
    """A program that did not do what it was to; the text says what and why."""


class Late(Failure):
    """One that was ended because it took too long."""


def torch_folder():
    return pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0])


def environment(bin):
    """Where the libraries are of a build that was made on another machine: fsdp-run's beside it, LibTorch's in this Python's wheels."""
    torch = torch_folder()
    folders = [bin.parent / "lib", torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    clean = {k: v for k, v in os.environ.items() if k not in LAUNCHER}
    return {**clean, "LD_LIBRARY_PATH": ":".join([*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")])}


# Whether each process gets a group of its own, so that `stop` ends what it started, too.
# Not in a process that is itself ended so.
has_groups = True
started = weakref.WeakSet()
made = []  # folders of `roomy_folder`


def start(command, cwd, env=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    process = subprocess.Popen([str(c) for c in command], cwd=cwd, env=env, stdout=stdout, stderr=stderr, text=True, process_group=0 if has_groups else None)
    started.add(process)
    return process


def stop(process):
    if process.poll() is None:
        if has_groups:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def clean_up():
    """Ends what was started, and removes what `roomy_folder` made."""
    for process in list(started):
        stop(process)
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


def finish(process, timeout):
    """stdout and stderr; a Failure if it fails, Late if it takes longer."""
    name = pathlib.Path(process.args[0]).name
    try:
        out, error = process.communicate(timeout=max(timeout, 1))
    except subprocess.TimeoutExpired:
        stop(process)
        out, error = process.communicate()
        raise Late(f"{name} was not done after {timeout:.0f} s: {(out + error).strip()[-800:]}") from None
    finally:
        stop(process)
    if process.returncode:
        raise Failure(f"{name} exited with {process.returncode}: {(error.strip() or out.strip())[-1500:]}")
    return out, error


def call(command, cwd, env=None, timeout=600):
    return finish(start(command, cwd, env), timeout)


class Training:
    """A run of fsdp-run: begun when made, and waited for by `rows`."""

    def __init__(self, bin, folder, artifact, *options, env=None, before=()):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="fsdp-run-"))
        self.metrics = self.scratch / "metrics.jsonl"
        command = [*before, bin / "fsdp-run", artifact, f"--metrics={self.metrics}", *options]
        self.process = start(command, folder, {**environment(bin), "OMP_NUM_THREADS": "1", **(env or {})})

    def rows(self, timeout):
        """The rows of its metrics, and all that it printed."""
        try:
            out, error = finish(self.process, timeout)
            return [json.loads(line) for line in self.metrics.read_text().splitlines()], out + error
        finally:
            stop(self.process)
            shutil.rmtree(self.scratch, ignore_errors=True)


def may_execute(folder):
    """False where the mount has no programs, as containers' shared memory often is."""
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


def roomy_folder(size, has_programs=False):
    """A new folder with room for so many bytes, in memory if there is enough. With programs: where these may be executed."""
    parents = [p for p in ("/dev/shm", tempfile.gettempdir()) if os.path.isdir(p) and shutil.disk_usage(p).free > 2 * size and (not has_programs or may_execute(p))]
    if not parents:
        runs = " and lets programs run" if has_programs else ""
        raise Failure(f"neither /dev/shm nor {tempfile.gettempdir()} has {2 * size >> 20} MiB free{runs}: set TMPDIR to a folder that does")
    made.append(pathlib.Path(tempfile.mkdtemp(prefix="fsdp-gpu-", dir=parents[0])))
    return made[-1]


def read_manifest(out):
    path = out / "manifest.json"
    if not path.exists():
        raise Failure(f"{path} is not there: expected a folder that `run.py prepare` wrote")
    return json.loads(path.read_text())


def group_name(group, names):
    """Of the check of some operators that share a step."""
    return f"operators {group}: {', '.join(names)}"
