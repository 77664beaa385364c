"""Pairs from file to answer: trained, saved, opened, asked, submitted; by our own way and by `transformers`."""

import csv
import dataclasses
import json
import math

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.inference.heat_maps import draw_heat_maps
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import make_recipe
from mtsa.training.run import padding_share, run_recipe
from mtsa.training.split import read_split
from tests.log_messages import logged
from tests.sample_data import pair_recipe, pairs, write_pairs
from tests.trained_models import attention_maps


def run(recipe, folder):
    with logged() as messages:
        return run_recipe(recipe, folder), messages


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    outcome, said = run(pair_recipe(write_pairs(folder / "train.jsonl", pairs(400))), folder / "run")
    return outcome, said, mtsa.load(folder / "run")


def test_a_small_run_learns_and_says_how_little_is_padding(trained):
    outcome, said, predictor = trained
    assert outcome.dev.metrics.accuracy > 0.9
    assert any("% padding" in line for line in said)
    fresh = pairs(60, seed=9)
    answers = predictor.predict([(first, second) for first, second, _, _ in fresh])
    assert sum(answer.label == row[2] for answer, row in zip(answers, fresh, strict=True)) > 50


def test_one_pair_is_answered_as_among_many_and_an_empty_side_too(trained):
    predictor = trained[2]
    asked = [(first, second) for first, second, _, _ in pairs(30, seed=4)] + [
        ("the red", ""),
        ("", "plum"),
        ("x " * 5000, "y"),
    ]
    together = predictor.predict(asked)
    for pair, answer in zip(asked, together, strict=True):
        (alone,) = predictor.predict([pair])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_transformers_gives_the_same_answers(trained):
    from transformers import pipeline

    import mtsa.hub  # noqa: F401

    predictor = trained[2]
    asked = [(first, second) for first, second, _, _ in pairs(5, seed=6)]
    pipe = pipeline("text-classification", model=str(predictor.run.folder), top_k=None)
    for (first, second), answer in zip(asked, predictor.predict(asked), strict=True):
        found = {entry["label"]: entry["score"] for entry in pipe({"text": first, "text_pair": second})}
        assert found == pytest.approx(answer.probabilities, abs=1e-5)


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_columns_of_official_files_are_kept(trained, tmp_path, ending):
    rows = [*pairs(6, seed=8)]
    path = tmp_path / f"test.{ending}"
    if ending == "jsonl":
        write_pairs(path, rows)
    else:
        lines = ["\t".join(("gold_label", "sentence1", "sentence2", "pairID", "genre"))]
        path.write_text("\n".join([*lines, *("\t".join((label, a, b, name, "x")) for a, b, label, name in rows)]) + "\n")
    out = tmp_path / "kept.jsonl"
    folder = str(trained[2].run.folder)
    kept = "pairID,genre" if ending == "tsv" else "pairID"
    done = CliRunner().invoke(
        app, ["predict", folder, str(path), "--format", "nli", "--keep-columns", kept, "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["pairID"] for row in found] == [row[3] for row in rows]
    assert all(row.get("genre", "x") == "x" for row in found)
    assert ("genre" in found[0]) is (ending == "tsv")


def test_evaluation_and_the_submission_file(trained, tmp_path):
    predictor = trained[2]
    path = write_pairs(tmp_path / "test.jsonl", [*pairs(20, seed=8), ("the red", "blue there", "-", "u1")])
    score = predictor.evaluate(path)
    assert score.metrics.count == 20
    out = tmp_path / "submission.csv"
    result = CliRunner().invoke(app, ["predict", str(predictor.run.folder), str(path), "--submission", "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = list(csv.reader(out.read_text().splitlines()))
    assert rows[0] == ["pairID", "gold_label"]
    assert [name for name, _ in rows[1:]] == [f"p{number}" for number in range(20)] + ["u1"]
    right = sum(row[2] == label for row, (_, label) in zip(pairs(20, seed=8), rows[1:], strict=False))
    assert right / 20 == pytest.approx(score.metrics.accuracy)


def test_both_sides_can_be_looked_into(trained, tmp_path):
    maps = attention_maps(trained[2], "the red there", "plum")
    assert [found.words for found in maps] == [["the", "red", "there"], ["plum"]]
    draw_heat_maps(maps, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_no_pair_is_refused(trained, tmp_path):
    predictor = trained[2]
    for asked in (["a text"], [("one",)], [("one", 2)], [None]):
        with pytest.raises(InputError, match="pairs of texts"):
            predictor.predict(asked)
    path = tmp_path / "lines.txt"
    path.write_text("one\ttwo\nalone\n")
    with pytest.raises(InputError, match="line 2: expected the two texts of a pair"):
        list(predictor.predict_each(predictor.examples(path), {}))
    unknown = write_pairs(tmp_path / "unknown.jsonl", [("a", "b", "maybe", "1")])
    with pytest.raises(InputError, match='line 1: label "maybe" is not a label of the model; it must be one of other, same'):
        predictor.evaluate(unknown)


def test_a_wrong_label_column_is_noticed(tmp_path):
    path = tmp_path / "swapped.csv"
    path.write_text("a,b,label\n" + "".join(f"text {n},other text {n},yes\n" for n in range(200)))
    table = {"train": str(path), "text_column": "a", "pair_column": "label", "label_column": "b"}
    recipe = make_recipe({"task": "pair", "data": table}, [])
    with pytest.raises(InputError, match=r"different labels in .* rows; check --label-column"):
        prepare(recipe, read_split(recipe))


def test_similarity_is_learnt_by_squared_error(tmp_path):
    path = tmp_path / "train.csv"
    rows = [(first, second, 5.0 if label == "same" else 1.0) for first, second, label, _ in pairs(300)]
    path.write_text("a,b,score\n" + "".join(f"{a},{b},{score}\n" for a, b, score in rows))
    columns = {"train": str(path), "text_column": "a", "pair_column": "b", "label_column": "score"}
    recipe = make_recipe(
        {
            "task": "similarity",
            "data": columns,
            "vectors": {"dim": 6},
            "encoder": {"name": "mtsa", "head_dim": 5},
            "model": {"hidden": 12, "dropout": 0.0},
            "training": {"batch_size": 16, "epochs": 12, "learning_rate": 0.01, "patience": 0},
        },
        [],
    )
    outcome, _ = run(recipe, tmp_path / "run")
    assert outcome.dev.metrics.pearson > 0.8
    (answer,) = mtsa.load(tmp_path / "run").predict([("the red", "blue")])
    assert answer.label is None
    assert answer.value is not None


def test_the_embedded_pairs_train_and_single_texts_are_told_apart(tmp_path):
    settings = {"training.max_steps": 4, "training.eval_steps": 2, "encoder.head_dim": 5, "model.hidden": 7}
    predictor = mtsa.train("entailment.cpu", out=tmp_path / "run", settings=settings)
    assert predictor.labels == ["contradiction", "entailment", "neutral"]
    assert predictor.evaluate("corpus:entailment").metrics.count == 144
    with pytest.raises(InputError, match=r"corpus:questions .*--task classification"):
        predictor.evaluate("corpus:questions")
    with pytest.raises(InputError, match=r"corpus:entailment .*--task pair"):
        mtsa.train(train="corpus:entailment", out=tmp_path / "other")


def test_padding_of_pairs_counts_the_groups(tmp_path):
    recipe = pair_recipe(
        write_pairs(tmp_path / "t.jsonl", [("a " * 9, "b", "same", "1"), ("a " * 10, "b b", "other", "2")] * 8)
    )
    part = prepare(recipe, read_split(recipe)).parts["train"]
    batches = [list(range(len(part)))]
    total = sum(len(row) for row in (*part.rows, *part.pairs))
    count = len(part)
    assert padding_share(part, batches) == pytest.approx(1 - total / (count * 2 + count * 10))
    assert torch.equal(part.collate([1])["labels"], part.labels[1:2])


def test_sentences_as_labels_are_noticed_though_each_stands_three_times(tmp_path):
    path = tmp_path / "swapped.csv"
    rows = [f"text {n},the premise number {n // 3} of them all,yes" for n in range(300)]
    path.write_text("\n".join(["a,b,label", *rows]) + "\n")
    columns = {"train": str(path), "text_column": "a", "pair_column": "label", "label_column": "b"}
    with pytest.raises(InputError, match="100 different labels in 300 rows"):
        read_split(make_recipe({"task": "pair", "data": columns}, []))


def test_a_run_reads_its_own_layout_again(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{label}\t{first}\t{second}\n" for first, second, label, _ in pairs(60)))
    recipe = pair_recipe(path, epochs=1)
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, format="label_pair"))
    run(recipe, tmp_path / "run")
    predictor = mtsa.load(tmp_path / "run")
    assert predictor.evaluate(path).metrics.count == 60
    assert len(list(predictor.predict_each(predictor.examples(path), {}))) == 60
    table = tmp_path / "own.csv"
    table.write_text("a,b,label\nthe red,blue,same\n")
    assert predictor.evaluate(table, text_column="a", pair_column="b").metrics.count == 1


def test_resume_of_pairs_matches_uninterrupted_run(tmp_path, monkeypatch):
    data = write_pairs(tmp_path / "t.jsonl", pairs(80))
    recipe = pair_recipe(data, epochs=3)
    run(recipe, tmp_path / "whole")
    save, saved = TrainingLoop.save, []

    def stopping(self):
        save(self)
        saved.append(self.state.step)
        if len(saved) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "again")
    _, messages = run(recipe, tmp_path / "again")
    assert f"resuming from step {saved[0]}" in messages
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_what_a_command_does_not_read_is_refused(trained, tmp_path):
    folder = str(trained[2].run.folder)
    path = write_pairs(tmp_path / "x.jsonl", pairs(3))
    for arguments in ([str(path), "--pair", "x"], ["-", "--pair", "x"]):
        result = CliRunner().invoke(app, ["predict", folder, *arguments], input="a\tb\n")
        assert result.exit_code == 2
        assert "--pair requires a text" in result.output


def test_length_percentile_drops_training_pairs_with_a_long_side(tmp_path):
    rows = [(" ".join(["a"] * length), "b", "x" if length % 2 else "y", str(length)) for length in range(1, 21)]
    recipe = pair_recipe(write_pairs(tmp_path / "train.jsonl", rows))
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, dev_fraction=0.1, length_percentile=90.0))
    split = read_split(recipe)
    with logged() as messages:
        prepared = prepare(recipe, split)
    lengths = sorted(size for example in split.train for size in (len(example.text.split()), 1))
    most = lengths[math.ceil(0.9 * len(lengths)) - 1]
    kept = [len(example.text.split()) for example in split.train if len(example.text.split()) <= most]
    assert 0 < len(kept) < len(split.train)
    assert [len(row) for row in prepared.parts["train"].rows] == kept
    assert len(prepared.parts["dev"]) == len(split.dev)  # only training data are filtered
    assert any(f"{len(split.train) - len(kept)} of {len(split.train)}" in message for message in messages)


def test_length_percentile_is_refused_where_it_has_no_effect():
    with pytest.raises(InputError, match=r"data\.length_percentile is not used by task tagging"):
        make_recipe({"task": "tagging", "data": {"train": "x.conll", "length_percentile": 97}}, [])
    with pytest.raises(InputError, match=r"data\.length_percentile is 0"):
        make_recipe({"task": "pair", "data": {"train": "x.csv", "length_percentile": 0}}, [])
