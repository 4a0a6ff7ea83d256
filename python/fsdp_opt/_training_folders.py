# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folders `checkpoint-N` of a trainer."""
from __future__ import annotations

import logging
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, Union

from transformers.trainer_utils import get_last_checkpoint

from . import errors

STATES = "fsdp"
"""What training goes on from, in a checkpoint."""

_log = logging.getLogger("fsdp_opt")


class Folders:
    """Those in `output_dir`, of this training and of others."""

    def __init__(self, output_dir: str) -> None:
        self.path = output_dir

    def of(self, step: int) -> pathlib.Path:
        return pathlib.Path(self.path) / f"checkpoint-{step}"

    def _steps(self) -> list[int]:
        names = (each.name.split("-")[1] for each in pathlib.Path(self.path).glob("checkpoint-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def find(self, wanted: Union[str, bool, None]) -> pathlib.Path | None:
        """The one to go on from; True: the newest."""
        if wanted is None or wanted is False:
            return None
        found = get_last_checkpoint(self.path) if wanted is True else os.fspath(wanted)
        if found is None:
            raise errors.make("E100", f"resume_from_checkpoint: '{self.path}' has no folder checkpoint-N")
        folder = pathlib.Path(found)
        if not (folder / STATES).is_dir():
            raise errors.make("E100", f"resume_from_checkpoint: '{folder}' has no folder '{STATES}', which a trainer of this package writes unless "
                                      "save_only_model is set; of an FSDP2 run's folder see fsdp_opt.dcp")
        return folder

    def tell(self, begun: int, steps: int, saves: bool, loaded: pathlib.Path | None) -> None:
        """Of a training from step `begun` on that has nothing left to do, or whose checkpoints take the places of others."""
        if begun >= steps:
            _log.warning("nothing to do: the training has %d steps (max_steps, num_train_epochs), and '%s' is of step %d", steps, loaded, begun)
            return
        later = [f"checkpoint-{step}" for step in self._steps() if step > begun]
        if later and saves:
            _log.warning("'%s' has %s of another training: those that this one comes to are overwritten, as transformers.Trainer does, and the others "
                         "stay; train(resume_from_checkpoint=True) goes on from the last one, another output_dir leaves them alone", self.path,
                         ", ".join(later))

    def overwrite(self, step: int) -> None:
        """Takes away what another training left to go on from at that step."""
        shutil.rmtree(self.of(step) / STATES, ignore_errors=True)

    def rotate(self, keep: int, step: int, best: str | None) -> None:
        """Leaves the newest, and the best. Later ones than `step`, where the training is, are another's, and go first."""
        spared = {pathlib.Path(best).resolve()} if best else set()
        order = sorted(self._steps(), key=lambda each: (each <= step, each))
        others = [each for each in map(self.of, order) if each.resolve() not in spared]
        # With a limit of 1 the last one stays beside the best, to go on from.
        count = keep and max(keep - len(spared), 1)
        for folder in others[:len(others) - count]:
            shutil.rmtree(folder, ignore_errors=True)


def write_model(folder: pathlib.Path, model: Any, states: Mapping[str, Any], tokenizer: Any) -> None:
    """What `from_pretrained` reads, of a model and, if it is not None, of its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(folder, state_dict={name: states[name] for name in model.state_dict() if name in states})
    else:
        from .tensor_file import write_tensors
        write_tensors(str(folder / "model.safetensors"), states)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
