# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the build's programs without loading LibTorch each time, which is most of what a small run takes (test/warm/WarmStart.cpp).

Each program is loaded once for each Python process that runs it, in a process of its own that forks for each call: what a call runs is the program's own main.
So it is for each set of variables that libraries read when they are loaded.
"""
import atexit
import contextlib
import io
import os
import pathlib
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

# How names of variables begin that libraries read when they are loaded: calls with others than the loaded program was given are not for it.
EARLY = ("LD_", "GLIBC_", "MALLOC_", "ASAN_", "TSAN_", "UBSAN_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH_CPP", "TORCH_LOG", "TORCH_SHOW",
         "TORCH_ALLOW", "TORCH_FORCE", "PYTORCH_", "HF_", "TRANSFORMERS_")
# By program: libraries that it opens when it needs them, beside its own folder.
LIBRARIES = {"fsdp-opt": ("../lib/libfsdp-capture.so",)}
# Loaded programs by path and variables, as those that this process was forked from left them, too.
loaded = {}
lock = threading.Lock()
is_off = False


@contextlib.contextmanager
def off():
    """Where a test is about processes themselves: how they begin, where things lie in their memory, which forks have alike."""
    global is_off
    before, is_off = is_off, True
    try:
        yield
    finally:
        is_off = before


def early(env):
    return {name: value for name, value in env.items() if name.startswith(EARLY)}


class Program:
    """`address`: where it listens."""

    def __init__(self, program, env, prepare):
        self.path, self.owner = program, os.getpid()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")  # the kernel finds a name
        listener.listen(64)
        self.address = listener.getsockname()
        libraries = [(program.parent / each).resolve() for each in LIBRARIES.get(program.name, ())]
        preload = env.get("LD_PRELOAD", "")
        own = {**env, "LD_PRELOAD": f"{hook_for(program)}:{preload}", "FSDP_WARM_PRELOAD": preload, "FSDP_WARM_SOCKET": str(listener.fileno()), "FSDP_WARM_EARLY": ":".join(EARLY),
               "FSDP_WARM_PROGRAM": str(program), "FSDP_WARM_LIBRARIES": ":".join(str(each) for each in libraries if each.exists())}
        self.server = subprocess.Popen([program], env=own, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], preexec_fn=prepare)
        listener.close()

    def end(self):
        if self.owner == os.getpid():
            self.server.stdin.close()
            self.server.wait()


def hook_for(program):
    """Beside programs of tests; those of users lie in build/bin."""
    beside = program.parent / "fsdp-warm.so"
    return beside if beside.exists() else program.parent.parent / "test" / "bin" / "fsdp-warm.so"


def find(program, env, prepare=None):
    """The loaded program, or None if there is nothing to load it with. `prepare` is called in its process before it is loaded."""
    program = pathlib.Path(program)
    if is_off or not program.is_absolute() or not hook_for(program).exists():
        return None
    key = program, frozenset(early(env).items())
    with lock:
        if key not in loaded:
            loaded[key] = Program(program, env, prepare)
        return loaded[key]


def variable_of(program):
    """What fsdp-warm-call reads when it is called by the program's name."""
    return "FSDP_WARM_" + os.path.basename(program).replace("-", "_")


def for_launchers(program, env):
    """The program as whoever executes it is to call it, and the variables that this needs."""
    loaded, call = find(program, env), program.parent.parent / "test" / "warm" / program.name
    if not loaded or not call.exists():
        return program, env
    return call, {**env, variable_of(program): f"{loaded.address[1:].decode()}:{program}"}


def load_for_package(tools):
    """Programs that the Python package runs, whose module of that name this is."""
    places = {}
    for name in ("fsdp-opt", "fsdp-run"):
        # Links of the build folder lead to where they are.
        places[name], env = for_launchers(pathlib.Path(tools.path(name)).resolve(), tools.environment())
        os.environ.update({name: value for name, value in env.items() if name.startswith("FSDP_WARM_")})
    tools.path = lambda name: str(places[name])


def python():
    """The command of a Python process: one that has imported torch and transformers, where ctest has one listen (test/warm/warm_python.py)."""
    return [sys.executable if is_off else os.environ.get("FSDP_WARM_CALL", sys.executable)]


def torchrun(processes):
    """The command that runs a script, which is to follow, in so many processes of one group."""
    return [*python(), "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone", "--no-python", *python()]


@atexit.register
def end_all():
    for program in loaded.values():
        program.end()


def receive(connection):
    """Numbers, or none if the other side is gone."""
    message = connection.recv(16)
    return struct.unpack(f"{len(message) // 4}i", message)


class Process:
    """As a subprocess.Popen whose streams are files."""

    def __init__(self, connection, pid, command):
        self.connection, self.pid, self.args, self.returncode = connection, pid, command, None
        self.resident_bytes = None  # the most there were

    def poll(self):
        return self.wait(0, False)

    def wait(self, timeout=None, must_end=True):
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                end = receive(self.connection)
            except (TimeoutError, BlockingIOError):
                if must_end:
                    raise subprocess.TimeoutExpired(self.args, timeout) from None
                return None
            assert end, f"{self.args[0]}: the loaded program has ended with what it ran"
            self.returncode, self.resident_bytes = os.waitstatus_to_exitcode(end[0]), end[1] * 1024
            self.connection.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def ask(program, command, cwd, env, streams):
    """The process of a command, or None if the program declines."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(program.address)
    text = [str(program.path), os.path.abspath(cwd or "."), str(len(command)), *command, *(f"{name}={value}" for name, value in env.items())]
    socket.send_fds(connection, [b"".join(os.fsencode(each) + b"\0" for each in text)], [each.fileno() for each in streams])
    begun = receive(connection)
    assert begun, f"{command[0]}: the loaded program has ended"
    pid, = begun
    return Process(connection, pid, command) if pid else connection.close()


def start(command, cwd, env, stdout, stderr, prepare=None):
    """The process of a command; its streams go to files, and nothing is to be read."""
    command = [str(each) for each in command]
    program = find(command[0], env, prepare)
    with open(os.devnull) as nothing:
        process = program and ask(program, command, cwd, env, [nothing, stdout, stderr])
        return process or subprocess.Popen(command, cwd=cwd, env=env, stdin=nothing, stdout=stdout, stderr=stderr, preexec_fn=prepare)


def read_all(pipes, end, command, timeout):
    """What comes out of each of them until all are closed."""
    found = {pipe: [] for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(max(end - time.monotonic(), 0)):
                if piece := os.read(key.fd, 1 << 16):
                    found[key.fd].append(piece)
                else:
                    selector.unregister(key.fd)
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(command, timeout)
    return [b"".join(each) for each in found.values()]


def run(command, cwd, env, timeout, prepare=None, errors="strict"):
    """The finished process with what it said, as subprocess.run gives it."""
    end, pipes = time.monotonic() + timeout, [os.pipe(), os.pipe()]
    try:
        with open(pipes[0][1], "wb") as out, open(pipes[1][1], "wb") as err:
            process = start(command, cwd, env, out, err, prepare)
        try:
            said = read_all([pipe for pipe, _ in pipes], end, process.args, timeout)
            process.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    finally:
        for pipe, _ in pipes:
            os.close(pipe)
    texts = [io.TextIOWrapper(io.BytesIO(each), errors=errors).read() for each in said]
    return subprocess.CompletedProcess(process.args, process.returncode, *texts)


def load_for_lit(config, *programs):
    """In a lit.local.cfg: each of these is loaded once for the folder's tests, which find fsdp-warm-call by its name."""
    folder = os.path.join(config.fsdp_build, "test/warm")
    config.environment["PATH"] = os.pathsep.join([folder, config.environment["PATH"]])
    for path in {*programs, *(os.path.join(config.fsdp_tools, name) for name in ("fsdp-opt", "fsdp-run"))}:
        program = find(path, config.environment) if path in programs else None
        address = program.address[1:].decode() if program else ""
        config.environment[variable_of(path)] = f"{address}:{path}"
