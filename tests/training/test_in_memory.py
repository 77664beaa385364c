"""Training, evaluation and prediction on lists, dicts and frames, with the results of the same data in a file."""

import json

import pytest
import torch

import mtsa
from mtsa.errors import InputError
from tests.runs import QUICK
from tests.workbench import sentences, write_csv

ROWS = sentences(60)


class Frame:
    """What the code uses of a pandas DataFrame."""

    columns = ("text", "label")

    def to_dict(self, orient):
        assert orient == "records"
        return [{"text": text, "label": label} for text, label in ROWS]


class Table:
    """What the code uses of a datasets.Dataset."""

    column_names = ("text", "label")

    def __iter__(self):
        return iter([{"text": text, "label": label} for text, label in ROWS])


GIVEN = {
    "list of tuples": ROWS,
    "list of dicts": [{"text": text, "label": label, "id": 3} for text, label in ROWS],
    "dict of columns": {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]},
    "frame": Frame(),
    "dataset": Table(),
}


@pytest.fixture(scope="module")
def from_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("file")
    return mtsa.train(train=write_csv(folder / "train.csv", ROWS), out=folder / "run", settings=QUICK)


@pytest.mark.parametrize("kind", GIVEN)
def test_values_train_the_same_model_as_a_file(kind, from_file, tmp_path):
    model = mtsa.train(train=GIVEN[kind], test=ROWS[:10], out=tmp_path / "run", settings=QUICK)
    for name, value in from_file.model.state_dict().items():
        assert torch.equal(value, model.model.state_dict()[name])
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["count"] == 10
    scores = model.evaluate(GIVEN[kind]).as_json()
    assert scores == from_file.evaluate(from_file.run.folder.parent / "train.csv").as_json()
    texts = [text for text, _ in ROWS]
    answers = model.predict(GIVEN[kind] if kind != "list of tuples" else texts)
    assert answers == from_file.predict(texts)


def test_pairs_tags_and_translations(tmp_path):
    pairs = [{"text": text, "pair": text[::-1], "label": label} for text, label in ROWS]
    model = mtsa.train(train=pairs, task="pair", out=tmp_path / "pair", settings=QUICK)
    assert model.evaluate(pairs).metrics.count == 60
    assert len(model.predict(pairs[:3])) == 3
    quick = {
        "training.epochs": 1,
        "encoder.layers": 1,
        "encoder.width": 8,
        "encoder.heads": 2,
        "encoder.hidden": 8,
        "vectors.dim": 6,
    }
    tagged = [(text.split(), ["B-x" if word in ("red", "apple") else "O" for word in text.split()]) for text, _ in ROWS]
    tagger = mtsa.train(train=tagged, task="tagging", out=tmp_path / "tags", settings=quick)
    assert tagger.evaluate(tagged).metrics.count == 60
    assert tagger.predict([{"words": ["the", "red"]}])[0].words == ("the", "red")
    quick = {
        "training.max_steps": 2,
        "translator.layers": 1,
        "translator.d_model": 8,
        "translator.heads": 2,
        "translator.ffn_dim": 8,
    }
    parallel = [{"text": text, "translation": label} for text, label in ROWS]
    translator = mtsa.train(
        train=parallel, task="translation", out=tmp_path / "tr", settings={**quick, "tokens.vocab_size": 320}
    )
    assert translator.evaluate(parallel[:2], num_beams=1).metrics.count == 2


BAD = {
    "another kind": (3, "data is a int; it must be a path"),
    "lengths": ({"text": ["a"], "label": ["x", "y"]}, "different lengths"),
    "tuples": ([("a", "b", "c")], r"row 1 is .*\(text, label\)"),
    "no text": ([{"text": None, "label": "x"}], "train, row 1"),
    "no column": ([{"words": "a", "label": "x"}], 'no column "text"'),
    "objects": ([{"text": "a", "label": object()}], "row 1.*cannot be read as data"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_values_are_answered_with_their_row(kind, tmp_path):
    data, message = BAD[kind]
    with pytest.raises(InputError, match=message):
        mtsa.train(train=data, out=tmp_path / "run", settings=QUICK)
    assert not (tmp_path / "run").exists()


def test_a_stopped_run_on_values_resumes_and_other_values_are_refused(tmp_path, monkeypatch):
    from mtsa.training.loop import TrainingLoop

    save = TrainingLoop.save

    def stopping(self):
        save(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        mtsa.train(train=ROWS, out=tmp_path / "run", settings=QUICK)
    monkeypatch.setattr(TrainingLoop, "save", save)
    with pytest.raises(InputError, match="other data"):
        mtsa.train(train=ROWS[:-1], out=tmp_path / "run", settings=QUICK)
    mtsa.train(train=ROWS, out=tmp_path / "run", settings=QUICK)
