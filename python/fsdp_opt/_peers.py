# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes of a script that torchrun started, beside the ranks of the step: small things that they tell each other."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import errors


class Peers:
    """All processes; one alone without a launcher."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._group: Any = None
        if "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            if not dist.is_initialized():
                dist.init_process_group("gloo")
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
            # Of its own: that of the script may know GPUs' tensors alone.
            self._group = dist.new_group(backend="gloo")
            return
        for size in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
            rank = {"OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK", "PMI_SIZE": "PMI_RANK", "SLURM_NTASKS": "SLURM_PROCID"}[size]
            if rank in os.environ and int(os.environ.get(size, 1)) > 1:
                raise errors.make("E094", f"expected RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in the environment of a trainer, found "
                                          f"{size} alone; start it by torchrun, or set them (docs/Clusters.md)")

    def sum(self, value: int) -> int:
        """Over all processes."""
        if self.size == 1:
            return value
        total = torch.tensor(value)
        dist.all_reduce(total, group=self._group)
        return int(total)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What rank 0 makes; or its error, on all of them."""
        if self.size == 1:
            return make()
        box: list[Any] = [None, None]
        if self.rank == 0:
            try:
                box[0] = make()
            except Exception as error:  # which the others wait for
                box[1] = (error.id, error.message) if isinstance(error, errors.Error) else ("E040", f"rank 0 ended with {error!r}")
                dist.broadcast_object_list(box, src=0, group=self._group)
                raise
        dist.broadcast_object_list(box, src=0, group=self._group)
        if box[1] is not None:
            raise errors.make(*box[1])
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Of all processes, in their order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self._group)
        return values

    def broadcast(self, tensor: torch.Tensor) -> None:
        if self.size > 1:
            dist.broadcast(tensor, src=0, group=self._group)

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier(group=self._group)
