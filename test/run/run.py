# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs fsdp-run as a person would and checks files, messages and statuses."""

import argparse
import json
import os
import pathlib
import re
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
import warm  # noqa: E402
from ranks import find_port  # noqa: E402


def clean_environment(**more):
    drop = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI_", "SLURM_", "TORCHELASTIC_", "LOCAL_RANK", "OMP_NUM")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    return {**env, "OMP_NUM_THREADS": "1", **more}


def read_weights(path):
    """Name -> list of float32, of a file in which all tensors are float32."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    values = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values[name] = struct.unpack(f"<{(end - begin) // 4}f", body[begin:end])
    return values


class FsdpRun(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.make(2)

    def make(self, world):
        done = warm.run([ARGS.make_step, self.folder, str(world)], self.folder, clean_environment(), 60)
        self.assertEqual(done.returncode, 0, done.stderr)

    @staticmethod
    def command(*args, artifact="step.fsdp"):
        if not any(arg.startswith("--data=") for arg in args):
            args = ("--data=sample", *args)
        return [ARGS.fsdp_run, artifact, *args]

    def start(self, *args, artifact="step.fsdp", **env):
        """A process that is loaded by itself."""
        return subprocess.Popen(self.command(*args, artifact=artifact), cwd=self.folder, env=clean_environment(**env), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_it(self, *args, status=0, **env):
        done = warm.run(self.command(*args), self.folder, clean_environment(**env), 120)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr

    def refused(self, status, error, *args, **env):
        _, err = self.run_it(*args, status=status, **env)
        self.assertRegex(err.splitlines()[0], rf"^error\[fsdp-{error}\]: ")
        return err

    def run_ranks(self, world, *args, status=0, env=None):
        ranks = [self.start(*args, RANK=str(r), WORLD_SIZE=str(world), **(env or {})) for r in range(world)]
        for process in ranks:
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, status, err)

    def test_local(self):
        out, _ = self.run_it("--steps=5", "--metrics=m.jsonl", "--export=a.safetensors")
        self.assertIn("5 steps on 2 ranks", out)
        self.assertRegex(out, r"predicted .*tensors.*scratch\)\n.*measured ")
        rows = [json.loads(line) for line in (self.folder / "m.jsonl").read_text().splitlines()]
        self.assertEqual([r["step"] for r in rows], list(range(5)))
        self.assertLess(rows[-1]["loss"], rows[0]["loss"])
        for row in rows:
            self.assertEqual(len(row["rank_peak_rss_bytes"]), 2)
            self.assertGreater(row["step_time_s"], 0)
            self.assertGreater(row["samples_per_s"], 0)
            self.assertGreater(row["peak_memory_bytes"], 0)
            self.assertEqual(row["lr"], 0.1)
        self.assertEqual(set(read_weights(self.folder / "a.safetensors")), {"net.weight", "tied.weight", "net.scale"})
        self.run_it("--steps=5", "--export=b.safetensors")
        self.assertEqual((self.folder / "a.safetensors").read_bytes(), (self.folder / "b.safetensors").read_bytes())

    def test_resident_peak_is_not_the_launchers(self):
        ballast = bytearray(os.urandom(1 << 20) * 1200)     # all pages of 1.2 GB are there
        process = self.start("--steps=2", "--metrics=m.jsonl")
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len(ballast), 1200 << 20)
        row = json.loads((self.folder / "m.jsonl").read_text().splitlines()[-1])
        self.assertLess(max(row["rank_peak_rss_bytes"]), 600e6)
        self.assertGreater(min(row["rank_peak_rss_bytes"]), 20e6)

    def test_processes_agree_with_threads(self):
        self.make(3)
        self.run_it("--steps=5", "--export=local.safetensors")
        want = read_weights(self.folder / "local.safetensors")
        ways = [([], {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}),
                ([f"--rendezvous=tcp://127.0.0.1:{find_port()}"], {}),
                ([f"--rendezvous=file://{self.folder}/store"], {})]
        for number, (args, env) in enumerate(ways):
            name = f"{number}.safetensors"
            self.run_ranks(3, "--steps=5", f"--export={name}", "--metrics=m.jsonl", *args, env=env)
            for key, values in read_weights(self.folder / name).items():
                for a, b in zip(values, want[key]):
                    self.assertAlmostEqual(a, b, delta=1e-6)
            rows = (self.folder / "m.jsonl").read_text().splitlines()
            self.assertEqual(len(json.loads(rows[-1])["rank_peak_rss_bytes"]), 3)
        self.assertEqual((self.folder / "0.safetensors").read_bytes(), (self.folder / "1.safetensors").read_bytes())

    def test_a_rank_that_never_comes(self):
        err = self.refused(3, "E092", "--steps=1", "--deadline=2", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(find_port()))
        self.assertIn("1", err)

    def test_another_world_size(self):
        self.refused(3, "E096", "--steps=1", "--deadline=2", RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(find_port()))

    def test_ranks_with_different_artifacts(self):
        (self.folder / "step.fsdp").rename(self.folder / "a.fsdp")
        other = self.folder / "other"
        other.mkdir()
        subprocess.run([ARGS.make_step, other, "2", "0.5"], check=True)
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
        ranks = [self.start("--steps=1", "--deadline=20", artifact=name, RANK=str(r), **env)
                 for r, name in enumerate(["a.fsdp", "other/step.fsdp"])]
        errors = [process.communicate(timeout=60)[1] for process in ranks]
        self.assertEqual([process.returncode for process in ranks], [3, 3], errors)
        self.assertTrue(any("E093" in e for e in errors), errors)

    def test_learning_rates(self):
        def rates(*args):
            self.run_it("--steps=4", "--metrics=m.jsonl", *args)
            return [json.loads(line)["lr"] for line in (self.folder / "m.jsonl").read_text().splitlines()]
        self.assertEqual(rates("--lr=0.5"), [0.5] * 4)
        self.assertEqual(rates("--lr=0.5", "--lr-schedule=linear"), [0.5, 0.375, 0.25, 0.125])
        self.assertEqual(rates("--lr-schedule=constant_with_warmup:warmup=2"), [0, 0.05, 0.1, 0.1])
        self.assertIn("did you mean 'cosine'?", self.refused(2, "E040", "--steps=1", "--lr-schedule=cosin"))
        self.assertIn("above the rate", self.refused(2, "E040", "--steps=1", "--lr=0.1", "--lr-schedule=linear:min=1"))
        self.refused(2, "E040", "--steps=1", "--lr=-1")
        self.refused(2, "E040", "--steps=1", "--lr=fast")

    def affinities(self, process):
        """Thread -> the processors that it may run on."""
        found = {}
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            try:
                status = (task / "status").read_text()
            except OSError:  # it has just ended
                continue
            text = next(line for line in status.splitlines() if line.startswith("Cpus_allowed_list:")).split()[1]
            ranges = [part.split("-") for part in text.split(",")]
            found[int(task.name)] = {n for part in ranges for n in range(int(part[0]), int(part[-1]) + 1)}
        return found

    def pinned_ranks(self, processes, count):
        """The processors of each of `count` pinned threads of running processes, and those of all their other threads."""
        for _ in range(1200):
            found = [each for process in processes for each in self.affinities(process).values()]
            pinned = [each for each in found if len(each) == 1]
            if len(pinned) == count and all(process.poll() is None for process in processes):
                return pinned, [each for each in found if len(each) > 1]
            time.sleep(0.05)
        self.fail(f"expected {count} pinned threads, found {found}, {[process.poll() for process in processes]}")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "two ranks need two processors")
    def test_pinned_ranks_have_processors_of_their_own(self):
        rounds = ["--pin=threads", "--steps=100000000", "--deadline=20"]
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
        for processes in ([self.start(*rounds)], [self.start(*rounds, RANK=str(rank), **env) for rank in range(2)]):
            try:
                pinned, others = self.pinned_ranks(processes, 2)
                self.assertTrue(pinned[0].isdisjoint(pinned[1]), pinned)
                if len(processes) > 1:
                    # The threads that move messages are nobody's.
                    self.assertTrue(others)
                    self.assertTrue(all(each == os.sched_getaffinity(0) for each in others), others)
            finally:
                for process in processes:
                    process.kill()
                for process in processes:
                    process.communicate()

    def test_too_many_threads(self):
        _, err = self.run_it("--steps=1", "--threads=64")
        self.assertRegex(err, r"warning: 2 ranks with 128 threads share \d+ processors? .*--threads=\d+")
        for way in ("cores", "threads"):
            err = self.refused(2, "E040", "--steps=1", "--threads=5000", f"--pin={way}")
            self.assertRegex(err, rf"--pin={way}: .* 10000 .*2 ranks.*found \d+")
        # Ranks that are processes know of each other, and refuse alike.
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
        self.run_ranks(2, "--steps=1", "--threads=5000", "--pin=cores", status=2, env=env)
        for args, env in (([], {}), (["--threads=1"], {}), ([], {"OMP_NUM_THREADS": ""})):
            self.assertNotIn("warning", self.run_it("--steps=1", *args, **env)[1])

    def test_profile_brings_the_clocks_of_machines_together(self):
        apart = ["unshare", "--time", "--fork", "--monotonic", "1000"]
        try:
            if subprocess.run([*apart, "true"], capture_output=True).returncode:
                self.skipTest("a clock of its own needs a time namespace")
        except FileNotFoundError:
            self.skipTest("unshare is not installed")
        env = clean_environment(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(find_port()))
        run = [ARGS.fsdp_run, "step.fsdp", "--data=sample", "--steps=20", "--profile=t.json", "--profile-steps=5:10"]
        ranks = [subprocess.Popen([*(apart if rank else []), *run], cwd=self.folder, env={**env, "RANK": str(rank)}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            if rank == 0:
                self.assertRegex(out, r"profile of steps 5 to 14, .*\nclocks of other machines were compared within \d+ us\n")
            else:
                self.assertNotIn("profile", out)
        trace = json.loads((self.folder / "t.json").read_text())
        self.assertEqual(trace["fsdp"]["ranks"][0]["clock_uncertainty_us"], 0)
        uncertainty = trace["fsdp"]["ranks"][1]["clock_uncertainty_us"]
        self.assertGreater(uncertainty, 0)
        self.assertLess(uncertainty, 1e6)
        transfers = {}
        for event in trace["traceEvents"]:
            if event.get("cat") == "transfer" and event["ph"] == "X":
                key = event["args"]["step"], event["args"]["instruction"]
                transfers.setdefault(key, {})[event["pid"]] = event["ts"], event["ts"] + event["dur"]
        self.assertEqual(len(transfers), 30)
        for each in transfers.values():
            # Nobody has a transfer before the other one has started it. Two
            # clocks may drift apart a little while they are compared.
            self.assertGreater(each[0][1], each[1][0] - uncertainty - 100)
            self.assertGreater(each[1][1], each[0][0] - uncertainty - 100)

    def test_usage(self):
        self.refused(2, "E040")
        self.refused(2, "E040", "--stepz=3")
        self.refused(2, "E040", "--steps=1", "--threads=0")
        self.refused(2, "E040", "--steps=1", "--log-level=loud")
        self.assertIn("cores or threads", self.refused(2, "E040", "--steps=1", "--pin=sockets"))
        for option in ("--export=x.safetensors", "--outputs=x.safetensors", "--profile=x.json", "--save=x"):
            self.refused(2, "E040", "--dry-run", option)
            self.refused(2, "E040", "--steps=1", "--backend=fake", option)
        self.assertIn("--output=NAME", self.refused(2, "E077", "--steps=1", "--outputs=x.safetensors"))
        self.refused(2, "E097", "--steps=1", "--backend=glue")
        self.assertIn("--backend=local", self.refused(2, "E076", "--steps=1", "--backend=nccl"))
        for option in ("--save-every=2", "--keep=2", "--save-sync", "--load=latest"):
            self.assertIn("--save", self.refused(2, "E040", "--steps=1", option))
        for option in ("--save-every=0", "--keep=-1", "--export-shard-size=some"):
            self.refused(2, "E040", "--steps=1", "--save=x", option)
        out, _ = self.run_it("--help")
        self.assertIn("Examples:", out)

    def test_calibration_is_a_run_of_its_own(self):
        def refused(*args, **env):
            process = subprocess.run([ARGS.fsdp_run, *args], cwd=self.folder, env=clean_environment(**env), text=True, capture_output=True)
            self.assertEqual(process.returncode, 2, process.stderr)
            return process.stderr

        self.assertIn("PLAN is required", refused("--steps=1"))
        self.assertIn("leave out plan", refused("--calibrate=c.yaml", "step.fsdp").lower())
        self.assertIn("leave out --steps", refused("--calibrate=c.yaml", "--steps=1"))
        self.assertIn("--nproc says how many ranks --calibrate measures", refused("step.fsdp", "--nproc=2"))
        self.assertIn("needs two ranks or more", refused("--calibrate=c.yaml", "--backend=gloo", RANK="0", WORLD_SIZE="1"))
        self.assertIn("a launcher started 2 processes", refused("--calibrate=c.yaml", "--backend=local", RANK="0", WORLD_SIZE="2"))
        self.assertIn("--nproc is for ranks that are threads", refused("--calibrate=c.yaml", "--nproc=2", RANK="0", WORLD_SIZE="2"))
        self.assertIn("local or gloo, or GPUs, nccl", refused("--calibrate=c.yaml", "--backend=fake"))
        if not pathlib.Path("/dev/nvidiactl").exists():
            process = subprocess.run([ARGS.fsdp_run, "--calibrate=c.yaml", "--backend=nccl"], cwd=self.folder, env=clean_environment(), text=True, capture_output=True)
            self.assertNotEqual(process.returncode, 0)
            self.assertRegex(process.stderr, "expected a CUDA device|nccl is not in this build")
        self.assertFalse((self.folder / "c.yaml").exists())

    def test_cuda_is_a_library_beside_the_runtimes(self):
        """Loaded for artifacts of a GPU alone: where it is missing or no such library, they are refused and others run."""
        subprocess.run([ARGS.make_step, self.folder, "2", "0.1", "cuda:sm_90"], check=True)
        (self.folder / "step.fsdp").rename(self.folder / "gpu.fsdp")
        self.make(2)
        linked = subprocess.run(["ldd", ARGS.fsdp_run], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("libtorch_cuda", linked)
        lib = self.folder / "lib"
        lib.mkdir()
        (lib / "libfsdp-runtime.so").symlink_to(re.search(r"libfsdp-runtime\.so => (\S+)", linked)[1])

        def refused(artifact, *args):
            process = self.start("--steps=1", *args, artifact=artifact, LD_LIBRARY_PATH=str(lib))
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 2, err)
            return err

        alone = refused("gpu.fsdp")
        self.assertIn("E076]: the artifact is for device 'cuda:sm_90'; this build runs on 'cpu'", alone)
        self.assertIn("-DFSDP_CUDA=ON", alone)
        self.assertIn("--backend=nccl is not in this build", refused("step.fsdp", "--backend=nccl"))
        (lib / "libfsdp-cuda.so").write_text("no library")
        self.assertIn(f"E076]: '{lib}/libfsdp-cuda.so' cannot be loaded: ", refused("gpu.fsdp"))
        self.assertIn("the artifact is for device 'cpu'", refused("step.fsdp", "--backend=nccl"))
        self.run_it("--steps=1", LD_LIBRARY_PATH=str(lib))

    def test_artifacts(self):
        whole = (self.folder / "step.fsdp").read_bytes()
        for damage in (whole[:len(whole) // 2], whole[:-40] + bytes(40)):
            (self.folder / "step.fsdp").write_bytes(damage)
            self.refused(1, "E061", "--steps=1")
        (self.folder / "step.fsdp").write_bytes(b"not an artifact at all")
        self.refused(1, "E060", "--steps=1")
        (self.folder / "step.fsdp").unlink()
        self.refused(1, "E001", "--steps=1")

    def test_data_is_checked_before_the_first_step(self):
        (self.folder / "bad.safetensors").write_bytes(b"no header")
        self.refused(1, "E083", "--steps=1", "--data=bad.safetensors", "--metrics=m.jsonl")
        self.refused(1, "E001", "--steps=1", "--data=none.safetensors")

    def test_a_failed_export_leaves_nothing(self):
        self.refused(1, "E064", "--steps=1", "--export=none/x.safetensors")
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"model.pt2", "step.fsdp"})

    def test_outputs_that_are_no_files_are_refused_and_stay(self):
        os.mkfifo(self.folder / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / "socket"))
        os.mknod(self.folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3)) if os.geteuid() == 0 else os.mkfifo(self.folder / "device")
        kinds = {name: (self.folder / name).stat().st_mode for name in ("fifo", "socket", "device")}
        for name in kinds:
            (self.folder / "link").unlink(missing_ok=True)
            (self.folder / "link").symlink_to(name)
            for option in ("--export", "--profile", "--metrics"):
                for path in (name, "link"):
                    err = self.refused(1, "E064", "--steps=1000000000", f"{option}={path}")
                    self.assertRegex(err, "it is a (pipe|socket|device); expected a file")
        self.assertEqual(kinds, {name: (self.folder / name).stat().st_mode for name in kinds})
        (self.folder / "link").unlink()
        (self.folder / "link").symlink_to("link")
        self.refused(1, "E064", "--steps=1", "--export=link")
        # What is written into rather than replaced.
        self.run_it("--steps=1", "--metrics=/dev/null", "--export=/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        out, _ = self.run_it("--steps=1", "--metrics=/dev/stdout")
        self.assertIn('{"step":0,', out)

    def test_the_target_of_a_link_is_replaced(self):
        (self.folder / "there").mkdir()
        (self.folder / "here").symlink_to("there/final.safetensors")
        for _ in range(2):
            self.run_it("--steps=1", "--export=here")
            self.assertTrue((self.folder / "here").is_symlink())
            self.assertEqual([p.name for p in (self.folder / "there").iterdir()], ["final.safetensors"])
            self.assertIn("net.weight", read_weights(self.folder / "here"))

    def test_a_folder_is_no_artifact(self):
        (self.folder / "folder").mkdir()
        _, err = self.start("--steps=1", artifact="folder").communicate(timeout=60)
        self.assertRegex(err, r"^error\[fsdp-E\d{3}\]: ")

    def test_threads_that_cannot_be_started_are_an_error(self):
        self.make(4096)
        process = subprocess.Popen(["bash", "-c", "ulimit -v 8000000; exec \"$0\" \"$@\"", ARGS.fsdp_run, "step.fsdp", "--steps=1", "--data=sample", "--deadline=30"],
                                   cwd=self.folder, env=clean_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=120)
        self.assertIn(process.returncode, (1, 2, 3), err[-500:])
        self.assertRegex(err.splitlines()[-1] if err else "", r"error\[fsdp-E\d{3}\]: ")

    def test_a_run_with_nothing_to_train_says_so(self):
        self.run_it("--steps=4", "--save=ck", "--lr-schedule=linear")
        # What the learning rate would go on as does not matter then.
        _, err = self.run_it("--steps=2", "--load=latest", "--save=ck", "--lr-schedule=linear")
        self.assertEqual(err.splitlines(), ["continuing after step 4 of 'ck/step_4'",
                                            "nothing to train: --steps=2 counts the whole training, of which 4 are done"])
        _, err = self.run_it("--steps=6", "--load=latest", "--save=ck", "--lr-schedule=linear")
        self.assertIn("warning: the learning rate goes on", err)
        self.assertNotIn("nothing to train", err)
        _, err = self.run_it("--steps=0", "--load=ck/step_4", "--export=e.safetensors")
        self.assertNotIn("nothing to train", err)

    def test_one_run_saves_to_a_folder(self):
        def start():
            return self.start("--steps=100000000", "--save=ck", "--save-every=100000000", "--metrics=m.jsonl")

        def await_steps(process):
            metrics = self.folder / "m.jsonl"
            for _ in range(1200):
                if metrics.exists() and metrics.read_text().count("\n") > 2:
                    return
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            self.fail("the run does not begin")

        self.run_it("--steps=2", "--save=ck", "--save-every=1")
        self.assertEqual(sorted(p.name for p in (self.folder / "ck").iterdir()), ["step_1", "step_2"])
        first = self.start("--steps=100000000", "--save=ck", "--load=latest", "--metrics=m.jsonl")
        try:
            await_steps(first)
            err = self.refused(1, "E106", "--steps=9", "--save=ck", "--load=latest")
            self.assertRegex(err, rf"to 'ck': process {first.pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d ")
            self.assertEqual({p.name for p in (self.folder / "ck").iterdir()}, {"step_1", "step_2", ".fsdp-run.lock"})
        finally:
            first.kill()
            first.communicate()
        # It went with the process, whatever that left behind.
        self.run_it("--steps=3", "--save=ck", "--load=latest")
        self.assertEqual({p.name for p in (self.folder / "ck").iterdir()}, {"step_1", "step_2", "step_3"})

    def listening(self, port):
        """Addresses that somebody listens at, as hexadecimal digits."""
        found = set()
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                address, number = line.split()[1].split(":")
                if int(number, 16) == port and line.split()[3] == "0A":
                    found.add(address)
        return found

    def test_the_store_listens_where_the_ranks_are_told(self):
        loopback6 = "00000000000000000000000001000000"
        ways = {"127.0.0.1": {"0100007F"}, "127.0.0.5": {"0500007F"}, "localhost": {"0100007F"}, "::1": {loopback6}}
        for host, expected in ways.items():
            for url in (False, True):
                port = find_port()
                if host == "::1":
                    try:
                        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
                    except OSError:  # without IPv6
                        continue
                env = {"RANK": "0", "WORLD_SIZE": "2"}
                args = [f"--rendezvous=tcp://{f'[{host}]' if ':' in host else host}:{port}"] if url else []
                env |= {} if url else {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
                process = self.start("--steps=1", "--deadline=60", *args, **env)
                try:
                    for _ in range(600):
                        if self.listening(port) or process.poll() is not None:
                            break
                        time.sleep(0.05)
                    self.assertEqual(self.listening(port), expected, host)
                    other = self.start("--steps=1", "--deadline=60", *args, **{**env, "RANK": "1"})
                    _, err = other.communicate(timeout=60)
                    self.assertEqual(other.returncode, 0, err)
                    _, err = process.communicate(timeout=60)
                    self.assertEqual(process.returncode, 0, err)
                finally:
                    process.kill()

    def test_progress_names_the_learning_rate(self):
        _, err = self.run_it("--steps=2", "--lr=0.25")
        self.assertRegex(err, r"step 2/2  loss [\d.]+  grad norm [\d.]+  lr 0\.25  [\d.]+ samples/s  \d+ s, 0 s left")

    def test_dry_run_of_many_ranks(self):
        self.make(512)
        out, _ = self.run_it("--dry-run")
        self.assertIn("for 512 ranks", out)
        self.assertIn("all_gather", out)
        self.assertIn("executed 1 steps", out)

    def test_elastic_error_file(self):
        path = self.folder / "error.json"
        self.refused(1, "E001", "--steps=1", "--model=none.pt2", TORCHELASTIC_ERROR_FILE=str(path))
        report = json.loads(path.read_text())
        self.assertIn("E001", report["message"]["message"])
        self.assertGreater(int(report["message"]["extraInfo"]["timestamp"]), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fsdp-run", required=True)
    parser.add_argument("--make-step", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=["run.py", *rest])
