# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is taken to the machine with the GPU: models, artifacts, predictions, a build and these scripts, in one file."""
import json
import re
import shutil
import subprocess
import tarfile

import kit

TARGETS = ("fsdp-run", "fsdp-kernels", "gpu-test", "cuda-streams-test", "fsdp-gaps", "fake-nccl")
GAPS = "libfsdp-gaps.so"
# Path in the build, whether no archive is made without it, and whether it is for GPUs alone.
FILES = (("bin/fsdp-run", True, False), ("lib/libfsdp-runtime.so", True, False), ("lib/libfsdp-kernels.so", True, False), ("lib/libfsdp-cuda.so", True, True), (f"lib/{GAPS}", False, True),
         ("lib/libfake-nccl.so", True, True), ("test/bin/gpu-test", True, True), ("test/bin/cuda-streams-test", True, True))
# The scripts, by their paths in test/.
SCRIPTS = ("gpu/*.py", "gpu/first.sh", "end_to_end/exports.py", "end_to_end/harness.py", "end_to_end/quantized.py", "end_to_end/ranks.py", "end_to_end/warm.py", "end_to_end/zoo.py", "op_sweep/sweep.py")
# What first.sh begins with: models and cases, on as few ranks as there are artifacts for.
BEGIN = (("gpt", "bf16"), ("gpt", "zero3"), ("gpt", "kernels"))
# A first archive: cases by model. One rank where a case stands in ALONE, and two.
QUICK = {
    "gpt": ("zero3", "bf16", "kernels", "bf16kernels", "everything", "ckpt", "optoffload", "offload", "actoffload", "accumulate", "tp2", "tp2sp", "selective", "chunks", "flat"),
    "llama": ("zero3", "bf16", "kernels", "everything", "ckpt", "optoffload", "actoffload", "cp2", "tp2", "chunks", "flat"),
    "convnet": ("zero3", "optoffload"),
    "t5": ("zero3", "bf16"),
    "transformer": ("zero3", "bf16"),
}
ALONE = ("zero3", "bf16", "kernels")


def steps_of(name, given, options):
    """Pairs of a case and a number of ranks that a model is compiled for."""
    import cases
    import families
    if options.quick:
        return [(case, world) for case in given for world in ((1, 2) if case in ALONE else (2,))]
    worlds = [w for w in options.worlds if w <= 2] if name in families.FAMILIES else options.worlds
    return [(case, world) for case in given or cases.CASES for world in worlds]


def wanted(options, factories):
    """Cases by model: as the command line has them (NAME or NAME=CASE,CASE), those of a first archive, or all."""
    import cases
    names = dict(QUICK) if options.quick and not options.names else {}
    for text in options.names or (() if names else factories):
        name, _, own = text.partition("=")
        names[name] = tuple(own.split(",")) if own else tuple(options.cases or ())
    for given, known in ((names, factories), ({c for own in names.values() for c in own}, cases.CASES)):
        for name in set(given) - set(known):
            raise kit.Failure(f"'{name}' is not known: expected one of {', '.join(known)}")
    return names


def prepare(options):
    import cases
    import operators
    import table
    from families import FAMILIES
    factories = cases.factories(options.models)
    names = wanted(options, factories)
    if options.out.exists() and not (options.out / "manifest.json").exists() and any(options.out.iterdir()):
        raise kit.Failure(f"{options.out} is not empty and no folder of `prepare`'s: give another one")
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    if options.models:
        shutil.copy(options.models, options.out / "models.py")
    manifest = {"device": options.device, "arch": options.arch, "size": options.size, "has_models": bool(options.models),
                "cases": {}, "families": [name for name in names if name in FAMILIES and not options.models], "operators": {}, "refused": {}}
    manifest.update(table.prepare(options.out, options.bin, options.size, options.device, options.arch))
    print(f"decoder: attention by {manifest['attention']}", flush=True)
    for name, own in names.items():
        try:
            made, refused = cases.prepare(options.out, options.bin, name, factories[name], steps_of(name, own, options), options.device, options.arch, options.exports)
        except ImportError as error:
            made, refused = [], {f"{name}": str(error)}
        manifest["cases"][name] = made
        manifest["refused"].update(refused)
        print(f"{name}: {len(made)} steps compiled, {len(refused)} refused", flush=True)
    if manifest["refused"] and options.quick:
        raise kit.Failure(f"a first archive takes what compiles, and these were refused: {manifest['refused']}")
    fewest = {(model, case): min(w for c, w, _ in made if c == case) for model, made in manifest["cases"].items() for case, _, _ in made}
    manifest["begin"] = [[model, f"{case}-{fewest[model, case]}"] for model, case in BEGIN if (model, case) in fewest]
    if options.every and not options.quick:
        manifest["operators"], refused = operators.prepare(options.out, options.bin, options.every, options.device, options.arch)
        manifest["refused"].update(refused)
        print(f"operators: {sum(map(len, manifest['operators'].values()))} compiled, {len(refused)} refused", flush=True)
    if options.cuda_build:
        take_build(options.cuda_build, options.out / "build", options.device)
    take_scripts(options.out / "test")
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=1))
    # For a shell.
    (options.out / "begin.txt").write_text("".join(f"cases/{model} {artifact}\n" for model, artifact in manifest["begin"]))
    pack(options.out, options.limit)


def take_scripts(to):
    for pattern in SCRIPTS:
        for source in (kit.HERE.parent).glob(pattern):
            target = to / source.relative_to(kit.HERE.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def take_build(build, to, device):
    """What runs without the rest: programs and our own libraries. Debug symbols and this machine's folders stay behind."""
    for name, is_needed, is_for_gpus in FILES:
        source, target = build / name, to / name
        if source.exists() and (device == "cuda" or not is_for_gpus):
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["strip", "--strip-unneeded", "-o", str(target), str(source)], check=True)
            forget_folders(target)
        elif is_needed and (device == "cuda" or not is_for_gpus):
            raise kit.Failure(f"{source} is not there: configure with -DFSDP_CUDA=ON and build the targets {' '.join(TARGETS)}")


def forget_folders(file):
    """Overwrites a program's list of absolute folders to search for libraries: on another machine LD_LIBRARY_PATH says where they are, or nothing does."""
    said = subprocess.run(["readelf", "-d", str(file)], capture_output=True, text=True, check=True).stdout
    content = file.read_bytes()
    for found in re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library \w+: \[(.+)\]", said):
        old = found.encode() + b"\0"
        if content.count(old) != 1:
            raise kit.Failure(f"{file.name}: expected its list of folders once, found it {content.count(old)} times: {found}")
        content = content.replace(old, b"$ORIGIN\0".ljust(len(old), b"\0"))
    file.write_bytes(content)


def pack(out, limit):
    """Puts the folder into one file to take along, of no more than so many MiB."""
    for folder in sorted(p for p in out.iterdir() if p.is_dir()):
        print(f"{sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 2**20:7.1f} MiB {folder.name}")
    archive = out.with_name(out.name + ".tar.gz")
    # A hundredth larger than with 9, in a third of the time.
    with tarfile.open(archive, "w:gz", compresslevel=6) as file:
        file.add(out, arcname=".")
    size = archive.stat().st_size / 2**20
    print(f"{size:7.1f} MiB {archive.name}, which has it all")
    if size > limit:
        archive.unlink()
        raise kit.Failure(f"{archive} has {size:.1f} MiB, more than --limit={limit}: leave out models (--names), ranks (--worlds) or operators (--every)")


def unpack(out):
    """The folder itself, or one with what an archive has."""
    if not out.is_file():
        return out
    folder = kit.roomy_folder(20 * out.stat().st_size, has_programs=True)
    with tarfile.open(out) as file:
        # Python 3.11.2 of Debian 12 knows no filters, which 3.14 wants.
        file.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder
