# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands of docs/Clusters.md, as they stand there, start runs: by torchrun on two nodes, by Slurm, by Open MPI.

Slurm and Open MPI are Debian's, where they are installed (slurm-wlm, munge, openmpi-bin); one node plays the cluster.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import torch
import yaml
from safetensors.torch import save_file

import zoo
from harness import compile_step, launch, make_config, make_data, parse_arguments, run_cases
from ranks import CLEAN, find_port

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "Clusters.md"
WORLD = 2


class Skipped(Exception):
    """What a case needs is not installed."""


def block(part, kind="sh"):
    """The guide's block that contains this."""
    found = [text for text in re.findall(rf"^```{kind}\n(.*?)^```", GUIDE.read_text(), re.S | re.M) if part in text]
    assert len(found) == 1, f"{len(found)} blocks of the guide contain '{part}'"
    return found[0]


def shorten(text):
    """With fewer steps, so that it takes seconds."""
    assert "--steps=1000" in text and "--save-every=200" in text, text
    return text.replace("--steps=1000", "--steps=6").replace("--save-every=200", "--save-every=2").replace("step_1000", "step_6")


def prepare(bin, folder):
    torch.manual_seed(7)
    model, inputs = zoo.mlp()
    save_file(make_data(inputs, 6 * WORLD), folder / "train.safetensors")
    compile_step(bin, folder, model, inputs, make_config(WORLD))
    (folder / "local").mkdir()
    launch(bin, folder, WORLD, "local", "step.fsdp", "--steps=6", "--data=train.safetensors", "--metrics=local/metrics.jsonl")


def environment(bin, folder):
    """As in the guide's first block, on this machine."""
    # torchrun is beside the tests' Python.
    path = f"{bin}:{folder}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    (folder / "torchrun").write_text(f"#!/bin/sh\nexec {sys.executable} -m torch.distributed.run \"$@\"\n")
    (folder / "torchrun").chmod(0o755)
    run = shorten(re.search(r'RUN="(.*)"', block("export MASTER="))[1])
    return {**CLEAN, "PATH": path, "MASTER": "localhost", "PORT": str(find_port()), "RUN": run, "TASKS": str(WORLD), "THREADS": "1"}


def run(command, folder, env, timeout=240):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command.strip()}\nended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}"
    return done.stdout + done.stderr


def check(folder):
    """The run has the bits of one with threads, and its checkpoints."""
    have, want = ([json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()] for name in (".", "local"))
    assert [row["loss"] for row in have] == [row["loss"] for row in want], f"{have} instead of {want}"
    assert sorted(path.name for path in (folder / "ck").glob("step_*")) == ["step_2", "step_4", "step_6"]


def two_agents(folder, env, command):
    """The same command on two nodes."""
    agents = [subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    try:
        texts = [agent.communicate(timeout=240)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert not any(agent.returncode for agent in agents), "\n".join(texts)[-2000:]


def torchrun(bin):
    def case(folder):
        prepare(bin, folder)
        two_agents(folder, {**environment(bin, folder), "NODES": "2", "RANKS": "1"}, block("torchrun --nnodes=$NODES"))
        check(folder)
    return case


def kubernetes(bin):
    """The manifest's command, on two pods that are processes of this machine."""
    def case(folder):
        prepare(bin, folder)
        service, job = yaml.safe_load_all(block("kind: Job", "yaml"))
        pod = job["spec"]["template"]["spec"]
        assert service["spec"]["clusterIP"] == "None" and service["metadata"]["name"] == pod["subdomain"], service
        assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}, service
        container = pod["containers"][0]
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
        command = container["command"]
        assert f"--nnodes={job['spec']['completions']}" in command and job["spec"]["parallelism"] == job["spec"]["completions"]
        env = environment(bin, folder)
        master = f"{job['metadata']['name']}-0.{pod['subdomain']}:29500"
        text = " ".join(command)
        assert master in text, text
        text = text.replace(master, f"localhost:{env['PORT']}").replace("--nnodes=4", "--nnodes=2").replace("--nproc-per-node=8", "--nproc-per-node=1")
        two_agents(folder, env, shorten(text).replace("--threads=4", "--threads=1"))
        check(folder)
    return case


def mpirun(bin):
    def case(folder):
        if not shutil.which("mpirun"):
            raise Skipped("mpirun is not installed (openmpi-bin)")
        prepare(bin, folder)
        (folder / "hosts").write_text(f"localhost slots={WORLD}\n")
        # Open MPI wants to be told that root is meant.
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        run(block("mpirun -np"), folder, {**environment(bin, folder), **root})
        check(folder)
    return case


class Cluster:
    """Slurm with this machine as its only node, under ports and a key of its own."""

    def __init__(self, folder):
        missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch") if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
        if missing:
            raise Skipped(f"{', '.join(missing)} not installed (slurm-wlm, munge)")
        if os.getuid() != 0:
            raise Skipped("slurmd wants to be started by root")
        self.folder, self.processes = folder, []
        folder.mkdir()
        folder.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        for name in ("spool", "state"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={find_port()}
SlurmdPort={find_port()}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={max(os.cpu_count(), WORLD)} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self):
        path = {**os.environ, **self.env, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        for command in (["munged", "-F", f"--key-file={self.folder}/key", f"--socket={self.folder}/munge", f"--pid-file={self.folder}/munge.pid",
                         f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/seed", "--force"],
                        ["slurmctld", "-D", "-f", f"{self.folder}/slurm.conf"], ["slurmd", "-D", "-f", f"{self.folder}/slurm.conf"]):
            self.processes.append(subprocess.Popen(command, env=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(0.5)
        for _ in range(60):
            if "idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], env=path, capture_output=True, text=True).stdout:
                return self
            time.sleep(0.5)
        logs = "".join(file.read_text()[-500:] for file in self.folder.glob("*.log"))
        self.__exit__()
        raise Skipped(f"Slurm's daemons do not start here: {logs}")

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def slurm(bin):
    def case(folder):
        with Cluster(folder / "slurm") as cluster:
            prepare(bin, folder)
            env = {**environment(bin, folder), **cluster.env}
            run(block("srun --ntasks=$TASKS --kill-on-bad-exit=1 $RUN"), folder, env)
            check(folder)
            shutil.rmtree(folder / "ck")
            (folder / "metrics.jsonl").unlink()
            (folder / "train.sbatch").write_text(shorten(block("#SBATCH")))
            run(f"sbatch --wait --nodes=1 --ntasks-per-node={WORLD} --cpus-per-task=1 train.sbatch || {{ cat slurm-*.out; false; }}", folder, env)
            check(folder)
            # torchrun's names for a script of Hugging Face's.
            (folder / "train.py").write_text("import os, torch.distributed as dist\ndist.init_process_group('gloo')\n"
                                             "print('ranks', dist.get_rank(), dist.get_world_size(), os.environ['LOCAL_RANK'], flush=True)\ndist.barrier()\nos._exit(0)\n")
            (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            (folder / "python").chmod(0o755)
            told = run(block("exec python train.py"), folder, env)
            assert all(f"ranks {rank} {WORLD} {rank}" in told for rank in range(WORLD)), told
    return case


def telling(case):
    def told(folder):
        try:
            case(folder)
        except Skipped as reason:
            print(f"skip  {reason}")
    return told


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({"torchrun": torchrun(bin), "Kubernetes": kubernetes(bin), "mpirun": telling(mpirun(bin)), "Slurm": telling(slurm(bin))}, arguments.only)


if __name__ == "__main__":
    main()
