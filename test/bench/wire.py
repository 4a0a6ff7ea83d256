# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it brings to send gradients in bfloat16 or float8 (reduce_wire_dtype), as a ratio to the same steps without.

    wire.py --bin build/bin [--shape 512x8] [--steps 12] [--repeat 3] [--rate 2gbit]

Two ranks over gloo, a thread each, on loopback, or with --rate in two network namespaces with a link of so many bits a second between them (needs root,
iproute2); the artifacts run in turns. Compared are median steps, and what a rank spends on its reductions in a
step: issuing them, waiting for them (which sums), and casting in front of them; for bfloat16 alone, since scales of float8 are kernels of many kinds. Profiled
steps are a few more.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
WORLD, WARMUP, PROFILED = 2, 3, 5


def get_reduction_times(trace):
    """Seconds of each step that rank 0 spends on reductions."""
    steps = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        details = event.get("args", {})
        is_reduction = event.get("cat") in ("start", "wait") and details.get("collective") == "reduce_scatter"
        is_cast = event.get("name") == "aten::_to_copy" and details.get("result", "").startswith("bf16")
        if event.get("pid") == 0 and (is_reduction or is_cast):
            steps[details["step"]] = steps.get(details["step"], 0) + event["dur"] / 1e6
    return list(steps.values())


class Link:
    """Two network namespaces, and what they send each other limited to a rate."""
    NAMES, ADDRESSES = ("fsdp-wire-0", "fsdp-wire-1"), ("10.213.0.1", "10.213.0.2")

    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        self.__exit__()
        ip = lambda *words: subprocess.run(["ip", *words], check=True)
        for name in self.NAMES:
            ip("netns", "add", name)
        ip("link", "add", "wire0", "netns", self.NAMES[0], "type", "veth", "peer", "name", "wire1", "netns", self.NAMES[1])
        for rank, (name, address) in enumerate(zip(self.NAMES, self.ADDRESSES)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"wire{rank}")
            for device in ("lo", f"wire{rank}"):
                ip("-n", name, "link", "set", device, "up")
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", f"wire{rank}", "root", "tbf", "rate", self.rate, "burst", "1mb", "latency", "50ms"], check=True)
        return self

    def __exit__(self, *_):
        for name in self.NAMES:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)

    def launch(self, bin, folder, *options):
        ranks = []
        for rank, name in enumerate(self.NAMES):
            own = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": WORLD, "MASTER_ADDR": self.ADDRESSES[0], "MASTER_PORT": 29513, "GLOO_SOCKET_IFNAME": f"wire{rank}"}
            ranks.append(subprocess.Popen(["ip", "netns", "exec", name, bin / "fsdp-run", *options], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                          env={**os.environ, "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in own.items()}}))
        for rank in ranks:
            said = rank.communicate(timeout=600)[1]
            if rank.returncode:
                sys.exit(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--shape", default="512x8")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rate", help="of a link between the ranks, as tc writes it; default: loopback")
    arguments = parser.parse_args()
    import bench
    from harness import compile_step, launch, make_config
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    with tempfile.TemporaryDirectory() as name, Link(arguments.rate) if arguments.rate else contextlib.nullcontext() as link:
        run = link.launch if link else lambda bin, folder, *options: launch(bin, folder, WORLD, "gloo", *options)
        times, reductions = {}, {}
        wires = (None, "bfloat16", "float8")
        for wire in wires:
            folder = pathlib.Path(name) / str(wire)
            folder.mkdir()
            model, inputs = bench.make_model(arguments.shape)
            config = make_config(WORLD, reshard_after_forward=True)
            config["fsdp_config"].update({"reduce_wire_dtype": wire} if wire else {})
            compile_step(arguments.bin, folder, model, inputs, config)
        for _ in range(arguments.repeat):
            for wire in wires:
                folder = pathlib.Path(name) / str(wire)
                common = ("step.fsdp", "--data=sample", "--threads=1")
                (folder / "m.jsonl").unlink(missing_ok=True)
                run(arguments.bin, folder, *common, f"--steps={arguments.steps}", "--metrics=m.jsonl")
                rows = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()][WARMUP:]
                times.setdefault(wire, []).extend(row["step_time_s"] for row in rows)
                if wire == "float8":
                    continue
                run(arguments.bin, folder, *common, f"--steps={WARMUP + PROFILED}", "--profile=trace.json")
                reductions.setdefault(wire, []).extend(get_reduction_times(folder / "trace.json"))
        for what, each in (("a step", times), ("its reductions", reductions)):
            plain = statistics.median(each.pop(None))
            for wire, low in each.items():
                print(f"{what}: {plain * 1e3:.1f} ms in float32, {statistics.median(low) * 1e3:.1f} ms in {wire}: {statistics.median(low) / plain:.3f}")


main()
