"""Files with semantic roles: one content in three layouts, read and written without loss, and what is wrong with them."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtsa.cli.main import app
from mtsa.data.frames import Frame, RoleSentence, Span
from mtsa.data.srl_formats import read_roles, role_lines, words_path
from mtsa.errors import InputError

SENTENCES = [
    RoleSentence(
        ("The", "plan", ",", "he", "said", ",", "failed", "."),
        (
            Frame(4, "say", (Span(0, 1, "A1"), Span(3, 3, "A0"), Span(4, 4, "V"), Span(6, 6, "C-A1"))),
            Frame(6, "fail", (Span(0, 1, "A1"), Span(6, 6, "V"))),
        ),
        1,
    ),
    RoleSentence(("A", "quiet", "day"), (), 10),
    RoleSentence(
        ("the", "boy", "who", "gave", "up"),
        (Frame(3, "give", (Span(0, 1, "A0"), Span(2, 2, "R-A0"), Span(3, 3, "V"), Span(4, 4, "C-V"))),),
        14,
    ),
]


def plain(sentences):
    return [(sentence.words, sentence.frames) for sentence in sentences]


@pytest.mark.parametrize("format", ["props", "propbank", "jsonl"])
def test_what_is_written_is_read_again(format, tmp_path):
    path, words = tmp_path / "x", tmp_path / "words"
    path.write_text("\n".join(role_lines(SENTENCES, format)) + "\n")
    words.write_text("".join("\n".join(sentence.words) + "\n\n" for sentence in SENTENCES))
    found = read_roles(path, words=words if format == "props" else None, format=format)
    assert plain(found) == plain(SENTENCES)


def test_all_ways_round_by_the_command(tmp_path):
    start = tmp_path / "a.jsonl"
    start.write_text("\n".join(role_lines(SENTENCES, "jsonl")) + "\n")
    for source, out in (("a.jsonl", "b.props"), ("b.props", "c.conll"), ("c.conll", "d.jsonl")):
        words = ["--words", str(tmp_path / "words")] if "props" in source + out else []
        done = CliRunner().invoke(app, ["data", "convert", str(tmp_path / source), str(tmp_path / out), *words])
        assert done.exit_code == 0, done.output
        assert "3 sentences, 3 frames" in done.output
    assert (tmp_path / "d.jsonl").read_text() == start.read_text()
    assert CliRunner().invoke(app, ["data", "convert", str(start), str(tmp_path / "e.props")]).exit_code == 0
    assert (tmp_path / "e.words").read_text() == (tmp_path / "words").read_text()


def test_a_packed_file_is_unpacked_and_half_of_one_refused(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(("\n".join(role_lines(SENTENCES, "propbank")) + "\n").encode()))
    assert plain(read_roles(path)) == plain(SENTENCES)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="is not a complete gzip file"):
        read_roles(path)


WRONG = {
    "no JSON": ("jsonl", "{", "line 1: not valid JSON"),
    "no words": ("jsonl", '{"words": []}', 'line 1: "words" must be a list'),
    "predicate out of range": ("jsonl", '{"words": ["a"], "frames": [{"predicate": 1}]}', "the predicate is 1"),
    "role out of range": (
        "jsonl", '{"words": ["a"], "frames": [{"predicate": 0, "roles": [["A0", 0, 3]]}]}', "A0 spans words 0 to 3"),
    "no role": ("jsonl", '{"words": ["a"], "frames": [{"predicate": 0, "roles": [["A0", 0]]}]}', "is not a role; expected"),
    "overlap": (
        "jsonl",
        '{"words": ["a", "b"], "frames": [{"predicate": 0, "roles": [["V", 0, 0], ["A0", 0, 1]]}]}',
        "share a word",
    ),
    "inside": (
        "jsonl", '{"words": ["a", "b"], "frames": [{"predicate": 0, "roles": [["A0", 0, 1]]}]}', "inside one of"),
    "two frames": (
        "jsonl", '{"words": ["a"], "frames": [{"predicate": 0}, {"predicate": 0}]}', "two frames have the predicate 0"),
    "few columns": ("propbank", "d 0 0 word", "line 1: 4 columns"),
    "no column": ("propbank", "d 0 0 runs V * run run.01", "1 rolesets, but 0 columns of roles"),
    "nothing": ("propbank", "", "contains no sentence"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_answered_with_the_line(case, tmp_path):
    format, text, message = WRONG[case]
    (tmp_path / "x").write_text(text + "\n")
    with pytest.raises(InputError, match=message):
        read_roles(tmp_path / "x", format=format)


def test_formats_are_told_by_the_ending(tmp_path):
    with pytest.raises(InputError, match="cannot infer the format"):
        read_roles(tmp_path / "x.txt")
    with pytest.raises(InputError, match='unknown format "prop"'):
        read_roles(tmp_path / "x.txt", format="prop")


REAL = Path(__file__).parents[3] / "shared" / "data" / "srl"


@pytest.mark.skipif(not REAL.exists(), reason="the PropBank files are not on this machine")
def test_the_real_files_are_read_whole_and_written_without_loss(tmp_path):
    found = read_roles(REAL / "propbank_ewt.dev.conll.gz")
    assert (len(found), sum(len(sentence.frames) for sentence in found)) == (1965, 4963)
    (tmp_path / "x.jsonl").write_text("\n".join(role_lines(found, "jsonl")) + "\n")
    assert plain(read_roles(tmp_path / "x.jsonl")) == plain(found)
    assert json.loads((tmp_path / "x.jsonl").read_text().split("\n")[0])["words"][3] == "get"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"words": ["a"], "frames": [{"predicate": 0, "roles": 3}]}', '"roles" is 3'),
        ('{"words": ["a"], "frames": [{"predicate": 0, "roles": null}]}', '"roles" is None'),
        ('{"words": ["a b"], "frames": []}', "non-empty strings without spaces"),
        (
            '{"words": ["a"], "frames": [{"predicate": 0, "lemma": "give up"}]}',
            '"give up" of the predicate 0 contains a space',
        ),
        ('{"words": ["a"], "frames": [{"predicate": 0, "roles": [["A 0", 0, 0]]}]}', "is not a role"),
    ],
)
def test_what_no_layout_could_hold_is_refused(tmp_path, line, told):
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=told):
        read_roles(path)


def test_senses_and_parts_of_speech_survive(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("d\t0\t0\tgave\tVBD\t*\tgive\tgive.03\t(V*)\nd\t0\t1\tup\tRP\t*\t-\t-\t*\n")
    (sentence,) = read_roles(path)
    assert (sentence.frames[0].roleset, sentence.frames[0].part_of_speech) == ("give.03", "VBD")
    (tmp_path / "b.jsonl").write_text("\n".join(role_lines([sentence], "jsonl")) + "\n")
    (tmp_path / "c.conll").write_text("\n".join(role_lines(read_roles(tmp_path / "b.jsonl"), "propbank")) + "\n")
    assert plain(read_roles(tmp_path / "c.conll")) == plain([sentence])


def test_encodings_and_packed_props(tmp_path):
    (tmp_path / "a.props.gz").write_bytes(gzip.compress("caf\u00e9\t(V*)\n".encode("cp1252")))
    (tmp_path / "a.words.gz").write_bytes(gzip.compress("caf\u00e9\n".encode("cp1252")))
    words = words_path(tmp_path / "a.props.gz", "auto")
    (sentence,) = read_roles(tmp_path / "a.props.gz", words=words, encoding="cp1252")
    assert sentence.words == ("caf\u00e9",)
    with pytest.raises(InputError, match="--encoding cp1252"):
        read_roles(tmp_path / "a.props.gz", words=words)


def test_a_sentence_without_end_is_noticed(tmp_path):
    path = tmp_path / "a.props"
    path.write_text("-\n" * 10_001)
    with pytest.raises(InputError, match="line 10001: a sentence of more than 10,000 words; is a blank line missing"):
        read_roles(path)
