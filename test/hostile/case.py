# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One file, or some, that a tool must refuse, and how."""

import dataclasses
import typing

OPT = "fsdp-opt"
RUN = "fsdp-run"


@dataclasses.dataclass
class Case:
    name: str                  # "torchscript/saves-a-file"
    files: dict                # path -> bytes, or a callable that makes the path (fifo, socket)
    command: list              # tool and arguments; runs in the folder of the files
    errors: tuple              # ids, one of which is told
    says: tuple = ()           # texts that the message holds
    status: int = 1
    seconds: float = 20        # a debug build on a busy machine
    megabytes: int = 900       # resident; LibTorch alone takes some 300
    check: typing.Optional[typing.Callable] = None  # of the folder, afterwards
