# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp-train with `kd`: a student beside the formulas in PyTorch and, where it is installed, TRL's GKDTrainer; what is written has no teacher."""
import importlib.util
import json
import shutil
import subprocess

import torch
import transformers
from safetensors.torch import load_file

import fsdp_opt
import fsdp_opt.tools
from harness import parse_arguments, run_cases
from recipes import begin, load, losses, run, write

F = torch.nn.functional
ROWS, STEPS, RATE = 4, 3, 0.05
PLAIN = dict(sample_packing=None, val_set_size=None, num_epochs=None, gradient_accumulation_steps=1, micro_batch_size=ROWS, max_steps=STEPS, learning_rate=None,
             lr_scheduler=None, warmup_steps=None, optimizer={"name": "sgd", "lr": RATE}, data={"shuffle": False}, mesh={"dp_shard": 1}, sequence_len=96)


def prepare(folder):
    """Beside the base a teacher of the same tokens, wider and with one layer more."""
    begin(folder)
    config = transformers.AutoConfig.from_pretrained(folder / "base")
    config.hidden_size, config.num_hidden_layers, config.intermediate_size = 96, 3, 128
    torch.manual_seed(3)
    teacher = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for each in teacher.parameters():
            each.mul_(2)
    teacher.save_pretrained(folder / "teacher")
    for each in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(folder / "base" / each, folder / "teacher" / each)


def rows_of(folder, name):
    return load_file(next((folder / name / "data").glob("train-*.safetensors")))


def expected(kd, student, teacher, batch):
    """The definition, token by token that counts."""
    own, other = student(batch["input_ids"]).logits[:, :-1], teacher(batch["input_ids"]).logits[:, :-1].detach()
    labels = batch["labels"][:, 1:]
    counts = labels != -100
    temperature, beta = kd.get("temperature", 1), kd.get("beta", 0)
    p, q = (torch.softmax(each[counts].double() / temperature, -1) for each in (other, own))

    def divergence(a, b):
        return (a * (a / b).log()).sum(-1)
    if beta in (0, 1):
        found = divergence(p, q) if beta == 0 else divergence(q, p)
    else:
        mixed = beta * p + (1 - beta) * q
        found = beta * divergence(p, mixed) + (1 - beta) * divergence(q, mixed)
    loss = kd.get("alpha", 1) * temperature**2 * found.mean()
    return loss + kd.get("ce_weight", 0) * F.cross_entropy(own[counts].double(), labels[counts])


def check(folder, name, kd, have, rows=ROWS):
    """Losses, and by them gradients, of `rows` rows a step."""
    data = rows_of(folder, name)
    student, teacher = load(folder / "base"), load(folder / "teacher")
    optimizer = torch.optim.SGD(student.parameters(), RATE)
    assert len(have) == STEPS, have
    for step, found in enumerate(have):
        loss = expected(kd, student, teacher, {key: value[rows * step:rows * step + rows] for key, value in data.items()})
        assert abs(found - loss.item()) < 5e-5 * max(1, loss.item()), f"{kd}, step {step}: {found} instead of {loss.item()}"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return student


def as_formulas(folder, everything):
    prepare(folder)
    for number, kd in enumerate([{"temperature": 2.0, "alpha": 0.9, "ce_weight": 0.1}, {"beta": 0.5}, {"beta": 1.0}, {}][:None if everything else 2]):
        name, ranks = f"kd{number}", 2 if number == 0 else 1
        write(folder, name, "full.yaml", **{**PLAIN, "mesh": {"dp_shard": ranks}, "micro_batch_size": ROWS // ranks, "kd": {"teacher": "teacher", **kd}})
        run(folder, f"{name}.yaml")
        student = check(folder, name, kd, losses(folder, name))
        trained = load(folder / name / "model")
        for key, value in student.state_dict().items():
            assert torch.allclose(trained.state_dict()[key], value, atol=1e-5), key
        assert not [key for key in load_file(folder / name / "model/model.safetensors") if key.startswith("teacher")]
        assert json.loads((folder / name / "model/config.json").read_text())["num_hidden_layers"] == 2


def with_adapters(folder):
    """By Axolotl's keys, packed, over a base and a teacher of 4 bits: only the student has adapters, and the merged model no teacher."""
    prepare(folder)
    keys = dict(kd_teacher="teacher", kd_trainer=True, kd_alpha=0.9, kd_ce_alpha=0.1, kd_temperature=2.0, lora_exclude_modules=["o_proj"], merge_lora=True, num_epochs=None,
                max_steps=20)
    write(folder, "lora", "lora.yaml", **keys)
    run(folder, "lora.yaml")
    found = losses(folder, "lora")
    assert found[-1] < 0.8 * found[0], found
    names = load_file(folder / "lora/adapter/adapter_model.safetensors")
    assert names and not [name for name in names if "teacher" in name or "o_proj" in name], list(names)
    merged = load_file(folder / "lora/merged/model.safetensors")
    assert set(merged) == set(load_file(folder / "base/model.safetensors")) | ({"lm_head.weight"} & set(merged)), set(merged)
    refused = subprocess.run([fsdp_opt.tools.path("fsdp-run"), folder / "lora/step.fsdp", f"--data={next((folder / 'lora/data').glob('train-*.safetensors'))}", "--steps=1",
                              "--export=no.safetensors", "--export-without=teecher.*"], cwd=folder, capture_output=True, text=True)
    assert refused.returncode and "'teecher.*' matches no state" in refused.stderr and not (folder / "no.safetensors").exists(), refused.stderr
    write(folder, "qlora", "qlora.yaml", **{**keys, "merge_lora": None, "max_steps": 4})
    run(folder, "qlora.yaml")
    close = losses(folder, "qlora")
    assert abs(close[0] - found[0]) < 0.2 * found[0], f"{close} over 4 bits, {found} over 32"


def refusals(folder):
    prepare(folder)
    config = json.loads((folder / "teacher/config.json").read_text())
    for name, changed in (("larger", {**config, "vocab_size": 400}), ("other", config)):
        shutil.copytree(folder / "teacher", folder / name)
        (folder / name / "config.json").write_text(json.dumps(changed))
    tokens = json.loads((folder / "other/tokenizer.json").read_text())
    words = tokens["model"]["vocab"]
    first, second = list(words)[300:302]
    words[first], words[second] = words[second], words[first]
    (folder / "other/tokenizer.json").write_text(json.dumps(tokens))
    for keys, text in ((dict(kd={"teacher": "larger"}), "expected a model of 384 tokens"), (dict(kd={"teacher": "other"}), "found another one"),
                       (dict(kd={"temperature": 2}), "needs 'teacher'"), (dict(kd={"teacher": "teacher", "temperature": 0}), "expected a number from 0.001"),
                       (dict(kd={"teacher": "teacher", "alph": 1}), "found 'alph'"), (dict(kd={"teacher": "teacher", "alpha": 0}), "trains nothing"), (dict(kd={"teacher": "teacher"}, label_smoothing_factor=0.1), "not supported with 'kd'"),
                       (dict(kd_trainer=True), "rows of log-probabilities"), (dict(kd_teacher="teacher", kd_online_server_base_url="http://x"), "a server of logits"),
                       (dict(kd={"teacher": "teacher"}, rl="dpo", datasets=[{"path": "pairs.jsonl"}]), "not supported with 'rl'")):
        write(folder, "no", "full.yaml", **{**PLAIN, **keys})
        try:
            run(folder, "no.yaml")
        except fsdp_opt.Error as error:
            assert text in str(error), f"{text}: {error}"
        else:
            raise AssertionError(f"{keys} is taken")


def as_trl(folder):
    """GKD without samples of the student's own (lmbda 0) is this, at a temperature of 1."""
    if not importlib.util.find_spec("trl"):
        print("      trl is not installed: its part is left out")
        return
    import datasets
    from trl.experimental.gkd import GKDConfig, GKDTrainer
    prepare(folder)
    for beta in (0.0, 0.5, 1.0):
        name = f"gkd{beta}"
        write(folder, name, "full.yaml", **{**PLAIN, "kd": {"teacher": "teacher", "beta": beta}})
        run(folder, f"{name}.yaml")
        have = losses(folder, name)
        rows = rows_of(folder, name)
        arguments = GKDConfig(output_dir=str(folder / "trl"), per_device_train_batch_size=ROWS, max_steps=STEPS, learning_rate=RATE, lr_scheduler_type="constant", optim="sgd",
                              logging_steps=1, max_grad_norm=0.0, bf16=False, gradient_checkpointing=False, use_cpu=True, report_to=[], save_strategy="no", max_length=96,
                              disable_tqdm=True, lmbda=0.0, beta=beta, temperature=1.0, train_sampling_strategy="sequential")
        made = GKDTrainer(model=load(folder / "base"), teacher_model=load(folder / "teacher"), args=arguments,
                          train_dataset=datasets.Dataset.from_json(str(folder / "chats.jsonl"), cache_dir=str(folder / "cache")),
                          processing_class=transformers.AutoTokenizer.from_pretrained(folder / "base"))
        want = []
        for step in range(STEPS):
            batch = {key: value[ROWS * step:ROWS * step + ROWS] for key, value in rows.items()}
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
            loss = made.compute_loss(made.model, batch)
            want.append(loss.item())
            made.model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for each in made.model.parameters():
                    each.sub_(RATE * each.grad)
        print(f"      beta {beta}: ours {' '.join(f'{each:.5f}' for each in have)}, TRL's {' '.join(f'{each:.5f}' for each in want)}")
        assert all(abs(ours - theirs) < 1e-4 * max(1, theirs) for ours, theirs in zip(have, want, strict=True)), (have, want)


def main():
    arguments = parse_arguments()
    run_cases({"formulas": lambda folder: as_formulas(folder, arguments.all), "adapters": with_adapters, "refusals": refusals, "TRL": as_trl}, arguments.only)


if __name__ == "__main__":
    main()
