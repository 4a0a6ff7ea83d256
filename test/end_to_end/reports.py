# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp-train tells W&B and MLflow what a run reports; both are played by modules whose functions take what the real ones take."""
import json
import os
import pathlib
import sys
import time

import fsdp_opt
from fsdp_opt import _reporting
from harness import parse_arguments, run_cases
from recipes import begin, run, write

WANDB = '''
import json, os
def tell(*what):
    with open(os.environ["JOURNAL"], "a") as file:
        file.write(json.dumps(["wandb", *what]) + "\\n")
class Run:
    def __init__(self, id):
        self.id, self.last = id, -1
    def log(self, data, step=None, commit=None):
        assert isinstance(data, dict) and all(isinstance(key, str) and isinstance(value, float) for key, value in data.items()), data
        assert isinstance(step, int) and step >= self.last, (step, self.last)
        self.last = step
        tell("log", data, step)
    def finish(self, exit_code=None, quiet=None):
        tell("finish", exit_code)
def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None, config_exclude_keys=None,
         config_include_keys=None, allow_val_change=None, group=None, job_type=None, mode=None, force=None, anonymous=None, reinit=None, resume=None,
         resume_from=None, fork_from=None, save_code=None, tensorboard=None, sync_tensorboard=None, monitor_gym=None, settings=None):
    assert mode in (None, "online", "offline", "disabled", "shared") and resume in (None, True, "allow", "never", "must", "auto"), (mode, resume)
    assert isinstance(config, dict) and os.path.isdir(dir)
    json.dumps(config)
    tell("init", entity, project, id, name)
    return Run(id or "run-1")
'''
MLFLOW = '''
import json, os, types
def tell(*what):
    with open(os.environ["JOURNAL"], "a") as file:
        file.write(json.dumps(["mlflow", *what]) + "\\n")
def set_tracking_uri(uri):
    tell("uri", uri)
def set_experiment(experiment_name=None, experiment_id=None, trace_location=None):
    tell("experiment", experiment_name)
def start_run(run_id=None, experiment_id=None, run_name=None, nested=False, parent_run_id=None, tags=None, description=None, log_system_metrics=None):
    tell("start", run_id, run_name)
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id or "run-7"))
def log_params(params, synchronous=None, run_id=None):
    assert len(params) <= 100 and all(len(str(value)) <= 500 for value in params.values())
def log_metrics(metrics, step=None, synchronous=None, run_id=None, timestamp=None, model_id=None, dataset=None):
    assert all(isinstance(value, float) and set(key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. :/") for key, value in metrics.items())
    assert isinstance(step, int)
    tell("log", metrics, step)
def end_run(status="FINISHED"):
    assert status in ("FINISHED", "FAILED", "KILLED", "SCHEDULED", "RUNNING")
    tell("end", status)
'''


def play(folder):
    """Both libraries, as if they were installed; the journal's file."""
    library = folder / "library"
    library.mkdir()
    (library / "wandb.py").write_text(WANDB)
    (library / "mlflow.py").write_text(MLFLOW)
    for name in ("wandb", "mlflow"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(library))
    os.environ["JOURNAL"] = str(folder / "journal.jsonl")
    return folder / "journal.jsonl"


def leave(folder):
    sys.path.remove(str(folder / "library"))
    for name in ("wandb", "mlflow"):
        sys.modules.pop(name, None)


def told(journal, library, what):
    return [entry[2:] for entry in map(json.loads, journal.read_text().splitlines()) if entry[:2] == [library, what]]


def trains(folder):
    """Losses, norms by module and validations of each step, as metrics.jsonl has them; called again, the same run goes on."""
    begin(folder)
    journal = play(folder)
    try:
        keys = dict(max_steps=4, warmup_steps=2, eval_steps=2, wandb_project="cats", wandb_name="first", wandb_entity="", wandb_watch=None, mlflow_experiment_name="cats",
                    mlflow_tracking_uri="file:here", report_to="tensorboard", metrics={"norms": ["gradients"]}, save_steps=2)
        write(folder, "told", "full.yaml", **keys)
        run(folder, "told.yaml")
        rows = [json.loads(line) for line in (folder / "told/metrics.jsonl").read_text().splitlines()]
        steps = [row for row in rows if "loss" in row]
        assert len(steps) == 4 and any("eval_loss" in row for row in rows)
        for library in ("wandb", "mlflow"):
            logs = told(journal, library, "log")
            assert [(values["train/loss"], step) for values, step in logs if "train/loss" in values] == [(row["loss"], row["step"]) for row in steps]
            assert [values["eval/loss"] for values, _ in logs if "eval/loss" in values] == [row["eval_loss"] for row in rows if "eval_loss" in row]
            first = logs[0][0]
            assert {f"norm/{key}": value for key, value in steps[0]["norms"].items()} == {key: value for key, value in first.items() if key.startswith("norm/")}
            assert "norm/grad/model.layers.0" in first and "train/learning_rate" in first and "speed/step_time_s" in first, sorted(first)
        assert told(journal, "wandb", "init") == [[None, "cats", None, "first"]] and told(journal, "wandb", "finish") == [[0]]
        assert told(journal, "mlflow", "uri") == [["file:here"]] and told(journal, "mlflow", "experiment") == [["cats"]] and told(journal, "mlflow", "end") == [["FINISHED"]]
        assert list((folder / "told/runs").glob("events.*")), "no TensorBoard"
        write(folder, "told", "full.yaml", **{**keys, "max_steps": 6})
        run(folder, "told.yaml")
        logs = told(journal, "wandb", "log")
        assert [step for values, step in logs if "train/loss" in values] == list(range(6)), [step for _, step in logs]
        assert told(journal, "wandb", "init")[1][2] == "run-1" and told(journal, "mlflow", "start")[1][0] == "run-7"
    finally:
        leave(folder)


def cut_off(folder):
    """A run that goes on from a checkpoint cuts lines off and writes them again, which are not told twice."""
    journal = play(folder)
    try:
        metrics = folder / "metrics.jsonl"

        def lines(steps, time):
            return "".join(json.dumps({"step": step, "loss": float(step), "step_time_s": time}) + "\n" for step in steps)
        metrics.write_text(lines(range(5), 0.1) + '{"step": 5, "lo')
        keys = {"wandb_project": "p"}
        with _reporting.Reports(_reporting.read(keys), keys, metrics):
            time.sleep(0.7)
            metrics.write_text(lines(range(3), 0.1) + lines(range(3, 9), 0.2) + json.dumps({"step": 9, "eval_loss": 0.5}) + "\n")
        logs = told(journal, "wandb", "log")
        assert [step for _, step in logs] == [5, 6, 7, 8, 8] and logs[-1][0] == {"eval/loss": 0.5}, logs
        try:
            with _reporting.Reports(_reporting.read(keys), keys, metrics):
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert told(journal, "wandb", "finish")[-1] == [1]
    finally:
        leave(folder)


def refusals(folder):
    """What is asked for and not installed is told before anything is made; empty keys ask for nothing."""
    begin(folder)
    for keys, words in ((dict(wandb_project="cats"), "'wandb_project' asks for wandb, which is not installed: pip install wandb"),
                        (dict(use_mlflow=True), "'use_mlflow' asks for mlflow"), (dict(report_to=["mlflow"]), "'report_to' asks for mlflow"),
                        (dict(report_to="comet_ml"), "expected wandb, mlflow, tensorboard or none, found 'comet_ml'")):
        write(folder, "asked", "full.yaml", **keys)
        try:
            run(folder, "asked.yaml")
        except fsdp_opt.Error as error:
            assert error.id == "E045" and words in str(error), error
        else:
            raise AssertionError(f"{keys} was taken")
        assert not pathlib.Path(folder / "asked").exists(), "something was made"
    for keys in ({"wandb_project": "", "mlflow_experiment_name": None, "wandb_entity": "me"}, {"report_to": "none"}, {"wandb_project": "cats", "wandb_mode": "disabled"}):
        assert not _reporting.read(keys), keys
    play(folder)
    try:
        for keys, words in (({"wandb_project": "p", "wandb_log_model": "end"}, "'wandb_log_model' is not supported: upload"),
                            ({"wandb_project": "p", "wandb_watch": "gradients"}, "metrics: {norms: [gradients, weights]}")):
            try:
                _reporting.read(keys)
            except fsdp_opt.Error as error:
                assert words in str(error), error
            else:
                raise AssertionError(f"{keys} was taken")
    finally:
        leave(folder)


if __name__ == "__main__":
    run_cases({"trains": trains, "cut off": cut_off, "refusals": refusals}, parse_arguments().only)
