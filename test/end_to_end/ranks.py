# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ranks of a run as processes of their own, as a launcher starts them, to be killed."""
import os
import pathlib
import random
import re
import signal
import socket
import sys
import time

import warm

# Below what systems give to outgoing connections, so that none takes it meanwhile.
PORTS = range(15000, 30000)
CLEAN = {k: v for k, v in os.environ.items() if not re.match(r"RANK$|LOCAL_RANK$|WORLD_SIZE$|MASTER_|TORCHELASTIC_|LD_PRELOAD$", k)}


# Names of sockets that stand for ports which this process was given: the kernel takes them back when it ends.
taken = []


def find_port():
    """One that nobody listens on; no other test of this machine is given it while this process lasts (unit/runtime/comm/Harness.cpp does the same)."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0fsdp-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
            taken.append(name)
            return port
        except OSError:
            name.close()


def find_ranks(parents):
    """Process ids, by rank, of the runs of fsdp-run that these processes have started. Any of them may end at any time."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        about = pathlib.Path("/proc", entry)
        try:
            # pid (name) state parent ...
            if int((about / "stat").read_text().rpartition(")")[2].split()[1]) not in parents:
                continue
            environment = dict(each.partition("=")[::2] for each in (about / "environ").read_text().split("\0"))
            if "RANK" in environment and "fsdp-run" in (about / "cmdline").read_text():
                found[int(environment["RANK"])] = int(entry)
        except (OSError, ValueError):
            pass  # it is gone
    return found


def kill_all(pids):
    """Those of them that are still there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def end_rank():
    """Ends this process of a torch.distributed group that has done its work, without the interpreter's own exit: gloo's threads, which then wait for
    a lock that is no more, abort that now and then ("terminate called without an active exception")."""
    import torch.distributed
    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Ranks:
    """One process for each rank; what they print goes to files of the folder. `envs` and `folders` are those of some ranks alone."""

    def __init__(self, command, world, folder, tag="run", envs={}, folders={}):
        self.port = port = find_port()
        self.files = [pathlib.Path(folder) / f"{tag}.rank{rank}.err" for rank in range(world)]
        self.processes = []
        for rank in range(world):
            env = {**CLEAN, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **envs.get(rank, {})}
            with open(self.files[rank], "w") as file, open(os.devnull, "w") as nothing:
                self.processes.append(warm.start(command, folders.get(rank, folder), env, nothing, file))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def alive(self):
        return [rank for rank, process in enumerate(self.processes) if process.poll() is None]

    def meet(self, others=0, seconds=60):
        """Returns when rank 0 waits for the others and so many of them have come; whether that is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sockets = "".join(pathlib.Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6") if os.path.exists(f"/proc/net/{name}"))
            if re.search(rf":{self.port:04X} [0-9A-F]+:0000 0A", sockets) and len(re.findall(rf":{self.port:04X} [0-9A-F]+:[0-9A-F]+ 01", sockets)) >= others + (others > 0):
                return True
            time.sleep(0.02)
        return False

    def signal(self, rank, number=signal.SIGKILL):
        self.processes[rank].send_signal(number)

    def wait(self, seconds, ranks=None):
        """Seconds until the last of these ranks ended; None if one did not within so many. Only time counts in which this process runs, too."""
        passed, last = 0.0, time.monotonic()
        ranks = range(len(self.processes)) if ranks is None else ranks
        while any(self.processes[rank].poll() is None for rank in ranks):
            if passed >= seconds:
                return None
            time.sleep(0.005)
            now = time.monotonic()
            passed, last = passed + min(now - last, 1), now
        return passed

    def status(self, rank):
        return self.processes[rank].returncode

    def message(self, rank):
        return self.files[rank].read_text().strip()
