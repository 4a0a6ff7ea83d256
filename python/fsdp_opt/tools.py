# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs inside the package. Imports no torch: what only starts a program starts at once."""
from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def path(name: str) -> str:
    """Where "fsdp-opt" or "fsdp-run" is."""
    # As the package was imported: links of a build folder lead out of it.
    return str(pathlib.Path(__file__).parent / "bin" / name)


def environment() -> dict[str, str]:
    """This process's, with torch's libraries, wherever torch is installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("fsdp_opt needs PyTorch: pip install 'torch==2.11.*'", name="torch")
    folders = [os.path.join(spec.submodule_search_locations[0], "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def _become(name: str) -> None:
    program = path(name)
    os.execve(program, [program, *sys.argv[1:]], environment())


def fsdp_opt() -> None:
    """The command fsdp-opt."""
    _become("fsdp-opt")


def fsdp_run() -> None:
    """The command fsdp-run."""
    _become("fsdp-run")
