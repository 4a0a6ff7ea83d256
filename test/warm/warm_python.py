# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python with torch and transformers, imported once for all tests of a run, and the build's programs, loaded once.

    warm_python.py start --bin build/bin --address FILE     listens until `stop`, or until nobody has called for minutes
    warm_python.py stop --address FILE

A call (WarmStart.cpp says what one is) is a fork that has run nothing before: it runs the script, or `-m MODULE` or `-c CODE`, as the interpreter does.
A call with other variables than this process was given is declined, and whoever calls begins a process.
"""
import argparse
import gc
import importlib
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent / "end_to_end")
import warm  # noqa: E402
del sys.path[0]

# What tests import, and what torch.export imports when it is first called. Nothing of ours.
MODULES = ("torch", "numpy", "yaml", "safetensors.torch", "torch._dynamo", "torch.export._trace", "torch._export.serde.serialize", "torch.export.pt2_archive._package",
           "torch._inductor.decomposition", "torch.distributed.run", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.distributed.device_mesh",
           "torch.testing", "torch.utils.flop_counter", "transformers", "transformers.models.llama.modeling_llama", "transformers.models.gpt2.modeling_gpt2",
           "transformers.models.mistral.modeling_mistral", "transformers.trainer")
# torch is told how many threads there are to be; nothing is looked for in the net.
SET_HERE = ("OMP_NUM_THREADS", "HF_HUB_OFFLINE")
IDLE_SECONDS = 300


def early(variables):
    return {name: value for name, value in warm.early(variables).items() if name not in SET_HERE}


class Server:
    def __init__(self, listener, arguments, variables):
        self.listener, self.variables = listener, early(variables)
        self.call_path = arguments.address.parent / "python"  # of fsdp-warm-call, by this process's name
        self.address = listener.getsockname()[1:].decode()
        self.is_ending = False
        self.running = {}  # connections by process id
        for name in ("fsdp-opt", "fsdp-run"):
            # As end_to_end/harness.py and ranks.py call them.
            warm.find(arguments.bin / name, {**variables, "OMP_NUM_THREADS": "1"})

    def call(self):
        """A call in the process of its own that is to run it; None in this one."""
        connection, _ = self.listener.accept()
        text, streams, _, _ = socket.recv_fds(connection, 1 << 18, 3)
        if not text:
            return connection.close()
        program, folder, count, *rest = text.decode(errors="surrogateescape").split("\0")[:-1]
        self.is_ending |= program == "stop"
        arguments, variables = rest[:int(count)], dict(each.partition("=")[::2] for each in rest[int(count):])
        pid, other = 0, sorted(set(early(variables).items()) ^ set(self.variables.items()))
        if other:
            print("declined, with other variables:", arguments, other, flush=True)
        if program == sys.executable and len(streams) == 3 and not other:
            pid = os.fork()
            if not pid:
                os.setsid()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                connection.close()
                self.listener.close()
                for other in self.running.values():
                    other.close()
                os.chdir(folder)
                os.environ.clear()
                os.environ.update({**variables, "FSDP_WARM_CALL": str(self.call_path), "FSDP_WARM_python": f"{self.address}:{sys.executable}"})
                if threads := variables.get("OMP_NUM_THREADS"):
                    sys.modules["torch"].set_num_threads(int(threads))
                return arguments[1:]
            self.running[pid] = connection
        for stream in streams:
            os.close(stream)
        connection.send(struct.pack("i", pid))
        if not pid:
            connection.close()

    def reap(self):
        while self.running:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            if connection := self.running.pop(pid, None):
                try:
                    connection.send(struct.pack("ii", status, used.ru_maxrss))
                except OSError:
                    pass  # nobody waits for it
                connection.close()

    def serve(self, ends):
        """Returns what a call runs, in its process."""
        idle_since = time.monotonic()
        while self.running or not self.is_ending and time.monotonic() - idle_since < IDLE_SECONDS:
            ready, _, _ = select.select([self.listener, ends, *self.running.values()], [], [], 10)
            for pid, connection in self.running.items():
                if connection in ready:
                    # Nothing more is to be said: whoever called is gone.
                    try:
                        os.killpg(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            if ends in ready:
                os.read(ends.fileno(), 512)
            self.reap()
            if self.listener in ready and (arguments := self.call()):
                return arguments
            if self.running or ready:
                idle_since = time.monotonic()
        sys.exit(0)


def run(arguments):
    """What the interpreter does with its arguments behind its name, in a process that has imported more."""
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    first, *rest = arguments
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if first == "-m":
        import runpy
        sys.argv = [first, *rest[1:]]
        sys.path.insert(0, os.getcwd())
        return runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    if first == "-c":
        sys.argv = [first, *rest[1:]]
        sys.path.insert(0, "")
        source, file = rest[0], "<string>"
    else:
        sys.argv = [first, *rest]
        sys.path.insert(0, str(pathlib.Path(first).resolve().parent))
        file = module.__file__ = os.path.abspath(first)
        source = pathlib.Path(first).read_bytes()
    exec(compile(source, file, "exec"), module.__dict__)


def listen(arguments, told):
    variables = dict(os.environ)
    os.environ.update({"OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})  # NumPy would begin threads
    for name in MODULES:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"imports have begun {threads - 1} threads, which a fork would be without"
    wakes, ends = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen(64)
    server = Server(listener, arguments, variables)
    arguments.address.write_bytes(listener.getsockname()[1:])
    gc.freeze()
    os.write(told, b"listens")
    os.close(told)
    try:
        return server.serve(ends)
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wakes.close()
        ends.close()


def start(arguments):
    """What a call runs, in its process; None in that which has begun another one to listen."""
    hears, told = os.pipe()
    if os.fork():
        os.close(told)
        if os.read(hears, 8) != b"listens":
            sys.exit(arguments.address.with_suffix(".log").read_text())
        return None
    os.close(hears)
    os.setsid()
    with open(os.devnull) as nothing, open(arguments.address.with_suffix(".log"), "w") as log:
        for number, file in enumerate((nothing, log, log)):
            os.dup2(file.fileno(), number)
    return listen(arguments, told)


def stop(arguments):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(b"\0" + arguments.address.read_bytes())
        socket.send_fds(connection, [b"stop\0/\0" b"0\0"], [])
        assert warm.receive(connection) == (0,)
    arguments.address.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("start", "stop"))
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--address", type=lambda p: pathlib.Path(p).resolve(), required=True)
    arguments = parser.parse_args()
    if arguments.task == "stop":
        stop(arguments)
    elif found := start(arguments):
        run(found)


if __name__ == "__main__":
    main()
