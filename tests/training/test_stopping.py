"""Stops and refusals: signals, two runs in one folder, folders that cannot be written, a disk that is full."""

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from mtsa.errors import InputError
from mtsa.files import locked
from mtsa.training import checkpoints
from mtsa.training.recipe_files import load_recipe, to_toml
from mtsa.training.run import run_recipe
from mtsa.training.weight_files import report_write_errors
from tests.sample_data import sentences, small_recipe, write_csv
from tests.training.processes import assert_same_run, command, weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A recipe that evaluates once at its end, and the run of it that nobody disturbed. It has no remarks."""
    folder = tmp_path_factory.mktemp("stops")
    recipe = folder / "recipe.toml"
    made = small_recipe(write_csv(folder / "train.csv", sentences(144)), epochs=6, eval_steps=40)
    dev = str(write_csv(folder / "dev.csv", sentences(16, seed=3)))
    recipe.write_text(to_toml(dataclasses.replace(made, data=dataclasses.replace(made.data, dev=dev))))
    subprocess.run(command(recipe, folder / "run"), check=True, capture_output=True, timeout=300)
    return recipe, folder / "run"


def begun(folder):
    """Wait until training is under way."""
    end = time.monotonic() + 120
    while not (folder / "checkpoints").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.7)  # some steps of 0.05 s


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_saves_the_step_and_stops(whole, tmp_path, number):
    """No checkpoint was due: the signal makes one, and the run ends as if nothing had happened."""
    recipe, undisturbed = whole
    slowly = [sys.executable, "-m", "tests.training.slow_training", *command(recipe, tmp_path / "run")[3:]]
    process = subprocess.Popen(slowly, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun(tmp_path / "run")
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "rerun the command to resume" in told
    assert len(told.strip().splitlines()) == 1
    (saved,) = checkpoints.list_checkpoints(tmp_path / "run" / "checkpoints")
    assert 0 < checkpoints.step_of(saved) < 40
    done = subprocess.run(command(recipe, tmp_path / "run"), check=True, capture_output=True, text=True, timeout=300)
    assert f"resuming from step {checkpoints.step_of(saved)}" in done.stdout
    assert_same_run(undisturbed, tmp_path / "run")


def test_two_runs_in_one_folder_are_refused(whole, tmp_path):
    recipe, undisturbed = whole
    slowly = [sys.executable, "-m", "tests.training.slow_training", *command(recipe, tmp_path / "run")[3:]]
    first = subprocess.Popen(slowly, stdout=subprocess.DEVNULL)
    begun(tmp_path / "run")
    with pytest.raises(InputError, match="another process is using this folder"):
        run_recipe(load_recipe(str(recipe)), tmp_path / "run")
    assert first.poll() is None, "the first run ended before the second one began"
    assert first.wait(timeout=120) == 0
    assert_same_run(undisturbed, tmp_path / "run")


def test_a_lock_goes_with_its_process(tmp_path):
    holder = (
        "import sys, time, pathlib, mtsa.files\n"
        "with mtsa.files.locked(pathlib.Path(sys.argv[1])):\n    print(1, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    with locked(tmp_path) as mine:
        assert not mine
    process.kill()
    process.wait()
    process.stdout.close()
    with locked(tmp_path) as mine:
        assert mine


def test_a_folder_that_cannot_be_written(whole, tmp_path):
    """One sentence, exit code 2."""
    recipe, _ = whole
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o555)
    out = shut / "run" if os.getuid() else Path("/proc/run")  # root writes everywhere but there
    done = subprocess.run(command(recipe, out), check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert str(out) in done.stderr
    assert "choose another folder with --out" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def small_files():
    """No file may grow beyond a few kB: what a full disk looks like to one that writes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))


@pytest.mark.slow
def test_a_full_disk(whole, tmp_path):
    """One sentence, no half of a file under a name that counts; with room again, the same command ends the run."""
    recipe, undisturbed = whole
    done = subprocess.run(
        command(recipe, tmp_path / "run"), check=False, capture_output=True, text=True, timeout=120, preexec_fn=small_files
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert checkpoints.list_checkpoints(tmp_path / "run" / "checkpoints") == []
    subprocess.run(command(recipe, tmp_path / "run"), check=True, capture_output=True, timeout=300)
    assert_same_run(undisturbed, tmp_path / "run")


FULL = [
    OSError(28, "No space left on device"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed\nmore"),
    Exception("No space left on device (os error 28)"),
]


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_every_library_tells_of_a_full_disk_in_its_own_way(tmp_path, error):
    with pytest.raises(InputError, match=r"cannot be written \(.+\)"), report_write_errors(tmp_path):
        raise error
    with pytest.raises(KeyError), report_write_errors(tmp_path):
        raise KeyError("a mistake of ours")


def test_training_elsewhere_than_in_the_main_thread(tmp_path):
    """Signals can be heard in the main thread alone; in another one training works without."""
    import threading

    recipe = small_recipe(write_csv(tmp_path / "train.csv", sentences(40)), epochs=1)
    found = []
    thread = threading.Thread(target=lambda: found.append(run_recipe(recipe, tmp_path / "run")))
    thread.start()
    thread.join(timeout=120)
    assert len(found) == 1
    assert all(torch.isfinite(value).all() for value in weights(tmp_path / "run").values())


def test_a_finished_run_is_not_trained_again(whole):
    recipe, undisturbed = whole
    done = subprocess.run(command(recipe, undisturbed), check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "contains a finished run" in done.stderr
    with pytest.raises(InputError, match="contains a finished run"):
        run_recipe(small_recipe(undisturbed.parent / "train.csv"), undisturbed)
