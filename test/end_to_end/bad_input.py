# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every bad input gets one clear error, the right exit status, and leaves nothing behind."""
import re
import struct
import zipfile

import torch
import torch.nn as nn
import yaml
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, export, make_config, make_data, must, parse_arguments, run_cases
from ranks import find_port


def refused(done, status, pattern, folder, before):
    """The process said no: exit status, first line, and no new file."""
    first = done.stderr.strip().splitlines()[0] if done.stderr.strip() else ""
    assert done.returncode == status, f"exit status {done.returncode} instead of {status}: {done.stderr[-600:]}"
    assert re.match(r"error\[fsdp-E\d{3}\]: \S", first), f"first line: {first!r}"
    assert re.search(pattern, done.stderr), f"{pattern!r} is not in: {done.stderr[-600:]}"
    left = {p.name for p in folder.iterdir()} - before
    assert not left, f"left behind: {sorted(left)}"


class Bad:
    def __init__(self, bin):
        self.bin = bin

    def opt(self, folder, arguments, status, pattern):
        before = {p.name for p in folder.iterdir()}
        refused(call(self.bin / "fsdp-opt", *arguments, cwd=folder), status, pattern, folder, before)

    def run(self, folder, arguments, status, pattern, env=None, timeout=120):
        before = {p.name for p in folder.iterdir()}
        done = call(self.bin / "fsdp-run", *arguments, cwd=folder, env=env, timeout=timeout)
        refused(done, status, pattern, folder, before)

    def step(self, folder, world=2):
        """A good model, config, data file and artifact to spoil."""
        torch.manual_seed(0)
        model, inputs = zoo.mlp()
        self.rows = make_data(inputs, world * 2)
        save_file(self.rows, folder / "data.safetensors")
        compile_step(self.bin, folder, model, inputs, make_config(world))

    def compile(self, folder, model, inputs, status, pattern, **options):
        torch.export.save(torch.export.export(model, (), inputs, strict=False, **options), folder / "model.pt2")
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(2)))
        self.opt(folder, ["model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp"], status, pattern)

    # Model files.

    def truncated_model(self, folder):
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "whole.pt2")
        whole = (folder / "whole.pt2").read_bytes()
        for part in (0, 1, 100, len(whole) // 2, len(whole) - 7):
            (folder / "model.pt2").write_bytes(whole[:part])
            self.opt(folder, ["model.pt2", "-o", "x.mlir"], 1, "model.pt2")

    def not_an_archive(self, folder):
        (folder / "model.pt2").write_text("this is a text\n" * 100)
        self.opt(folder, ["model.pt2", "-o", "x.mlir"], 1, "not a zip|zip archive")

    def plain_weights(self, folder):
        torch.save({"weight": torch.ones(3)}, folder / "model.pt")
        self.opt(folder, ["model.pt", "-o", "x.mlir"], 1, r"torch\.(export|jit)\.save")

    def torchscript_without_shapes(self, folder):
        model, inputs = zoo.mlp()
        torch.jit.trace(model, example_kwarg_inputs=inputs, check_trace=False).save(str(folder / "model.pt"))
        self.opt(folder, ["model.pt", "-o", "x.mlir"], 1, "--input=x:")

    def custom_operator(self, folder):
        @torch.library.custom_op("mylib::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        double.register_fake(lambda x: torch.empty_like(x))

        class Custom(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                return torch.ops.mylib.double(self.linear(x)).sum()
        self.compile(folder, Custom(), {"x": torch.randn(2, 3)}, 1, "mylib::double")

    def data_dependent(self, folder):
        class Branch(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                y = self.linear(x)
                return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,)).sum()
        self.compile(folder, Branch(), {"x": torch.randn(2, 3)}, 1, "cond|control flow")

    def dynamic_dimension(self, folder):
        model, inputs = zoo.mlp()
        batch = torch.export.Dim("batch", min=2, max=64)
        self.compile(folder, model, inputs, 1, "dynamic|dimension", dynamic_shapes={"x": {0: batch}, "y": {0: batch}})

    def loss_is_not_a_number(self, folder):
        self.compile(folder, nn.Linear(3, 2), {"input": torch.randn(2, 3)}, 1, "loss|scalar")

    def explain_lists_everything(self, folder):
        @torch.library.custom_op("mylib::triple", mutates_args=())
        def triple(x: torch.Tensor) -> torch.Tensor:
            return x * 3
        triple.register_fake(lambda x: torch.empty_like(x))

        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                y = torch.ops.mylib.triple(self.linear(x))
                return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,)).sum()
        export(Two(), {"x": torch.randn(2, 3)}, folder / "model.pt2")
        done = call(self.bin / "fsdp-opt", "model.pt2", "--explain", cwd=folder)
        assert done.returncode == 1, done.returncode
        assert "mylib::triple" in done.stdout and "cond" in done.stdout, done.stdout

    # Configs (test/unit/tools has all the cases).

    def misspelt_key(self, folder):
        self.step(folder)
        (folder / "bad.yaml").write_text("mesh: {dp_shard: 2}\nfsdp_config: {reshard_after_foward: true}\n")
        self.opt(folder, ["model.pt2", "--config=bad.yaml", "-o", "x.fsdp"], 2, r"bad\.yaml:2:15: .*'reshard_after_forward'\?")

    def wrong_type(self, folder):
        self.step(folder)
        (folder / "bad.yaml").write_text("mesh: {dp_shard: two}\n")
        self.opt(folder, ["model.pt2", "--config=bad.yaml", "-o", "x.fsdp"], 2, "whole number, found the string 'two'")

    def unknown_layer_class(self, folder):
        self.step(folder)
        (folder / "bad.yaml").write_text(yaml.safe_dump(make_config(
            2, auto_wrap_policy="TRANSFORMER_BASED_WRAP", transformer_layer_cls_to_wrap="NoSuchLayer")))
        self.opt(folder, ["model.pt2", "--config=bad.yaml", "-o", "x.fsdp"], 1, "NoSuchLayer(.|\n)*LayerNorm")

    # Artifacts and their surroundings.

    def corrupted_artifact(self, folder):
        self.step(folder)
        whole = (folder / "step.fsdp").read_bytes()
        spoiled = bytearray(whole)
        spoiled[len(spoiled) // 2] ^= 0x55
        for content in (bytes(spoiled), whole[: len(whole) // 2], whole[:3], b"", b"text " * 50):
            (folder / "bad.fsdp").write_bytes(content)
            self.run(folder, ["bad.fsdp", "--steps=1"], 1, r"bad\.fsdp")
            self.opt(folder, ["bad.fsdp", "-o", "-"], 1, r"bad\.fsdp")

    def newer_artifact(self, folder):
        self.step(folder)
        whole = bytearray((folder / "step.fsdp").read_bytes())
        root = struct.unpack_from("<I", whole, 0)[0]
        vtable = root - struct.unpack_from("<i", whole, root)[0]
        version = root + struct.unpack_from("<H", whole, vtable + 4)[0]
        struct.pack_into("<I", whole, version, 999)
        (folder / "bad.fsdp").write_bytes(whole)
        self.run(folder, ["bad.fsdp", "--steps=1"], 1, r"E062\]: .*999")

    def model_file_changed(self, folder):
        self.step(folder)
        torch.manual_seed(99)
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "model.pt2")
        self.run(folder, ["step.fsdp", "--steps=1", "--data=data.safetensors"], 1, r"model\.pt2")

    def model_file_missing(self, folder):
        self.step(folder)
        (folder / "model.pt2").rename(folder / "moved.pt2")
        self.run(folder, ["step.fsdp", "--steps=1", "--data=data.safetensors"], 1, "--model")
        must(self.bin / "fsdp-run", "step.fsdp", "--steps=1", "--data=data.safetensors", "--model=moved.pt2", cwd=folder)

    def other_world_size(self, folder):
        self.step(folder)
        self.run(folder, ["step.fsdp", "--steps=1"], 3, "2.*3|3.*2",
                 env={"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())})

    def rank_that_never_comes(self, folder):
        self.step(folder)
        self.run(folder, ["step.fsdp", "--steps=1", "--deadline=3", "--rendezvous=env://"], 3, "rank",
                 env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}, timeout=60)

    # Data files.

    def data(self, folder, change, pattern):
        self.step(folder)
        save_file({k: v.contiguous() for k, v in change(self.rows).items()}, folder / "bad.safetensors")
        self.run(folder, ["step.fsdp", "--steps=1", "--data=bad.safetensors", "--export=final.safetensors"], 1, pattern)

    def data_of_wrong_shape(self, folder):
        self.data(folder, lambda d: {**d, "x": d["x"][:, :-1]}, "'?x'?.*19")

    def data_of_wrong_type(self, folder):
        self.data(folder, lambda d: {**d, "x": d["x"].double()}, "(?i)f32|f64")

    def data_without_rows(self, folder):
        self.data(folder, lambda d: {**d, "x": d["x"][:0]}, "x")

    def data_truncated(self, folder):
        self.step(folder)
        whole = (folder / "data.safetensors").read_bytes()
        for part in (0, 5, 40, len(whole) - 9):
            (folder / "bad.safetensors").write_bytes(whole[:part])
            self.run(folder, ["step.fsdp", "--steps=1", "--data=bad.safetensors"], 1, "bad.safetensors")

    def data_missing(self, folder):
        """A .pt has no samples to fall back on."""
        torch.manual_seed(0)
        model, inputs = zoo.mlp()
        torch.jit.trace(model, example_kwarg_inputs=inputs, check_trace=False).save(str(folder / "model.pt"))
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(2)))
        must(self.bin / "fsdp-opt", "model.pt", "--input=x:f32[6,19]", "--input=y:i64[6]", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        save_file({"x": torch.randn(12, 19)}, folder / "data.safetensors")
        self.run(folder, ["step.fsdp", "--steps=1", "--data=data.safetensors"], 1, "'?y'?")

    # Weights of which a bit changed on the way.

    def changed_bit_of_a_weight(self, folder):
        """In rows of any rank, however the weights are cut; whole, they train."""
        torch.manual_seed(0)
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "model.pt2")
        whole = (folder / "model.pt2").read_bytes()
        with zipfile.ZipFile(folder / "model.pt2") as archive:
            entries = [entry for entry in archive.infolist() if re.search(r"/data/weights/weight_\d+$", entry.filename)]
        save_file(make_data(inputs, 6), folder / "data.safetensors")
        for name, world, more in (("rows", 1, {}), ("rows", 3, {}), ("flat", 3, {"bucket_layout": "flat"}), ("columns", 2, {"shard_dims": {"net.0.weight": 1}}),
                                  ("replicas", 2, {"mesh": {"dp_replicate": 2, "dp_shard": 1}})):
            config = make_config(world)
            config["mesh"] = more.pop("mesh", config["mesh"])
            config.setdefault("fsdp_config", {}).update(more)
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
            must(self.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
            command = ["step.fsdp", "--steps=1", "--data=data.safetensors", "--model=bad.pt2"]
            (folder / "bad.pt2").write_bytes(whole)
            must(self.bin / "fsdp-run", *command, cwd=folder)
            for entry in (entries[0], entries[-1]):
                head = entry.header_offset
                begin = head + 30 + sum(struct.unpack("<HH", whole[head + 26:head + 30]))
                for at in (begin, begin + entry.file_size - 1):
                    (folder / "bad.pt2").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
                    self.run(folder, command, 1, "E074.*'bad.pt2' is damaged: entry 'data/weights/.*, the value of '.*', has the checksum .*, expected")

    # Places that cannot be written.

    def unwritable(self, folder):
        self.step(folder)
        self.opt(folder, ["model.pt2", "--config=fsdp.yaml", "-o", "no/such/step.fsdp"], 1, "no/such")
        self.run(folder, ["step.fsdp", "--steps=1", "--data=data.safetensors", "--export=no/such/final.safetensors"], 1, "no/such")


def main():
    arguments = parse_arguments()
    bad = Bad(arguments.bin)
    helpers = {"opt", "run", "step", "compile", "data"}
    cases = {name.replace("_", " "): getattr(bad, name) for name in vars(Bad) if not name.startswith("_") and name not in helpers}
    run_cases(cases, arguments.only)


main()
