# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of different lengths: each step runs the shortest program that holds its rows, and computes what PyTorch does with the same padding."""
import json

import torch
import yaml
from safetensors.torch import load_file, save_file
from torch.export import Dim

import zoo
from harness import call, compare, export, launch, make_config, make_optimizer, must, parse_arguments, run_cases
from row_order import by_length

SIZES = [8, 16, 32]
ROWS = 2  # of a batch
SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}


def llama():
    """Its sequence is dynamic; names are those of zoo.llama."""
    model, _ = zoo.llama(length=max(SIZES))
    inputs = {name: torch.randint(0, 29, (ROWS, 8)) for name in ("x", "y")}
    return model, inputs, {name: {1: Dim.AUTO} for name in inputs}, {"x": 0}, "y"


def hugging_face():
    """A mask of tokens, labels that it shifts itself, and a loss that is divided by a number of labels."""
    import transformers

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
                hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=29,
                max_position_embeddings=64))

        def forward(self, input_ids, attention_mask, labels, num_items_in_batch):
            return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, num_items_in_batch=num_items_in_batch,
                              use_cache=False).loss

    ids = torch.randint(0, 29, (ROWS, 8))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone(), "num_items_in_batch": torch.tensor(1.0)}
    dynamic = {name: {1: Dim.DYNAMIC} for name in ("input_ids", "attention_mask", "labels")}
    return Counted(), inputs, {**dynamic, "num_items_in_batch": None}, {"input_ids": 3}, "labels"


class Case:
    """A model compiled for all sizes, and a file of rows whose lengths are random."""

    def __init__(self, bin, folder, made, world, rows=26, data=None, longest=max(SIZES), **config):
        torch.manual_seed(5)
        self.bin, self.folder, self.world = bin, folder, world
        self.model, self.inputs, dims, self.pad, self.labels = made()
        self.model.train()
        self.settings = make_config(world, data={"pad": self.pad, **({} if self.labels == "labels" else {"labels": self.labels}), **(data or {})},
                                    **config)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(self.settings))
        export(self.model, self.inputs, folder / "model.pt2", dims=dims)
        self.dynamic = [name for name, dim in dims.items() if dim]
        self.start = {k: v.detach().clone() for k, v in self.model.named_parameters(remove_duplicate=False)}
        # Most are short, and the longest one is there.
        self.lengths = [longest, *(1 + torch.randint(0, longest, (rows - 1,)) * torch.rand(rows - 1)).int().tolist()]
        self.rows = [torch.randint(4, 29, (length,)) for length in self.lengths]
        self.write(folder / "rows.safetensors")

    def write(self, path):
        """Labels are the tokens, but for one of four."""
        self.targets = [torch.where(torch.rand(len(row)) < 0.25, -100, row) for row in self.rows]
        offsets = torch.tensor([0, *self.lengths]).cumsum(0)
        main = next(iter(self.pad))
        save_file({main: torch.cat(self.rows), self.labels: torch.cat(self.targets), "row_offsets": offsets}, path)

    def compile(self, sizes=SIZES, out="step.fsdp", options=()):
        flags = [f"--dim={name}.1={','.join(map(str, sizes))}" for name in self.dynamic[:1]]
        must(self.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", *flags, *options, "--report=report.json", "-o", out, cwd=self.folder)
        return json.loads((self.folder / "report.json").read_text())

    def run(self, *options, backend="local", artifact="step.fsdp", world=None):
        """Metrics, and the weights at the end."""
        metrics, final = self.folder / "metrics.jsonl", self.folder / "final.safetensors"
        launch(self.bin, self.folder, world or self.world, backend, artifact, "--data=rows.safetensors", f"--metrics={metrics}", f"--export={final}",
               *options)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [row for row in rows if "loss" in row], [row for row in rows if "eval_loss" in row], load_file(final)

    def batch(self, rows, size):
        """These rows, padded to `size`."""
        main, names = next(iter(self.pad)), {}
        names[main] = torch.full((len(rows), size), self.pad[main])
        names[self.labels] = torch.full((len(rows), size), -100)
        mask = torch.zeros(len(rows), size, dtype=torch.int64)
        for i, row in enumerate(rows):
            names[main][i, :self.lengths[row]] = self.rows[row]
            names[self.labels][i, :self.lengths[row]] = self.targets[row]
            mask[i, :self.lengths[row]] = 1
        if "attention_mask" in self.inputs:
            names["attention_mask"] = mask
        return names

    def size(self, rows):
        return next(size for size in SIZES if size >= max(self.lengths[row] for row in rows))

    def reference(self, order, steps, batches):
        """Loss and norm of each step, weights, and the size of each step's program; `batches` are those of all ranks in a step."""
        optimizer = make_optimizer(self.model, self.settings["optimizer"])
        rows, sizes = [], []
        for step in range(steps):
            own = order[step * batches * ROWS:(step + 1) * batches * ROWS]
            sizes.append(self.size(own))
            total = 0.0
            counted = sum(int((self.targets[row][1:] != -100).sum()) for row in own)
            for number in range(batches):
                batch = self.batch(own[number * ROWS:(number + 1) * ROWS], sizes[-1])
                if "num_items_in_batch" in self.inputs:
                    # A sum over this batch by the number of all: nothing is averaged once more.
                    loss = self.model(**batch, num_items_in_batch=torch.tensor(float(counted)))
                else:
                    loss = self.model(**batch) / batches
                loss.backward()
                total += loss.item()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), float("inf"))
            optimizer.step()
            optimizer.zero_grad()
            rows.append((total, norm.item()))
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        return rows, {k: v.detach() for k, v in parameters.items()}, sizes


def programs(rows):
    return [int(row["program"].rsplit("=", 1)[1].rstrip("]")) for row in rows]


def trained(bin, made, world, accumulation=1, steps=6, data=None, backend="local", weighs=False, **config):
    """Losses, norms and weights are PyTorch's, and so is each step's program; memory is that of the largest."""
    def case(folder):
        each = Case(bin, folder, made, world, data=data, gradient_accumulation_steps=accumulation, **config)
        peak = each.compile([max(SIZES)])["memory"]["peak"] if weighs else None
        report = each.compile()
        assert peak in (None, report["memory"]["peak"]), f"{report['memory']['peak']}, and {peak} of the largest program"
        rows, _, final = each.run(f"--steps={steps}", backend=backend)
        count = len(each.lengths)
        said = each.settings["data"]
        own = by_length(each.lengths, 1 + steps * world * accumulation * ROWS // count, said.get("length_pool", 1), said.get("length_group", 1),
                        said.get("shuffle", False), said.get("seed", 0))
        want, parameters, sizes = each.reference(own, steps, world * accumulation)
        assert programs(rows) == sizes, f"programs {programs(rows)} instead of {sizes}"
        assert len(set(sizes)) > 1, f"all steps are of {sizes[0]}: the case tests nothing"
        compare(rows, final, want, parameters, {}, each.start)
    return case


def alike(bin, grains):
    """Twelve rows a step, on several numbers of ranks: the same rows in the same programs; with grains, the same bits."""
    def case(folder):
        found = {}
        worlds = (1, 3) if grains else (1, 2, 3)
        for world in worlds:
            own = folder / str(world)
            own.mkdir()
            each = Case(bin, own, llama, world, data={"shuffle": True, "seed": 3, "length_pool": 24, "length_group": 12}, optimizer=SGD,
                        **({} if grains else {"gradient_accumulation_steps": 6 // world}))
            if grains:
                each.settings["fsdp_config"]["grains"] = 6
                (own / "fsdp.yaml").write_text(yaml.safe_dump(each.settings))
            each.compile()
            rows, _, final = each.run("--steps=5")
            found[world] = programs(rows), [row["loss"] for row in rows], final
        sizes, losses, weights = found[1]
        for world in worlds[1:]:
            assert found[world][0] == sizes, found
            if grains:
                assert found[world][1] == losses and all(torch.equal(found[world][2][name], weights[name]) for name in weights), f"{world} ranks"
            for a, b in zip(found[world][1], losses, strict=True):
                assert abs(a - b) <= 2e-5 * max(1, abs(b)), found
        assert len(set(sizes)) > 1, found
    return case


def resumed(bin, world, other):
    """A run that goes on in the middle takes the same steps, bit by bit; on another number of ranks, with steps of other rows, what is left."""
    def case(folder):
        data = {"shuffle": True, "seed": 9, "length_pool": 16, "length_group": 4}
        each = Case(bin, folder, llama, world, rows=23, data=data)
        each.compile()
        whole, _, weights = each.run("--steps=7", "--save=whole", "--save-every=3")
        again, _, resumed = each.run("--steps=7", "--load=whole/step_3")
        assert [row["loss"] for row in again] == [row["loss"] for row in whole], "steps before the checkpoint are kept, all others the same"
        assert all(torch.equal(weights[name], resumed[name]) for name in weights)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump({**each.settings, "mesh": {"dp_shard": other}}))
        each.compile(out="other.fsdp")
        rows, _, _ = each.run("--steps=6", "--load=whole/step_3", artifact="other.fsdp", world=other)
        order = by_length(each.lengths, 4, 16, 4, True, 9)[3 * world * ROWS:]
        sizes = [each.size(order[step * other * ROWS:(step + 1) * other * ROWS]) for step in range(3)]
        assert programs(rows)[3:] == sizes, f"{programs(rows)} instead of {sizes}"
    return case


def epochs_end(bin):
    """One epoch reads each row once: its mean loss is that of all rows, whatever the order, where nothing is learnt."""
    def case(folder):
        still = {"name": "sgd", "lr": 1e-12}
        each = Case(bin, folder, llama, 1, rows=24, data={"length_pool": 16, "length_group": 4, "epochs": 1, "shuffle": True}, optimizer=still)
        each.compile()
        rows, _, _ = each.run()
        order = by_length(each.lengths, 1, 16, 4, True, 0)
        assert sorted(order) == list(range(24)) and len(rows) == 12, len(rows)
        want, _, _ = each.reference(order, 12, 1)
        assert all(abs(row["loss"] - loss) < 2e-5 * loss for row, (loss, _) in zip(rows, want))
    return case


def validated(bin, made, data, backend="local"):
    """Each batch of a validation has its own program; with counted labels the loss is the mean over all that count."""
    def case(folder):
        each = Case(bin, folder, made, 2, rows=12, data=data, eval={"data": "rows.safetensors"}, optimizer={"name": "sgd", "lr": 1e-12})
        each.compile()
        _, (found,), _ = each.run("--steps=1", backend=backend)
        total, weight = 0.0, 0
        for begin in range(0, 12, 4):
            rows = list(range(begin, begin + 4))
            counted = sum(int((each.targets[row][1:] != -100).sum()) for row in rows)
            size = each.size(rows)
            with torch.no_grad():
                if "num_items_in_batch" in each.inputs:
                    total += sum(each.model(**each.batch(rows[i:i + 2], size), num_items_in_batch=torch.tensor(1.0)).item() for i in (0, 2))
                    weight += counted
                else:
                    total += sum(each.model(**each.batch(rows[i:i + 2], size)).item() for i in (0, 2)) / 2
                    weight += 1
        assert found["eval_batches"] == 3 and abs(found["eval_loss"] - total / weight) <= 2e-5 * total / weight, (found, total / weight)
    return case


def refused(bin):
    """What has no meaning, or no room."""
    def case(folder):
        each = Case(bin, folder, llama, 1, longest=40)
        # Nothing says what x is padded with, but for options.
        each.settings["data"].pop("pad")
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(each.settings))
        each.compile()

        def expect(error, words, *options, pad="pad=x:0"):
            options = [*options, f"--data-options={pad}"] if pad else options
            done = call(bin / "fsdp-run", "step.fsdp", "--steps=1", *options, cwd=folder)
            assert done.returncode and done.stderr.startswith(f"error[fsdp-{error}]") and words in done.stderr, done.stderr

        rows = "--data=rows.safetensors"
        expect("E088", "row 0 of 'rows.safetensors' has 40 tokens, and the longest program takes 32; cut it, or compile the model for 40", rows)
        whole = load_file(folder / "rows.safetensors")
        offsets = whole["row_offsets"]
        for name, change, error, words in (
                ("short", {"row_offsets": offsets[:-1]}, "E081", f"expected [{int(offsets[-2])}], the tokens of all rows"),
                ("empty", {"row_offsets": torch.cat([offsets[:3], offsets[2:]])}, "E083", "at row 2"),
                ("type", {"row_offsets": offsets.int()}, "E083", "expected numbers of type i64 in one dim"),
                ("begin", {"row_offsets": offsets + 1}, "E083", "found 1 as the first"),
                ("other", {"y": whole["y"].int()}, "E082", "convert it")):
            save_file({**whole, **change}, folder / f"{name}.safetensors")
            expect(error, words, f"--data={name}.safetensors")
        expect("E040", "the program has no input 'xx'", rows, pad="pad=xx:3")
        expect("E040", "expected INPUT:NUMBER", rows, pad="pad=x:")
        expect("E040", "expected a multiple of 64, found 96", rows, pad="length_pool=96")
        expect("E040", "shifts_labels=true", rows, pad="label_count=x")
        expect("E087", "nothing says what input 'x' has behind the shorter ones; say --data-options=pad=x:VALUE", rows, pad=None)
        # The program that is named takes no longer rows.
        expect("E088", "the longest program takes 16", rows, "--program=x.1=16")
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    sorted_rows = {"shuffle": True, "seed": 3, "length_pool": 16, "length_group": 4}
    counted = {"label_count": "num_items_in_batch", "shifts_labels": True, "length_pool": 12, "length_group": 6}
    cases = {
        "in the file's order, world=1": trained(bin, llama, 1, steps=8, weighs=True),
        "labels are counted, world=3 micro-batches=2": trained(bin, hugging_face, 3, 2, data={**counted, **sorted_rows, "length_group": 8}, steps=4),
        "the same bits": alike(bin, grains=True),
        "resumed": resumed(bin, 2, 3),
        "validation with counted labels": validated(bin, hugging_face, {"label_count": "num_items_in_batch", "shifts_labels": True}, "gloo"),
        "refused": refused(bin),
    }
    if arguments.all:
        cases |= {
            "by length, world=2": trained(bin, llama, 2, steps=8, data=sorted_rows, reshard_after_forward=True),
            "by length, world=3 micro-batches=2": trained(bin, llama, 3, 2, data={**sorted_rows, "length_group": 8}, optimizer=SGD),
            "by length, over gloo, world=2": trained(bin, llama, 2, data={**sorted_rows, "shuffle": False}, backend="gloo"),
            "labels are counted, world=3": trained(bin, hugging_face, 3, data=counted),
            "labels are counted, world=2 micro-batches=2": trained(bin, hugging_face, 2, 2, data={**counted, **sorted_rows, "length_group": 8}),
            "one to three ranks": alike(bin, grains=False),
            "an epoch": epochs_end(bin),
            "validation": validated(bin, llama, {}),
        }
    run_cases(cases, arguments.only)


main()
