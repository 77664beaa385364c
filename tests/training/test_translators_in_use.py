"""A translator at a terminal, over several seeds, and the rate that it is trained with."""

import csv
import json
import math
import os
import select
import subprocess
import sys

import pytest
from safetensors import safe_open
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from typer.testing import CliRunner

import mtsa
import mtsa.hub
from mtsa.cli import app
from mtsa.training.cross_validation import repeat
from mtsa.training.launch import build_recipe
from mtsa.training.optimizer import lr_factor
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import toml_value
from mtsa.training.split import read_split
from tests.sample_data import TRANSLATOR, parallel


def small(folder, **settings):
    en, de = parallel(folder, "train", 40, 0)
    return build_recipe(
        None,
        task="translation",
        data={"train": en, "train_target": de},
        settings=[f"{key}={toml_value(value)}" for key, value in {**TRANSLATOR, **settings}.items()],
    )


def test_at_a_terminal_each_line_is_answered_at_once(runs):
    """A real terminal on standard input: an answer comes before the next line is typed, and an empty line ends it."""
    pty = pytest.importorskip("pty", reason="no terminals here")
    folder = runs["translation"].run.folder
    model = mtsa.load(folder)
    near, far = pty.openpty()
    command = [sys.executable, "-m", "mtsa", "predict", str(folder)]
    with subprocess.Popen(command, stdin=far, stdout=subprocess.PIPE, text=True) as process:
        try:
            os.close(far)
            for text in ("red dog", "cat"):
                os.write(near, f"{text}\n".encode())
                ready, _, _ = select.select([process.stdout], [], [], 120)
                assert ready, "no answer"
                assert process.stdout.readline() == f"{model.predict([text])[0]}\n"
            os.write(near, b"\n")
            assert process.wait(timeout=60) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()
    os.close(near)


def test_the_rate_rises_over_the_warm_up_and_falls_with_the_root_of_the_step(tmp_path):
    rate = {"training.schedule": "inverse_sqrt", "training.warmup_steps": 4, "training.learning_rate": 0.01}
    recipe = small(tmp_path, **rate)
    rates = [0.01 * lr_factor(recipe.training, step, 100) for step in range(17)]
    assert rates[:5] == pytest.approx([0.0, 0.0025, 0.005, 0.0075, 0.01])
    assert rates[9] == pytest.approx(0.01 * (4 / 9) ** 0.5)
    assert rates[16] == pytest.approx(0.005)


def test_several_seeds_are_summed_up_by_what_the_task_follows(tmp_path):
    recipe = small(tmp_path, **{"training.epochs": 1, "training.eval_steps": 0})
    summary = repeat(recipe, tmp_path / "runs", 2)
    values = [json.loads((tmp_path / "runs" / f"seed-{seed}" / "metrics.json").read_text())["dev"]["bleu"] for seed in (0, 1)]
    assert summary["dev_bleu"]["values"] == values
    assert summary["dev_bleu"]["mean"] == pytest.approx(sum(values) / 2)


@pytest.mark.parametrize("encoder", ["mtsa", "multihead"])
def test_a_model_that_is_mostly_subwords_opens(tmp_path, encoder):
    """Its one table of them counts once, though the model has it under three names."""
    narrow = {"translator.d_model": 8, "translator.ffn_dim": 8, "training.max_steps": 2, "training.eval_steps": 2}
    en, de = parallel(tmp_path, "train", 40, 0)
    settings = {**TRANSLATOR, **narrow}
    model = mtsa.train(task="translation", train=[en, de], encoder=encoder, out=tmp_path / "run", settings=settings)
    assert len(model.predict(["red dog"])) == 1
    with safe_open(tmp_path / "run" / "model.safetensors", framework="pt") as file:
        sizes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    table = sizes["model.shared.weight"]
    assert 3 * table[0] * table[1] > sum(math.prod(shape) for shape in sizes.values())


def test_transformers_searches_as_we_do(runs):
    model = runs["translation"]
    loaded = AutoModelForSeq2SeqLM.from_pretrained(model.run.folder)
    asked = model.run.recipe.translator
    assert loaded.generation_config.num_beams == asked.num_beams
    assert loaded.generation_config.length_penalty == asked.length_penalty
    tokenizer = AutoTokenizer.from_pretrained(model.run.folder)
    found = loaded.generate(**tokenizer(["red dog"], return_tensors="pt", return_token_type_ids=False))
    assert tokenizer.decode(found[0], skip_special_tokens=True).strip() == model.predict(["red dog"])[0].strip()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "de"])
def test_translations_are_written_as_the_ending_says(runs, tmp_path, ending):
    model, texts = runs["translation"], ["red dog", "", 'a "cat", old']
    (tmp_path / "a.en").write_text("\n".join(texts) + "\n")
    out = tmp_path / f"a.{ending}"
    done = CliRunner().invoke(app, ["predict", str(model.run.folder), str(tmp_path / "a.en"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    right = list(zip(texts, model.predict(texts), strict=True))
    with out.open(newline="") as file:
        if ending == "csv":
            assert [(row["text"], row["translation"]) for row in csv.DictReader(file)] == right
        elif ending == "jsonl":
            assert [tuple(json.loads(line).values()) for line in file] == right
        else:
            assert file.read().splitlines() == [translation for _, translation in right]


def test_what_is_left_out_or_named_twice_is_told(tmp_path):
    recipe = small(tmp_path, **{"tokens.max_length": 3})
    (remark,) = [line for line in prepare(recipe, read_split(recipe)).remarks if line.startswith("train:")]
    assert remark.endswith("pairs skipped because one side has more than 3 subwords (tokens.max_length)")
    with pytest.raises(ValueError, match=r"mtsa\.train: .*train\.en is used as source and as target"):
        mtsa.train(task="translation", train=[str(tmp_path / "train.en")] * 2, out=tmp_path / "run")
