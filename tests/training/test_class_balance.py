"""Unbalanced classes: weights of the loss, the metric that selects the best step, and a remark."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.regression import score_numbers
from mtsa.tasks.registry import get_task
from mtsa.tasks.text_data import TextData
from mtsa.training.class_balance import balanced_weights, rare_class_remarks
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import load_recipe
from mtsa.training.run import run_recipe
from mtsa.training.split import read_split
from mtsa.training.streamed import make_shards
from tests.log_messages import logged
from tests.sample_data import sentences, small_recipe, write_csv


def unbalanced(common, rare, seed=0):
    """So many texts about colours, and about fruits."""
    rows = sentences(20 * (common + rare), seed)
    colours, fruits = ([row for row in rows if row[1] == label] for label in ("colour", "fruit"))
    return [*colours[:common], *fruits[:rare]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("unbalanced")
    write_csv(made / "train.csv", unbalanced(150, 9))
    write_csv(made / "dev.csv", unbalanced(45, 5, seed=7))
    return made


def recipe_of(folder, **training):
    recipe = small_recipe(folder / "train.csv", **training)
    data = dataclasses.replace(recipe.data, dev=str(folder / "dev.csv"))
    return dataclasses.replace(recipe, data=data, model=dataclasses.replace(recipe.model, dropout=0.0))


def loop_of(folder, checkpoints, **training):
    checkpoints.mkdir(exist_ok=True)
    recipe = recipe_of(folder, **training)
    prepared = prepare(recipe, read_split(recipe))
    options = {"known": prepared.inputs.known, "folder": checkpoints, "class_weights": prepared.class_weights}
    parts = prepared.parts
    return TrainingLoop(prepared.model(), recipe, get_task(recipe.task), parts["train"], parts["dev"], **options)


@pytest.mark.parametrize("counts", [[150, 9], [1, 2, 3, 94], [5, 5]])
def test_balanced_weights_are_those_of_scikit_learn(counts):
    labels = [number for number, count in enumerate(counts) for _ in range(count)]
    expected = compute_class_weight("balanced", classes=np.arange(len(counts)), y=labels)
    assert balanced_weights(counts) == pytest.approx(expected.tolist())


def test_weights_follow_from_the_training_part(folder):
    recipe = recipe_of(folder, class_weights="balanced")
    assert prepare(recipe, read_split(recipe)).class_weights == pytest.approx([159 / 300, 159 / 18])
    plain = recipe_of(folder)
    assert prepare(plain, read_split(plain)).class_weights == []


def test_weights_from_shards_are_those_of_the_file(folder, tmp_path):
    make_shards(recipe_of(folder), tmp_path / "shards", megabytes=0.002)
    recipe = recipe_of(folder, class_weights="balanced")
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, train=str(tmp_path / "shards")))
    prepared = prepare(recipe, read_split(recipe))
    assert len(prepared.parts["train"].sizes) > 1
    assert prepared.class_weights == pytest.approx([159 / 300, 159 / 18])


def gradients_of_step(loop, batches):
    """The gradients that one optimizer step uses."""
    found = []
    loop.optimizer.step = lambda: found.extend(v.grad.clone() for v in loop.model.parameters() if v.grad is not None)
    loop._step(batches)
    return found


def weighted_gradients(loop, batches):
    """Those of the definition: sum of weight * loss over all examples, divided by the sum of the weights."""
    part = loop.train_part
    rows = [index for batch in batches for index in batch]
    logits = loop.model.train()(**{k: v for k, v in part.collate(rows).items() if k != "labels"}).logits
    loss = F.cross_entropy(logits, part.labels[rows], weight=torch.tensor([159 / 300, 159 / 18]))
    return torch.autograd.grad(loss, [v for v in loop.model.parameters() if v.requires_grad], allow_unused=True)


@pytest.mark.parametrize(
    "batches",
    [
        [[*range(12), 150, 151, 152]],
        [[*range(12), 150], [*range(12, 20), 151, 152, 153]],
        [[0], [1]],  # the sum of the weights is only 1.06, and of a single one 0.53
        [[3]],
    ],
    ids=["one batch", "two batches", "two small batches", "one example"],
)
def test_gradients_are_those_of_the_weighted_mean(folder, tmp_path, batches):
    loop = loop_of(folder, tmp_path / "a", class_weights="balanced", gradient_accumulation_steps=len(batches))
    assert loop.train_part.labels.tolist() == [0] * 150 + [1] * 9
    expected = [grad for grad in weighted_gradients(loop, batches) if grad is not None]
    found = gradients_of_step(loop, batches)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    if len(batches[0]) > 1:
        plain = gradients_of_step(loop_of(folder, tmp_path / "b", gradient_accumulation_steps=len(batches)), batches)
        assert any((one - other).abs().max() > 1e-3 for one, other in zip(plain, found, strict=True))


def test_a_sum_of_weights_below_one_is_not_rounded_up(folder, tmp_path):
    """Two batches of one example with small weights: the mean is over 0.2, not over 1."""
    loop = loop_of(folder, tmp_path / "a", class_weights="balanced", gradient_accumulation_steps=2)
    batches = [[0], [1]]
    expected = gradients_of_step(loop, batches)
    loop.optimizer.zero_grad()
    loop.class_weights = loop.class_weights * 0.2
    assert 0 < loop.class_weights[0] * 2 < 1
    for one, other in zip(gradients_of_step(loop, batches), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def courses(steps):
    """Logits of the dev part (45 colours, 5 fruits) at each evaluation, from the number of correct colours and fruits."""
    for colours, fruits in steps:
        answers = [0] * colours + [1] * (45 - colours) + [1] * fruits + [0] * (5 - fruits)
        yield 2.0 * F.one_hot(torch.tensor(answers), 2).float()


STEPS = [(45, 0), (40, 4), (44, 0), (43, 0)]  # accuracy .9, .88, .88, .86; macro-F1 .47, .75, .47, .46


@pytest.mark.parametrize(("metric", "best", "last"), [("accuracy", 1, 3), ("macro_f1", 2, 4)])
def test_the_metric_selects_the_best_step_and_stops_early(folder, tmp_path, monkeypatch, metric, best, last):
    outputs = courses(STEPS)
    monkeypatch.setattr(TextData, "predict", lambda self, model: next(outputs))
    loop = loop_of(folder, tmp_path, metric=metric, eval_steps=1, max_steps=4, patience=2)
    notes = []
    loop.run(lambda step, note: notes.append(note))
    assert (loop.state.best_step, loop.state.step) == (best, last)
    assert f"dev {metric} " in notes[-1]
    for entry in loop.state.curve:
        assert entry["score"] == pytest.approx(entry[metric], abs=1e-5)


def test_metrics_of_a_task_that_derives_from_classification_have_a_score_of_their_own():
    """Such as the one in docs/extending.md: its metrics need no accuracy."""
    score = PartScore(score_numbers([1.0, 2.0], [1.0, 3.0]))
    assert score.scalars()["score"] == -0.5
    assert score.scalars("mae")["score"] == 0.5
    with pytest.raises(InputError, match=r"training\.metric is macro_f1, .* mse, mae"):
        score.scalars("macro_f1")


@pytest.mark.parametrize("task", ["regression", "similarity", "tagging", "srl", "translation"])
@pytest.mark.parametrize(("key", "value"), [("metric", "macro_f1"), ("class_weights", "balanced")])
def test_other_tasks_refuse_the_settings(task, key, value):
    files = {"train": "a", "train_target": "b"} if task == "translation" else {"train": "a"}
    with pytest.raises(InputError, match=rf"training\.{key} is not used by task {task}; remove it"):
        build_recipe(None, task=task, data=files, sized=False, **{key: value})


def test_options_of_the_command_line(folder, tmp_path):
    files = ["--train", str(folder / "train.csv"), "--dev", str(folder / "dev.csv"), "--out", str(tmp_path / "run")]
    small = itertools.chain.from_iterable(
        ("--set", one) for one in ("training.max_steps=2", "encoder.head_dim=5", "vectors.dim=6", "training.refit=false")
    )
    options = ["--class-weights", "balanced", "--metric", "macro_f1"]
    done = CliRunner().invoke(app, ["train", *files, *small, *options])
    assert done.exit_code == 0, done.output
    training = load_recipe(str(tmp_path / "run" / "recipe.toml")).training
    assert (training.class_weights, training.metric) == ("balanced", "macro_f1")
    for name, value, nearest in (("--metric", "macro-f1", "macro_f1"), ("--class-weights", "balance", "balanced")):
        refused = CliRunner().invoke(app, ["train", *files, name, value])
        assert refused.exit_code == 2
        assert f'is "{value}"' in refused.output
        assert nearest in refused.output


def remarks(folder, out, **training):
    with logged() as messages:
        run_recipe(recipe_of(folder, max_steps=1, **training), out)
    return [message for message in messages if "rare" in message]


def test_a_rare_class_is_named_with_its_count(folder, tmp_path):
    (remark,) = remarks(folder, tmp_path / "plain")
    for words in ('class "fruit" (9 examples)', "159 examples", "--metric macro_f1", "--class-weights balanced"):
        assert words in remark
    assert remarks(folder, tmp_path / "weights", class_weights="balanced") == []
    assert remarks(folder, tmp_path / "metric", metric="macro_f1") == []


@pytest.mark.parametrize(
    ("counts", "rare"),
    [([90, 10], []), ([91, 9], ["b"]), ([10, 10, 10], []), ([1000, 1000, 100], ["c"]), ([3, 200, 5, 2, 4], ["d", "a", "e"])],
)
def test_a_class_is_rare_below_a_fifth_of_the_mean_size(counts, rare):
    """The remark names the three rarest."""
    found = rare_class_remarks("abcde"[: len(counts)], counts)
    assert bool(found) == bool(rare)
    for label in rare:
        assert f'"{label}"' in found[0]
    assert not found or found[0].count('"') == 2 * min(3, len(rare))
