# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is loaded once runs as what is loaded each time, and what is kept of exports is of that very model.

    calls.py --bin build/bin
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

import torch
import torch.nn as nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
import exports  # noqa: E402
import warm  # noqa: E402
from harness import parse_arguments, run_cases  # noqa: E402

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def same_as_alone(bin):
    """Status, streams, folder, arguments and variables are those of a process of its own."""
    def case(folder):
        for command, more in (([bin / "fsdp-run", "--version"], {}), ([bin / "fsdp-run", "none.fsdp", "--steps=1"], {}), ([bin / "fsdp-run", "", "--steps=1"], {}),
                              ([bin / "fsdp-run", "none.fsdp", "--steps=1"], {"TORCHELASTIC_ERROR_FILE": "said.json"}), ([bin / "fsdp-opt", "--help"], {}),
                              ([bin / "fsdp-opt", "none.pt2"], {}), ([bin / "fsdp-run", "--calibrate=/dev/stdout", "--nproc=1", "--backend=gloo"], {})):
            told = []
            for is_alone in (False, True):
                own = folder / f"alone {is_alone}"
                own.mkdir(exist_ok=True)
                env = {**ENVIRONMENT, **more}
                command = [str(each) for each in command]
                done = subprocess.run(command, cwd=own, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL) if is_alone else warm.run(command, own, env, 60)
                told.append((done.returncode, done.stdout, done.stderr, sorted(path.name for path in own.iterdir())))
            assert told[0] == told[1] and (told[0][1] or told[0][2]), (command, told)
        assert (folder / "alone False/said.json").exists()
    return case


def has_its_own_variables(bin):
    """What libraries read when they are loaded is never another call's."""
    def case(folder):
        program = warm.find(bin / "fsdp-run", ENVIRONMENT)
        assert program is warm.find(bin / "fsdp-run", {**ENVIRONMENT, "RANK": "0"})
        other = {**ENVIRONMENT, "OMP_NUM_THREADS": "3"}
        assert program is not warm.find(bin / "fsdp-run", other)
        with open(os.devnull, "r+") as nothing:
            command = [str(bin / "fsdp-run"), "--version"]
            assert warm.ask(program, command, folder, other, [nothing] * 3) is None, "it is not declined"
            assert warm.ask(program, command, folder, ENVIRONMENT, [nothing] * 3).wait(60) == 0
        with warm.off():
            assert warm.find(bin / "fsdp-run", ENVIRONMENT) is None
    return case


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition, what):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def python_is_forked(folder):
    """A script, a module or a text; its input and output; how it ends."""
    command = warm.python()
    assert command != [sys.executable], "ctest has begun no Python that listens"
    script = folder / "script.py"
    script.write_text("import sys\nprint(__name__, sys.argv[1:], 'torch' in sys.modules, sys.stdin.read())\nsys.exit(7)\n")
    done = subprocess.run([*command, "script.py", "a", ""], cwd=folder, input="said", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "__main__ ['a', ''] True said\n"), done
    done = subprocess.run([*command, "-c", "import os, sys; print(os.environ['OWN'], os.getcwd(), sys.argv); 1 / 0", "b"], cwd=folder, env={**os.environ, "OWN": "mine"},
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == f"mine {folder} ['-c', 'b']\n" and "ZeroDivisionError" in done.stderr, done
    done = subprocess.run([*command, "-m", "json.tool"], cwd=folder, input="{}", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done
    done = subprocess.run([*command, "-c", "import os; os.abort()"], capture_output=True)
    assert done.returncode == -signal.SIGABRT, done


def python_is_told(folder):
    """Signals arrive; whoever is killed takes it along; with other variables it is a process of its own."""
    text = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    for number, status in ((signal.SIGTERM, 5), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen([*warm.python(), "-c", text], stdout=subprocess.PIPE, text=True)
        pid = int(process.stdout.readline())
        assert pid != process.pid and not is_gone(pid)
        process.send_signal(number)
        assert process.wait(30) == status, process.returncode
        wait_until(lambda: is_gone(pid), "it runs on")
    done = subprocess.run([*warm.python(), "-c", "import sys; print('torch' in sys.modules)"], env={**os.environ, "MALLOC_ARENA_MAX": "3"}, capture_output=True, text=True)
    assert done.stdout == "False\n", done


class Net(nn.Module):
    def __init__(self, width=3, made=None):
        super().__init__()
        self.line, self.made = nn.Linear(width, 2), made

    def forward(self, x):
        return self.line(x).sum()


def kept_exports(folder):
    """What tells two models apart tells what is kept of them apart, and nothing else does."""
    def net(seed=0, change=lambda net: None, kind=Net, **more):
        torch.manual_seed(seed)
        made = kind(**more)
        change(made)
        return made

    def around(number):
        class Local(Net):
            def forward(self, x):
                return super().forward(x) * number
        return Local

    def tie(net):
        net.again = net.line.weight

    x = {"x": torch.ones(4, 3)}
    ways = {"itself": (net(), x), "values": (net(1), x), "mode": (net().eval(), x), "frozen": (net(change=lambda net: net.requires_grad_(False)), x),
            "attribute": (net(made=3), x), "shape": (net(), {"x": torch.ones(5, 3)}), "type": (net().double(), x), "tied": (net(change=tie), x),
            "around 2": (net(kind=around(2)), x), "around 3": (net(kind=around(3)), x), "form": (net(), x, "strict"), "hook": (net(change=lambda net: net.line.register_forward_hook(lambda *_: None)), x)}
    keys = {name: exports.key(*way) for name, way in ways.items()}
    assert all(keys.values()) and len(set(keys.values())) == len(keys), keys
    again = exports.key(net(), {"x": torch.ones(4, 3)}), exports.key(net(kind=around(2)), x)
    assert again == (keys["itself"], keys["around 2"]), "what is alike is not told to be"
    assert exports.key(net(made=open), x) and exports.key(net(made=(each for each in "ab")), x) is None
    before, exports.folder = exports.folder, folder / "kept"
    try:
        for number in range(2):
            model = net()
            torch.manual_seed(5)
            exports.export(model, x, folder / f"{number}.pt2")
            assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(5)), "random numbers are others"
        (file,) = exports.folder.iterdir()
        assert file.read_bytes() == (folder / "0.pt2").read_bytes() == (folder / "1.pt2").read_bytes()
        file.write_bytes(b"kept")
        exports.export(net(), x, folder / "2.pt2")
        assert (folder / "2.pt2").read_bytes() == b"kept"
    finally:
        exports.folder = before


def main():
    bin = parse_arguments().bin
    run_cases({"as alone": same_as_alone(bin), "variables": has_its_own_variables(bin), "Python": python_is_forked, "signals": python_is_told, "exports": kept_exports}, "")


if __name__ == "__main__":
    main()
