# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs docs/FirstModel.md as a person would paste it, with a tiny Llama.

    first_model.py SOURCE_DIR BINARY_DIR
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

SOURCE, BINARY = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
RANKS, STEPS, VOCABULARY = 3, 4, 300


def make_model(folder, text):
    """A Llama in Hugging Face's layout: random weights and a tokenizer trained on the text."""
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(text)], vocab_size=VOCABULARY)
    tokenizer.save(str(folder / "tokenizer.raw.json"))
    transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.raw.json")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def main():
    document = (SOURCE / "docs" / "FirstModel.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", document, re.S | re.M)
    assert len(blocks) >= 7, f"expected at least seven blocks, found {len(blocks)}"
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        model, text = work / "llama", SOURCE / "README.md"
        model.mkdir()
        make_model(model, text)
        (work / "build").mkdir()
        (work / "build" / "bin").symlink_to(BINARY / "bin")
        environment = {**os.environ, "MODEL": str(model), "TEXT": str(text), "LENGTH": "16", "BATCH": "2",
                       "RANKS": str(RANKS), "STEPS": str(STEPS), "PYTHON": sys.executable, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(["bash", "-e"], input="\n".join(blocks), cwd=work, env=environment,
                              capture_output=True, text=True, timeout=600)
        print(done.stdout, done.stderr, sep="\n")
        assert done.returncode == 0, f"a block failed with exit status {done.returncode}"
        assert len((work / "build/first/metrics.jsonl").read_text().splitlines()) == STEPS
        losses = load_file(work / "build/first/losses.safetensors")["loss"]
        assert losses.shape == (STEPS * RANKS,) and losses.isfinite().all(), losses
        trained = load_file(work / "build/first/trained.safetensors")
        before = load_file(model / "model.safetensors")
        moved = [name for name in before if name in trained and not torch.equal(before[name], trained[name])]
        assert len(moved) == len(before), f"only {len(moved)} of {len(before)} weights were trained and exported"
        assert "All keys matched" in done.stdout, "the exported weights do not load as the model's"


main()
