"""Exports of models over a pretrained encoder: single texts and pairs as one sequence, at every length, by the script too."""

import ast
import json

import pytest
import torch

from mtsa.data.bio import to_tags
from tests.inference.test_export import call, ran, script
from tests.trained_models import CLAUSES

TEXTS = ["The Redder apples are here", "", "pear", "a very blue plum and apples " * 20]
LONG, LONGER = "red pear " * 45, "a blue plum " * 40  # room for an odd number of tokens of both: the longer keeps one more
PAIRS = [("the red apples", "a blue one"), ("apples", LONG), (LONG, "apples"), (LONG, LONGER), (LONGER, LONG)]

OTHERS = [("texts", "onnx"), ("texts", "torch"), ("attended", "torch")]
OTHER_PAIRS = [("pairs", "onnx"), ("attended_pairs", "onnx"), ("attended_pairs", "torch")]


def exported(predictor, out, form, *more):
    done = call(predictor.run.folder, "--out", out, "--to", form, *more)
    assert done.exit_code == 0, done.output
    report = json.loads((out / "parity.json").read_text())
    assert [row["length"] for row in report["lengths"]] == [1, 31, 32, 33]  # the model reads 64 tokens
    assert all(row["apart"] < 1e-5 for row in report["lengths"])
    return report


@pytest.mark.parametrize(
    ("name", "form"), [("attended", "onnx"), *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS)]
)
def test_texts(bert_runs, name, form, tmp_path):
    predictor = bert_runs[name]
    exported(predictor, tmp_path / "out", form)
    for found, wanted in zip(script(tmp_path / "out", *TEXTS), predictor.predict(TEXTS), strict=True):
        assert ast.literal_eval(found) == pytest.approx(wanted.probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "form"),
    [("pairs", "torch"), *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHER_PAIRS)],
)
def test_pairs_as_one_sequence(bert_runs, name, form, tmp_path):
    predictor = bert_runs[name]
    exported(predictor, tmp_path / "out", form)
    given = [text for pair in PAIRS for text in pair]
    for found, wanted in zip(script(tmp_path / "out", *given), predictor.predict(PAIRS), strict=True):
        assert ast.literal_eval(found) == pytest.approx(wanted.probabilities, abs=1e-5)


def test_numbers_and_the_comparison_on_texts(bert_runs, tmp_path):
    predictor = bert_runs["numbers"]
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"{'red ' * count}apple,{count}\n" for count in range(1, 9)))
    report = exported(predictor, tmp_path / "out", "onnx", "--check", tmp_path / "texts.csv")
    assert report["texts"]["texts"] == 8
    assert report["texts"]["apart"] < 1e-4
    (found,) = script(tmp_path / "out", "the red apples")
    assert float(found) == pytest.approx(predictor.predict(["the red apples"])[0].value, abs=1e-4)


def test_vectors_of_single_texts(bert_runs, tmp_path):
    from safetensors.torch import load_file
    from typer.testing import CliRunner

    from mtsa.cli import app

    (tmp_path / "a.txt").write_text("the red apples\na blue plum\n")

    def embedded(name, out):
        return CliRunner().invoke(app, ["embed", str(bert_runs[name].run.folder), str(tmp_path / "a.txt"), "--out", str(out)])

    done = embedded("texts", tmp_path / "a.safetensors")
    assert done.exit_code == 0, done.output
    (found,) = load_file(tmp_path / "a.safetensors").values()
    model, tokenizer = bert_runs["texts"].model, bert_runs["texts"].tokenizer
    for row, text in zip(found, ("the red apples", "a blue plum"), strict=True):
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            by_hand = model.words.model(input_ids=ids).last_hidden_state.mean(1)[0]
        torch.testing.assert_close(row.float(), by_hand, rtol=1e-4, atol=1e-5)
    assert embedded("pairs", tmp_path / "b.npy").exit_code == 2
    assert not (tmp_path / "b.npy").exists()


TAGGED = ["Bob saw Rome City", "", "Smith", "\u200d ada and OSLO abcdefgh", "the old Cleo Smith in Paris now " * 2]


@pytest.mark.parametrize(("name", "form"), [("tags", "onnx"), pytest.param("attended", "torch", marks=pytest.mark.slow)])
def test_tags(bert_taggers, name, form, tmp_path):
    predictor = bert_taggers[name]
    exported(predictor, tmp_path / "out", form)
    wanted = predictor.predict([text.split() for text in TAGGED])
    for found, other in zip(script(tmp_path / "out", *TAGGED), wanted, strict=True):
        assert found == " ".join(f"{word}/{tag}" for word, tag in zip(other.words, other.tags, strict=True))
    done = ran(tmp_path / "out", "abcdefgh " * 40)
    assert done.returncode == 1
    assert done.stderr == "the sentence has 322 word pieces; the exported model reads at most 64\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_roles(bert_taggers, form, tmp_path):
    predictor = bert_taggers["roles"]
    exported(predictor, tmp_path / "out", form)
    (wanted,) = predictor.predict([CLAUSES.split()])
    assert wanted.frames
    found = script(tmp_path / "out", CLAUSES)
    assert [line.partition(":")[0] for line in found] == [wanted.words[frame.predicate] for frame in wanted.frames]
    for line, frame in zip(found, wanted.frames, strict=True):
        tags = [cell.rpartition("/")[2] for cell in line.split()[1:]]
        assert to_tags(frame.spans, len(wanted.words)) == tags
