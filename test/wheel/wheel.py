# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the wheel, installs it where there is torch and nothing else, and runs the README's example.

    wheel.py --source FOLDER [--wheel FILE.whl]

The environment is new, but for torch and what torch requires, which are links to those of the
environment that this runs in: nothing is downloaded, and numpy, transformers and safetensors
are not there. What runs in it gets no variable of ours.
"""
import argparse
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MOST_BYTES = 150_000_000
SECONDS = 120


def requirements(name, found):
    """Distributions that `name` needs, itself among them."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return found
    try:
        found[key] = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return found  # of another platform, or an extra
    for requirement in found[key].requires or []:
        if "extra ==" not in requirement:
            requirements(re.match(r"[\w.-]+", requirement)[0], found)
    return found


def link(folder):
    """torch and what it needs, as links in the environment's packages."""
    for distribution in requirements("torch", {}).values():
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            source, to = pathlib.Path(distribution.locate_file(top)), folder / top
            if source.exists() and not to.exists():
                to.symlink_to(source)


def call(*command, cwd):
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LC_ALL": "C.UTF-8"},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[0]} exited with {done.returncode}: {done.stderr.strip()[-2000:]}"
    return done.stdout


def check_wheel(wheel):
    size = wheel.stat().st_size
    assert size <= MOST_BYTES, f"{wheel.name} has {size} bytes"
    assert "manylinux" in wheel.name, f"{wheel.name} is of no Linux but this one"
    return size


def check_versions(file, text):
    """What the name promises: no function of a newer C or C++ library than Debian 12's."""
    for library, newest in (("GLIBC", (2, 36)), ("GLIBCXX", (3, 4, 30)), ("CXXABI", (1, 3, 13))):
        for version in re.findall(rf"Name: {library}_([\d.]+)", text):
            assert tuple(map(int, version.split("."))) <= newest, f"{file.name} needs {library}_{version}"


def check_libraries(packages):
    """No file of the package names a place of this machine, or needs what only this machine has."""
    files = [*packages.glob("fsdp_opt/*.so"), *packages.glob("fsdp_opt/lib/*.so*"), *packages.glob("fsdp_opt/bin/*")]
    assert len(files) >= 7, files
    for file in files:
        check_versions(file, call("readelf", "-V", file, cwd=packages))
        dynamic = call("readelf", "-d", file, cwd=packages)
        for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic):
            assert all(part.startswith("$ORIGIN") for part in path.split(":")), f"{file.name} looks into {path}"
        if file.name == "libfsdp-cuda.so":
            continue  # needs a driver
        for line in call("ldd", file, cwd=packages).splitlines():
            assert "not found" not in line, f"{file.name}: {line}"
            assert not re.search(r"lib(MLIR|LLVM|yaml-cpp|zstd|xxhash|flatbuffers|gloo|curl)\S* => /(usr|lib)", line), f"{file.name}: {line}"
    names = {file.stem for file in (packages / "fsdp_opt/licenses").iterdir()}
    assert {"libmlir-22-dev", "llvm-22-dev", "libyaml-cpp-dev", "libzstd-dev", "nanobind"} <= names, names


def examples(readme):
    """The README's blocks of Python that use the package: one compiles, the other one trains."""
    blocks = [block for block in re.findall(r"```python\n(.*?)```", readme.read_text(), re.S) if "import fsdp_opt" in block]
    assert len(blocks) == 2, f"{len(blocks)} blocks of {readme.name} import fsdp_opt"
    return blocks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--wheel", type=lambda text: pathlib.Path(text).resolve(), help="this one, or the one in this folder, rather than a new one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, begin = pathlib.Path(name), time.monotonic()
        wheel = arguments.wheel
        if not wheel:
            subprocess.run([arguments.source / "python/wheel", folder], check=True, stdout=sys.stderr)
            wheel, = folder.glob("*.whl")
            print(f"made in {time.monotonic() - begin:.1f} s")
        elif wheel.is_dir():
            wheel = max(wheel.glob("*.whl"), key=lambda each: each.stat().st_mtime)
        print(f"{wheel.name}: {check_wheel(wheel) / 1e6:.1f} MB")
        subprocess.run([sys._base_executable, "-m", "venv", folder / "env"], check=True)
        python, begin = folder / "env/bin/python", time.monotonic()
        packages = next((folder / "env/lib").glob("python3*")) / "site-packages"
        link(packages)
        # Of torch's many requirements some come through extras of others, which pip would look for.
        call(python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel, cwd=folder)
        told = call(python, "-m", "pip", "show", "--disable-pip-version-check", "fsdp-opt", cwd=folder)
        assert re.search(r"^Requires: torch$", told, re.M), told
        check_libraries(packages)
        assert "22.1" in call(folder / "env/bin/fsdp-opt", "--version", cwd=folder) and call(folder / "env/bin/fsdp-run", "--version", cwd=folder)
        compiles, trains = examples(arguments.source / "README.md")
        (folder / "compile.py").write_text(compiles)
        (folder / "train.py").write_text(trains)
        call(python, "compile.py", cwd=folder)
        alone = call(python, "train.py", cwd=folder)
        seconds = time.monotonic() - begin
        losses = [float(x) for x in re.findall(r"loss (\d+\.\d+)", alone)]
        assert len(losses) >= 2 and losses[-1] < losses[0] / 2, f"nothing was learnt: {alone}"
        assert (folder / "trained.safetensors").stat().st_size > 1000
        assert seconds < SECONDS, f"{seconds:.0f} s from installing to a trained model"
        print(f"from installing to a trained model: {seconds:.1f} s")
        again = call(python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py", cwd=folder)
        there = [float(x) for x in re.findall(r"loss (\d+\.\d+)", again)]
        # The same rows in each step, which the processes share out otherwise.
        assert len(there) == len(losses) and all(abs(a - b) < 2e-4 * max(1, b) for a, b in zip(there, losses)), f"torchrun: {again}\nalone: {alone}"
        print("under torchrun: the same losses")


main()
