"""Training on several processes, and on several machines: the same global batches, the same weights as on one."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtsa.training import checkpoints
from mtsa.training.launch import build_recipe
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import load_recipe, make_recipe, to_toml
from mtsa.training.split import read_split
from tests.sample_data import TAGGER, TRANSLATOR, glove, parallel, sentences, small_recipe, tagged, write_csv
from tests.training import pretrain_tiny
from tests.training.processes import (
    ONE_MACHINE,
    TORCHRUN,
    assert_close_weights,
    assert_same_run,
    kill_after,
    run_command,
    weights,
)
from tests.training.train_recipes import train_every

pytestmark = pytest.mark.slow

STEADY = {
    "training.epsilon": 1e-2
}  # Adam divides by the size of a gradient: of one near 0, rounding would be all that is left


def settings(table):
    return [f"{key}={json.dumps(value)}" for key, value in table.items()]


def recipes(folder):
    """A small recipe of each task, without dropout."""
    vectors = glove(folder / "vectors.txt")
    sentence = {
        "data": {"train": str(write_csv(folder / "a.csv", sentences(157)))},
        "vectors": {"file": str(vectors), "lr_multiplier": 0.3},
    }
    small = {
        "encoder": {"name": "mtsa", "head_dim": 5}, "model": {"hidden": 7, "dropout": 0.0},
        "training": {"batch_size": 15, "epochs": 2, "learning_rate": 0.05, "patience": 0, "epsilon": 1e-2},
    }  # fmt: skip
    found = {"classification": make_recipe({**sentence, **small}, [])}
    few = [*sentences(140), *[row for row in sentences(60, seed=4) if row[1] == "fruit"]]  # unbalanced, with class weights
    found["weighted"] = make_recipe(
        {**sentence, "data": {"train": str(write_csv(folder / "w.csv", few))}, **small},
        settings({"training.class_weights": "balanced", "training.gradient_accumulation_steps": 2}),
    )
    found["pair"] = make_recipe(
        {"task": "pair", "data": {"train": "corpus:entailment"}, **small, "vectors": {"dim": 6}},
        settings({"training.max_steps": 12, "training.eval_steps": 6}),
    )
    found["pair_stack"] = make_recipe(  # processes whose sentences fall into one group or two call its blocks unlike often
        {"task": "pair", "data": {"train": "corpus:entailment"}, **small, "vectors": {"dim": 6},
         "encoder": {"name": "multihead", "heads": 2, "head_dim": 5}},
        settings({"training.max_steps": 12, "training.eval_steps": 6}),
    )  # fmt: skip
    flat = {
        **TAGGER,
        **STEADY,
        "training.epochs": 8,
        "training.warmup_steps": 1,
        "encoder.layers": 2,
        "encoder.attention_dropout": 0.0,
    }
    found["tagging"] = build_recipe(
        None, task="tagging", data={"train": str(tagged(folder / "t", 40))}, settings=settings(flat)
    )
    roles = {
        "training.max_steps": 6, "training.warmup_steps": 1, "training.learning_rate": 0.05, "model.dropout": 0.0,
        "encoder.layers": 2, "encoder.width": 24, "encoder.hidden": 24, "encoder.attention_dropout": 0.0,
    }  # fmt: skip
    found["srl"] = build_recipe("roles.cpu", settings=settings({**STEADY, **roles}))
    source, target = parallel(folder, "train", 40, 0)
    short = {**TRANSLATOR, **STEADY, "training.epochs": 4, "training.warmup_steps": 1, "encoder.masks": "halves"}
    found["translation"] = build_recipe(
        None, task="translation", data={"train": source, "train_target": target}, settings=settings(short)
    )
    (folder / "recipes").mkdir()
    for name, recipe in found.items():
        (folder / "recipes" / f"{name}.toml").write_text(to_toml(recipe))
    return folder / "recipes"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folders of the runs of every task: on one process, on two with copies, on two with shares."""
    folder = tmp_path_factory.mktemp("processes")
    given = recipes(folder)
    train_every(given, "ddp", folder / "one")
    for spread in ("ddp", "fsdp"):
        run_command([*ONE_MACHINE, "-m", "tests.training.train_recipes", str(given), spread, str(folder / spread)])
    return folder


@pytest.mark.parametrize("spread", ["ddp", "fsdp"])
@pytest.mark.parametrize("task", ["classification", "weighted", "pair", "pair_stack", "tagging", "translation"])
def test_two_processes_give_the_weights_of_one(trained, task, spread):
    assert_close_weights(weights(trained / "one" / task), weights(trained / spread / task))


@pytest.mark.parametrize("spread", ["ddp", "fsdp"])
def test_two_processes_give_the_temperatures_of_one(trained, spread):
    for task in ("pair", "pair_stack"):
        found = [
            json.loads((trained / name / task / "config.json").read_text())["softmax_temperature"] for name in ("one", spread)
        ]
        assert found[1] == pytest.approx(found[0], rel=1e-3)
        assert found[0] != 1.0


def test_shares_give_the_weights_of_copies(trained):
    """The finder of predicates learns from the mean of each process's own words, so two processes are not quite one."""
    assert_close_weights(weights(trained / "ddp" / "srl"), weights(trained / "fsdp" / "srl"))


@pytest.mark.parametrize("task", ["classification", "pair", "tagging", "srl", "translation"])
def test_training_moves_the_weights(trained, task):
    """Weights that stay where they began would pass above."""
    recipe = load_recipe(str(trained / "recipes" / f"{task}.toml"))
    begun, ended = prepare(recipe, read_split(recipe)).model().state_dict(), weights(trained / "one" / task)
    moved = {name: (ended[name] - begun[name]).abs().max().item() for name in ended if ended[name].numel()}
    assert sum(value > 1e-3 for value in moved.values()) > len(moved) / 2


def test_a_share_is_half():
    """Each of two processes holds half of every matrix, and gathers and scatters lose nothing."""
    done = run_command([*ONE_MACHINE, "-m", "tests.training.check_sharding"])
    assert done.stdout.count("right") == 2


def test_another_number_of_processes_is_refused(trained, tmp_path):
    """The numbers of chance are those of each process: with another count the result would be another."""
    path = tmp_path / "recipe.toml"
    recipe = load_recipe(str(trained / "recipes" / "classification.toml"))
    path.write_text(to_toml(recipe).replace("eval_steps = 0", "eval_steps = 3"))
    kill_after(path, tmp_path / "run", 3)
    alone = [*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(tmp_path / "run")]
    done = subprocess.run(alone, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "was written by 1 processes; resume with the same number, not 2" in done.stderr


def test_batches_smaller_than_the_processes_are_refused(tmp_path):
    data = write_csv(tmp_path / "train.csv", sentences(9))
    path = tmp_path / "recipe.toml"
    dev = write_csv(tmp_path / "dev.csv", sentences(9))
    path.write_text(
        to_toml(make_recipe({"data": {"train": str(data), "dev": str(dev)}}, settings({"training.batch_size": 1})))
    )
    two = [*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(tmp_path / "run")]
    done = subprocess.run(two, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "must be at least the number of processes (2)" in done.stderr


def test_resume_of_sharded_weights_matches_uninterrupted_run(trained, tmp_path):
    recipe = load_recipe(str(trained / "recipes" / "classification.toml"))
    path = tmp_path / "recipe.toml"
    path.write_text(
        to_toml(recipe).replace('distributed = "ddp"', 'distributed = "fsdp"').replace("eval_steps = 0", "eval_steps = 3")
    )
    assert "fsdp" in path.read_text()
    run_command([*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(tmp_path / "whole")])
    slow = [*ONE_MACHINE, "-m", "tests.training.slow_training", "train", str(path), "--out", str(tmp_path / "cut")]
    process = subprocess.Popen(slow, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        end = time.monotonic() + 120
        while not checkpoints.checkpoint_path(tmp_path / "cut" / "checkpoints", 6).exists():
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for one in (process.pid, *map(int, workers)):
            os.kill(one, signal.SIGKILL)
        process.wait()
    done = run_command([*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(tmp_path / "cut")])
    assert "resuming from step" in done.stdout
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Recipes with dropout that evaluate once at the end, and runs of them that nobody stopped, by way to distribute."""
    folder = tmp_path_factory.mktemp("undisturbed")
    data = write_csv(folder / "train.csv", sentences(160))
    found = {}
    for way in ("ddp", "fsdp"):
        path = folder / f"{way}.toml"
        path.write_text(to_toml(small_recipe(data, epochs=8, eval_steps=72, distributed=way)))
        run_command([*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(folder / way)])
        found[way] = path, folder / way
    return found


def workers_of(agent):
    """The process ids of what torchrun has started."""
    return [int(one) for one in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]


@pytest.mark.parametrize(
    ("way", "number", "whom"),
    [
        ("ddp", signal.SIGINT, "torchrun"),
        ("ddp", signal.SIGTERM, "torchrun"),
        ("ddp", signal.SIGINT, "first"),
        ("ddp", signal.SIGTERM, "last"),
        ("fsdp", signal.SIGTERM, "torchrun"),
        ("fsdp", signal.SIGINT, "last"),
    ],
)
def test_a_stopped_run_saves_its_step_and_resumes(undisturbed, tmp_path, way, number, whom):
    """torchrun passes a signal on to all processes; a signal to one of them stops all at the same step."""
    recipe, whole = undisturbed[way]
    folder = tmp_path / "run"
    slow = [*ONE_MACHINE, "-m", "tests.training.slow_training", "train", str(recipe), "--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        end = time.monotonic() + 120
        while not (folder / "checkpoints").exists():
            assert process.poll() is None, "it ended before it was stopped"
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(1.0)  # some steps of at least 0.05 s
        workers = workers_of(process.pid)
        assert len(workers) == 2
        os.kill({"torchrun": process.pid, "first": workers[0], "last": workers[-1]}[whom], number)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "rerun the command to resume" in told
    (saved,) = checkpoints.list_checkpoints(folder / "checkpoints")
    assert 0 < checkpoints.step_of(saved) < 72
    assert {f"rng-{rank}.safetensors" for rank in range(2)} < {file.name for file in saved.iterdir()}
    done = run_command([*ONE_MACHINE, "-m", "mtsa", "train", str(recipe), "--out", str(folder)])
    assert f"resuming from step {checkpoints.step_of(saved)}" in done.stdout
    assert_same_run(whole, folder)


def test_two_machines_give_the_weights_of_one(trained, tmp_path):
    """Two agents that meet at an address, as on two machines; the run folder is on a disk of both."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    path = str(trained / "recipes" / "classification.toml")
    agents = [
        subprocess.Popen(
            [*TORCHRUN, "--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1", "--master-addr", "127.0.0.1",
             "--master-port", str(port), "-m", "mtsa", "train", path, "--out", str(tmp_path / "run")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]  # fmt: skip
    told = [agent.communicate(timeout=300) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], told
    assert "best step" in told[0][0]
    assert "best step" not in told[1][0]
    assert_close_weights(weights(trained / "one" / "classification"), weights(tmp_path / "run"))


@pytest.mark.parametrize("way", ["copies", "shares"])
def test_pretraining_on_two_processes(tmp_path, way):
    """The GPT that two processes train is that of one."""
    pretrain_tiny.run(tmp_path / "one", sharded=False)
    run_command([*ONE_MACHINE, "-m", "tests.training.pretrain_tiny", str(tmp_path / "two"), way])
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert_close_weights(first, second)
    curves = [json.loads((tmp_path / name / "record.json").read_text())["curve"] for name in ("one", "two")]
    for one, two in zip(*curves, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], abs=1e-4)
    assert curves[0][0]["loss"] > curves[0][-1]["loss"]
