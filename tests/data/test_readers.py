"""Files into examples: every layout, and one clear sentence for every way a file can be wrong."""

import json
from collections import Counter

import pytest

from mtsa.data import readers
from mtsa.data.classification_formats import oversample
from mtsa.data.examples import Layout
from mtsa.errors import InputError


def write(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


def pairs(path, layout=None, **options):
    return [(example.text, example.label) for example in readers.read(path, layout or Layout(), **options)]


def test_csv_with_quotes_line_feeds_and_a_byte_order_mark(tmp_path):
    path = write(tmp_path, "a.csv", '\ufefftext,label\r\n"one, two",x\r\n"say ""hi""\nthere",y\r\n\r\nplain,x\r\n')
    assert pairs(path) == [("one, two", "x"), ('say "hi"\nthere', "y"), ("plain", "x")]
    assert [example.line for example in readers.read(path, Layout())] == [2, 3, 6]


def test_tsv_keeps_quotes_as_they_are(tmp_path):
    path = write(tmp_path, "a.tsv", 'kind\tsentence\nx\tshe said "no\ny\tdone\n')
    assert pairs(path, Layout(text_column="sentence", label_column="kind")) == [('she said "no', "x"), ("done", "y")]


def test_jsonl_with_labels_of_all_kinds(tmp_path):
    rows = [{"text": "a", "label": 3}, {"text": "b", "label": True}, {"text": "c", "label": "w", "more": [1]}]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert pairs(path) == [("a", "3"), ("b", "true"), ("c", "w")]


def test_another_delimiter_and_encoding(tmp_path):
    path = write(tmp_path, "a.csv", "text;label\ncaf\u00e9 \u2013 good;x\nb;y\n", "cp1252")
    assert pairs(path, Layout(delimiter=";", encoding="cp1252"))[0] == ("caf\u00e9 \u2013 good", "x")


def test_rows_without_text_are_left_out_and_told(tmp_path):
    examples = readers.read(write(tmp_path, "a.csv", "text,label\na,x\n  ,y\nb,y\n"), Layout())
    assert len(examples) == 2
    (remark,) = examples.remarks()
    assert all(word in remark for word in ("a.csv", "1 row", "empty text", "line 3"))


def test_numbers_for_regression(tmp_path):
    assert pairs(write(tmp_path, "a.csv", "text,label\na,1.5\nb,-2e1\n"), number=True) == [("a", 1.5), ("b", -20.0)]


def test_label_text_splits_at_line_feeds_alone(tmp_path):
    path = write(tmp_path, "subj.all", b"0 one\x85 two\n1 caf\xe9\n")
    assert pairs(path, Layout(format="label_text")) == [("one\u2026 two", "0"), ("caf\u00e9", "1")]


def test_trec_with_6_or_50_classes(tmp_path):
    path = write(tmp_path, "t", b"HUM:ind Who is Andr\xe9 ?\nNUM:dist How far ?\n")
    assert pairs(path, Layout(format="trec")) == [("Who is Andr\u00e9 ?", "HUM"), ("How far ?", "NUM")]
    assert pairs(path, Layout(format="trec", classes=50))[1] == ("How far ?", "NUM:dist")


def test_sst_sentences_and_phrases(tmp_path):
    tree = "(3 (2 It) (4 (2 is) (4 (4 good) (2 (2 -LRB-) (2 1\\/2)))))"
    path = write(tmp_path, "t.txt", f"{tree}\n(2 (2 so) (2 so))\n(0 bad)\n")
    assert pairs(path, Layout(format="sst")) == [("It is good ( 1/2", "3"), ("so so", "2"), ("bad", "0")]
    phrases = pairs(path, Layout(format="sst", phrases=True))
    assert ("good", "4") in phrases
    assert ("is good ( 1/2", "4") in phrases
    assert phrases.count(("so", "2")) == 2  # every node
    assert pairs(path, Layout(format="sst", classes=2)) == [("It is good ( 1/2", "1"), ("bad", "0")]


WRONG = {
    "missing column": ("a.csv", "txt,label\na,x\n", {}, r'no column "text"; did you mean "txt"\?'),
    "other delimiter": ("a.csv", "text;label\na;x\n", {}, "--delimiter"),
    "too many fields": ("a.csv", "text,label\na,b,x\n", {}, "line 2: 3 fields, but the header has 2"),
    "open quote": ("a.csv", 'text,label\na,x\n"b,y\nc,z\n', {}, "line 3: a closing quote is missing"),
    "doubled column": ("a.csv", "text,text\na,b\n", {}, 'line 1: the column "text" occurs twice'),
    "wrong encoding": (
        "a.csv",
        b"text,label\nok,x\ncaf\xe9,y\n",
        {},
        "line 3: byte 0xe9 is not valid utf-8; .*--encoding cp1252",
    ),
    "unknown encoding": ("a.csv", "text,label\na,x\n", {"encoding": "utf8x"}, 'unknown encoding "utf8x"'),
    "utf-16": ("a.csv", "text,label\na,x\n".encode("utf-16-le"), {}, "NUL"),
    "program": ("a.csv", b"\x7fELF\x02\0\0\xd0\n\0", {}, "line 1: .* NUL character"),
    "spelled NUL": ("a.csv", "text,label\na+AAA-b,x\n", {"encoding": "utf-7"}, "line 2: .* NUL character"),
    "empty file": ("a.csv", "", {}, "contains no examples"),
    "header alone": ("a.csv", "text,label\n", {}, "contains no examples"),
    "no label": ("a.csv", "text,label\na,\n", {}, "line 2: the label is missing"),
    "long line": ("a.csv", "text,label\n" + "a" * 1_100_000 + ",x\n", {}, "line 2: more than 1,048,576 characters"),
    "long text": ("a.csv", 'text,label\n"' + "a\n" * 600_000 + '",x\n', {}, "line 2: "),
    "no json": ("a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', {}, "line 2: not valid JSON"),
    "json list": ("a.jsonl", "[1]\n", {}, "line 1: expected a JSON object.* got list"),
    "deep json": ("a.jsonl", "[" * 60_000 + "\n", {}, "line 1: not valid JSON"),
    "json text": ("a.jsonl", '{"text": 3, "label": 1}\n', {}, 'line 1: column "text" contains 3'),
    "half a character": (
        "a.jsonl",
        '{"text": "a \\ud800", "label": 1}\n',
        {},
        r"line 1: the text contains a lone surrogate \('\\ud800'\)",
    ),
    "carriage returns": ("a.csv", "text,label\ra,x\rb,y\r", {}, "line 1: the line contains a carriage return"),
    "json label": ("a.jsonl", '{"text": "a", "label": [1]}\n', {}, r"line 1: the label is \[1\]"),
    "ending": ("a.data", "x", {}, "cannot infer the format"),
    "format": ("a.csv", "x", {"format": "csw"}, 'did you mean "csv"'),
    "trec label": ("a", "HUMAN:x who ?\n", {"format": "trec"}, 'line 1: "HUMAN:x" is not a TREC label'),
    "trec classes": ("a", "HUM:x who ?\n", {"format": "trec", "classes": 7}, "6 or 50"),
    "tree": ("a", "(3 (2 a)\n", {"format": "sst"}, "line 1: not a tree"),
    "tree label": ("a", "(9 a)\n", {"format": "sst"}, 'line 1: "9" is not a label'),
    "two trees": ("a", "(2 a) (3 b)\n", {"format": "sst"}, "line 1: not a tree"),
    "text after tree": ("a", "(2 a) b\n", {"format": "sst"}, "line 1: not a tree"),
}


def test_a_folder_is_called_one(tmp_path):
    with pytest.raises(InputError, match="is a folder; expected a file"):
        readers.read(tmp_path, Layout())


@pytest.mark.parametrize("case", WRONG)
def test_every_fault_gets_one_sentence_with_its_place(tmp_path, case):
    name, text, options, message = WRONG[case]
    with pytest.raises(InputError, match=message) as caught:
        pairs(write(tmp_path, name, text), Layout(**options))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", ["nan", "inf", "high", ""])
def test_targets_must_be_finite_numbers(tmp_path, value):
    with pytest.raises(InputError, match=r"line 3: the (target is|label is missing)"):
        pairs(write(tmp_path, "a.csv", f"text,label\na,1\nb,{value}\n"), number=True)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        pairs(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        pairs(tmp_path / "folder.csv")


def test_phrases_as_the_authors_weighted_them(tmp_path):
    """Each distinct phrase once; whole sentences and phrases that are not neutral as often as asked for."""
    path = tmp_path / "trees.txt"
    path.write_text("(2 (2 it) (2 (2 is) (4 good)))\n(2 (2 it) (3 works))\n(4 good)\n")
    found = Counter((e.text, e.label) for e in oversample([*readers.read(path, Layout(format="sst", phrases=True))], 4))
    once = {("it", "2"): 1, ("is", "2"): 1, ("is good", "2"): 1}
    assert found == once | {("it is good", "2"): 4, ("good", "4"): 4, ("it works", "2"): 4, ("works", "3"): 4}
