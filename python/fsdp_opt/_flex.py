# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""flex_attention in exported programs: PyTorch neither exports it with gradients on a CPU nor writes it to a .pt2 file."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.amp.autocast_mode import _enter_autocast
from torch.fx import GraphModule, Node
from torch.nn.attention import flex_attention as _flex
from torch.nn.attention.flex_attention import BlockMask

from . import errors

_BLOCK_TABLES = slice(2, 6)  # of a BlockMask as a tuple: numbers and indices of blocks of keys, in part and in full
_OFF = ("flex_attention is called where gradients are off, which torch.export does not write down: they would be computed; leave no_grad out, and call "
        ".detach() on its result")
_LENGTHS, _BLOCK_SIZES = slice(0, 2), slice(10, 12)


class _Written(HigherOrderOperator):
    """The operator as a file holds it, which ir/capture/pt2/Regions.cpp reads: query, key, value, what changes scores, what masks them, lengths and
    block sizes, the tables of the mask's blocks, the scale, how many buffers the first graph takes, the buffers of both."""

    def __init__(self) -> None:
        super().__init__("fsdp_flex_attention")

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError("fsdp_flex_attention is for fsdp-opt to compile; run the module that it was exported from")


_written = _Written()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Lets torch.export trace flex_attention where parameters take gradients, and block masks that a forward makes."""
    patched: dict[str, Any] = {"_validate_device": _accept_gradients(_flex._validate_device), "create_mask": _no_mask,
                               "_convert_mask_to_block_mask": _no_blocks, "_create_sparse_block_from_block_mask": _all_blocks,
                               "_transpose_ordered": _all_queries}
    own = {name: getattr(_flex, name) for name in patched}
    for name, function in patched.items():
        setattr(_flex, name, function)
    try:
        yield
    except Exception as error:
        if _OFF in str(error):
            raise errors.make("E024", _OFF) from error
        raise
    finally:
        for name, function in own.items():
            setattr(_flex, name, function)


def _accept_gradients(check: Callable[..., None]) -> Callable[..., None]:
    """The kernel of CPUs has no gradient; what is compiled has its own. Of a no_grad around a call torch.export leaves nothing."""
    watches = torch.is_grad_enabled()

    def accept(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if watches and not torch.is_grad_enabled():
            raise NotImplementedError(_OFF)  # which strict exports can trace
        if query.device.type != "cpu":
            check(query, key, value)
    return accept


# A mask that is made while a program is traced: its blocks are a matter of speed, found again by the compiler, and take operators that no file can hold.
def _no_mask(*_: Any, **__: Any) -> None:
    return None


def _no_blocks(*_: Any, **__: Any) -> tuple[None, None]:
    return None, None


def _all_blocks(block_mask: Any, mask_mod: Any, seq_lengths: tuple[int, int], Q_BLOCK_SIZE: int, KV_BLOCK_SIZE: int) -> BlockMask:
    return BlockMask(seq_lengths, *_one_block(), None, None, *_one_block(), None, None, (Q_BLOCK_SIZE, KV_BLOCK_SIZE), mask_mod)


def _all_queries(num_blocks_in_row: torch.Tensor, col_indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By keys, where a kernel's backward reads it: nothing of ours does."""
    return _one_block()


def _one_block() -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks a row of blocks has, and which: a table for fewer rows than there are says nothing, whatever their number."""
    return torch.ones((1, 1, 1), dtype=torch.int32), torch.zeros((1, 1, 1, 1), dtype=torch.int32)


def make_writable(program: torch.export.ExportedProgram) -> None:
    """Brings each call of flex_attention in the program into the form that torch.export.save writes, in place."""
    changed = False
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            changed |= _rewrite(module)
    if not changed:
        return
    if any(node.target is _enter_autocast for node in program.graph_module.graph.nodes):
        raise errors.make("E024", "flex_attention is called under torch.autocast, which torch.export.save does not write around it: cast its operands "
                                  "(query.bfloat16()), or leave autocast out and set fsdp_config: {mixed_precision: {param_dtype: bfloat16}}")
    program.graph_module.recompile()


def _rewrite(module: GraphModule) -> bool:
    calls = [node for node in module.graph.nodes if node.op == "call_function" and node.target is torch.ops.higher_order.flex_attention]
    for node in calls:
        query, key, value, score, mask, scale, _, score_buffers, mask_buffers = node.args
        for graph in (score, mask[-1]):
            _read_indices(getattr(module, graph.target))
        node.args = (query, key, value, score, mask[-1], (*mask[_LENGTHS], *mask[_BLOCK_SIZES]), mask[_BLOCK_TABLES], scale, len(score_buffers),
                     *score_buffers, *mask_buffers)
        node.target = _written
    return bool(calls)


def _read_indices(module: GraphModule) -> None:
    """Makes plain operators of how a graph of one score reads buffers and constants. Reads by several steps, x[b][0][q], become one."""
    graph = module.graph
    parts: dict[Node, tuple[Node, tuple[Any, ...]]] = {}  # a buffer, and what it was read by, first dims first
    for node in list(graph.nodes):
        if node.op == "get_attr" and isinstance(constant := getattr(module, node.target), torch.Tensor):
            _write_constant(graph, node, constant)
        elif node.op != "call_function":
            continue
        elif node.target is torch.ops.higher_order.flat_apply:
            read, places = node.args[3], node.args[4:]
            if "ModIndex" not in str(node.args[2]) or not all(isinstance(place, (Node, int)) for place in places):
                raise errors.make("E024", f"flex_attention: expected buffers read by indices, found {node.format_node()}; read them by b, h, q_idx and kv_idx")
            base, before = parts.get(read, (read, ()))
            parts[node] = base, (*before, *places)
        elif node.target is torch.ops.aten.select.int and node.args[0] in parts and node.args[1] == 0:
            base, before = parts[node.args[0]]
            parts[node] = base, (*before, node.args[2])
    for node, (base, places) in parts.items():
        with graph.inserting_before(node):
            # Numbers first, from behind, so that places in front of them stay.
            for dim, place in reversed(list(enumerate(places))):
                if not isinstance(place, Node):
                    base = _call(graph, torch.ops.aten.select.int, (base, dim, place))
            indices = [place for place in places if isinstance(place, Node)]
            result = _call(graph, torch.ops.aten.index.Tensor, (base, indices), node.meta) if indices else base
        node.replace_all_uses_with(result)
    graph.eliminate_dead_code()
    for node in [node for node in graph.nodes if node.op == "get_attr" and not node.users]:
        graph.erase_node(node)
    module.recompile()


def _call(graph: torch.fx.Graph, target: Any, args: tuple[Any, ...], meta: dict[str, Any] | None = None) -> Node:
    node = graph.call_function(target, args)
    node.meta = dict(meta) if meta else {**args[0].meta, "val": target(args[0].meta["val"], *args[1:])}
    return node


def _write_constant(graph: torch.fx.Graph, node: Node, constant: torch.Tensor) -> None:
    if constant.dim():
        raise errors.make("E024", f"flex_attention: expected constants of one number in '{node.name}', found {tuple(constant.shape)}; register it as a buffer")
    with graph.inserting_before(node):
        number = graph.call_function(torch.ops.aten.full.default, ((), constant.item()), {"dtype": constant.dtype, "device": torch.device("cpu")})
    number.meta = dict(node.meta)
    number.meta.setdefault("val", constant)
    copies = _copies_of(node)
    for copy in (*copies, node):
        copy.replace_all_uses_with(number)
    for copy in copies:
        graph.erase_node(copy)


def _copies_of(node: Node) -> list[Node]:
    """What makes a constant a tensor of its own."""
    copies = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.detach_.default, torch.ops.aten.detach.default)
    return [copy for user in node.users if user.target in copies for copy in (*_copies_of(user), user)]
