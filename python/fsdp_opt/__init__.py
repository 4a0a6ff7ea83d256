# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An ahead-of-time compiler for fully sharded training of PyTorch models.

    artifact = fsdp_opt.compile(model, kwargs=batch, config="fsdp.yaml", world=2, out="step.fsdp")
    with fsdp_opt.Session(artifact) as step:
        for batch in loader:
            out = step(**batch)
            print(out.loss)

What these names need, LibTorch above all, is loaded when they are first used.
"""
import importlib
from typing import TYPE_CHECKING

from . import errors
from .errors import Error

if TYPE_CHECKING:
    from .compiler import Artifact, compile, explain, export
    from .event_file import EventFile
    from .explanation import Explanation
    from .sampler import LengthSampler
    from .recipe import Trained, train
    from .session import Evaluation, Session, StepOutput

__version__ = "0.1.0"
__all__ = ["Artifact", "Error", "Evaluation", "EventFile", "Explanation", "LengthSampler", "Session", "StepOutput", "Trained", "compile", "errors",
           "explain", "export", "train"]

_HOME = {"Artifact": "compiler", "compile": "compiler", "explain": "compiler", "export": "compiler", "EventFile": "event_file",
         "Explanation": "explanation", "Evaluation": "session", "LengthSampler": "sampler", "Session": "session", "StepOutput": "session",
         "Trained": "recipe", "train": "recipe"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'fsdp_opt' has no attribute '{name}'")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
