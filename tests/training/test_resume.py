"""A killed run loses nothing older than its last checkpoint, and ends as if it had never been killed."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from mtsa.errors import InputError
from mtsa.files import fingerprint
from mtsa.training import checkpoints
from mtsa.training.recipe_files import load_recipe, to_toml
from mtsa.training.run import run_recipe
from tests.sample_data import sentences, small_recipe, write_csv
from tests.training.processes import assert_same_run, command, kill_after

STEPS = {"epochs": 6, "eval_steps": 7, "batch_size": 16}  # 9 steps an epoch: most checkpoints are in the middle of one


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A recipe with dropout, and the run of it that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    data = write_csv(folder / "train.csv", sentences(160))
    recipe = folder / "recipe.toml"
    recipe.write_text(to_toml(small_recipe(data, **STEPS)))
    subprocess.run(command(recipe, folder / "run"), check=True, capture_output=True, timeout=300)
    return recipe, folder / "run"


@pytest.mark.slow
def test_resume_after_two_kills_matches_uninterrupted_run(whole, tmp_path):
    recipe, undisturbed = whole
    kill_after(recipe, tmp_path / "run", 14)
    assert not (tmp_path / "run" / "manifest.json").exists()
    kill_after(recipe, tmp_path / "run", 28)
    done = subprocess.run(command(recipe, tmp_path / "run"), check=True, capture_output=True, text=True, timeout=300)
    assert "resuming from step" in done.stdout
    assert_same_run(undisturbed, tmp_path / "run")


KILLED_WHILE_SAVING = """
import os, signal, sys
import mtsa.training.checkpoints as c
real = c.finalize
def finalize(partial, folder, step):
    if step == 21:
        (partial / "weights.safetensors").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return real(partial, folder, step)
c.finalize = finalize
from mtsa.__main__ import main
main()
"""


def test_resume_after_kill_during_a_save_matches_uninterrupted_run(whole, tmp_path):
    recipe, undisturbed = whole
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_SAVING, *command(recipe, folder)[3:]], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    found = checkpoints.list_checkpoints(folder / "checkpoints")
    assert [checkpoints.step_of(path) for path in found][-1] == 14
    assert (folder / "checkpoints" / ".saving-21").exists()
    done = subprocess.run(command(recipe, folder), check=True, capture_output=True, text=True, timeout=300)
    assert "resuming from step 14" in done.stdout
    assert_same_run(undisturbed, folder)


KILLED_AT_THE_END = """
import os, signal
import mtsa.training.run as r
r.write_run = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
from mtsa.__main__ import main
main()
"""


def test_resume_after_kill_at_the_last_step_trains_nothing_again(whole, tmp_path):
    """Training is over, the folder is not written: nothing is trained again."""
    recipe, undisturbed = whole
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED_AT_THE_END, *command(recipe, folder)[3:]], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    done = subprocess.run(command(recipe, folder), check=True, capture_output=True, text=True, timeout=300)
    assert "resuming from step 54" in done.stdout  # all of them
    assert_same_run(undisturbed, folder)


@pytest.mark.slow
def test_changed_data_is_noticed(whole, tmp_path):
    recipe, _ = whole
    kill_after(recipe, tmp_path / "run", 7)
    text = recipe.read_text()
    data = recipe.parent / "train.csv"
    kept = data.read_text()
    try:
        data.write_text(kept + "another,fruit\n")
        done = subprocess.run(command(recipe, tmp_path / "run"), check=False, capture_output=True, text=True, timeout=300)
    finally:
        data.write_text(kept)
    assert done.returncode == 2
    assert "with other data" in done.stderr
    assert recipe.read_text() == text


def test_folders_that_are_no_checkpoints_are_passed_over(tmp_path):
    for name in ("checkpoint-5", "checkpoint-30", "checkpoint-x", ".saving-40", "other"):
        (tmp_path / name).mkdir()
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["checkpoint-5", "checkpoint-30"]
    checkpoints.delete_except(tmp_path, keep={tmp_path / "checkpoint-30"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-30", "other"]


def test_a_damaged_checkpoint_is_refused_and_the_run_resumes_without_it(whole, tmp_path):
    recipe, undisturbed = whole
    folder = tmp_path / "run"
    kill_after(recipe, folder, 14)
    last = checkpoints.list_checkpoints(folder / "checkpoints")[-1]
    files = sorted(last.iterdir())
    assert [file.name for file in files] == [
        "files.json", "optimizer.safetensors", "rng-0.safetensors", "state.json", "weights.safetensors",
    ]  # fmt: skip
    for file in files:
        kept = file.read_bytes()
        for damaged in (kept[: len(kept) // 2], b"", b"[" * 100_000, None):
            file.write_bytes(damaged) if damaged is not None else file.unlink()
            with pytest.raises(InputError, match=r"checkpoint-\d+.* is damaged.*delete"):
                run_recipe(load_recipe(str(recipe)), folder)
        file.write_bytes(kept)
    shutil.rmtree(last)
    left = checkpoints.list_checkpoints(folder / "checkpoints")
    done = subprocess.run(command(recipe, folder), check=True, capture_output=True, text=True, timeout=300)
    assert ("resuming from step 7" in done.stdout) is bool(left)  # that of the best step so far, where it is another one
    assert_same_run(folder, undisturbed)


def test_the_best_checkpoint_is_looked_at_too(whole, tmp_path):
    recipe, _ = whole
    folder = tmp_path / "run"
    kill_after(recipe, folder, 14)
    last = checkpoints.list_checkpoints(folder / "checkpoints")[-1]
    path, listed = last / "state.json", json.loads((last / "files.json").read_text())
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "best_step": 3}))  # one that is gone
    (last / "files.json").write_text(json.dumps({**listed, path.name: fingerprint(path)}))
    with pytest.raises(InputError, match=r"checkpoint-3 .*best step.* is damaged; delete .*run and train again"):
        run_recipe(load_recipe(str(recipe)), folder)


def test_a_run_that_was_killed_after_its_last_word_is_tidied(whole, tmp_path):
    recipe, undisturbed = whole
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    (folder / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    (folder / "sources.json").write_text("{}")
    with pytest.raises(InputError, match="contains a finished run"):
        run_recipe(load_recipe(str(recipe)), folder)
    assert not (folder / "checkpoints").exists()
    assert not (folder / "sources.json").exists()
    assert_same_run(folder, undisturbed)


def test_a_folder_of_somebody_else_is_left_as_it_is(whole, tmp_path):
    """A manifest.json alone makes no run; what stands beside it is not ours to remove."""
    recipe, undisturbed = whole
    folder = tmp_path / "site"
    for name in ("manifest.json", "sources.json", "checkpoints/mine.pt", "refit/y"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError):
        run_recipe(load_recipe(str(recipe)), folder)
    assert sorted(folder.rglob("*")) == before
    own = shutil.copytree(undisturbed, tmp_path / "run")
    (own / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    (own / "checkpoints" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="contains a finished run"):
        run_recipe(load_recipe(str(recipe)), own)
    assert [entry.name for entry in (own / "checkpoints").iterdir()] == ["notes.txt"]


def test_a_list_that_names_nothing_is_no_list(tmp_path):
    (tmp_path / "model.safetensors").write_text("junk")
    (tmp_path / "files.json").write_text("{}")
    with pytest.raises(InputError, match="is damaged"):
        checkpoints.verify(tmp_path)
    (tmp_path / "files.json").unlink()
    with pytest.raises(InputError, match="by an earlier version"):
        checkpoints.verify(tmp_path)
