"""Exported models: the whole of it, at every length, run by the script beside it without this package."""

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.inference import export_parity
from mtsa.inference.graph_export import atomic_directory

WITHOUT = (
    "import sys, runpy; sys.modules['mtsa'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def call(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def ran(folder, *texts):
    """run.py, where mtsa cannot be imported."""
    command = [sys.executable, "-c", WITHOUT, str(folder / "run.py"), *texts]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def script(folder, *texts):
    """The lines that run.py prints."""
    done = ran(folder, *texts)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def helps(folder, *texts):
    """Whether run.py says how it is used, and nothing else."""
    done = ran(folder, *texts)
    return done.returncode == 1 and done.stderr.count("\n") == 1 and "python run.py" in done.stderr


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
    assert max(row["apart"] for row in report["int8 lengths"]) > max(row["apart"] for row in report["lengths"])
    assert f"model.int8.onnx: {report['bytes']['model.int8.onnx'] / 1e6:.1f} MB" in done.output
    asked = ["there is a small red apple here", "", "pear " * 600]
    for found, wanted in zip(script(out, *asked), predictor.predict(asked), strict=True):
        assert ast.literal_eval(found) == pytest.approx(wanted.probabilities, abs=1e-5)
    assert script(out, "--int8", asked[0]) != script(out, asked[0])
    assert helps(out)
    again = call(predictor.run.folder, "--out", out)
    assert again.exit_code == 2
    assert "already exists" in again.output


@pytest.mark.slow
def test_a_tagger_for_torch(runs, tmp_path):
    predictor, out = runs["tagging"], tmp_path / "exported"
    done = call(predictor.run.folder, "--out", out, "--to", "torch")
    assert done.exit_code == 0, done.output
    check_report(json.loads((out / "parity.json").read_text()))
    asked = ["the old red dog", "Anna met Bob in Paris ."]
    found = [[pair.rsplit("/", 1) for pair in line.split()] for line in script(out, *asked)]
    assert [[word for word, _ in pairs] for pairs in found] == [text.split() for text in asked]
    wanted = [list(one.tags) for one in predictor.predict([text.split() for text in asked])]
    assert [[tag for _, tag in pairs] for pairs in found] == wanted
    assert script(out, "") == [""]
    assert helps(out)


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
    assert helps(out, "one text")
    assert ast.literal_eval(found) == pytest.approx(
        predictor.predict([("A dog runs .", "An animal moves .")])[0].probabilities, abs=1e-5
    )


@pytest.mark.slow
def test_roles_as_onnx(runs, tmp_path):
    from mtsa.data.bio import to_spans

    predictor, out = runs["srl"], tmp_path / "exported"
    done = call(predictor.run.folder, "--out", out)
    assert done.exit_code == 0, done.output
    check_report(json.loads((out / "parity.json").read_text()))
    text = "The committee approved the plan after a long debate ."
    (wanted,) = predictor.predict([text.split()])
    found = []
    for line in script(out, text):
        predicate, *pairs = line.split()
        found.append((predicate, tuple(to_spans([pair.rsplit("/", 1)[1] for pair in pairs]))))
    assert found == [(f"{text.split()[frame.predicate]}:", frame.spans) for frame in wanted.frames]
    assert script(out, "") == []


def test_what_cannot_be_exported(runs, tmp_path):
    folder = runs["classification"].run.folder
    for arguments, message in (
        ((folder, "--out", tmp_path / "a", "--to", "onx"), "onnx"),
        ((folder, "--out", tmp_path / "a", "--to", "torch", "--int8"), "requires --to onnx"),
        ((runs["translation"].run.folder, "--out", tmp_path / "a"), "export does not support translation models"),
        (
            (runs["tagging"].run.folder, "--out", tmp_path / "a", "--check", "x"),
            "--check does not apply to task tagging",
        ),
        ((tmp_path, "--out", tmp_path / "a"), "manifest"),
        ((folder, "--out", tmp_path / "a", "--check", tmp_path / "none.csv"), "none.csv"),
        ((folder, "--out", "/proc/mtsa"), "/proc/mtsa: No such file or directory; choose another folder"),
        ((folder / "recipe.toml", "--out", tmp_path / "a"), "is a file, not a run directory"),
    ):
        done = call(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert message in done.output
        assert not list(tmp_path.glob("a*"))


def test_an_export_that_fails_leaves_nothing(runs, tmp_path, monkeypatch):
    def broken(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mtsa.inference.export_parity.check_underflow", broken)
    done = call(runs["classification"].run.folder, "--out", tmp_path / "a", "--to", "torch")
    assert done.exit_code == 2
    assert "No space left" in done.output
    assert not list(tmp_path.iterdir())


def test_a_folder_appears_whole_and_nothing_of_others_goes(tmp_path, monkeypatch):
    (tmp_path / "a.partial").mkdir()
    (tmp_path / "a.partial" / "mine").write_text("kept")
    with atomic_directory(tmp_path / "a") as partial:
        (partial / "x").write_text("1")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a" / "x").read_text() == "1"
    assert (tmp_path / "a" / "x").stat().st_mode == (tmp_path / "a.partial" / "mine").stat().st_mode
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "a.partial").stat().st_mode
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with atomic_directory(Path()) as partial:
        (partial / "x").write_text("2")
    assert (tmp_path / "empty" / "x").read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.partial", "empty"]


def test_the_viterbi_of_the_script_is_ours(runs, tmp_path):
    """The decoder in run.py, on random scores, against the decoder of the model."""
    import torch

    predictor = runs["tagging"]
    from importlib import resources

    text = resources.files("mtsa.inference").joinpath("exported/tags.py.txt").read_text(encoding="utf-8")
    names = {"np": np, "METADATA": predictor.export_spec().metadata}
    exec(text[text.index("FIRST, AFTER") : text.index("def tag(")], names)
    generator = np.random.default_rng(0)
    for length in (1, 2, 7, 23):
        scores = generator.normal(size=(length, len(predictor.labels))) * 3
        keep = torch.ones(1, length, dtype=torch.bool)
        (wanted,) = predictor.model.decoder.decode(torch.from_numpy(scores)[None].float(), keep)
        assert names["decoded"](scores) == [predictor.labels[tag] for tag in wanted]


def test_an_export_that_gives_nan_is_not_close():
    broken = lambda array: [array * float("nan")]  # noqa: E731
    ones = torch.ones(2, 3)
    assert export_parity._max_difference(lambda x: [x], broken, [ones], ones) == math.inf
    assert export_parity._max_difference(lambda x: [x], lambda array: [array], [ones], ones) == 0.0
