"""Run directories, recipes and records of version 0.2 stay readable, and give the results they gave (tests/fixtures)."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import mtsa
from mtsa.errors import InputError
from mtsa.models.packed_batch import without_packing
from mtsa.training.recipe_files import load_recipe
from mtsa.training.run import run_recipe
from tests.fixtures.record import AUTO, ENCODERS, STEPS, answers_of, logits_of, loss_curve

FOLDER = Path("tests/fixtures/v0_2")
PREDICTED, TRAINED = 1e-5, 1e-4  # allowed difference of predictions, and of losses of the first steps
FIRST = 20  # steps after which rounding may add up


pytestmark = pytest.mark.filterwarnings("ignore:.*in version 0.4:DeprecationWarning")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Recipes of the fixtures name their data relative to the repository."""
    monkeypatch.chdir(Path(__file__).parents[1])


def read(path):
    return json.loads(path.read_text())


def close(found, expected):
    """Equal, but numbers only nearly so."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        return all(close(found[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        return all(map(close, found, expected))
    return found == pytest.approx(expected, abs=PREDICTED) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("task", AUTO)
def test_run_directories_predict_what_they_predicted(task):
    expected = read(FOLDER / task / "predictions.json")
    logits = logits_of(task, FOLDER / task / "run", expected["inputs"])
    torch.testing.assert_close(logits, torch.tensor(expected["logits"]), rtol=0, atol=PREDICTED)
    assert close(answers_of(task, FOLDER / task / "run"), expected["answers"])


@pytest.mark.parametrize("name", ENCODERS)
def test_run_directories_of_every_encoder_predict_what_they_predicted(name):
    expected = read(FOLDER / "encoders" / name / "predictions.json")
    logits = logits_of("classification", FOLDER / "encoders" / name / "run", expected["inputs"])
    torch.testing.assert_close(logits, torch.tensor(expected["logits"]), rtol=0, atol=PREDICTED)


@pytest.mark.parametrize("task", ["classification", "pair", "tagging", "srl"])
def test_run_directories_without_a_temperature_have_the_temperature_one(task):
    folder = FOLDER / task / "run"
    assert "temperature" not in (folder / "config.json").read_text()
    for model in (mtsa.load(folder).model, AUTO[task].from_pretrained(folder)):
        assert model.config.softmax_temperature == 1.0
        assert getattr(model.config, "finder_temperature", 1.0) == 1.0


@pytest.fixture
def batches_of_0_2(monkeypatch):
    """Token batches of version 0.2: the same in every epoch, and padded. Now they differ, and are packed."""
    monkeypatch.setattr("mtsa.data.batching._with_count", lambda *given: [])
    with without_packing():
        yield


@pytest.mark.usefixtures("batches_of_0_2")
@pytest.mark.parametrize("task", AUTO)
def test_the_first_losses_are_those_of_the_golden_curve(task, tmp_path):
    expected = read(FOLDER / task / "curve.json")
    assert len(expected) == STEPS
    recipe = load_recipe(str(FOLDER / task / "curve.toml"))
    losses = loss_curve(recipe, tmp_path / "run", FIRST)
    assert losses == pytest.approx(expected[:FIRST], abs=TRAINED)


@pytest.mark.usefixtures("batches_of_0_2")
@pytest.mark.parametrize("task", AUTO)
def test_losses_are_those_of_the_engine_of_0_3_for_all_steps(task, tmp_path):
    """Recorded with the trainer of version 0.2 and the attention of version 0.3: the loop makes the same steps.

    Processors round differently, and training amplifies the differences: later steps are compared more loosely.
    """
    expected = read(Path("tests/fixtures/engine_v0_3") / f"{task}.json")
    recipe = load_recipe(str(FOLDER / task / "curve.toml"))
    found = loss_curve(recipe, tmp_path / "run")
    assert found[:50] == pytest.approx(expected[:50], abs=1e-5)
    assert found[50:] == pytest.approx(expected[50:], abs=0.02)


def test_an_unfinished_run_of_version_0_2_is_refused(tmp_path):
    shutil.copytree(FOLDER / "unfinished" / "run", tmp_path / "run")
    recipe = load_recipe(str(FOLDER / "unfinished" / "recipe.toml"))
    before = {path: path.read_bytes() for path in sorted((tmp_path / "run").rglob("*")) if path.is_file()}
    with pytest.raises(InputError, match=r"unfinished run of version 0\.2, which cannot be resumed"):
        run_recipe(recipe, tmp_path / "run")
    after = {path: path.read_bytes() for path in sorted((tmp_path / "run").rglob("*")) if path.is_file()}
    assert after == before  # version 0.2 can still finish it


def test_benchmark_records_are_read():
    from mtsa.bench.layer import table

    record = read(FOLDER / "benchmark.json")
    heading, rows = table(record, "step")
    assert heading == ["layer", "16 x 128"]
    assert [name for name, _ in rows] == ["multihead", "paper", "released"]
