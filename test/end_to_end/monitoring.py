# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What dashboards learn of a run: event files, as TensorBoard reads them where it is installed, and a page for Prometheus."""
import http.client
import importlib.util
import json
import math
import os
import pathlib
import pty
import re
import socket
import struct
import subprocess
import time

import torch
from safetensors.torch import save_file

import zoo
from harness import compile_step, launch, make_config, make_data, parse_arguments, run_cases, run_step
from ranks import CLEAN, find_port


def prepare(bin, folder, factory=zoo.llama, steps=6, **config):
    torch.manual_seed(7)
    model, inputs = factory()
    save_file(make_data(inputs, 2 * steps), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, make_config(2, **config))
    return inputs


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a protocol buffer's fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, at = data[at:at + size], at + size
            if kind == 1:
                value = struct.unpack("<d", value)[0]
            elif kind == 5:
                value = struct.unpack("<f", value)[0]
        yield tag >> 3, value


def read_events(folder):
    """{tag: [(step, value)]} of the folder's files, in the order of their names; every checksum is looked at."""
    found = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        data, at, number = file.read_bytes(), 0, 0
        while at < len(data):
            length = struct.unpack_from("<Q", data, at)[0]
            assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8]), f"{file}: a length's checksum"
            body = data[at + 12:at + 12 + length]
            assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"{file}: an event's checksum"
            at += 16 + length
            event = dict(fields(body))
            assert abs(event[1] - time.time()) < 600, "wall time"
            if number == 0:
                assert event[3] == b"brain.Event:2", event
            if 7 in event:  # a start: what is there of this step and later ones is void
                assert dict(fields(event[7])) == {1: 1}
                found = {tag: [(step, value) for step, value in rows if step < event[2]] for tag, rows in found.items()}
            for _, summary in ((key, value) for key, value in fields(body) if key == 5):
                for _, one in fields(summary):
                    value = dict(fields(one))
                    found.setdefault(value[1].decode(), []).append((event.get(2, 0), value[2]))
            number += 1
    return found


def events(bin):
    """What --metrics has, in TensorBoard's files; a run that continues stands in for what was made after its checkpoint."""
    def case(folder):
        inputs = prepare(bin, folder, eval={"data": "data.safetensors"})
        options = ("step.fsdp", "--data=data.safetensors", "--peak-flops=1e12", "--tensorboard=board/run", "--metrics=m.jsonl", "--save=ck")
        launch(bin, folder, 2, "local", *options, "--steps=4", "--save-every=2", "--eval-every=2")
        (folder / "ck" / "step_4").rename(folder / "away")
        launch(bin, folder, 2, "local", *options, "--steps=6", "--load=latest")
        rows = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
        steps = [row for row in rows if "loss" in row]
        found = read_events(folder / "board" / "run")
        close = lambda have, want: [h[0] for h in have] == [w[0] for w in want] and all(math.isclose(h[1], w[1], rel_tol=1e-6) for h, w in zip(have, want))
        for tag, key in (("train/loss", "loss"), ("train/grad_norm", "grad_norm"), ("train/lr", "lr"), ("speed/samples_per_s", "samples_per_s"),
                         ("speed/tokens_per_s", "tokens_per_s"), ("speed/step_time_s", "step_time_s"), ("speed/exposed_s", "exposed_s"), ("memory/peak_bytes", "peak_memory_bytes"),
                         ("speed/flops_per_s", "flops_per_s"), ("speed/mfu", "mfu")):
            assert close(found[tag], [(row["step"], row[key]) for row in steps]), f"{tag}: {found[tag]}"
        assert [row["step"] for row in steps] == list(range(6))
        assert [step for step, _ in found["eval/loss"]] == [1, 5], found["eval/loss"]
        length = next(iter(inputs.values())).shape[1]
        for row in steps:
            assert 0 < row["exposed_s"] < row["step_time_s"], row
            assert math.isclose(row["mfu"], row["flops_per_s"] / 1e12), row
            assert math.isclose(row["tokens_per_s"], row["samples_per_s"] * length) and row["time_left_s"] >= 0, row
        assert steps[-1]["time_left_s"] == 0
        if importlib.util.find_spec("tensorboard"):
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
            board = EventAccumulator(str(folder / "board" / "run")).Reload()
            assert set(board.Tags()["scalars"]) == set(found), board.Tags()
            for tag, rows in found.items():
                assert close([(each.step, each.value) for each in board.Scalars(tag)], rows), f"TensorBoard reads {tag} otherwise"
        else:
            print("      tensorboard is not installed: its reader is left out")
    return case


def from_python(folder):
    import fsdp_opt
    file = fsdp_opt.EventFile(folder / "runs" / "one")
    file.add(3, **{"train/loss": torch.tensor(2.5), "nothing": None, "ünï": float("nan")})
    found = read_events(folder / "runs" / "one")
    assert found["train/loss"] == [(3, 2.5)] and math.isnan(found["ünï"][0][1]) and len(found) == 2, found
    assert file.path.parent == folder / "runs" / "one"
    (folder / "file").write_text("")
    try:
        fsdp_opt.EventFile(folder / "file")
        raise AssertionError("a file was taken for a folder")
    except fsdp_opt.Error as error:
        assert error.id == "E064", error


VALUE = r"(?:[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|Inf)|NaN)"
LABELS = r'\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*\}'


def parse_exposition(text):
    """Prometheus' text format 0.0.4, strictly: each sample behind its family's HELP and TYPE, no family twice."""
    assert text.endswith("\n"), "the last line has no end"
    samples, types, family = {}, {}, None
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP ([a-zA-Z_:][\w:]*) (.+)", line):
            family = match[1]
            assert family not in types, f"{family} comes twice"
        elif match := re.fullmatch(r"# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge)", line):
            assert match[1] == family, line
            types[family] = match[2]
        else:
            match = re.fullmatch(rf"([a-zA-Z_:][\w:]*)({LABELS})? ({VALUE})", line)
            assert match and match[1] == family and family in types, f"no sample of {family}: {line!r}"
            assert (match[1], match[2]) not in samples, f"{line} comes twice"
            samples[match[1], match[2]] = float(match[3])
    assert all(kind == "gauge" or name.endswith("_total") for name, kind in types.items()), types
    return samples


def get(port, path="/metrics", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.getheader("Content-Type"), reply.read().decode()
    finally:
        connection.close()


def scraped(bin):
    """The newest numbers while the run lasts, on the loopback alone."""
    def case(folder):
        prepare(bin, folder)
        port = find_port()
        command = [bin / "fsdp-run", "step.fsdp", "--steps=1000000", "--data=data.safetensors", f"--prometheus={port}"]
        process = subprocess.Popen([str(each) for each in command], cwd=folder, env=CLEAN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            seen = []
            for _ in range(600):
                try:
                    status, kind, text = get(port)
                except OSError:
                    assert process.poll() is None, process.stderr.read()
                    time.sleep(0.1)
                    continue
                if status == 200 and text:
                    assert kind == "text/plain; version=0.0.4; charset=utf-8", kind
                    seen.append(parse_exposition(text))
                    if len(seen) > 1 and seen[-1]["fsdp_steps_done", None] > seen[0]["fsdp_steps_done", None]:
                        break
            assert len(seen) > 1, "nothing was to be seen"
            names = {name.removeprefix("fsdp_") for name, _ in seen[-1]}
            assert names == {"steps_done", "loss", "grad_norm", "learning_rate", "step_seconds", "exposed_seconds", "samples_per_second", "tokens_per_second", "model_flops_per_second",
                             "seconds_left", "peak_memory_bytes", "skipped_steps_total"}, names
            assert seen[-1]["fsdp_seconds_left", None] > 0 and seen[-1]["fsdp_skipped_steps_total", None] == 0
            assert get(port, "/other")[0] == 404
            # One who says nothing does not keep others waiting for long.
            with socket.create_connection(("127.0.0.1", port)):
                assert get(port)[0] == 200
            listening = pathlib.Path("/proc/net/tcp").read_text()
            where = re.findall(rf"([0-9A-F]+):{port:04X} 00000000:0000 0A", listening)
            assert where == ["0100007F"], f"it listens at {where}"
            # Taken by this run.
            again = subprocess.run([str(each) for each in command], cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=120)
            assert again.returncode == 2 and "fsdp-E040" in again.stderr and "in use" in again.stderr, again
            wrong = subprocess.run([*map(str, command[:-1]), "--prometheus=here"], cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=120)
            assert wrong.returncode == 2 and "[HOST:]PORT" in wrong.stderr, wrong
        finally:
            process.kill()
            process.communicate()
    return case


def on_a_terminal(bin):
    """A bar with loss, rate and time left; elsewhere lines of the same."""
    def case(folder):
        prepare(bin, folder)
        master, slave = pty.openpty()
        process = subprocess.Popen([str(bin / "fsdp-run"), "step.fsdp", "--steps=6", "--data=data.safetensors"], cwd=folder, env=CLEAN,
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        said = b""
        while True:
            try:
                block = os.read(master, 4096)
            except OSError:
                break
            if not block:
                break
            said += block
        assert process.wait() == 0
        bars = said.decode().replace("\r\n", "\n").split("\r\x1b[K")[1:]
        assert re.match(r"\[#* +\] 1/6  loss \d\.\d{4}  lr 0\.01  \d+(\.\d)? tokens/s  \d+ s left$", bars[0]), bars
        assert re.match(r"\[#{30}\] 6/6  loss \d\.\d{4}  lr 0\.01  \d+(\.\d)? tokens/s  0 s left\n", bars[-1]), bars
        lines = launch(bin, folder, 2, "local", "step.fsdp", "--steps=6", "--data=data.safetensors")
        assert re.search(r"^step 6/6  loss \S+  grad norm \S+  lr 0.01  \d+(\.\d)? tokens/s  \d+ s, 0 s left$", lines, re.M), lines
    return case


def operations(bin):
    """As many as PyTorch counts, whatever is computed again and by how many ranks."""
    def case(folder):
        from torch.utils.flop_counter import FlopCounterMode
        for number, (factory, config) in enumerate({zoo.convnet: {}, zoo.bert: {"activation_checkpointing": True, "gradient_accumulation_steps": 2},
                                                    zoo.lora: {"mesh": {"dp_shard": 1, "tp": 2}}}.items()):
            own = folder / str(number)
            own.mkdir()
            torch.manual_seed(7)
            model, inputs = factory()
            with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                out = model(**inputs)
                (out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out).backward()
            model.zero_grad()
            mesh = config.pop("mesh", None)
            save_file(make_data(inputs, 8), own / "data.safetensors")
            compile_step(bin, own, model, inputs, {**make_config(2, **config), **({"mesh": mesh} if mesh else {})})
            for row in run_step(bin, own, 2, "--steps=2"):
                batches = config.get("gradient_accumulation_steps", 1) * (1 if mesh else 2)
                made = row["flops_per_s"] * row["step_time_s"] * 2 / batches
                assert math.isclose(made, counter.get_total_flops(), rel_tol=1e-6), f"{factory.__name__}: {made}, PyTorch counts {counter.get_total_flops()}"
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {"events": events(bin), "operations": operations(bin), "scraped": scraped(bin), "on a terminal": on_a_terminal(bin)}
    if importlib.util.find_spec("fsdp_opt"):
        cases["from Python"] = from_python
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
