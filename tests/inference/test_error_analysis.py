"""`mtsa evaluate --errors`, and the mistakes on the explorer page."""

import csv
import json

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.inference.error_analysis import read_errors
from mtsa.serve.app import build_app
from mtsa.serve.limits import Limits
from mtsa.serve.served_model import open_models
from tests.log_messages import logged
from tests.sample_data import TOPIC_MODEL, sentences, topics, write_csv, write_topics
from tests.trained_models import QUICK


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Test data with wrong labels, so that there are mistakes."""
    made = tmp_path_factory.mktemp("errors")
    write_csv(made / "train.csv", sentences(200))
    rows = sentences(60, 1)
    wrong = [(text, "fruit" if label == "colour" else "colour") if place % 4 == 0 else (text, label)
             for place, (text, label) in enumerate(rows)]  # fmt: skip
    write_csv(made / "test.csv", wrong)
    return made


@pytest.fixture(scope="module")
def model(folder):
    settings = {**QUICK, "training.epochs": 12, "training.learning_rate": 0.01}
    return mtsa.train(train=folder / "train.csv", out=folder / "run", settings=settings)


def evaluate(*words):
    return CliRunner().invoke(app, ["evaluate", *map(str, words)])


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_mistakes_of_a_classifier(model, folder, tmp_path):
    out = tmp_path / "errors.jsonl"
    done = evaluate(model.run.folder, "--data", folder / "test.csv", "--errors", out)
    assert done.exit_code == 0, done.output
    assert f"mistakes: {out}" in done.output
    with (folder / "test.csv").open() as file:
        table = list(csv.DictReader(file))
    answers = model.predict([row["text"] for row in table])
    wrong = {
        line: answer for line, (row, answer) in enumerate(zip(table, answers, strict=True), 2) if answer.label != row["label"]
    }
    found = [row for row in rows_of(out) if row["kind"] == "mistake"]
    assert {row["line"] for row in found} == set(wrong)
    assert len(found) >= 10
    assert [row["confidence"] for row in found] == sorted((row["confidence"] for row in found), reverse=True)
    for row in found:
        answer = wrong[row["line"]]
        assert row["predicted"] == answer.label != row["label"] == table[row["line"] - 2]["label"]
        assert row["confidence"] == pytest.approx(answer.probabilities[answer.label], abs=1e-4)
        maps = model.explain(row["text"])[0]
        weights = maps.pooling.mean(-1).tolist()
        assert row["words"][0] == [maps.words[weights.index(max(weights))], pytest.approx(max(weights), abs=1e-4)]
        assert len(row["words"]) == min(5, len(set(maps.words)))


def test_a_table_has_the_same_rows(model, folder, tmp_path):
    for name in ("a.csv", "a.jsonl"):
        model.evaluate(folder / "test.csv", errors=tmp_path / name)
    with (tmp_path / "a.csv").open() as file:
        table = list(csv.DictReader(file))
    rows = rows_of(tmp_path / "a.jsonl")
    assert list(table[0])[:6] == ["kind", "line", "text", "label", "predicted", "confidence"]
    assert "pair" not in table[0]
    for cells, row in zip(table, rows, strict=True):
        for key, value in row.items():
            wanted = ", ".join(f"{word} {weight:+.3f}" for word, weight in value) if key == "words" else str(value)
            assert cells[key] == wanted
        assert all(cells[key] == "" for key in cells.keys() - row.keys())


def test_near_duplicates_in_the_training_data_and_in_the_file(model, folder, tmp_path):
    (text, label), *_ = sentences(200)
    other = "fruit" if label == "colour" else "colour"
    rows = [(text.upper(), other), ("one two three four five", label), ("five four three two one !", other)]
    write_csv(tmp_path / "a.csv", rows)
    with logged() as messages:
        model.evaluate(tmp_path / "a.csv", errors=tmp_path / "errors.jsonl")
    found = [row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "near_duplicate"]
    assert [(row["line"], row["other_file"], row["other_line"], row["similarity"]) for row in found] == [
        (2, "train.csv", 2, 1.0),
        (4, "a.csv", 3, 1.0),
    ]
    assert (found[0]["label"], found[0]["other_label"], found[0]["other_text"]) == (other, label, text)
    assert any("2 near-duplicates with different labels in a.csv and the training data" in one for one in messages)


def test_training_data_that_is_gone_or_changed_is_not_searched(tmp_path):
    train = write_csv(tmp_path / "train.csv", sentences(40))
    model = mtsa.train(train=train, out=tmp_path / "run", settings={**QUICK, "training.max_steps": 1})
    rows = [(text, "fruit" if label == "colour" else "colour") for text, label in sentences(40)]
    test = write_csv(tmp_path / "test.csv", rows)

    def duplicates():
        with logged() as messages:
            model.evaluate(test, errors=tmp_path / "errors.jsonl")
        found = [row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "near_duplicate"]
        return sum(row["other_file"] == "train.csv" for row in found), " ".join(messages)

    assert duplicates()[0] == 40
    write_csv(train, sentences(41))
    count, said = duplicates()
    assert count == 0
    assert "train.csv has changed since training" in said
    train.unlink()
    count, said = duplicates()
    assert count == 0
    assert "does not exist" in said


def test_the_training_file_itself_is_compared_with_itself_only(model, folder, tmp_path):
    model.evaluate(folder / "train.csv", errors=tmp_path / "errors.jsonl")
    rows = [row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "near_duplicate"]
    assert all(row["other_line"] < row["line"] for row in rows)


def test_python_data_has_rows(model, tmp_path):
    model.evaluate([("red", "fruit"), ("RED", "colour")], errors=tmp_path / "errors.jsonl")
    found = [row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "near_duplicate"]
    assert (2, "data", 1) in [(row["line"], row["other_file"], row["other_line"]) for row in found]


def test_pairs_have_both_texts(runs, tmp_path):
    done = evaluate(runs["pair"].run.folder, "--data", "corpus:entailment", "--errors", tmp_path / "a.csv", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["count"] == 144
    with (tmp_path / "a.csv").open() as file:
        table = [row for row in csv.DictReader(file) if row["kind"] == "mistake"]
    score = runs["pair"].evaluate("corpus:entailment").metrics
    assert len(table) == round((1 - score.accuracy) * 144)
    assert all(row["text"] and row["pair"] and row["words"] for row in table)


def test_the_mistakes_of_a_multilabel_model(tmp_path):
    train = write_topics(tmp_path / "train.csv", topics(200))
    given = {"train": train, "label_separator": "|", "out": tmp_path / "run", "settings": TOPIC_MODEL}
    model = mtsa.train(task="multilabel", **given)
    rows = [
        ("the red pear", ["fruit"]),
        ("the red pear", ["colour", "fruit"]),
        ("a plum", ["fruit", "colour", "size"]),
        ("is", []),
    ]
    model.evaluate(rows, errors=tmp_path / "errors.jsonl")
    model.evaluate(rows, errors=tmp_path / "errors.csv")
    found = {row["line"]: row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "mistake"}
    answers = model.predict([text for text, _ in rows])
    assert {1, 3} <= found.keys()
    for line, row in found.items():
        text, labels = rows[line - 1]
        one = answers[line - 1]
        assert (row["label"], row["predicted"]) == (sorted(labels), list(one.labels))
        doubt = {name: value if name in one.labels else 1 - value
                 for name, value in one.probabilities.items() if (name in labels) != (name in one.labels)}  # fmt: skip
        assert row["explained"] == max(doubt, key=doubt.get)
        assert row["confidence"] == pytest.approx(max(doubt.values()), abs=1e-4)
        assert {word for word, _ in row["words"]} <= set(text.split())
    with (tmp_path / "errors.csv").open() as file:
        assert {row["label"] for row in csv.DictReader(file)} >= {"fruit", "colour|fruit|size"}


def test_contributions_of_words_without_special_tokens(bert_runs, tmp_path):
    predictor = bert_runs["texts"]
    rows = [(text, "fruit" if label == "colour" else "colour") for text, label in sentences(30, 3)]
    predictor.evaluate(rows, errors=tmp_path / "errors.jsonl")
    row = next(row for row in rows_of(tmp_path / "errors.jsonl") if row["kind"] == "mistake")
    (maps,) = predictor.explain(row["text"])
    values = dict(zip(maps.words, maps.contributions.tolist(), strict=True))
    assert "[CLS]" in values
    assert {word for word, _ in row["words"]} <= values.keys() - {"[CLS]", "[SEP]"}
    weight = row["words"][0][1]
    assert abs(weight) == pytest.approx(max(abs(value) for name, value in values.items() if name[0] != "["), abs=1e-4)
    assert any(value == pytest.approx(weight, abs=1e-4) for value in maps.contributions.tolist())


@pytest.mark.parametrize("task", ["tagging", "srl", "translation"])
def test_other_tasks_say_so(runs, task, tmp_path):
    done = evaluate(runs[task].run.folder, "--data", "x", "--errors", tmp_path / "a.csv")
    assert done.exit_code == 2
    assert done.output == f"--errors does not apply to task {task}; remove it\n"


def test_names_of_files_are_checked_first(model, folder, tmp_path):
    for name, message in (("a.txt", "must be .csv or .jsonl"), ("none/a.csv", "does not exist")):
        done = evaluate(model.run.folder, "--data", folder / "test.csv", "--errors", tmp_path / name)
        assert done.exit_code == 2
        assert message in done.output
        assert done.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_old_file(model, folder, tmp_path, monkeypatch):
    out = tmp_path / "errors.jsonl"
    out.write_text("kept")

    def broken(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mtsa.inference.error_analysis.json.dumps", broken)
    with pytest.raises(OSError, match="No space left"):
        model.evaluate(folder / "test.csv", errors=out)
    assert out.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["errors.jsonl"]


# The server


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_page_shows_the_mistakes(model, folder, tmp_path, ending):
    path = tmp_path / f"errors.{ending}"
    model.evaluate(folder / "test.csv", errors=path)
    served = open_models([model.run.folder, model.run.folder], path)
    with TestClient(build_app(served, Limits()), base_url="http://localhost") as client:
        found = client.get("/api/errors").json()
        page = client.get("/").text
        assert "/api/errors" in client.get("/openapi.json").json()["paths"]
    assert '"/api/errors"' in page
    assert 'id="errors"' in page
    assert found["model"] == model.run.folder.name
    rows = found["mistakes"] + found["near_duplicates"]
    model.evaluate(folder / "test.csv", errors=tmp_path / "wanted.jsonl")
    wanted = rows_of(tmp_path / "wanted.jsonl")
    assert len(rows) == len(wanted)
    for row, other in zip(rows, wanted, strict=True):
        assert row["text"] == other["text"]
        assert row["line"] == str(other["line"])
        if other["kind"] == "mistake":
            assert (row["label"], row["predicted"]) == (other["label"], other["predicted"])
            assert row["words"].startswith(f"{other['words'][0][0]} +")


def test_without_a_file_there_are_none(model):
    with TestClient(build_app(open_models([model.run.folder]), Limits()), base_url="http://localhost") as client:
        assert client.get("/api/errors").json() == {"model": "run", "mistakes": [], "near_duplicates": []}


def test_the_server_shows_a_limited_number(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"kind": "mistake", "line": line, "text": "x"}) + "\n" for line in range(9)))
    assert [row["line"] for row in read_errors(path, 4)["mistake"]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", "must be .csv or .jsonl"),
        ("a.csv", "text,label\na,b\n", "line 2: not a row of an error file"),
        ("a.jsonl", '{"kind": "mistake", "text": 3}', "line 1: not a row of an error file"),
        ("a.jsonl", '{"kind": "mistake", "text": "x", "words": [["a"]]}', "line 1: not a valid row"),
        ("a.jsonl", '{"kind": "mistake", "text": "x", "words": [["a", "b"]]}', "line 1: not a valid row"),
        ("a.jsonl", "{", "not valid JSON"),
    ],
)
def test_invalid_error_files_get_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_errors(tmp_path / name, 10)
