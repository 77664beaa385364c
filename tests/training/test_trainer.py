"""What a recipe says reaches the trainer: optimiser, schedule, clipping, batches of each epoch."""

import pytest
import torch

from mtsa.training.prepare import prepare, read_split
from mtsa.training.trainer import LengthBatches, RecipeTrainer, make_optimizer
from tests.workbench import sentences, small_recipe, write_csv


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "train.csv", sentences(160))


def trainer(data, folder, **training):
    recipe = small_recipe(data, **training)
    prepared = prepare(recipe, read_split(recipe))
    parts = prepared.parts
    return RecipeTrainer(prepared.model(), recipe, parts["train"], parts["dev"], labels=prepared.labels, folder=folder)


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
    lengths = [number % 7 + 1 for number in range(101)]
    whole = list(LengthBatches(lengths, 10, 3, 0, 1))
    shares = [list(LengthBatches(lengths, 10, 3, rank, 3)) for rank in range(3)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(batch) == sorted(number for part in parts for number in part)
        assert all(parts)
