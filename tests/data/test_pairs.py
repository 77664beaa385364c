"""Sentence pairs: official layouts, users' tables, and what is wrong with them."""

import json

import pytest

from mtsa.data import readers
from mtsa.data.check_texts import check_texts
from mtsa.data.examples import Layout
from mtsa.errors import InputError
from mtsa.training.launch import build_recipe

ROWS = [
    ("A man sleeps.", "A person rests.", "entailment", "1e"),
    ("A man sleeps.", "A man dreams of home.", "-", "1n"),
    ("A dog runs.", "A cat runs.", "contradiction", "2c"),
]


def jsonl(path, rows=ROWS):
    keys = ("sentence1", "sentence2", "gold_label", "pairID")
    path.write_text("".join(json.dumps({"genre": "x", **dict(zip(keys, row, strict=True))}) + "\n" for row in rows))
    return path


def tabbed(path, rows=ROWS):
    header = "index\tnull\tnull\tgold_label\tsentence1\tsentence2\tpairID\tlabel1"
    lines = [f'{n}\t\t\t{label}\t{first}\t"{second}\t{name}' for n, (first, second, label, name) in enumerate(rows)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def read(path, **layout):
    return readers.read(path, Layout(**layout), paired=True)


@pytest.mark.parametrize("write", [jsonl, tabbed])
def test_official_files_leave_out_what_annotators_did_not_agree_on(write, tmp_path):
    found = read(write(tmp_path / "snli_1.0_dev.txt"), format="nli")
    quote = '"' if write is tabbed else ""
    assert [(e.text, e.pair, e.label, e.name) for e in found] == [
        ("A man sleeps.", f"{quote}A person rests.", "entailment", "1e"),
        ("A dog runs.", f"{quote}A cat runs.", "contradiction", "2c"),
    ]
    (remark,) = found.remarks()
    assert all(word in remark for word in ("snli_1.0_dev.txt", "1 row", "no consensus label"))


def test_a_pair_task_without_columns_means_the_official_layout(tmp_path):
    assert len(read(jsonl(tmp_path / "a.jsonl"))) == 2
    (tmp_path / "b.csv").write_text("a,b,label\nx,y,1\n")
    with pytest.raises(InputError, match=r'no column "sentence1".*--text-column, --pair-column'):
        read(tmp_path / "b.csv")


def test_unlabelled_official_rows_are_all_there(tmp_path):
    found = list(readers.stream(jsonl(tmp_path / "a.jsonl"), Layout(), labelled=False, paired=True))
    assert [example.name for example in found] == ["1e", "1n", "2c"]
    assert {example.label for example in found} == {None}


def test_bare_lines(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("neutral\tOne .\tTwo .\n\nentailment\t Three\tFour\n")
    found = read(path, format="label_pair")
    rows = [(e.text, e.pair, e.label, e.line) for e in found]
    assert rows == [("One .", "Two .", "neutral", 1), ("Three", "Four", "entailment", 3)]
    path.write_text("neutral\tOne\n")
    with pytest.raises(InputError, match="line 1: 2 fields; expected a label and two texts"):
        read(path, format="label_pair")


def test_users_tables_and_an_empty_side(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('q,a,score\n"one, two",three,0.5\nx,,0.1\n')
    layout = {"text_column": "q", "pair_column": "a", "label_column": "score"}
    found = readers.read(path, Layout(**layout), number=True, paired=True)
    assert [(e.text, e.pair, e.label) for e in found] == [("one, two", "three", 0.5)]
    (remark,) = found.remarks()
    assert all(word in remark for word in ("mine.csv", "1 row", "empty text", "line 3"))
    with pytest.raises(InputError, match='no column "b"'):
        read(path, text_column="q", pair_column="b", label_column="score")


WRONG = {
    "single format": ({"format": "trec"}, True, "format trec contains single texts; remove --task pair"),
    "pair format": ({"format": "nli"}, False, "format nli contains pairs of texts; add --task pair"),
    "one column": ({"format": "csv"}, True, "--text-column and --pair-column"),
    "other columns": ({"format": "nli", "label_column": "y"}, True, "format nli has fixed columns"),
    "one column alone": ({"text_column": "a"}, True, "format nli has fixed columns"),
    "one column twice": ({"text_column": "a", "pair_column": "a"}, True, 'column "a" is used twice'),
    "unread column": ({"pair_column": "b"}, False, "--pair-column b applies to pairs only"),
}


@pytest.mark.parametrize("case", WRONG)
def test_layouts_that_do_not_fit_the_task(case, tmp_path):
    options, paired, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        readers.resolve_layout(Layout(**options), tmp_path / "x.csv", paired=paired)


def test_short_rows_and_other_values_are_named_with_their_line(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("gold_label\tsentence1\tsentence2\nneutral\tonly one\n")
    with pytest.raises(InputError, match="line 2: 2 fields; at least 3 are required"):
        read(path, format="nli")
    path = tmp_path / "t.jsonl"
    path.write_text('{"sentence1": "a", "sentence2": null, "gold_label": "x"}\n')
    with pytest.raises(InputError, match='line 1: column "sentence2" contains None'):
        read(path)


def test_a_check_looks_at_both_sides(tmp_path):
    rows = [*ROWS, ("A dog runs.", "A cat runs.", "neutral", "3"), ("A dog runs.", "", "neutral", "4")]
    told = "\n".join(check_texts(jsonl(tmp_path / "a.jsonl", rows), Layout(), paired=True).lines())
    assert "1 rows without a consensus label (-)" in told
    assert "1 row with an empty text" in told
    assert "1 duplicate with a different label: lines 3 and 4" in told


def test_a_row_of_json_that_lacks_a_key_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x", "b": "y", "label": 0}\n{"a": "x", "label": 1}\n')
    with pytest.raises(InputError, match=r'a\.jsonl, line 2: no column "b"'):
        list(readers.stream(path, Layout(text_column="a", pair_column="b"), paired=True))


def test_utf16_is_told_whatever_the_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\na,b\n".encode("utf-16"))
    for encoding in ("utf-8", "cp1252", "utf-16"):
        with pytest.raises(InputError, match="is UTF-16 text"):
            list(readers.stream(path, Layout(encoding=encoding)))


def test_columns_of_ones_own_go_before_the_format_of_a_recipe():
    """The recipes of SNLI read its own columns; whoever names others has a table."""
    data = {"train": "a.csv", "dev": "b.csv", "text_column": "a", "pair_column": "b"}
    assert (
        build_recipe(
            "snli.cpu", data=data, settings=['vectors.file=""', 'vectors.member=""', "vectors.lr_multiplier=1.0"]
        ).data.format
        == "auto"
    )
    assert build_recipe("snli.cpu").data.format == "nli"
