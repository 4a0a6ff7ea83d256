# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps what torch.export makes of a model: cases export the same ones over and over, which takes as long as the rest of a small case and is not what is tested.

A kept file lies under all that it depends on: the model with its values, inputs, what functions have from around them, the tests' sources that say what any of it
computes, versions. What cannot be told in bytes is exported each time.
"""
import hashlib
import importlib.util
import marshal
import pathlib
import pickle
import shutil
import sys
import tempfile
import types

import torch

TESTS = pathlib.Path(__file__).resolve().parent.parent
# Where they are kept, build/test/exports; None: nowhere.
folder = None


def said(*_):
    """What is hashed is never read: any function will do."""


def file_of(module):
    return pathlib.Path(getattr(module, "__file__", None) or "/").resolve()


def is_ours(thing):
    return TESTS in file_of(sys.modules.get(getattr(thing, "__module__", None) or "")).parents


def plain(value):
    """Without the wrappers that pickle knows nothing of, and in an order."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, value.__func__
    if isinstance(value, property):
        return "property", value.fget, value.fset
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value


class Teller(pickle.Pickler):
    """`digest` of what is dumped, and the tests' `modules` that have to do with it."""

    def __init__(self):
        self.digest = hashlib.sha256()
        super().__init__(types.SimpleNamespace(write=self.digest.update), protocol=4)
        self.storages, self.modules = {}, set()

    def tensor(self, tensor):
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or tensor.layout != torch.strided or tensor.is_quantized:
            raise pickle.PicklingError(f"{type(tensor).__name__} of layout {tensor.layout}")
        about = [type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), str(tensor.device), tensor.requires_grad]
        if tensor.device.type == "meta":
            return said, (about,)
        storage = tensor.untyped_storage()
        number = self.storages.setdefault(storage.data_ptr(), (len(self.storages), storage))[0]
        return said, (about, number, tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())

    def reducer_override(self, thing):
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if isinstance(thing, (type, types.FunctionType)):
            if not is_ours(thing):
                return NotImplemented
            self.modules.add(thing.__module__)
            if "<" not in thing.__qualname__:
                return NotImplemented
            if isinstance(thing, type):
                about = {name: plain(value) for name, value in vars(thing).items() if name not in ("__dict__", "__weakref__")}
                return said, (thing.__qualname__,), (thing.__bases__, about)
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            return said, (marshal.dumps(thing.__code__),), (thing.__defaults__, thing.__kwdefaults__, cells)
        if isinstance(thing, torch.nn.Module):
            return said, (type(thing),), {name: plain(value) for name, value in thing.__getstate__().items()}
        return NotImplemented


def sources(names):
    """Files of the tests that these modules and what they use of the tests are in."""
    found, rest = {}, list(names)
    while rest:
        name = rest.pop()
        module = sys.modules.get(name)
        if name in found or TESTS not in file_of(module).parents:
            continue
        found[name] = file_of(module)
        rest += [value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or "" for value in vars(module).values()]
    return sorted(set(found.values()))


def key(*what):
    """Digits, or None if these cannot be told."""
    teller = Teller()
    try:
        teller.dump(what)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    for source in (pathlib.Path(__file__), *sources(teller.modules)):
        teller.digest.update(source.read_bytes())
    transformers = importlib.util.find_spec("transformers")
    modes = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu"))
    teller.digest.update(repr((torch.__version__, torch.version.git_version, torch.__file__, sys.version, transformers and transformers.origin, modes)).encode())
    return teller.digest.hexdigest()[:24]


def export(model, inputs, path, form="exported", dims=None):
    """Saves what torch.export.export makes of the model: as it is traced, strictly, or with operators decomposed (also into PyTorch's core). Random numbers are
    drawn from where they were, kept or not."""
    name = folder and key(model, inputs, form, str(dims))
    kept = name and folder / f"{name}.pt2"
    if kept and kept.exists():
        return shutil.copyfile(kept, path)
    with torch.random.fork_rng(devices=[]):
        program = torch.export.export(model, (), inputs, strict=form == "strict", dynamic_shapes=dims)
        if form == "decomposed":
            program = program.run_decompositions({})
        elif form == "core":
            program = program.run_decompositions()
        torch.export.save(program, path)
    if kept:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = pathlib.Path(own) / kept.name
            shutil.copyfile(path, made)
            made.replace(kept)
