# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks on gradients, which no export keeps, are refused where a module is compiled, by the parameter or the line; or accepted by the config's key."""
import pathlib
import warnings
import zipfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from safetensors.torch import save_file

import fsdp_opt
from harness import make_data, parse_arguments, run_cases

SGD = {"name": "sgd", "lr": 0.1}
BATCH = {"x": torch.randn(4, 6), "y": torch.randint(0, 5, (4,))}


def scale(gradient):
    return gradient * 0.1


class Net(nn.Module):
    def __init__(self, prepare=lambda net: None, inside=None):
        super().__init__()
        self.a, self.b, self.inside = nn.Linear(6, 8), nn.Linear(8, 5), inside
        prepare(self)

    def forward(self, x, y):
        h = self.a(x)
        if self.inside and h.requires_grad:
            self.inside(h)
        return F.cross_entropy(self.b(torch.tanh(h)), y)


def compile(model, folder, config=None, **options):
    return fsdp_opt.compile(model, kwargs=BATCH, config=config if config is not None else {"optimizer": SGD}, world=1, out=folder / "step.fsdp", **options)


def refused(make, *parts, **options):
    def case(folder):
        model = make()
        try:
            compile(model, folder, **options)
        except fsdp_opt.errors.ModelError as error:
            assert error.id == "E035" and all(part in str(error) for part in (*parts, "lost_gradients: accept")), error
        else:
            raise AssertionError("compiled")
        told = fsdp_opt.explain(model, kwargs=BATCH, world=1, **options)
        assert told.unsupported and "E035" in told.unsupported and parts[0] in told.unsupported, told
    return case


def silent(make):
    """Nothing is lost, nothing said, and the file is as torch.export writes it."""
    def case(folder):
        artifact = compile(make(), folder)
        assert not artifact.notes, artifact.notes
        assert not [each for each in zipfile.ZipFile(folder / "step.pt2").namelist() if "/extra/" in each]
    return case


def accepted(folder):
    """As the same model without hooks trains, with a remark; by a mapping and by a file."""
    model = Net(lambda net: net.a.weight.register_hook(scale), inside=lambda h: h.register_hook(scale))
    (folder / "fsdp.yaml").write_text("optimizer: {name: sgd, lr: 0.1}\nlost_gradients: accept\n")
    save_file(make_data(BATCH, 2), folder / "data.safetensors")
    plain = Net()
    plain.load_state_dict(model.state_dict())
    states = []
    for each, config in ((model, {"optimizer": SGD, "lost_gradients": "accept"}), (model, folder / "fsdp.yaml"), (plain, None)):
        artifact = compile(each, folder, config)
        said = [note for note in artifact.notes if "is not in the export: gradients are those without it" in note]
        assert len(said) == (0 if each is plain else 2), artifact.notes
        with fsdp_opt.Session(artifact, data=folder / "data.safetensors") as step:
            step()
            states.append(step.state_dict())
    assert all(torch.equal(states[0][name], other[name]) for other in states for name in states[0]), "differs from the model without hooks"


def compiled_again(folder):
    """What stays beside the artifact says it, too."""
    model = Net(lambda net: net.a.bias.register_hook(scale))
    compile(model, folder, {"optimizer": SGD, "lost_gradients": "accept"})
    try:
        fsdp_opt.compile(folder / "step.pt2", config={"optimizer": SGD}, world=1, out=folder / "again.fsdp")
    except fsdp_opt.errors.ModelError as error:
        assert error.id == "E035" and "'a.bias'" in str(error), error
    else:
        raise AssertionError("compiled")


def trainer(folder):
    import transformers
    from fsdp_opt.transformers import FsdpTrainer

    config = transformers.LlamaConfig(vocab_size=29, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4)
    model = transformers.LlamaForCausalLM(config)
    model.model.layers[0].self_attn.q_proj.weight.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.zero_())
    ids = torch.randint(0, 29, (8,))
    rows = [{"input_ids": ids, "labels": ids.clone()} for _ in range(4)]
    arguments = transformers.TrainingArguments(output_dir=str(folder / "out"), per_device_train_batch_size=2, max_steps=1, report_to="none", use_cpu=True)
    try:
        FsdpTrainer(model, arguments, train_dataset=rows, world=1).train()
    except fsdp_opt.errors.ModelError as error:
        assert error.id == "E035" and "'model.layers.0.self_attn.q_proj.weight'" in str(error), error
    else:
        raise AssertionError("trained")


class Saving(Net):
    def __init__(self, on_cpu=False, reentrant=False):
        super().__init__()
        self.on_cpu, self.reentrant = on_cpu, reentrant

    def forward(self, x, y):
        if self.reentrant:
            return F.cross_entropy(self.b(torch.utils.checkpoint.checkpoint(self.a, x, use_reentrant=True)), y)
        with torch.autograd.graph.save_on_cpu() if self.on_cpu else torch.autograd.graph.saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
            return F.cross_entropy(self.b(torch.tanh(self.a(x))), y)


class Looking(Net):
    def __init__(self, **options):
        super().__init__()
        self.e = nn.Embedding(5, 5, **options)

    def forward(self, x, y):
        return super().forward(x, y) + self.e(y).square().mean()


def named_in_error(make, error_id, *parts):
    """Not by hooks; the compiler finds it in the archive alone."""
    def case(folder):
        torch.export.save(torch.export.export(make(), (), BATCH, strict=False), folder / "model.pt2")
        for model in (make(), folder / "model.pt2"):
            try:
                fsdp_opt.compile(model, **({} if isinstance(model, pathlib.Path) else {"kwargs": BATCH}), config={"optimizer": SGD}, world=1, out=folder / "step.fsdp")
            except fsdp_opt.Error as error:
                assert error.id == error_id and all(part in str(error) for part in parts), error
            else:
                raise AssertionError("compiled")
    return case


def forward_hooks(folder):
    """What they return is in the step; that they do nothing else is told, unless they are a library's."""
    for hook, told in ((lambda module, given, out: 2 * out, True), (None, False)):
        def prepare(net, hook=hook):
            if hook:
                net.a.register_forward_hook(hook)
            else:
                torch.nn.utils.spectral_norm(net.a)  # by a hook in front of the forward
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            artifact = compile(Net(prepare), folder)
        said = [each for each in caught if "forward hooks run once" in str(each.message)]
        assert len(said) == told and (not told or "they are on a" in str(said[0].message)), caught
        if hook:
            net = Net(prepare)
            with fsdp_opt.Session(artifact, threads=1) as step:
                net.load_state_dict(step.state_dict())
                assert abs(step(**BATCH).loss.item() - net(**BATCH).item()) < 1e-5


def main():
    arguments = parse_arguments()
    here = pathlib.Path(__file__).name
    weight = "a hook on the gradient of parameter 'a.weight'"
    freeze = lambda net: net.a.weight.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.zero_())
    on_weight = lambda net: net.a.weight.register_hook(scale)
    several = lambda net: [parameter.register_hook(scale) for parameter in net.parameters()] + [net.a.register_backward_hook(lambda *_: None)]
    look = lambda net: net.a.weight.register_hook(scale).remove()
    frozen = lambda net: (net.a.weight.register_hook(scale), net.a.weight.requires_grad_(False))
    exported = lambda: torch.export.export(Net(on_weight), (), BATCH)
    cases = {
        "of a parameter": refused(lambda: Net(on_weight), weight),
        "of an accumulated gradient": refused(lambda: Net(freeze), weight),
        "of a parameter, strict": refused(lambda: Net(freeze), weight, strict=True),
        "of a tensor": refused(lambda: Net(inside=lambda h: h.register_hook(scale)), f"a hook on the gradient of a tensor (at {pathlib.Path(__file__)}:"),
        "of several tensors": refused(lambda: Net(inside=lambda h: torch.autograd.graph.register_multi_grad_hook([h], lambda _: None)), f"{here}:"),
        "of a module, not full": refused(lambda: Net(lambda net: net.a.register_backward_hook(lambda *_: None)), "of module 'a'"),
        "of a module, full": refused(lambda: Net(lambda net: net.a.register_full_backward_hook(lambda *_: None)), "backward hook (a at"),
        "many are counted": refused(lambda: Net(several), weight, "and 1 more"),
        "of what is saved": refused(lambda: Saving(), f"a hook on the gradient of what is saved for backward (at {pathlib.Path(__file__)}:"),
        "saved on the host": silent(lambda: Saving(on_cpu=True)),
        "an embedding that norms its rows": named_in_error(lambda: Looking(max_norm=1.0), "E007", "'e.weight'"),
        "an embedding with sparse gradients": named_in_error(lambda: Looking(sparse=True), "E029", "an embedding with sparse=True (", "sparse=False"),
        "a checkpoint that enters again": named_in_error(lambda: Saving(reentrant=True), "E035", "use_reentrant=True"),
        "of a forward": forward_hooks,
        "removed": silent(lambda: Net(look)),
        "of a frozen parameter": silent(lambda: Net(frozen)),
        "accepted": accepted, "compiled again": compiled_again, "trainer": trainer,
    }

    def program(folder):
        try:
            fsdp_opt.compile(exported(), config={"optimizer": SGD}, world=1, out=folder / "step.fsdp")
        except fsdp_opt.errors.ModelError as error:
            assert error.id == "E035" and weight in str(error), error
            return
        raise AssertionError("compiled")
    cases["of an exported program's parameter"] = program
    own = torch.Tensor.register_hook
    run_cases(cases, arguments.only)
    assert torch.Tensor.register_hook is own, "the tensors' methods stay replaced"


main()
