# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipes, sockets, devices and folders where files are read."""

import os
import socket

from case import OPT, RUN, Case


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def zeros(path):
    path.symlink_to("/dev/zero")


def folder(path):
    path.mkdir()


KINDS = {"fifo": fifo, "socket": unix_socket, "device": zeros, "folder": folder}
READERS = {
    "model-pt2": ("x.pt2", [OPT, "x.pt2"]),
    "model-pt": ("x.pt", [OPT, "x.pt"]),
    "explained": ("x.pt2", [OPT, "x.pt2", "--explain"]),
    "program": ("x.mlir", [OPT, "x.mlir"]),
    "bytecode": ("x.mlirbc", [OPT, "x.mlirbc"]),
    "printed-artifact": ("x.fsdp", [OPT, "x.fsdp"]),
    "config": ("x.yaml", [OPT, "linear.pt2", "--config=x.yaml", "-o", "out.fsdp"]),
    "config-explained": ("x.yaml", [OPT, "linear.pt2", "--config=x.yaml", "--explain"]),
    "compiled-weights": ("x.safetensors", [OPT, "linear.pt2", "--config=one.yaml", "--weights=x.safetensors", "-o", "out.fsdp"]),
    "weights-index": ("x.index.json", [OPT, "linear.pt2", "--config=one.yaml", "--weights=x.index.json", "-o", "out.fsdp"]),
    "artifact": ("x.fsdp", [RUN, "x.fsdp", "--steps=1"]),
    "run-model": ("x.pt2", [RUN, "step.fsdp", "--steps=1", "--model=x.pt2"]),
    "data": ("x.safetensors", [RUN, "step.fsdp", "--steps=1", "--data=x.safetensors"]),
    "checkpoint": ("x/step_1/manifest.json", [RUN, "step.fsdp", "--steps=1", "--load=x/step_1"]),
}


def cases():
    for kind, make in KINDS.items():
        for reader, (path, command) in READERS.items():
            # Folders of weights and data are read.
            if kind == "folder" and reader in ("compiled-weights", "data", "weights-index"):
                continue
            # What is no regular file makes no folder a checkpoint.
            is_part = reader == "checkpoint"
            yield Case(f"special/{kind}-as-{reader}", {path: make}, command, ("E100",) if is_part else ("E013",),
                       ("holds no checkpoint" if is_part else f"is a {'pipe' if kind == 'fifo' else kind}",))
