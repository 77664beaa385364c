"""Semantic roles: the props layout, and each rule of the official evaluation on cases made by hand."""

import dataclasses
import json
import random

import pytest
from typer.testing import CliRunner

from mtsa.cli.main import app
from mtsa.data.frames import Argument, Frame, RoleSentence, Span, arguments
from mtsa.data.props import props_lines, read_props
from mtsa.errors import InputError
from mtsa.metrics.semantic_roles import score_roles

GOLD = """\
-     (A0*   *
-     *)     *
give  (V*)   *
-     (A2*)  (A0*)
-     (A1*   (AM-MOD*)
chew  *      (V*)
-     *)     *

-     *
fall  (V*)
"""


def props(path, text):
    path.write_text(text)
    return path


def sentence(*frames, words=9):
    made = tuple(
        Frame(place, "x", tuple(sorted([Span(place, place, "V"), *(Span(a, b, label) for label, a, b in spans)])))
        for place, spans in frames
    )
    return RoleSentence(("",) * words, made, 1)


def test_props_are_read_and_written_without_loss(tmp_path):
    found = read_props(props(tmp_path / "a.props", GOLD))
    assert [[frame.lemma for frame in one.frames] for one in found] == [["give", "chew"], ["fall"]]
    first = found[0].frames[0]
    assert (first.predicate, first.spans) == (2, (Span(0, 1, "A0"), Span(2, 2, "V"), Span(3, 3, "A2"), Span(4, 6, "A1")))
    again = read_props(props(tmp_path / "b.props", "\n".join(props_lines(found)) + "\n"))
    assert again == found
    (tmp_path / "words").write_text("The\nman\ngave\nRex\nto\nchew\nit\n\nIt\nfell\n")
    assert read_props(tmp_path / "a.props", tmp_path / "words")[1].words == ("It", "fell")


WRONG = {
    "column too many": ("give (V*)\n- * *\n", "line 2: 3 columns, but the first line of the sentence has 2"),
    "no column": ("give\n-\n", "line 1: 1 predicates in the first column, but 0 columns of roles"),
    "no predicate": ("- (V*)\n- *\n", "0 predicates in the first column, but 1 columns"),
    "never closed": ("give (V*)\n- (A1*\n\n", r'line 2: "\(A1" is not closed'),
    "never opened": ("give (V*)\n- *)\n", 'line 2: "\\)" without an open role'),
    "nested": ("- (A0*\n- (A1*)\ngive (V*)\n", r'line 2: "\(A1" opens before "\(A0" of line 1 is closed'),
    "no bracket": ("give (V*)\n- A1\n", 'line 2: "A1" is not a role'),
    "another verb": ("give *\n- (V*)\n", "line 1: column 1 marks .* at a word that is not its predicate"),
    "inside a role": ("give (A0*)\n", "line 1: the predicate is inside a role of its column"),
    "nothing": ("\n\n", "contains no sentence"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_answered_with_the_line(case, tmp_path):
    text, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        read_props(props(tmp_path / "x.props", text))


def test_words_must_be_those_of_the_props(tmp_path):
    path = props(tmp_path / "a.props", GOLD)
    with pytest.raises(InputError, match=r"has 1 sentences, .* has 2"):
        read_props(path, props(tmp_path / "w1", "a\nb\n"))
    with pytest.raises(InputError, match="line 9: 3 words, but 2 lines from line 9"):
        read_props(path, props(tmp_path / "w2", "a\nb\nc\nd\ne\nf\ng\n\na\nb\nc\n"))


def test_pieces_join_the_nearest_earlier_argument():
    spans = (Span(0, 0, "A1"), Span(2, 2, "V"), Span(3, 3, "A1"), Span(4, 5, "C-A1"), Span(6, 6, "C-A0"), Span(7, 7, "C-A1"))
    assert arguments(spans) == [
        Argument("A1", ((0, 0),)),
        Argument("V", ((2, 2),)),
        Argument("A1", ((3, 3), (4, 5), (7, 7))),
        Argument("A0", ((6, 6),)),  # without an A0 before it, a plain one
    ]


RULES = {  # gold, answer, right, answered, there, perfect of gold frames
    "all right": ([(2, [("A0", 0, 1)])], [(2, [("A0", 0, 1)])], 1, 1, 1, 1),
    "another end": ([(2, [("A0", 0, 1)])], [(2, [("A0", 0, 0)])], 0, 1, 1, 0),
    "another label": ([(2, [("A0", 0, 1)])], [(2, [("A1", 0, 1)])], 0, 1, 1, 0),
    "one too many": ([(2, [("A0", 0, 1)])], [(2, [("A0", 0, 1), ("A1", 4, 4)])], 1, 2, 1, 0),
    "the verb is not counted": ([(2, [])], [(2, [])], 0, 0, 0, 1),
    "a missing predicate": ([(2, [("A0", 0, 1)]), (5, [("A1", 6, 7)])], [(2, [("A0", 0, 1)])], 1, 1, 2, 1),
    "a predicate too many": ([(2, [("A0", 0, 1)])], [(2, [("A0", 0, 1)]), (5, [("A1", 6, 7)])], 1, 1, 1, 1),
    "a missing predicate without arguments": ([(2, []), (5, [])], [(2, [])], 0, 0, 0, 2),
    "all pieces must match": ([(2, [("A1", 0, 0), ("C-A1", 4, 5)])], [(2, [("A1", 0, 0), ("C-A1", 4, 4)])], 0, 1, 1, 0),
    "pieces count once": ([(2, [("A1", 0, 0), ("C-A1", 4, 5)])], [(2, [("A1", 0, 0), ("C-A1", 4, 5)])], 1, 1, 1, 1),
    "a piece is missing": ([(2, [("A1", 0, 0), ("C-A1", 4, 5)])], [(2, [("A1", 0, 0)])], 0, 1, 1, 0),
    "a lone piece is plain": ([(2, [("A1", 4, 5)])], [(2, [("C-A1", 4, 5)])], 1, 1, 1, 1),
    "a reference is its own label": ([(2, [("A0", 0, 0), ("R-A0", 1, 1)])], [(2, [("A0", 0, 0), ("A0", 1, 1)])], 1, 2, 2, 0),
    "a piece of the verb is not counted": ([(2, [("C-V", 4, 4), ("A1", 3, 3)])], [(2, [("A1", 3, 3)])], 1, 1, 1, 1),
}


@pytest.mark.parametrize("case", RULES)
def test_each_rule(case):
    gold, answer, right, answered, there, perfect = RULES[case]
    score = score_roles([sentence(*gold)], [sentence(*answer)])
    assert (score.total.correct, score.total.predicted, score.total.support) == (right, answered, there)
    assert (score.complete_frames, score.frames) == (perfect, len(gold))


def test_a_frame_of_another_lemma_is_missed_and_its_answers_do_not_count():
    gold = sentence((2, [("A0", 0, 1)]), (5, []))
    frames = tuple(dataclasses.replace(frame, lemma="other") for frame in gold.frames)
    score = score_roles([gold], [dataclasses.replace(gold, frames=frames)])
    assert (score.total.correct, score.total.predicted, score.total.support) == (0, 0, 1)
    assert (score.complete_frames, score.frames) == (1, 2)


def test_damage_costs_what_it_should():
    """Of many random sentences, each mended or broken argument moves the counts by one."""
    rng = random.Random(1)
    for _ in range(200):
        spans = [("A0", 0, 1), ("AM-TMP", 3, 3), ("A1", 5, 6), ("R-A1", 8, 8)]
        kept = [span for span in spans if rng.random() < 0.6]
        moved = [(label, a, b) if rng.random() < 0.7 else ("AM-LOC", a, b) for label, a, b in kept]
        score = score_roles([sentence((4, spans))], [sentence((4, moved))])
        right = sum(span in spans for span in moved)
        assert (score.total.correct, score.total.predicted, score.total.support) == (right, len(kept), 4)
        assert score.complete_frames == (moved == spans)
        if moved:
            precision, recall = right / len(moved), right / 4
            assert score.total.f1 == pytest.approx(2 * precision * recall / (precision + recall) if right else 0.0)


def test_the_command(tmp_path):
    gold = props(tmp_path / "gold", GOLD)
    other = props(tmp_path / "other", GOLD.replace("(A2*)  (A0*)", "(A2*)  (A1*)"))
    told = json.loads(CliRunner().invoke(app, ["score", "srl", str(gold), str(other), "--json"]).output)
    assert [told[name] for name in ("precision", "recall", "f1")] == [pytest.approx(4 / 5)] * 3
    assert told["complete"] == pytest.approx(2 / 3)
    assert told["labels"]["A0"]["recall"] == 0.5
    assert "V" not in told["labels"]
    shown = CliRunner().invoke(app, ["score", "srl", str(gold), str(other)])
    assert "F1 0.8000 (5 arguments)" in shown.output
    elsewhere = props(tmp_path / "elsewhere", GOLD.replace("fall  (V*)", "fall  (A1*)"))
    wrong = json.loads(CliRunner().invoke(app, ["score", "srl", str(gold), str(elsewhere), "--json"]).output)
    assert (wrong["predicted"], wrong["support"], wrong["complete_frames"]) == (6, 5, 2)
    short = props(tmp_path / "short", GOLD.split("\n\n")[0] + "\n")
    result = CliRunner().invoke(app, ["score", "srl", str(gold), str(short)])
    assert result.exit_code == 2
    assert "1 sentences, but 2 in" in result.output
    longer = props(tmp_path / "longer", GOLD + "- *\n")
    result = CliRunner().invoke(app, ["score", "srl", str(gold), str(longer)])
    assert result.exit_code == 2
    assert "sentence 2 has 3 words, but the gold sentence" in result.output
