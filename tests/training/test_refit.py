"""Trained once more on training and dev data together, for as many passes as the best step took."""

import dataclasses
import json

import pytest
import torch

from mtsa.data.examples import Example
from mtsa.training.loop import TrainingLoop
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import open_run
from mtsa.training.split import Split, read_split
from tests.log_messages import logged
from tests.sample_data import sentences, small_recipe, write_csv


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data = write_csv(folder / "train.csv", sentences(160))
    made = small_recipe(data, epochs=4, eval_steps=5, refit=True)
    test = str(write_csv(folder / "test.csv", sentences(40, seed=5)))
    return dataclasses.replace(made, data=dataclasses.replace(made.data, test=test))


def run(recipe, folder, **options):
    with logged() as messages:
        outcome = run_recipe(recipe, folder, **options)
    return outcome, messages, json.loads((folder / "record.json").read_text())


def plain(recipe):
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, refit=False))


@pytest.fixture(scope="module")
def both(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return run(recipe, folder / "refit"), run(plain(recipe), folder / "plain"), folder


def test_it_trains_for_as_many_passes_on_all_examples(both):
    (outcome, said, record), (once, _, _), _ = both
    more = round(once.best_step * 10 / 9)  # 144 examples are 9 batches, 160 are 10
    assert any("refit" in line and f"{more:,} steps" in line and "160 examples" in line for line in said)
    assert (outcome.best_step, outcome.steps) == (once.best_step, once.steps)
    assert record["refit_steps"] == more


def test_dev_figures_and_curve_are_those_of_the_first_training(both):
    (outcome, _, record), (once, _, before), _ = both
    assert outcome.dev == once.dev
    assert record["dev_curve"] == before["dev_curve"]


def test_the_model_that_is_kept_and_tested_is_the_second_one(both):
    (outcome, _, _), (once, _, _), folder = both
    states = [open_run(folder / name).model.state_dict() for name in ("refit", "plain")]
    assert not torch.equal(states[0]["encoder.attention.value.weight"], states[1]["encoder.attention.value.weight"])
    assert outcome.test.loss != once.test.loss
    assert sorted(path.name for path in (folder / "refit").iterdir()) == sorted(p.name for p in (folder / "plain").iterdir())


def test_words_of_the_dev_part_alone_get_a_vector(recipe, tmp_path):
    split = read_split(plain(recipe))
    rare = [Example("a walrus here", "fruit", 900), Example("the walrus now", "colour", 901)]
    mixed = Split(split.train, [*split.dev, *rare], split.test, [])
    run(recipe, tmp_path / "refit", split=mixed)
    run(plain(recipe), tmp_path / "plain", split=mixed)
    known = ["walrus" in open_run(tmp_path / name).tokenizer.get_vocab() for name in ("refit", "plain")]
    assert known == [True, False]


@pytest.mark.slow
def test_stopped_in_the_second_training_it_ends_the_same(recipe, both, tmp_path, monkeypatch):
    saves, save = [], TrainingLoop.save

    def stopping(self):
        save(self)
        saves.append(self.folder.name)
        if saves.count("refit") == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run")
    monkeypatch.setattr(TrainingLoop, "save", save)
    outcome, said, _ = run(recipe, tmp_path / "run")
    assert "resuming from step 5" in said
    whole, again = open_run(both[2] / "refit").model.state_dict(), open_run(tmp_path / "run").model.state_dict()
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert outcome.test == both[0][0].test


def test_the_time_of_all_sessions_counts(recipe, tmp_path, monkeypatch):
    save = TrainingLoop.save

    def stopping(self):
        save(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(plain(recipe), tmp_path / "run")
    monkeypatch.setattr(TrainingLoop, "save", save)
    spent = tmp_path / "run" / "checkpoints" / "checkpoint-5" / "state.json"
    told = json.loads(spent.read_text())
    assert 0 < told["seconds"] < 60
    assert told["processes"] == 1
    spent.write_text(json.dumps({**told, "seconds": 1000.0}))
    monkeypatch.setattr("mtsa.training.checkpoints.verify", lambda folder: None)  # which would see it
    outcome, _, record = run(plain(recipe), tmp_path / "run")
    assert 1000 < outcome.seconds == record["seconds"] < 1100


def test_a_falling_learning_rate_reaches_zero_at_the_end_of_both_trainings(recipe, tmp_path, monkeypatch):
    """The weights of the last step are kept, so that the rate must not be high there, whichever step was the best."""
    rates, step = {}, TrainingLoop._step

    def noted(self, batches):
        loss = step(self, batches)
        rates.setdefault(len(self.train_part), []).append(self.optimizer.param_groups[0]["lr"])
        return loss

    monkeypatch.setattr(TrainingLoop, "_step", noted)
    falling = dataclasses.replace(recipe.training, schedule="linear", eval_steps=9)
    _, _, record = run(dataclasses.replace(recipe, training=falling), tmp_path / "run")
    assert [len(rates[144]), len(rates[160])] == [36, record["refit_steps"]]
    for course in rates.values():
        assert course == sorted(course, reverse=True)
        assert course[-1] == pytest.approx(falling.learning_rate / len(course))  # the next one would be 0
