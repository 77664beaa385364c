"""Tagged sentences: every layout that people have, and a clear word for everything else."""

import gzip
import json

import pytest

from mtsa.data.check_tags import check_roles, check_tagged
from mtsa.data.examples import Layout
from mtsa.data.tagged import read_tagged
from mtsa.data.tagger_inputs import read_sentences
from mtsa.data.tokenization import encode_word_lists, split_text, word_tokenizer
from mtsa.errors import InputError

CONLL = """-DOCSTART- -X- O O

Ada NNP I-NP B-PER
Lovelace NNP I-NP I-PER
lived VBD I-VP O
in IN I-PP O
London NNP I-NP B-LOC

Yes UH O O
"""


def file(folder, text, name="a.conll"):
    path = folder / name
    path.write_text(text)
    return path


def test_columns(tmp_path):
    first, second = read_tagged(file(tmp_path, CONLL), Layout())
    assert first.words == ("Ada", "Lovelace", "lived", "in", "London")
    assert first.tags == ("B-PER", "I-PER", "O", "O", "B-LOC")
    assert (first.line, second.line, second.words) == (3, 9, ("Yes",))
    speech = read_tagged(file(tmp_path, CONLL), Layout(label_column="2"))
    assert speech[0].tags == ("NNP", "NNP", "VBD", "IN", "NNP")
    packed = tmp_path / "b.conll.gz"
    packed.write_bytes(gzip.compress(CONLL.encode()))
    assert [one.tags for one in read_tagged(packed, Layout())] == [first.tags, second.tags]


@pytest.mark.parametrize(
    ("marks", "plain"),
    [
        ("I-A I-A B-A O I-B", "B-A I-A B-A O B-B"),  # IOB1
        ("B-A E-A S-A O S-B", "B-A I-A B-A O B-B"),  # IOBES
        ("B-A L-A U-A O U-B", "B-A I-A B-A O B-B"),  # BILOU
        ("B-A I-A B-A O B-B", "B-A I-A B-A O B-B"),
        ("NN I-X NN O NN", "NN I-X NN O NN"),  # no spans: as they are
    ],
)
def test_marks_of_spans_become_one_kind(tmp_path, marks, plain):
    path = file(tmp_path, "".join(f"w{n}\t{tag}\n" for n, tag in enumerate(marks.split())))
    assert read_tagged(path, Layout())[0].tags == tuple(plain.split())


def test_json_lines(tmp_path):
    path = file(tmp_path, json.dumps({"words": ["a", "b"], "tags": ["X", "Y"]}) + "\n\n", "a.jsonl")
    assert read_tagged(path, Layout())[0].tags == ("X", "Y")
    path = file(tmp_path, json.dumps({"tokens": ["a"], "pos": ["X"]}) + "\n", "b.jsonl")
    assert read_tagged(path, Layout(text_column="tokens", label_column="pos"))[0].words == ("a",)


SLIPS = {
    "one column": ("a.conll", "Ada B-PER\nLovelace\n", {}, r"a.conll, line 2: 1 columns"),
    "no such column": ("a.conll", "Ada B-PER\n", {"label_column": "3"}, "line 1: 2 columns"),
    "a name": ("a.conll", "Ada B-PER\n", {"label_column": "ner"}, "columns have no names"),
    "the word's": ("a.conll", "Ada B-PER\n", {"label_column": "1"}, "--label-column must be a column number"),
    "nothing": ("a.conll", "\n\n", {}, "contains no sentence"),
    "no json": ("a.jsonl", "{\n", {}, "a.jsonl, line 1: not valid JSON"),
    "counts": ("a.jsonl", '{"words": ["a"], "tags": ["X", "Y"]}\n', {}, "line 1: 1 words, but 2 tags"),
    "no list": ("a.jsonl", '{"words": "a b", "tags": ["X", "Y"]}\n', {}, '"words" must be a list of'),
    "empty word": ("a.jsonl", '{"words": [" "], "tags": ["X"]}\n', {}, "non-empty strings"),
    "space": ("a.jsonl", '{"words": ["New York"], "tags": ["X"]}\n', {}, "contains a space"),
    "format": ("a.conll", "Ada B-PER\n", {"format": "csv"}, 'format "csv" is not supported for tagging'),
}


@pytest.mark.parametrize("slip", SLIPS, ids=str)
def test_every_slip_is_told_with_its_line(tmp_path, slip):
    name, text, options, told = SLIPS[slip]
    with pytest.raises(InputError, match=told):
        read_tagged(file(tmp_path, text, name), Layout(**options))


def test_check_of_tagged_sentences(tmp_path):
    path = file(tmp_path, "a B-X\nb I-Y\n\na B-X\nb I-Y\n\nc O\n")
    lines = "\n".join(check_tagged(path, Layout()).lines())
    assert "3 sentences" in lines
    assert "4 spans, 2 labels: X 2, Y 2" in lines
    assert "warning: 2 I- tags without a preceding B- or I- tag" in lines
    assert "1 duplicate sentences: line 4" in lines
    wrong = check_tagged(file(tmp_path, "a X\nb X\n"), Layout())
    (told,) = wrong.errors
    assert 'tag "X"' in told
    assert "at least two" in told
    assert "line 1" in check_tagged(file(tmp_path, "a\n"), Layout()).errors[0]
    assert "6 tags" not in lines


def test_check_finds_stray_tags_and_columns(tmp_path):
    rows = [f"w{n} {'B-X' if n % 3 else 'O'}" for n in range(200)]
    path = file(tmp_path, "\n".join([*rows, "w o", "x y B-X"]) + "\n")
    lines = "\n".join(check_tagged(path, Layout()).lines())
    assert "warning: all tags except o are BIO or IOBES tags" in lines
    assert "warning: 1 lines do not have 2 columns like the others: line 202" in lines
    marks = check_tagged(file(tmp_path, "a S-X\nb O\nc B-X\nd E-X\n"), Layout())
    assert "2 spans, 1 labels: X 2" in "\n".join(marks.lines())


def test_check_of_roles(tmp_path):
    props = "give\t(V*)\n-\t(C-A1*)\n-\t(R-A0*)\n\n-\n\n"
    (tmp_path / "a.words").write_text("give\nit\nwho\n\nno\n\n")
    report = check_roles(file(tmp_path, props, "a.props"), Layout())
    lines = "\n".join(report.lines())
    assert "1 predicates, 2 roles, 2 labels: C-A1 1, R-A0 1" in lines
    assert "1 sentences without a predicate" in lines
    assert "continuation (C-) without a role to continue" in lines
    assert "reference (R-) to a role that does not occur" in lines
    assert "no errors found" in lines
    (tmp_path / "a.words").unlink()
    assert "a.words: no such file" in check_roles(tmp_path / "a.props", Layout()).errors[0]
    (tmp_path / "b.words").write_text("no\n")
    (told,) = check_roles(file(tmp_path, "-\n", "b.props"), Layout()).errors
    assert "no sentence has a predicate" in told


def test_text_is_split_where_the_vocabulary_does_not_know_the_piece():
    tokenizer = word_tokenizer(["so-called", "plan", ".", "do", "n't", "u.s."], spaced=True)
    assert split_text(tokenizer, "So-called plan. Don\u2019t e-mail the U.S. ...") == [
        "So-called", "plan", ".", "Do", "n't", "e", "-", "mail", "the", "U.S.", ".", ".", ".",
    ]  # fmt: skip
    assert encode_word_lists(tokenizer, [["So-called", "what?"], []]) == [[2, 1], []]


def test_sentences_of_any_file(tmp_path):
    def words(path, **options):
        return [one.words for one in read_sentences(path, Layout(**options), lambda text: tuple(text.split("_")))]

    assert words(file(tmp_path, "a_b\n\nc\n", "a.txt")) == [("a", "b"), ("",), ("c",)]
    assert words(file(tmp_path, "a X\nb Y\n\nc Z\n")) == [("a", "b"), ("c",)]
    assert words(file(tmp_path, "a X\n", "a.tagged"), format="columns") == [("a",)]
    rows = [{"words": ["a", "b"]}, {"text": "c_d"}]
    assert words(file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "a.jsonl")) == [("a", "b"), ("c", "d")]
    for bad in ('{"words": ["a b"]}', "[]", '{"word": 3}', "{"):
        with pytest.raises(InputError, match="line 1"):
            words(file(tmp_path, bad + "\n", "bad.jsonl"))
