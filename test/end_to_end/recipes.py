# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp-train: the examples of docs/Recipes.md from an empty folder, beside PyTorch on the same rows."""
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch
import yaml
from safetensors.torch import load_file

import exports
import fsdp_opt
import warm
from harness import parse_arguments, run_cases

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples/recipes"
# Threads of processes that share processors with others wait for each other most of the time.
os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
TRAIN = ["-c", "from fsdp_opt.recipe import main; main()"]


def begin(folder):
    """The folder that docs/Recipes.md makes, which the first script that asks keeps for all others, as exports are kept."""
    script = EXAMPLES / "make_small.py"
    digest = hashlib.sha256(script.read_bytes() + "".join(map(importlib.metadata.version, ("torch", "transformers", "tokenizers"))).encode()).hexdigest()
    kept = exports.folder / f"small-{digest[:24]}"
    if not kept.exists():
        exports.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=exports.folder) as made:
            subprocess.run([*warm.python(), script, f"{made}/small"], check=True, capture_output=True)
            with contextlib.suppress(OSError):  # another script has been faster
                os.rename(f"{made}/small", kept)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    for each in EXAMPLES.glob("*.yaml"):
        shutil.copy(each, folder)


def write(folder, name, base, **keys):
    """An example with other keys; None leaves one out."""
    told = {**yaml.safe_load((EXAMPLES / base).read_text()), **keys, "output_dir": name}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({key: value for key, value in told.items() if value is not None}))


def command(folder, file, *options):
    done = subprocess.run([*warm.python(), *TRAIN, file, *options], cwd=folder, capture_output=True, text=True, timeout=240)
    assert not done.returncode, f"{file}: exit status {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
    return done.stdout


def run(folder, file, **options):
    """The same in this process, which has its libraries already."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        return fsdp_opt.train(file, **options)


def losses(folder, name):
    rows = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def load(folder):
    import transformers
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def examples(folder):
    """Each file and one command; what is left loads, and has learnt."""
    begin(folder)
    command(folder, "lora.yaml")
    found = losses(folder, "lora")
    assert found[-1] < 0.5 * found[0], found
    merged, base = load(folder / "lora/merged"), load(folder / "base")
    assert any(not torch.equal(a, b) for a, b in zip(merged.state_dict().values(), base.state_dict().values()))
    told = json.loads((folder / "lora/adapter/adapter_config.json").read_text())
    assert told["r"] == 8 and told["base_model_name_or_path"] == str((folder / "base").resolve()) and (folder / "lora/adapter/tokenizer.json").exists() and not (folder / "lora/adapter/config.json").exists(), told
    answer = ask(folder / "lora/merged", "what is the red cat?")
    assert re.match(r"the \w+ \w+ is a \w+ that is \w+\.", answer), f"it answers as before: {answer}"
    if importlib.util.find_spec("peft"):
        from peft import PeftModel
        adapted = PeftModel.from_pretrained(load(folder / "base"), folder / "lora/adapter").merge_and_unload()
        for name, value in merged.state_dict().items():
            assert torch.allclose(adapted.state_dict()[name], value, atol=1e-5), name
    run(folder, "qlora.yaml")
    found = losses(folder, "qlora")
    assert found[-1] < 0.7 * found[0], found
    run(folder, "dpo.yaml")
    found = losses(folder, "dpo")
    assert abs(found[0] - 0.6931) < 1e-3 and found[-1] < 0.3, found


def ask(model, question):
    import transformers
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(model), load(model)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**ids, max_new_tokens=24, do_sample=False)
    return tokenizer.decode(out[0, ids["input_ids"].shape[1]:], skip_special_tokens=True)


def as_pytorch(folder):
    """The losses of a loop over the same rows: the mean over labels of a step, documents that do not see each other."""
    begin(folder)
    sgd = {"optimizer": {"name": "sgd", "lr": 0.1}, "learning_rate": None, "lr_scheduler": None, "warmup_steps": None, "val_set_size": None, "data": {"shuffle": False}}
    write(folder, "plain", "full.yaml", max_steps=4, **sgd)
    run(folder, "plain.yaml")
    rows = load_file(next((folder / "plain/data").glob("train-*.safetensors")))
    most = int((rows["position_ids"] == 0).sum(1).max())
    assert most > 1 and f"documents_per_row: {most}\n" in (folder / "plain/config.yaml").read_text(), most
    model = load(folder / "base")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, found in enumerate(losses(folder, "plain")):
        at = slice(8 * step, 8 * step + 8)
        batch = {name: value[at] for name, value in rows.items()}
        places = batch["position_ids"]
        document = (places == 0).cumsum(1)
        mask = (document[:, :, None] == document[:, None, :]) & torch.ones(128, 128).tril().bool()
        logits = model(batch["input_ids"], position_ids=places, attention_mask=torch.where(mask, 0.0, torch.finfo(torch.float32).min)[:, None]).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
        assert abs(found - loss.item()) < 2e-5 * loss.item(), f"step {step}: {found} instead of {loss.item()}"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    trained = load(folder / "plain/model")
    for name, value in model.state_dict().items():
        assert torch.allclose(trained.state_dict()[name], value, atol=1e-5), name


def smoothed(folder):
    """Labels that are smoothed: transformers' own numbers."""
    from transformers.trainer_pt_utils import LabelSmoother
    begin(folder)
    write(folder, "smooth", "full.yaml", max_steps=3, label_smoothing_factor=0.2, sample_packing=None, optimizer={"name": "sgd", "lr": 0.1}, learning_rate=None,
          lr_scheduler=None, warmup_steps=None, val_set_size=None, data={"shuffle": False})
    run(folder, "smooth.yaml")
    rows = load_file(next((folder / "smooth/data").glob("train-*.safetensors")))
    model, smooth = load(folder / "base"), LabelSmoother(epsilon=0.2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = losses(folder, "smooth")
    for step, loss in enumerate(found):
        at = slice(8 * step, 8 * step + 8)
        want = smooth(model(rows["input_ids"][at]), rows["labels"][at], shift_labels=True)
        assert abs(loss - want.item()) < 2e-5 * want.item(), f"step {step}: {loss} instead of {want.item()}"
        optimizer.zero_grad()
        want.backward()
        optimizer.step()


def going_on(folder):
    """Adapters of a folder go on, by what the folder says of them."""
    begin(folder)
    write(folder, "first", "lora.yaml", merge_lora=None, max_steps=12, warmup_steps=None, lr_scheduler=None, ema={"decay": 0.5})
    run(folder, "first.yaml")
    assert load(folder / "first/ema").state_dict().keys() == load(folder / "base").state_dict().keys(), "averages are no model"
    same = {"lora_r": None, "lora_alpha": None, "lora_dropout": None, "lora_target_linear": None, "merge_lora": None, "lora_model_dir": "first/adapter", "max_steps": 1,
            "warmup_steps": None, "lr_scheduler": None}
    write(folder, "still", "lora.yaml", **same, optimizer={"name": "sgd", "lr": 1e-30}, learning_rate=None)
    run(folder, "still.yaml")
    was, found = (load_file(folder / each / "adapter/adapter_model.safetensors") for each in ("first", "still"))
    assert set(was) == set(found) and all(torch.equal(value, found[name]) for name, value in was.items()), "they did not go on"
    told, again = (json.loads((folder / each / "adapter/adapter_config.json").read_text()) for each in ("first", "still"))
    assert told == again, f"{told} became {again}"
    assert losses(folder, "still")[0] < 0.95 * losses(folder, "first")[0], "the model begins as it was without them"
    for keys, text in (({"lora_r": 3}, "have rank 8"), ({"adapter": None}, "go on with 'adapter: lora'"), ({"lora_model_dir": "base"}, "adapter_config.json")):
        write(folder, "other", "lora.yaml", **{**same, **keys})
        try:
            run(folder, "other.yaml")
        except fsdp_opt.Error as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{keys} is taken")


def killed(folder):
    """The same command goes on, to the same bits."""
    begin(folder)
    for name in ("whole", "parted"):
        write(folder, name, "full.yaml", max_steps=24, save_steps=4, val_set_size=None)
    run(folder, "whole.yaml")
    process = subprocess.Popen([sys.executable, *TRAIN, "parted.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (folder / "parted/checkpoints/step_4").exists():
        assert process.poll() is None and time.monotonic() < deadline, "it saves nothing"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "parted/model/model.safetensors").exists(), "it was over before it was killed"
    run(folder, "parted.yaml")
    one, other = (load_file(folder / name / "model/model.safetensors") for name in ("whole", "parted"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert losses(folder, "whole")[-4:] == losses(folder, "parted")[-4:]


def deepspeed(folder):
    """A file of DeepSpeed's that an Axolotl file names, relative to that."""
    begin(folder)
    (folder / "deepspeed_configs").mkdir()
    zero = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": "auto"}, "gradient_accumulation_steps": 2,
            "gradient_clipping": 0.5, "train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto"}
    (folder / "deepspeed_configs/zero2.json").write_text(json.dumps(zero))
    own = {"fsdp_config": {"reshard_after_forward": False, "offload_optimizer": True}, "max_grad_norm": 0.5}
    for name, keys in (("named", {"deepspeed": "deepspeed_configs/zero2.json", "gradient_accumulation_steps": None}), ("own", own)):
        write(folder, name, "full.yaml", max_steps=3, warmup_steps=None, val_set_size=None, **keys)
        with contextlib.redirect_stdout(io.StringIO()):
            fsdp_opt.train(folder / f"{name}.yaml", output=folder / name)
    assert losses(folder, "named") == losses(folder, "own"), "it counts for nothing, or for other things"
    one, other = (load_file(folder / name / "model/model.safetensors") for name in ("named", "own"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def refusals(folder):
    begin(folder)
    for keys, words in ((dict(base_model=None), "needs 'base_model'"), (dict(datasets=None), "needs 'datasets'"), (dict(sequence_len=None), "needs 'sequence_len'"),
                        (dict(datasets=[{"path": "none.jsonl"}]), "is not there"), (dict(datasets=[{"path": "chats.jsonl", "type": "other"}]), "expected a type out of"),
                        (dict(rl="grpo", sample_packing=None), "expected one of dpo"), (dict(base_model="nothing/here"), "cannot be read"),
                        (dict(datasets=[{"path": "pairs.jsonl", "type": "chat_template"}]), "expected 'messages'"), (dict(sequence_len="long"), "expected a number"), (dict(deepspeed="zero3.json"), "'zero3.json' is not there"),
                        (dict(learning_rat=1.0), "fsdp-opt")):
        write(folder, "no", "full.yaml", **keys)
        try:
            run(folder, "no.yaml")
        except (fsdp_opt.Error, subprocess.CalledProcessError) as error:
            assert words in str(error), f"{words}: {error}"
        else:
            raise AssertionError(f"{keys} is taken")
    write(folder, "dry", "full.yaml")
    said = command(folder, "dry.yaml", "--dry-run")
    assert "+ fsdp-opt" in said and "+ fsdp-run" in said and not (folder / "dry/model/model.safetensors").exists(), said


def main():
    arguments = parse_arguments()
    run_cases({"examples": examples, "as PyTorch": as_pytorch, "smoothed": smoothed, "going on": going_on, "killed": killed, "deepspeed": deepspeed, "refusals": refusals}, arguments.only)


if __name__ == "__main__":
    main()
