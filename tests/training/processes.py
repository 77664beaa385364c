"""Training in processes of their own: start, kill, run under torchrun, compare the results."""

import json
import os
import signal
import subprocess
import sys
import time

import torch

from mtsa.training import checkpoints
from mtsa.training.run_directory import open_run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ONE_MACHINE = [*TORCHRUN, "--standalone", "--nproc-per-node", "2"]


def command(recipe, folder):
    """`mtsa train RECIPE --out FOLDER`."""
    return [sys.executable, "-m", "mtsa", "train", str(recipe), "--out", str(folder)]


def run_command(command):
    """Run a command that must succeed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(2):  # gloo sometimes aborts while its threads end; that says nothing about the run
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400, env=environment)
        if done.returncode == 0 or "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def assert_same_run(first, second):
    """Equal weights, configurations (with temperatures), metrics and learning curves of two run folders."""
    states = open_run(first).model.state_dict(), open_run(second).model.state_dict()
    assert states[0].keys() == states[1].keys()
    for name in states[0]:
        assert torch.equal(states[0][name], states[1][name]), name
    for name in ("config.json", "metrics.json"):
        assert json.loads((first / name).read_text()) == json.loads((second / name).read_text())
    curves = [json.loads((folder / "record.json").read_text())["dev_curve"] for folder in (first, second)]
    assert curves[0] == curves[1]


def kill_after(recipe, folder, step):
    """Start a run and kill it when the checkpoint of that step has appeared."""
    slowed = [sys.executable, "-m", "tests.training.slow_training", *command(recipe, folder)[3:]]
    process = subprocess.Popen(slowed, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not checkpoints.checkpoint_path(folder / "checkpoints", step).exists():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def weights(folder):
    """Those of a finished run."""
    return open_run(folder).model.state_dict()


def assert_close_weights(first, second):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=2e-5, msg=lambda told, name=name: f"{name}: {told}")
