"""Training, evaluation and prediction on lists, dicts and frames, with the results of the same data in a file."""

import json

import pandas
import pytest
import torch

import mtsa
from mtsa.errors import InputError
from tests.sample_data import sentences, write_csv
from tests.trained_models import QUICK

ROWS = sentences(60)
SHORT = {**QUICK, "training.epochs": 1}


class Table:
    """What a datasets.Dataset offers, as far as the code uses it; the library itself is not in the lock (pyarrow is large)."""

    column_names = ["text", "label"]  # noqa: RUF012

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, key):
        if isinstance(key, str):
            return [row[key] for row in self]
        text, label = ROWS[key]
        return {"text": text, "label": label}

    def __iter__(self):
        return (self[number] for number in range(len(self)))

    def to_dict(self):
        """A dict of columns; a pandas DataFrame has a method of this name with an argument."""
        return {name: self[name] for name in self.column_names}


GIVEN = {
    "list of tuples": ROWS,
    "list of dicts": [{"text": text, "label": label, "id": 3} for text, label in ROWS],
    "dict of columns": {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]},
    "data frame": pandas.DataFrame(ROWS, columns=["text", "label"]),
    "data frame with index": pandas.DataFrame(ROWS, columns=["text", "label"], index=range(100, 160)).assign(id=3),
    "data frame with categories": pandas.DataFrame(ROWS, columns=["text", "label"]).astype({"label": "category"}),
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


def test_labels_of_a_data_frame_are_read_by_value(tmp_path):
    """Numbers of pandas and numpy types are read as those of a file."""
    texts = [text for text, _ in ROWS]
    whole = pandas.DataFrame({"text": texts, "label": [len(text) % 2 for text in texts]})
    for name, frame in (
        ("int", whole),
        ("nullable", whole.astype({"label": "Int64"})),
        ("bool", whole.astype({"label": bool})),
    ):
        model = mtsa.train(train=frame, out=tmp_path / name, settings=SHORT)
        assert model.labels == (["false", "true"] if name == "bool" else ["0", "1"])
    numbers = whole.assign(label=[float(len(text)) for text in texts])
    model = mtsa.train(train=numbers, task="regression", out=tmp_path / "numbers", settings=SHORT)
    assert model.evaluate(numbers).metrics.count == len(ROWS)


def test_columns_that_are_not_read_may_hold_anything(tmp_path):
    frame = pandas.DataFrame(ROWS, columns=["text", "label"])
    frame = frame.assign(when=pandas.Timestamp("2020-01-01"), missing=pandas.NA, object=[object() for _ in ROWS])
    model = mtsa.train(train=frame, out=tmp_path / "run", settings=SHORT)
    assert model.evaluate(frame).metrics.count == len(model.predict(frame)) == len(ROWS)


def test_a_column_of_a_data_frame_is_predicted(from_file):
    frame = pandas.DataFrame(ROWS, columns=["text", "label"])
    wanted = from_file.predict([text for text, _ in ROWS])
    for texts in (frame["text"], frame[["text"]], frame["text"].to_numpy()):
        assert from_file.predict(texts) == wanted


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
    "objects": ([{"text": "a", "label": object()}], "row 1.*is not supported"),
    "frame without a text": (pandas.DataFrame({"text": ["a", None], "label": ["x", "y"]}), 'train, row 2: column "text"'),
    "frame without a label": (pandas.DataFrame({"text": ["a", "b"], "label": ["x", None]}), "train, row 2: the label"),
    "frame without the column": (pandas.DataFrame({"words": ["a"], "label": ["x"]}), 'no column "text"'),
    "empty frame": (pandas.DataFrame({"text": [], "label": []}), "no examples"),
    "series": (pandas.Series(["a", "b"]), "data is a Series; it must be a path"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_values_are_answered_with_their_row(kind, tmp_path):
    data, message = BAD[kind]
    with pytest.raises(InputError, match=message):
        mtsa.train(train=data, out=tmp_path / "run", settings=QUICK)
    assert not (tmp_path / "run").exists()


def test_a_stopped_run_on_values_resumes_and_other_values_are_refused(from_file, tmp_path, monkeypatch):
    from mtsa.training.loop import TrainingLoop

    save, steps = TrainingLoop.save, []

    def stopping(self):
        save(self)
        steps.append(self.state.step)
        if len(steps) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        mtsa.train(train=ROWS, out=tmp_path / "run", settings=QUICK)
    with pytest.raises(InputError, match="other data"):
        mtsa.train(train=ROWS[:-1], out=tmp_path / "run", settings=QUICK)
    model = mtsa.train(train=ROWS, out=tmp_path / "run", settings=QUICK)
    assert steps == sorted(set(steps)), "steps were repeated"
    for name, value in from_file.model.state_dict().items():
        assert torch.equal(value, model.model.state_dict()[name])


@pytest.mark.parametrize("named", [{"text_column": "headline"}, {"label_column": "sentiment"}])
def test_named_columns_must_exist(tmp_path, named):
    """No other column takes the place of one that was named."""
    rows = [{"text": text, "label": label} for text, label in sentences(40)]
    with pytest.raises(InputError, match=f'no column "{next(iter(named.values()))}"'):
        mtsa.train(train=rows, out=tmp_path / "run", **named)
    assert not (tmp_path / "run").exists()


def test_frames_with_duplicate_columns_are_refused(tmp_path):
    frame = pandas.DataFrame({"text": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(InputError, match="two columns named"):
        mtsa.train(train=pandas.concat([frame, frame], axis=1), out=tmp_path / "run")


def test_predict_reads_a_file_given_as_path(runs, tmp_path):
    texts = [text for text, _ in sentences(5, seed=4)]
    (tmp_path / "new.txt").write_text("\n".join(texts) + "\n")
    model = runs["classification"]
    assert model.predict(tmp_path / "new.txt") == model.predict(texts)
    for wrong in (str(tmp_path / "new.txt"), None, 3):
        with pytest.raises(InputError, match="predict expects a list of inputs"):
            model.predict(wrong)
