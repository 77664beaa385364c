"""What a recipe says reaches the trainer: optimiser, schedule, clipping, batches of each epoch."""

import dataclasses

import pytest
import torch

from mtsa.training.loading import LengthBatches
from mtsa.training.optimizer import make_optimizer
from mtsa.training.parts import SentencePart
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Training, Vectors
from mtsa.training.split import read_split
from mtsa.training.trainer import RecipeTrainer
from tests.workbench import COLOURS, glove, sentences, small_recipe, write_csv


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "train.csv", sentences(160))


def trainer(data, folder, vectors=None, **training):
    recipe = small_recipe(data, **training)
    if vectors:
        recipe = dataclasses.replace(recipe, vectors=Vectors(**vectors))
    prepared = prepare(recipe, read_split(recipe))
    parts = prepared.parts
    return RecipeTrainer(
        prepared.model(),
        recipe,
        parts["train"],
        parts["dev"],
        known=prepared.inputs.known,
        folder=folder,
    )


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("adadelta", torch.optim.Adadelta, {"rho": 0.95, "eps": 1e-8}),
        ("adam", torch.optim.Adam, {"betas": (0.9, 0.999), "eps": 1e-8}),
        ("adamw", torch.optim.AdamW, {"betas": (0.9, 0.999), "eps": 1e-8}),
    ],
)
def test_optimizers_are_the_authors(name, kind, options, data):
    recipe = small_recipe(data, optimizer=name, learning_rate=0.25)
    made = make_optimizer(prepare(recipe, read_split(recipe)).model(), recipe)
    assert type(made) is kind
    for group in made.param_groups:
        assert group["lr"] == 0.25
        assert {key: group[key] for key in options} == options


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_words_of_the_file_make_a_part_of_each_step_and_others_all_of_it(rate, data, tmp_path):
    file = glove(tmp_path / "glove.txt", words=COLOURS)  # the fruits and the fillers have no vector
    moved = {}
    for part in (1.0, rate):
        found = trainer(data, tmp_path, {"file": str(file), "rate": part}, steps=1)
        before = found.own.words.tuned.detach().clone()
        found.train()
        moved[part] = found.own.words.tuned.detach() - before
    known = torch.zeros(len(before), dtype=torch.bool)
    known[found.known] = True
    assert int(known.sum()) == len(COLOURS)
    assert moved[1.0][known].abs().amax() > 1e-4
    torch.testing.assert_close(moved[rate][known], rate * moved[1.0][known], rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(moved[rate][~known], moved[1.0][~known], rtol=0, atol=0)


def test_a_linear_schedule_warms_up_and_falls(data, tmp_path):
    found = trainer(data, tmp_path, schedule="linear", warmup=4, steps=12, learning_rate=0.1)
    found.create_optimizer_and_scheduler(12)
    rates = []
    for _ in range(12):
        rates.append(found.optimizer.param_groups[0]["lr"])
        found.optimizer.step()
        found.lr_scheduler.step()
    assert rates[:5] == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1])
    assert rates[5:] == pytest.approx([0.1 * (12 - step) / 8 for step in range(5, 12)])


def test_clipping_and_steps(data, tmp_path):
    found = trainer(data, tmp_path, clip=0.5, steps=12, evaluate_every=5)
    assert (found.args.max_grad_norm, found.args.max_steps, found.args.eval_steps) == (0.5, 12, 5)


def test_every_epoch_has_its_own_batches_and_every_process_its_share(data, tmp_path):
    loader = trainer(data, tmp_path).get_train_dataloader()
    epochs = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        epochs.append([batch["input_ids"].tolist() for batch in loader])
    assert epochs[0] == epochs[2]
    assert epochs[0] != epochs[1]
    part = SentencePart([[1] * (number % 7 + 1) for number in range(101)], torch.zeros(101), [])
    for training in (Training(batch=10), Training(batch_tokens=60)):
        whole = list(LengthBatches(part, training, 0, 1))
        assert sorted(number for batch in whole for number in batch) == list(range(101))
        shares = [list(LengthBatches(part, training, rank, 3)) for rank in range(3)]
        for batch, *parts in zip(whole, *shares, strict=True):
            assert sorted(batch) == sorted(number for part in parts for number in part)
            assert all(parts)
