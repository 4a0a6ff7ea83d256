# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a model returns beside its loss, and models that are only run, equal PyTorch's."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file

import zoo
from harness import batch_of, call, compile_step, export, make_config, make_data, must, parse_arguments, reference, run_cases, run_step


class Outputs(nn.Module):
    """A network of the zoo with all that one may want to know of it."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        logits = self.net(x)
        flat, labels = logits.flatten(0, -2), y.flatten()
        right = (flat.argmax(-1) == labels)
        return {"loss": F.cross_entropy(flat, labels), "logits": logits, "best": logits.argmax(-1), "accuracy": right.float().mean(),
                "right": right.sum(), "parts": (logits.transpose(0, -1), flat.double().mean(0))}


KEPT = ("logits", "best", "accuracy", "right", "parts.0", "parts.1")


def flatten(out):
    """Name -> tensor, as --output names them."""
    flat = {}
    for name, value in (out.items() if isinstance(out, dict) else [("output", out)]):
        flat.update({f"{name}.{i}": part for i, part in enumerate(value)} if isinstance(value, tuple) else {name: value})
    return {k: v.detach().clone() for k, v in flat.items()}


def collect(records, names):
    """The outputs file that these records, in the order of the data's rows, should give."""
    return {name: torch.cat([r[name] if r[name].dim() else r[name][None] for r in records]) for name in names}


def compare(found, want):
    assert set(found) == set(want), f"found {sorted(found)}, expected {sorted(want)}"
    for name, value in want.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, f"{name}: {found[name].dtype} {tuple(found[name].shape)}"
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=lambda m: f"{name}: {m}")


def make(factory, evaluate=False):
    torch.manual_seed(7)
    model, inputs = factory()
    model = Outputs(model.net)
    return model.eval() if evaluate else model.train(), inputs


def compare_metrics(rows, records, world):
    """Numbers among the outputs are reported as means over the ranks."""
    for i, row in enumerate(rows):
        own = records[i * world:(i + 1) * world]
        want = sum(r["accuracy"].item() for r in own) / world
        assert set(row["outputs"]) == {"accuracy"} and abs(row["outputs"]["accuracy"] - want) < 1e-6, row


def train_case(bin, factory, runs, steps=3, **config):
    """Outputs of each step's forward, and the same training as without them, for each (world, back end) of `runs`."""
    def case(folder):
        model, inputs = make(factory)
        export(model, inputs, folder / "model.pt2")
        settings = make_config(-1, **config)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
        for world, backend in runs:
            save_file(data := make_data(inputs, world * steps), folder / "data.safetensors")
            losses = {}
            for name, options in (("plain", []), ("kept", [f"--output={name}" for name in KEPT])):
                if backend == "gloo" and not options:
                    continue
                must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", f"--world={world}", *options, "-o", "step.fsdp", cwd=folder)
                more = ["--outputs=outputs.safetensors"] if options else []
                rows = run_step(bin, folder, world, f"--steps={steps}", f"--export={name}.safetensors", *more, backend=backend)
                losses[name] = [(row["loss"], row["grad_norm"]) for row in rows]
            if "plain" in losses:
                assert losses["plain"] == losses["kept"], f"outputs change the training: {losses}"
                assert (folder / "plain.safetensors").read_bytes() == (folder / "kept.safetensors").read_bytes(), "outputs change the weights"
            records = []
            reference(model, inputs, data, world, steps, settings, record=lambda out: records.append(flatten(out)))
            compare(load_file(folder / "outputs.safetensors"), collect(records, KEPT))
            compare_metrics(rows, records, world)
    return case


def run_model(model, inputs, data, batches, world):
    """What the model returns for each batch; each rank has buffers of its own."""
    model = copy.deepcopy(model)
    buffers = [{k: v.clone() for k, v in model.named_buffers()} for _ in range(world)]
    records = []
    with torch.no_grad():
        for number in range(batches):
            own = buffers[number % world]
            for name, value in model.named_buffers():
                value.copy_(own[name])
            records.append(flatten(model(**batch_of(data, inputs, number))))
            own.update({k: v.clone() for k, v in model.named_buffers()})
    return records


def infer_case(bin, factory, runs, steps=2, evaluate=True, mesh={}):
    """All that a model with a loss returns, for each (batches of a step, back end) of `runs`; of `mesh` as many ranks compute each."""
    def case(folder):
        model, inputs = make(factory, evaluate)
        export(model, inputs, folder / "model.pt2")
        (folder / "fsdp.yaml").write_text(yaml.safe_dump({"mode": "inference", "mesh": mesh, "tp_plan": "auto"}))
        for world, backend in runs:
            ranks = world * math.prod(mesh.values())
            save_file(data := make_data(inputs, world * steps), folder / "data.safetensors")
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", f"--world={ranks}", "-o", "step.fsdp", cwd=folder)
            rows = run_step(bin, folder, ranks, f"--steps={steps}", "--outputs=outputs.safetensors", backend=backend)
            records = run_model(model, inputs, data, steps * world, world)
            found = load_file(folder / "outputs.safetensors")
            compare(found, collect(records, ("loss", *KEPT)))
            # Each row of the data has its row; the one beyond repeats the first.
            assert len(found["logits"]) == len(data["x"]) + 1
            compare_metrics(rows, records, world)
            for i, row in enumerate(rows):
                want = sum(r["loss"].item() for r in records[i * world:(i + 1) * world]) / world
                assert abs(row["loss"] - want) < 1e-5 and not {"lr", "grad_norm"} & set(row), row
                assert row["step"] == i and row["samples_per_s"] > 0 and row["peak_memory_bytes"] > 0, row
    return case


def network_alone(bin):
    """A network that returns a tensor and no loss; all of it frozen, so that the config need not say the mode."""
    def case(folder):
        model, inputs = make(zoo.mlp, evaluate=True)
        model = model.net.requires_grad_(False)
        inputs = {"input": inputs["x"]}
        save_file(data := make_data(inputs, 4), folder / "data.safetensors")
        done = compile_step(bin, folder, model, inputs, {"mesh": {"dp_shard": 2}})
        assert "note: the model has no trainable parameter" in done.stderr, done.stderr
        rows = run_step(bin, folder, 2, "--steps=2", "--outputs=outputs.safetensors", "--export=final.safetensors")
        assert not {"loss", "outputs", "lr", "grad_norm"} & set(rows[0]), rows[0]
        compare(load_file(folder / "outputs.safetensors"), collect(run_model(model, inputs, data, 4, 2), ["output"]))
        for name, value in load_file(folder / "final.safetensors").items():
            assert torch.equal(value, model.state_dict()[name]), f"{name} has changed"
        done = must(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=2", cwd=folder)
        assert "samples/s" in done.stdout and "loss" not in done.stdout, done.stdout
        done = must(bin / "fsdp-run", "step.fsdp", "--dry-run", cwd=folder)
        assert "collectives of infer/step" in done.stdout and "reduce_scatter" not in done.stdout, done.stdout
    return case


class Large(nn.Module):
    """Outputs that travel in several blocks, and one of another size between them."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(30000))

    def forward(self, x):
        y = x * self.gain
        return y, y.argmax(-1), y.t()


def large_outputs(bin):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = Large(), {"x": torch.randn(48, 30000)}
        save_file(data := make_data(inputs, 4), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, {"mesh": {"dp_shard": 2}, "mode": "inference"})
        run_step(bin, folder, 2, "--steps=2", "--outputs=outputs.safetensors")
        with torch.no_grad():
            records = [{f"output.{i}": value for i, value in enumerate(model(**batch_of(data, inputs, number)))} for number in range(4)]
        compare(load_file(folder / "outputs.safetensors"), collect(records, records[0]))
    return case


def nothing_kept(bin):
    """An artifact without outputs says how to get some."""
    def case(folder):
        model, inputs = make(zoo.mlp)
        compile_step(bin, folder, model, inputs, make_config(2))
        before = {p.name for p in folder.iterdir()}
        done = call(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=1", "--outputs=o.safetensors", cwd=folder)
        assert done.returncode == 2 and "error[fsdp-E077]" in done.stderr and "--output=NAME" in done.stderr, done.stderr
        assert {p.name for p in folder.iterdir()} == before
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    worlds = [(1, "local"), (2, "local"), (3, "local")]
    run_cases({
        "train mlp": train_case(bin, zoo.mlp, worlds, steps=2, reshard_after_forward=True),
        "train gpt": train_case(bin, zoo.gpt, [(2, "local"), (2, "gloo")], steps=2, max_grad_norm=0.1),
        "infer mlp": infer_case(bin, zoo.mlp, worlds),
        "infer gpt": infer_case(bin, zoo.gpt, [*worlds, (2, "gloo")]),
        "infer convnet": infer_case(bin, zoo.convnet, worlds[1:]),
        "infer convnet in training mode": infer_case(bin, zoo.convnet, [(2, "local")], evaluate=False),
        "infer llama": infer_case(bin, zoo.llama, worlds),
        "infer llama with tp": infer_case(bin, zoo.llama, [(1, "local"), (2, "gloo")], mesh={"tp": 2}),
        "infer llama with cp, tp": infer_case(bin, zoo.llama, [(2, "local")], mesh={"cp": 2, "tp": 2}),
        "network alone": network_alone(bin),
        "large outputs": large_outputs(bin),
        "nothing kept": nothing_kept(bin),
    }, arguments.only)


if __name__ == "__main__":
    main()
