"""Several labels per text: the three forms of a file, what is refused, and the report of `mtsa data check`."""

import json

import pytest
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.data import readers
from mtsa.data.check_texts import check_texts
from mtsa.data.examples import Layout
from mtsa.data.label_sets import table_separator
from mtsa.errors import InputError

SPLIT, COLUMNS = Layout(label_separator="|"), Layout(label_columns=("food", "price"))


def read(path, layout):
    return [(example.text, example.label) for example in readers.read(path, layout, multilabel=True)]


def write(path, text):
    path.write_text(text)
    return path


def test_the_three_forms_are_read_alike(tmp_path):
    wanted = [("cheap soup", ("food", "price")), ("nice", ()), ("bread", ("food",))]
    joined = write(tmp_path / "a.csv", "text,label\ncheap soup,price | food\nnice,\nbread,food|food\n")
    flags = write(tmp_path / "b.csv", "text,food,price\ncheap soup,1,1\nnice,0,0\nbread,1,0\n")
    rows = [{"text": text, "label": list(reversed(labels))} for text, labels in wanted]
    listed = write(tmp_path / "c.jsonl", "\n".join(map(json.dumps, rows)))
    typed = [{"text": text, "food": "food" in labels, "price": float("price" in labels)} for text, labels in wanted]
    numbers = write(tmp_path / "d.jsonl", "\n".join(map(json.dumps, typed)))
    assert read(joined, SPLIT) == read(flags, COLUMNS) == read(listed, Layout()) == read(numbers, COLUMNS) == wanted


def test_separators_of_several_characters_and_of_spaces(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\nx\tb, a\ny\ta\n")
    assert read(path, Layout(label_separator=", ")) == [("x", ("a", "b")), ("y", ("a",))]
    path = write(tmp_path / "b.csv", "text,label\nx, b  a \n")
    assert read(path, Layout(label_separator=" ")) == [("x", ("a", "b"))]


@pytest.mark.parametrize(
    ("name", "content", "layout", "message"),
    [
        ("a.csv", "text,label\nx,a||b\n", SPLIT, r'line 2: "a\|\|b" contains an empty label name; remove the extra "\|"'),
        ("a.csv", "text,label\nx,a|b|\n", SPLIT, "empty label name"),
        ("a.csv", "text,label\nx,a|b\n", Layout(), "specify the separator of its labels with --label-separator"),
        (
            "a.csv",
            "text,food,price\nx,1,2\n",
            COLUMNS,
            "line 2: column \"price\" contains '2'; a label column must contain 0 or 1",
        ),
        ("a.csv", "text,food,price\nx,1,\n", COLUMNS, "must contain 0 or 1"),
        ("a.csv", "text,food\nx,1\n", COLUMNS, 'no column "price".*--label-columns'),
        ("a.jsonl", '{"text": "x", "food": 1}', COLUMNS, 'line 1: no column "price"'),
        ("a.jsonl", '{"text": "x", "label": null}', Layout(), "the labels are None; expected a list of labels"),
        ("a.jsonl", '{"text": "x", "label": 3}', SPLIT, "the labels are 3"),
        ("a.jsonl", '{"text": "x", "label": ["a", " "]}', Layout(), "empty label name"),
        ("a.jsonl", '{"text": "x", "label": [["a"]]}', Layout(), "a label must be a string or a number"),
        ("a.jsonl", '{"text": "x", "label": [NaN]}', Layout(), "a label must be a string or a number"),
        ("a.jsonl", '{"text": "x", "label": ["\\ud800"]}', Layout(), "lone surrogate"),
        ("a.csv", "text,a\nx,1\n", Layout(label_columns=("a", "a")), 'column "a" is used twice'),
        ("a.csv", "text,a\nx,1\n", Layout(label_columns=("a", "")), "empty name"),
        ("a.csv", "text,a\nx,1\n", Layout(label_columns=("text",)), 'column "text" is used twice'),
        ("a.csv", "text,a\nx,1\n", Layout(label_columns=("a",), label_separator="|"), "cannot be used together"),
        ("a.txt", "(1 x)\n", Layout(format="sst", label_separator="|"), "format sst has one label per text"),
    ],
)
def test_what_is_refused(tmp_path, name, content, layout, message):
    with pytest.raises(InputError, match=message) as refused:
        read(write(tmp_path / name, content), layout)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("layout", [SPLIT, COLUMNS])
def test_other_tasks_refuse_the_options(tmp_path, layout):
    with pytest.raises(InputError, match="add --task multilabel"):
        readers.read(write(tmp_path / "a.csv", "text,label\nx,a\n"), layout)


def test_the_report_of_a_file(tmp_path):
    rows = "x,food|price\ny,food\nz,\nw,Food|other\nx,price\nz,\n,food\n"
    path = write(tmp_path / "a.csv", f"text,label\n{rows}")
    report = check_texts(path, SPLIT, multilabel=True)
    lines = "\n".join(report.lines())
    assert "4 labels: food 2, price 2, Food 1, other 1" in lines
    assert "labels per text: 0.86 on average; texts without labels: 2" in lines
    assert "labels that differ only in case or spaces: food and Food" in lines
    assert "labels with a single example: Food, other" in lines
    assert "1 duplicate with a different label: lines 2 and 6" in lines
    assert "1 duplicate with the same label: lines 4 and 7" in lines
    assert "majority" not in lines
    assert report.errors == []


def test_the_report_of_label_columns(tmp_path):
    path = write(tmp_path / "a.csv", "text,food,price\nx,1,0\ny,1,0\n")
    done = CliRunner().invoke(app, ["data", "check", str(path), "--task", "multilabel", "--label-columns", "food, price"])
    assert done.exit_code == 0, done.output
    assert "labels without any example: price" in done.output
    empty = write(tmp_path / "b.csv", "text,food,price\nx,0,0\n")
    command = ["data", "check", str(empty), "--task", "multilabel", "--label-columns", "food", "--label-columns", "price"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "error: no text has a label" in refused.output


def test_labels_of_all_texts_and_wrong_separators_are_reported(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\nx,a|b;c\ny,a|b\nz,"a|b;d"\n')
    lines = "\n".join(check_texts(path, Layout(label_separator=";"), multilabel=True).lines())
    assert "labels of all texts: a|b\n" in lines
    assert "labels that contain another separator: a|b; check --label-separator" in lines
    lines = "\n".join(check_texts(path, Layout(label_separator="|"), multilabel=True).lines())
    assert "labels that contain another separator: b;c, b;d; check" in lines
    fine = write(tmp_path / "b.csv", "text,label\nx,a|b\ny,b\nz,a\n")
    assert not any("all texts" in one or "another" in one for one in check_texts(fine, SPLIT, multilabel=True).warnings)


def test_separators_of_tables():
    assert table_separator("", ["a", "b"]) == "|"
    assert table_separator(";", ["a", "b|c"]) == ";"
    assert table_separator(";", ["a;b", "c|d", "e"]) == ","
    assert table_separator("", ["a|b;c"]) == ","
