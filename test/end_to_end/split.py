# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""States that are split over a second axis of the mesh beside FSDP's: first values, checkpoints and exports are whole, and
move between any two meshes.

A norm and an MLP, whose up projection is split by rows and down projection by columns, as Megatron does. The sharded
program of such a mesh is written here as text; those of meshes without the axis are compiled. All ranks read the
same rows, so that all meshes make the same training up to rounding.
"""
import itertools
import pathlib
import re
import tempfile

import torch
import torch.distributed.checkpoint as dcp
import yaml
from safetensors.torch import load_file

from harness import ADAMW, export, launch, make_config, must, parse_arguments, run_cases

ROWS, WIDTH, HIDDEN = 4, 6, 10
PARAMETERS = {"norm.weight": (WIDTH,), "norm.bias": (WIDTH,), "up.weight": (HIDDEN, WIDTH), "up.bias": (HIDDEN,), "down.weight": (WIDTH, HIDDEN)}
SPLITS = {"up.weight": 0, "up.bias": 0, "down.weight": 1}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, HIDDEN)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.down(torch.relu(self.up(self.norm(x)))), y)


def tensor(shape, layout=""):
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32{layout}>"


class Program:
    """The sharded program of a mesh: `tp` ranks for each split tensor, `shard` for each part, and `replicate` times all of it.

    `sources` are the first values by name, `inputs` the arguments x and y, as the captured program has them."""

    def __init__(self, head, sources, inputs, tp, shard, replicate):
        self.head, self.sources, self.inputs = head, sources, inputs
        self.tp, self.shard, self.replicate = tp, shard, replicate
        self.lines = []

    def part(self, name):
        """What the ranks of one shard group hold together."""
        shape = list(PARAMETERS[name])
        if name in SPLITS:
            shape[SPLITS[name]] //= self.tp
        return shape

    def local(self, name):
        rows, *rest = self.part(name)
        return [-(-rows // self.shard), *rest] if self.shard > 1 else [rows, *rest]

    def state(self, role, name, parameter, more):
        split = f" split <dim {SPLITS[parameter]} over #tp>" if parameter in SPLITS else ""
        sharded = " sharded <dim 0 over #shard>" if self.shard > 1 else ""
        of = f" of @{parameter}" if role == "optimizer" else ""
        return f'  fsdp.state {role} @"{name}"{of} : {tensor(self.part(parameter))}{split}{sharded}{more}'

    def text(self):
        tp, shard, replicate, inner = self.tp, self.shard, self.replicate, HIDDEN // self.tp
        names, arguments, states = list(PARAMETERS), [], []
        bind = lambda value, state, type: f'%{value}: {type} {{fsdp.state = @"{state}"}}'
        for i, name in enumerate(names):
            states.append(self.state("parameter", name, name, f' bucket "{name.split(".")[0]}" source {self.sources[name]}'))
            arguments.append(bind(f"p{i}", name, tensor(self.local(name))))
        for (i, name), moment in itertools.product(enumerate(names), ("exp_avg", "exp_avg_sq")):
            states.append(self.state("optimizer", f"{name}/{moment}", name, ""))
            arguments.append(bind(f"{moment}{i}", f"{name}/{moment}", tensor(self.local(name))))
        states += ['  fsdp.state step @"optimizer/step" : tensor<f32> init 0.000000e+00 : f32',
                   f'  fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init {ADAMW["lr"]:e} : f32']
        arguments += [bind("step", "optimizer/step", "tensor<f32>"), bind("lr", "optimizer/lr", "tensor<f32>"), *self.inputs]
        moments = [(m, i) for m in ("exp_avg", "exp_avg_sq") for i in range(len(names))]
        updated = [(f"n{i}", name, name) for i, name in enumerate(names)]
        updated += [(f"{m}n{i}", names[i], f"{names[i]}/{m}") for m, i in moments]
        body, full = [], {}
        for i, name in enumerate(names):
            full[name] = f"p{i}" if shard == 1 else f"f{i}"
            if shard > 1:
                body.append(f"    %f{i} = fsdp.all_gather %p{i} dim 0 over #shard : {tensor(self.local(name))} -> {tensor(self.part(name))}")
        x, h, w, d = tensor([ROWS, WIDTH]), tensor([ROWS, inner]), tensor([inner, WIDTH]), tensor([WIDTH, inner])
        turned = lambda shape: tensor(shape, f", #aten.strides<1, {shape[0]}>")
        vector, column = tensor([WIDTH]), tensor([ROWS, 1])
        body += [
            f'    %norm:3 = aten.native_layer_norm(%x, %{full["norm.weight"]}, %{full["norm.bias"]}, normalized_shape = [{WIDTH}], eps = 1.000000e-05) : ({x}, {vector}, {vector}) -> ({x}, {column}, {column})',
            f'    %ut = aten.t(%{full["up.weight"]}) : ({w}) -> {turned([WIDTH, inner])}',
            f'    %u = aten.addmm(%{full["up.bias"]}, %norm#0, %ut) : ({tensor([inner])}, {x}, {turned([WIDTH, inner])}) -> {h}',
            f"    %r = aten.relu(%u) : ({h}) -> {h}",
            f'    %dt = aten.t(%{full["down.weight"]}) : ({d}) -> {turned([inner, WIDTH])}',
            f"    %some = aten.mm(%r, %dt) : ({h}, {turned([inner, WIDTH])}) -> {x}",
            f"    %o = fsdp.all_reduce sum %some over #tp for step : {x}",
            f"    %loss = aten.mse_loss(%o, %y) : ({x}, {x}) -> tensor<f32>",
            f'    %one = aten.ones_like(%loss, memory_format = "contiguous") : (tensor<f32>) -> tensor<f32>',
            f"    %go = aten.mse_loss_backward(%one, %o, %y, reduction = 1) : (tensor<f32>, {x}, {x}) -> {x}",
            f"    %got = aten.t(%go) : ({x}) -> {turned([WIDTH, ROWS])}",
            f"    %g4 = aten.mm(%got, %r) : ({turned([WIDTH, ROWS])}, {h}) -> {d}",
            f'    %gr = aten.mm(%go, %{full["down.weight"]}) : ({x}, {d}) -> {h}',
            f"    %gu = aten.threshold_backward(%gr, %r, threshold = 0) : ({h}, {h}) -> {h}",
            f'    %gsome = aten.mm(%gu, %{full["up.weight"]}) : ({h}, {w}) -> {x}',
            f"    %gx = fsdp.all_reduce sum %gsome over #tp for step : {x}",
            f"    %gut = aten.t(%gu) : ({h}) -> {turned([inner, ROWS])}",
            f"    %g2 = aten.mm(%gut, %norm#0) : ({turned([inner, ROWS])}, {x}) -> {w}",
            f"    %sums = aten.sum.dim_IntList(%gu, dim = [0], keepdim = true) : ({h}) -> {tensor([1, inner])}",
            f"    %g3 = aten.view(%sums, size = [{inner}]) : ({tensor([1, inner])}) -> {tensor([inner])}",
            f'    %gn:3 = aten.native_layer_norm_backward(%gx, %x, %norm#1, %norm#2, %{full["norm.weight"]}, %{full["norm.bias"]}, normalized_shape = [{WIDTH}], output_mask = [false, true, true]) : ({x}, {x}, {column}, {column}, {vector}, {vector}) -> (none, {vector}, {vector})',
        ]
        gradients = []
        for i, name in enumerate(names):
            gradient, kind = ("gn#1", "gn#2", "g2", "g3", "g4")[i], tensor(self.part(name))
            if shard > 1:
                body.append(f"    %s{i} = fsdp.reduce_scatter avg %{gradient} dim 0 over #shard of @{name} : {kind} -> {tensor(self.local(name))}")
                gradient, kind = f"s{i}", tensor(self.local(name))
            if replicate > 1:
                body.append(f"    %a{i} = fsdp.all_reduce avg %{gradient} over #replicate of @{name} : {kind}")
                gradient = f"a{i}"
            gradients.append(gradient)
        lists = {m: ", ".join(f"%{m}{i}" for i in range(len(names))) for m in ("p", "exp_avg", "exp_avg_sq")}
        types = ", ".join(tensor(self.local(name)) for name in names)
        body += [
            "    %next = aten.add.Scalar(%step, other = 1.000000e+00) : (tensor<f32>) -> tensor<f32>",
            f'    {", ".join(f"%{value}" for value, _, _ in updated)} = fsdp.update adamw params({lists["p"]}) grads({", ".join(f"%{g}" for g in gradients)}) exp_avgs({lists["exp_avg"]}) exp_avg_sqs({lists["exp_avg_sq"]}) step %next lr %lr betas(8.000000e-01, 9.000000e-01) eps 1.000000e-03 weight_decay 1.000000e-01 : {types}',
        ]
        given = [("loss", "tensor<f32>"), *((value, tensor(self.local(name))) for value, name, _ in updated), ("next", "tensor<f32>")]
        body.append(f'    return {", ".join(f"%{value}" for value, _ in given)} : {", ".join(kind for _, kind in given)}')
        results = ['tensor<f32> {fsdp.output = "loss"}', *(f'{tensor(self.local(name))} {{fsdp.state = @"{state}"}}' for _, name, state in updated),
                   'tensor<f32> {fsdp.state = @"optimizer/step"}']
        axes = {"replicate": replicate, "shard": shard, "tp": tp}
        return "\n".join([
            f'#mesh = #fsdp.mesh<{", ".join(f"{k} = {v}" for k, v in axes.items())}>',
            f'#replicate = #fsdp.group<"replicate", {replicate} : {shard * tp}>' if replicate > 1 else "",
            f'#shard = #fsdp.group<"shard", {shard} : {tp}>', f'#tp = #fsdp.group<"tp", {tp}>',
            self.head, *states,
            f'  func.func @"train/step"({", ".join(arguments)}) -> ({", ".join(results)}) {{', *body, "  }", "}", ""])


# Name -> tp, shard, replicate. A part of the up projection has five rows, which two and three ranks share unevenly.
MESHES = {"one": (1, 1, 1), "shard4": (1, 4, 1), "tp2": (2, 1, 1), "tp2shard2": (2, 2, 1), "tp2replicate2": (2, 1, 2)}
MORE = {"hsdp": (1, 2, 2), "tp2shard3": (2, 3, 1), "tp5shard2": (5, 2, 1)}
SCHEDULE = ("bucket-collectives", "schedule-collectives", "insert-frees", "verify-scheduled", "plan-pipeline")
STEPS, SAVED = 4, 2


class Meshes:
    """The model, compiled for all meshes in one folder, and what PyTorch makes of it."""

    def __init__(self, bin, folder, all):
        torch.manual_seed(7)
        self.bin, self.folder, self.all = bin, folder, all
        model = Model()
        inputs = {"x": torch.randn(ROWS, WIDTH), "y": torch.randn(ROWS, WIDTH)}
        export(model, inputs, folder / "model.pt2")
        must(bin / "fsdp-opt", "model.pt2", "-o", "captured.mlir", cwd=folder)
        text = (folder / "captured.mlir").read_text()
        head = f'module @model attributes {{fsdp.mesh = #mesh, fsdp.model = {re.search("fsdp.model = (#fsdp.model<[^>]*>)", text)[1]}}} {{'
        sources = {m[1]: m[2] for m in re.finditer(r"fsdp.state parameter @(\S+) .* source (<[^>]*>)", text, re.M)}
        given = [f"{m[0]}>}}" for m in re.finditer(r"%[xy]: tensor<4x6xf32> \{fsdp.input[^>]*", text)]
        assert set(sources) == set(PARAMETERS) and len(given) == 2, f"the captured program has changed: {text}"
        for name, (tp, shard, replicate) in MESHES.items():
            if tp == 1:
                config = make_config(shard * replicate, ADAMW, replicate=replicate)
                (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
                must(bin / "fsdp-opt", "model.pt2", f"--config={name}.yaml", "-o", f"{name}.fsdp", cwd=folder)
                continue
            (folder / f"{name}.mlir").write_text(Program(head, sources, given, tp, shard, replicate).text())
            must(bin / "fsdp-opt", f"{name}.mlir", *(f"--fsdp-{each}" for each in SCHEDULE), "-o", f"{name}.planned.mlir", cwd=folder)
            must(bin / "fsdp-opt", f"{name}.planned.mlir", "-o", f"{name}.fsdp", cwd=folder)
        options = {k: v for k, v in ADAMW.items() if k != "name"}
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        self.parameters, self.moments = [], []
        for _ in range(STEPS + 1):
            self.parameters.append({k: v.detach().clone() for k, v in model.named_parameters()})
            self.moments.append({k: {m: s.clone() for m, s in optimizer.state[v].items()} for k, v in model.named_parameters() if v in optimizer.state})
            model(**inputs).backward()
            optimizer.step()
            optimizer.zero_grad()

    def run(self, name, steps, *options, backend="local"):
        """The exported weights."""
        out = self.folder / "out.safetensors"
        tp, shard, replicate = MESHES[name]
        launch(self.bin, self.folder, tp * shard * replicate, backend, f"{name}.fsdp", "--data=sample", f"--steps={steps}", f"--export={out}", "--poison", *options)
        return load_file(out)

    def check(self, found, step, what):
        """Weights of PyTorch after `step` steps."""
        assert set(found) == set(PARAMETERS), f"{what}: exported {sorted(found)}"
        for name, want in self.parameters[step].items():
            torch.testing.assert_close(found[name], want, rtol=2e-5, atol=2e-6, msg=lambda m: f"{what}: {name}: {m}")


def trains(meshes):
    for name in MESHES:
        assert all(torch.equal(value, meshes.parameters[0][key]) for key, value in meshes.run(name, 0).items()), f"{name} starts elsewhere"
        meshes.check(meshes.run(name, STEPS), STEPS, name)
    meshes.check(meshes.run("tp2shard2", STEPS, backend="gloo"), STEPS, "over gloo")


def moves(meshes):
    """A checkpoint of each mesh is read on others: the same weights, and the training goes on. With --all, on every other one."""
    names = list(MESHES)
    for i, source in enumerate(names):
        saved = meshes.run(source, SAVED, f"--save=ck-{source}")
        meshes.check(saved, SAVED, source)
        others = names[i + 1:] + names[:i]
        for target in others if meshes.all else others[1:3]:
            found = meshes.run(target, SAVED, f"--load=ck-{source}")
            assert all(torch.equal(found[key], value) for key, value in saved.items()), f"{source} to {target}: other weights"
        meshes.check(meshes.run(others[1], STEPS, f"--load=ck-{source}"), STEPS, f"{source} to {others[1]}")


def goes_on(meshes):
    """At the same mesh a run that continues has the same bits."""
    for name in ("tp2", "tp2shard2"):
        whole = meshes.run(name, STEPS)
        meshes.run(name, SAVED, f"--save=on-{name}")
        found = meshes.run(name, STEPS, f"--load=on-{name}")
        assert all(torch.equal(found[key], value) for key, value in whole.items()), f"{name}: other bits"


def is_read_by_torch(meshes):
    """torch.distributed.checkpoint finds whole tensors, of the optimizer, too."""
    meshes.run("tp2shard2", SAVED, "--save=dcp")
    state = {name: torch.empty(shape) for name, shape in PARAMETERS.items()}
    state |= {f"optimizer.{moment}.{name}": torch.empty(shape) for name, shape in PARAMETERS.items() for moment in ("exp_avg", "exp_avg_sq")}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(meshes.folder / "dcp" / f"step_{SAVED}")))
    meshes.check({name: state[name] for name in PARAMETERS}, SAVED, "read by PyTorch")
    for name, moments in meshes.moments[SAVED].items():
        for moment in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(state[f"optimizer.{moment}.{name}"], moments[moment], rtol=1e-4, atol=1e-7)


def main():
    arguments = parse_arguments()
    MESHES.update(MORE if arguments.all else {})
    cases = {"training equals PyTorch's": trains, "checkpoints move": moves, "the same bits": goes_on, "read by PyTorch": is_read_by_torch}
    with tempfile.TemporaryDirectory() as folder:
        meshes = Meshes(arguments.bin, pathlib.Path(folder), arguments.all)
        run_cases({name: lambda _, case=case: case(meshes) for name, case in cases.items()}, arguments.only)


if __name__ == "__main__":
    main()
