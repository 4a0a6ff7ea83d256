# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What people look at, as a browser without a screen draws it: `explain` in a notebook, and TensorBoard with the events of a run.

    pictures.py --build build [--out FOLDER]

Needs chromium, and pip to install tensorboard and nbconvert into an environment of its own beside this Python's packages.
Exit status 77 where these cannot be had. Docs show what it draws (docs/figures).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "test" / "end_to_end"))
SKIPPED = 77
CELLS = ["""import torch, fsdp_opt, zoo
torch.manual_seed(0)
model, inputs = zoo.llama()""",
         """fsdp_opt.explain(model, kwargs=inputs, config={"mesh": {"dp_shard": 4}, "cluster": "cpu", "optimizer": {"name": "adamw", "lr": 1e-3},
    "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaBlock"}})"""]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def make_environment(folder):
    """A Python with the packages of this one, and those that draw."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "tensorboard", "nbconvert", "ipykernel", "pillow"])
    if done.returncode:
        skip("tensorboard and nbconvert cannot be installed")
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "others.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n")
    return python


def draw(browser, address, out, size, wait=0):
    """A PNG of the page, and what the page became."""
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--run-all-compositor-stages-before-draw", f"--window-size={size}", *([f"--virtual-time-budget={wait}"] if wait else [])]
    subprocess.run([*common, f"--screenshot={out}", address], check=True, capture_output=True, timeout=180)
    page = subprocess.run([*common, "--dump-dom", address], check=True, capture_output=True, text=True, timeout=180).stdout
    return page


def must_show(python, png):
    """More than a background and a few lines."""
    count = "import sys; from PIL import Image; print(len(Image.open(sys.argv[1]).convert('RGB').getcolors(1 << 24)))"
    colours = int(subprocess.run([python, "-c", count, png], check=True, capture_output=True, text=True).stdout)
    assert colours > 20, f"{png} has {colours} colours: it is empty"


def notebook(python, browser, folder, out, environment):
    cells = [{"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None} for text in CELLS]
    (folder / "explain.ipynb").write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
                                                      "nbformat": 4, "nbformat_minor": 4}))
    subprocess.run([python, "-m", "nbconvert", "--to", "html", "--execute", "explain.ipynb"], cwd=folder, env=environment, check=True)
    page = draw(browser, (folder / "explain.html").as_uri(), out / "explain-notebook.png", "1000,1400")
    for text in ("Memory of a rank", "reduce_scatter", "Predicted time on"):
        assert text in page, f"the notebook does not show '{text}'"
    must_show(python, out / "explain-notebook.png")


def tensorboard(python, browser, folder, out, build):
    import torch
    from safetensors.torch import save_file

    import zoo
    from harness import compile_step, launch, make_config, make_data
    from ranks import find_port
    torch.manual_seed(7)
    model, inputs = zoo.llama()
    save_file(make_data(inputs, 40), folder / "data.safetensors")
    compile_step(build / "bin", folder, model, inputs, make_config(2, optimizer={"name": "adamw", "lr": 3e-3}, lr_scheduler={"name": "cosine", "total_steps": 60}))
    launch(build / "bin", folder, 2, "local", "step.fsdp", "--data=data.safetensors", "--steps=60", "--tensorboard=board/run", "--peak-flops=1e12")
    port = find_port()
    with open(folder / "tensorboard.log", "w") as log:
        server = subprocess.Popen([python, "-m", "tensorboard.main", "--logdir", folder / "board", "--port", str(port), "--load_fast=false"], stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}/"
        for _ in range(120):
            try:
                if b"train/loss" in urllib.request.urlopen(address + "data/plugin/scalars/tags", timeout=5).read():
                    break
            except OSError:
                pass
            assert server.poll() is None, (folder / "tensorboard.log").read_text()
            time.sleep(0.5)
        # Groups behind the second are closed.
        pinned = json.dumps([{"plugin": "scalars", "tag": f"train/{name}"} for name in ("loss", "grad_norm", "lr")])
        query = urllib.parse.urlencode({"darkMode": "false", "pinnedCards": pinned})
        page = draw(browser, f"{address}?{query}#timeseries", out / "tensorboard.png", "1900,1700", wait=90000)
    finally:
        server.terminate()
        server.wait()
    for text in ("train/loss", "train/lr", "speed/tokens_per_s"):
        assert text in page, f"TensorBoard does not show '{text}'"
    must_show(python, out / "tensorboard.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--out", type=lambda p: pathlib.Path(p).resolve(), help="default: BUILD/pictures")
    arguments = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        skip("there is no chromium")
    out = arguments.out or arguments.build / "pictures"
    out.mkdir(parents=True, exist_ok=True)
    paths = [str(arguments.build / "python"), str(SOURCE / "test" / "end_to_end")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        python = make_environment(folder / "environment")
        notebook(python, browser, folder, out, environment)
        print(f"ok    {out / 'explain-notebook.png'}")
        tensorboard(python, browser, folder, out, arguments.build)
        print(f"ok    {out / 'tensorboard.png'}")


if __name__ == "__main__":
    main()
