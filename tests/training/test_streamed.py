"""Training from shards on disk: every row once a pass, in another order each; the same after a kill, and on two processes."""

import csv
import dataclasses
import json
import os
import random
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

import mtsa
from mtsa.cli.main import app
from mtsa.errors import InputError
from mtsa.training.launch import build_recipe
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import make_recipe, to_toml
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import open_run
from mtsa.training.split import read_split
from mtsa.training.streamed import StreamedData, make_shards
from tests.sample_data import TAGGER, TRANSLATOR, parallel, sentences, small_recipe, tagged, write_csv
from tests.trained_models import QUICK
from tests.training.processes import ONE_MACHINE, assert_close_weights, command, kill_after, run_command, weights


def sharded(folder, rows=157, megabytes=0.002, **training):
    """A recipe that trains on shards, with a dev file."""
    data = write_csv(folder / "train.csv", sentences(rows))
    dev = write_csv(folder / "dev.csv", sentences(40, seed=9))
    make_shards(small_recipe(data), folder / "shards", megabytes=megabytes)
    table = {
        "data": {"train": str(folder / "shards"), "dev": str(dev)},
        "vectors": {"dim": 6},
        "encoder": {"name": "mtsa", "head_dim": 5},
        "model": {"hidden": 7, "dropout": 0.0},
        "training": {"batch_size": 15, "epochs": 2, "learning_rate": 0.05, "patience": 0, "epsilon": 1e-2, **training},
    }
    return make_recipe(table, [])


@pytest.mark.parametrize("tokens", [0, 60])
def test_a_pass_has_every_row_once(tmp_path, tokens):
    part = prepare(recipe := sharded(tmp_path), read_split(recipe)).parts["train"]
    assert isinstance(part, StreamedData)
    assert len(part.sizes) > 2
    passes = [list(part.batches(15, tokens=tokens, least=1, seed=3, epoch=epoch)) for epoch in (0, 1)]
    for batches in passes:
        assert sorted(place for batch in batches for place in batch) == list(range(157))
        assert len(batches) == part.count(15, tokens=tokens, least=1, seed=3)
    assert passes[0] != passes[1]
    assert passes[0] == list(part.batches(15, tokens=tokens, least=1, seed=3, epoch=0))
    assert passes[0] != list(part.batches(15, tokens=tokens, least=1, seed=4, epoch=0))
    shards = [{sum(place >= start for start in part.starts) for place in batch} for batch in passes[0]]
    assert all(len(own) == 1 for own in shards)
    first = part.starts[1]  # the first shard by itself is shuffled too
    assert [batch for batch in passes[0] if batch[0] < first] != [batch for batch in passes[1] if batch[0] < first]
    order = [own.pop() for own in shards]
    assert order != sorted(order)  # shards are shuffled too


def test_a_batch_is_what_its_texts_say(tmp_path):
    """The numbers, labels and lengths of a batch are those of the examples at its places."""
    prepared = prepare(recipe := sharded(tmp_path), read_split(recipe))
    part, tokenizer = prepared.parts["train"], prepared.inputs.tokenizer
    examples = list(part.shards)
    for places in part.batches(15, tokens=0, least=1, seed=0, epoch=0):
        found = part.collate(places)
        for number, place in enumerate(places):
            row = found["input_ids"][number][found["attention_mask"][number].bool()].tolist()
            assert row == tokenizer.encode(examples[place].text).ids
            assert prepared.labels[found["labels"][number]] == examples[place].label
            assert part.lengths[place] == len(row)
        assert part.token_count(places) == int(found["attention_mask"].sum())
        assert part.padded_size(places) == found["input_ids"].numel()


def test_one_shard_is_in_memory(tmp_path):
    part = prepare(recipe := sharded(tmp_path), read_split(recipe)).parts["train"]
    for places in part.batches(15, tokens=0, least=1, seed=0, epoch=0):
        part.collate(places)
        assert len(part._loaded) == 1


def test_it_learns(tmp_path):
    recipe = sharded(tmp_path, 400, epochs=8, epsilon=1e-8, learning_rate=0.01)
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, hidden=40, activation="elu"))
    outcome = run_recipe(recipe, tmp_path / "run")
    assert outcome.dev.as_json()["accuracy"] > 0.9


@pytest.mark.slow
def test_every_task_trains_from_shards(tmp_path):
    """Through the commands that users have."""
    tagger = {**TAGGER, "training.epochs": 1, "encoder.layers": 1}
    roles = {"training.max_steps": 2, "encoder.layers": 1, "encoder.width": 24, "encoder.hidden": 24}
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("a,b,label\n" + "".join(f"the {text},a {text},{label}\n" for text, label in sentences(40)))
    numbers = write_csv(tmp_path / "numbers.csv", [(text, len(text)) for text, _ in sentences(40)])
    close_pairs = tmp_path / "close.csv"
    close_pairs.write_text("a,b,label\n" + "".join(f"the {text},a {text},{len(text)}\n" for text, _ in sentences(40)))
    corpus = mtsa.corpora.corpus_files("corpus:roles")
    two = ["--text-column", "a", "--pair-column", "b"]
    short = {**TRANSLATOR, "training.epochs": 1}
    cases = {
        "classification": ([write_csv(tmp_path / "a.csv", sentences(40))], [], QUICK),
        "regression": ([numbers], [], QUICK),
        "pair": ([pairs], two, QUICK),
        "similarity": ([close_pairs], two, QUICK),
        "tagging": ([tagged(tmp_path / "t.conll", 40)], [], tagger),
        "srl": ([corpus["train"]], [], {**tagger, **roles}),
        "translation": (parallel(tmp_path, "p", 120, 0), [], short),
    }
    for task, (files, columns, settings) in cases.items():
        folder = tmp_path / task
        done = CliRunner().invoke(
            app, ["data", "shard", *map(str, files), "--task", task, *columns, "--out", f"{folder}-s", "--megabytes", "0.001"]
        )
        assert done.exit_code == 0, done.output
        assert "shards; train with: mtsa train" in done.output
        assert ("--dev FILE --text-column a --pair-column b" in done.output) is (task in ("pair", "similarity"))
        assert len(list((tmp_path / f"{task}-s").glob("shard-*"))) > 1
        columns = {"text_column": "a", "pair_column": "b"} if task in ("pair", "similarity") else {}
        dev = dict(zip(("dev", "dev_target"), map(str, files), strict=False))
        mtsa.train(task=task, train=f"{folder}-s", **dev, **columns, out=folder, settings=settings)
        assert open_run(folder).recipe.task == task


@pytest.mark.slow
def test_resume_after_kill_matches_uninterrupted_run(tmp_path):
    """Killed in the middle of a pass, it ends with the weights of a run that nobody disturbed."""
    recipe = sharded(tmp_path, eval_steps=7, epochs=3)
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe).replace("dropout = 0.0", "dropout = 0.2"))
    subprocess.run(command(path, tmp_path / "whole"), check=True, capture_output=True, timeout=300)
    kill_after(path, tmp_path / "cut", 14)
    done = subprocess.run(command(path, tmp_path / "cut"), check=True, capture_output=True, text=True, timeout=300)
    assert "resuming from step" in done.stdout
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(sharded(tmp_path)))
    subprocess.run(command(path, tmp_path / "one"), check=True, capture_output=True, timeout=300)
    run_command([*ONE_MACHINE, "-m", "mtsa", "train", str(path), "--out", str(tmp_path / "two")])
    assert_close_weights(weights(tmp_path / "one"), weights(tmp_path / "two"))


def test_other_shards_are_other_data(tmp_path):
    """An unfinished run does not go on with shards that were dealt anew."""
    recipe = sharded(tmp_path, eval_steps=2)
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe))
    kill_after(path, tmp_path / "cut", 2)
    file = tmp_path / "shards" / "shard-00000.jsonl"
    file.write_text(file.read_text().replace("apple", "grape"))
    done = subprocess.run(command(path, tmp_path / "cut"), check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "unfinished run with other data" in done.stderr


def test_what_shards_cannot_do_is_refused(tmp_path):
    sharded(tmp_path)
    shards, dev = str(tmp_path / "shards"), str(tmp_path / "dev.csv")
    with pytest.raises(InputError, match="specify a dev file with --dev"):
        build_recipe(None, data={"train": shards})
    with pytest.raises(InputError, match="for task classification, not regression"):
        build_recipe(None, task="regression", data={"train": shards, "dev": dev})
    with pytest.raises(InputError, match=r"training\.refit"):
        build_recipe(None, data={"train": shards, "dev": dev}, settings=["training.refit=true"])
    assert not build_recipe(None, data={"train": shards, "dev": dev}).training.refit  # which few examples would have
    for arguments, told in (
        (["a.csv"], "no such file"),
        ([str(tmp_path / "dev.csv"), "--task", "translation"], "requires two files, such as A.en A.de"),
        (["a.csv", "b.csv"], "requires one file"),
        ([str(tmp_path / "dev.csv"), "--task", "sorting"], "it must be one of"),
    ):
        done = CliRunner().invoke(app, ["data", "shard", *arguments, "--out", str(tmp_path / "other")])
        assert done.exit_code == 2, done.output
        assert told in done.stderr


def wide_file(path, megabytes):
    """A CSV of so many megabytes, of few words."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(500)]
    rows = [" ".join(rng.choices(words, k=60)) for _ in range(500)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        number = 0
        while file.tell() < megabytes * 1e6:
            writer.writerow([f"{rows[number % 500]} {'red' if number % 2 else 'green'}", number % 2])
            number += 1


LIMIT = """
import resource, sys
def limit(megabytes):
    used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(megabytes * 1e6),) * 2)
"""
DEALT = (
    LIMIT
    + """
import mtsa.training.streamed, mtsa.training.launch
from mtsa.__main__ import main
limit(120)
main()
"""
)
LIMITED = (
    LIMIT
    + """
from mtsa.training.run import run_recipe
from mtsa.training.recipe_files import load_recipe
import mtsa.tasks.text, mtsa.training.prepare, mtsa.models.hub_models, transformers
from pathlib import Path
recipe, out = load_recipe(sys.argv[1]), Path(sys.argv[2])
limit(120)
run_recipe(recipe, out)
"""
)


@pytest.mark.slow
def test_a_file_larger_than_memory(tmp_path):
    """With less room than half of the file, training from the file itself fails, and from shards it works."""
    wide_file(tmp_path / "train.csv", 240)
    wide_file(tmp_path / "dev.csv", 0.1)
    command = ["data", "shard", str(tmp_path / "train.csv"), "--out", str(tmp_path / "shards"), "--megabytes", "4"]
    dealt = subprocess.run([sys.executable, "-c", DEALT, *command], check=False, capture_output=True, text=True, timeout=600)
    assert dealt.returncode == 0, dealt.stderr[-2000:]
    table = {
        "data": {"train": str(tmp_path / "train.csv"), "dev": str(tmp_path / "dev.csv")},
        "vectors": {"dim": 6}, "encoder": {"name": "mtsa", "head_dim": 5}, "model": {"hidden": 7},
        "training": {"batch_size": 16, "max_steps": 20, "eval_steps": 10, "patience": 0},
    }  # fmt: skip
    results = {}
    for name in ("train.csv", "shards"):
        table["data"]["train"] = str(tmp_path / name)
        (tmp_path / "recipe.toml").write_text(to_toml(make_recipe(table, [])))
        results[name] = subprocess.run(
            [sys.executable, "-c", LIMITED, str(tmp_path / "recipe.toml"), str(tmp_path / f"run-{name}")],
            check=False, capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    assert results["train.csv"].returncode != 0
    assert any(told in results["train.csv"].stderr for told in ("MemoryError", "alloc", "memory"))
    assert results["shards"].returncode == 0, results["shards"].stderr[-2000:]
    assert json.loads((tmp_path / "run-shards" / "record.json").read_text())["steps"] == 20


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_any_seed_has_an_order(tmp_path, seed):
    part = prepare(recipe := sharded(tmp_path, seed=seed), read_split(recipe)).parts["train"]
    batches = list(part.batches(15, tokens=0, least=1, seed=seed, epoch=7))
    assert sorted(place for batch in batches for place in batch) == list(range(157))


def test_an_example_too_long_for_a_shard_is_told_when_it_is_dealt(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,b\n" + '"' + "x\n" * 400_000 + '",c\n')
    done = CliRunner().invoke(app, ["data", "shard", str(tmp_path / "a.csv"), "--out", str(tmp_path / "s")])
    assert done.exit_code == 2
    assert "line 3: the example has" in done.stderr
    assert not (tmp_path / "s").exists()
