"""Exported models: the whole of it, at every length, run by the script beside it without this package."""

import ast
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from mtsa.cli import app

WITHOUT = (
    "import sys, runpy; sys.modules['mtsa'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def call(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def script(folder, *texts):
    """What run.py prints, where mtsa cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder / "run.py"), *texts],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


def check_report(report):
    assert [row["length"] for row in report["lengths"]] == [1, 31, 32, 33, 200, 512]
    assert all(row["apart"] < 1e-5 for row in report["lengths"])
    assert report["opposed gaps"]["export"] < 1e-5


def test_a_classifier_as_onnx_with_int8(runs, tmp_path):
    predictor, out = runs["classification"], tmp_path / "exported"
    texts = tmp_path / "texts.csv"
    rows = [f"there is {'a' * place} red apple,fruit" for place in range(1, 30)]
    texts.write_text("text,label\n" + "\n".join(rows) + "\n")
    done = call(predictor.run.folder, "--out", out, "--check", texts, "--int8")
    assert done.exit_code == 0, done.output
    report = json.loads((out / "parity.json").read_text())
    check_report(report)
    assert report["texts"]["same labels"] == report["texts"]["texts"] == 29
    assert report["texts"]["accuracy"]["model"] == report["texts"]["accuracy"]["export"]
    assert report["int8"]["apart"] > report["texts"]["apart"]
    assert set(report["bytes"]) == {"model.onnx", "model.int8.onnx"}
    asked = ["there is a small red apple here", "", "pear " * 600]
    for found, wanted in zip(script(out, *asked), predictor.predict(asked), strict=True):
        assert found == pytest.approx(wanted.probabilities, abs=1e-5)
    again = call(predictor.run.folder, "--out", out)
    assert again.exit_code == 2
    assert "is there already" in again.output


def test_a_tagger_for_torch(runs, tmp_path):
    predictor, out = runs["tagging"], tmp_path / "exported"
    done = call(predictor.run.folder, "--out", out, "--to", "torch")
    assert done.exit_code == 0, done.output
    check_report(json.loads((out / "parity.json").read_text()))
    asked = ["the old red dog", "Anna met Bob in Paris ."]
    assert script(out, *asked) == [list(one.tags) for one in predictor.predict([text.split() for text in asked])]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_pairs(runs, tmp_path, form):
    predictor, out = runs["pair"], tmp_path / "exported"
    done = call(predictor.run.folder, "--out", out, "--to", form, "--check", "corpus:entailment")
    assert done.exit_code == 0, done.output
    report = json.loads((out / "parity.json").read_text())
    check_report(report)
    assert report["texts"]["same labels"] == report["texts"]["texts"]
    (found,) = script(out, "A dog runs .", "An animal moves .")
    assert found == pytest.approx(predictor.predict([("A dog runs .", "An animal moves .")])[0].probabilities, abs=1e-5)


@pytest.mark.slow
def test_roles_as_onnx(runs, tmp_path):
    from mtsa.data.bio import to_spans

    predictor, out = runs["srl"], tmp_path / "exported"
    done = call(predictor.run.folder, "--out", out)
    assert done.exit_code == 0, done.output
    check_report(json.loads((out / "parity.json").read_text()))
    text = "The committee approved the plan after a long debate ."
    (found,) = script(out, text)
    (wanted,) = predictor.predict([text.split()])
    assert [(place, tuple(to_spans(tags))) for place, tags in found] == [(f.predicate, f.spans) for f in wanted.frames]


def test_what_cannot_be_exported(runs, tmp_path):
    folder = runs["classification"].run.folder
    for arguments, message in (
        ((folder, "--out", tmp_path / "a", "--to", "onx"), "onnx"),
        ((folder, "--out", tmp_path / "a", "--to", "torch", "--int8"), "goes with --to onnx"),
        ((runs["translation"].run.folder, "--out", tmp_path / "a"), "a translator cannot be exported"),
        ((runs["tagging"].run.folder, "--out", tmp_path / "a", "--check", "x"), "--check is for classifiers"),
        ((tmp_path, "--out", tmp_path / "a"), "manifest"),
    ):
        done = call(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert message in done.output
        assert not (tmp_path / "a").exists()


def test_the_viterbi_of_the_script_is_ours(runs, tmp_path):
    """The decoder in run.py, on random scores, against the decoder of the model."""
    import torch

    from mtsa.inference.export import parts_of

    predictor = runs["tagging"]
    from importlib import resources

    text = resources.files("mtsa.inference").joinpath("exported/tags.py.txt").read_text(encoding="utf-8")
    names = {"np": np, "ABOUT": parts_of(predictor).about}
    exec(text[text.index("FIRST, AFTER") : text.index("def tag(")], names)
    generator = np.random.default_rng(0)
    for length in (1, 2, 7, 23):
        scores = generator.normal(size=(length, len(predictor.tags))) * 3
        keep = torch.ones(1, length, dtype=torch.bool)
        (wanted,) = predictor.model.decoder.decode(torch.from_numpy(scores)[None].float(), keep)
        assert names["decoded"](scores) == [predictor.tags[tag] for tag in wanted]
