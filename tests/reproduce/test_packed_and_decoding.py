"""The benchmarks of packed sequences, of decoding and of language models, on tiny settings."""

import json
import math
import statistics

import torch
from reproduce.benchmarks import decoding, language_model, packed, report

from mtsa.models.config import MtsaPairConfig
from mtsa.models.hub_models import MtsaForSequencePairClassification
from tests.sample_data import pairs

ENCODER = {"heads": 2, "head_dim": 5}


def small_model(name, *, words, dropout):
    config = {"words": (words, 0), "width": 8, "encoder": name, "encoder_options": ENCODER, "hidden": 6, "dropout": dropout}
    return MtsaForSequencePairClassification(MtsaPairConfig(**config, num_labels=3))


def test_the_time_saved_by_packing_is_measured(monkeypatch, tmp_path):
    lengths = [(3 + number % 9, 2 + number % 5) for number in range(40)]
    monkeypatch.setattr(packed, "lengths_of", lambda corpus, data: (lengths, []))
    monkeypatch.setattr(packed, "build", small_model)
    seen = []
    record = packed.run(packed.Setting(batches=(8,), sample=2, repeats=1), tmp_path, tick=seen.append)
    assert len(seen) == packed.ticks(packed.Setting(batches=(8,), sample=2))
    assert {(row["what"], row["mode"]) for row in record["rows"]} == {
        (what, mode) for what in ("model", "layer") for mode in ("training", "inference")
    }
    for row in record["rows"]:
        assert row["tokens"] <= row["two_groups"] <= row["padded"]
        row |= {"packed_seconds": 3.0, "padded_seconds": 4.0}
    header, *rows = packed.table(record)
    assert len(rows) == 4
    assert {row[header.index("time saved")] for row in rows} == {"25%"}
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "bench-packed.json").write_text(json.dumps(record))
    assert "25%" in report.sections(tmp_path, "speed")[0]


def test_the_time_of_a_token_is_measured(tmp_path):
    record = decoding.run(decoding.Setting(lengths=(4, 8), width=16, heads=2, batch=2, steps=3))
    assert [(row["masks"], row["length"]) for row in record["rows"]] == [
        (masks, length) for masks in decoding.Setting.masks for length in (4, 8)
    ]
    assert all(row["error"] < 1e-5 * max(1.0, row["largest"]) for row in record["rows"])
    for row in record["rows"]:
        row["token_seconds"] = row["length"] * 1e-3
    header, *rows = decoding.table(record)
    assert [row[header.index("per doubled length")] for row in rows] == ["", "2.00x"] * 2
    (tmp_path / "decoding").mkdir()
    (tmp_path / "decoding" / "bench-decoding.json").write_text(json.dumps(record))
    assert "2.00x" in report.sections(tmp_path, "speed")[0]


def test_both_language_models_are_trained_on_the_same_text(tmp_path):
    texts = [side for first, second, _, _ in pairs(200) for side in (first, second)]
    setting = language_model.Setting(layers=1, width=16, tokens=300, length=16, batch=4, steps=4, warmup=1)
    files = ["nli:data/corpus/train.jsonl"]
    record = language_model.run([*texts, *texts], files, setting, 2, tmp_path / "runs")
    assert (
        language_model.run(texts, files, setting, 2, tmp_path / "runs")["rows"] == record["rows"]
    )  # nothing is trained again
    assert record["rows"][0]["texts"] == len(set(texts))
    assert record["sources"] == ["corpus/train.jsonl"]
    mtsa, gpt = ([row for row in record["rows"] if row["attention"] == name] for name in ("mtsa", "multihead"))
    assert {row["sha256"] for row in mtsa} == {row["sha256"] for row in gpt}
    assert abs(mtsa[0]["parameters"] / gpt[0]["parameters"] - 1) < 0.01
    header, *rows = language_model.table(record)
    mean = sum(row["dev_loss"] for row in mtsa) / 2
    assert rows[1][0] == "mtsa"
    assert rows[1][header.index("dev perplexity")] == f"{math.exp(mean):.1f}"
    differences = [own["dev_loss"] - other["dev_loss"] for own, other in zip(mtsa, gpt, strict=True)]
    change = f"{statistics.mean(differences):+.3f} ± {statistics.stdev(differences):.3f}"
    assert [row[header.index("difference of the loss")] for row in rows] == ["-", change]
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "bench-language-model.json").write_text(json.dumps(record))
    assert f"{math.exp(mean):.1f}" in report.sections(tmp_path, "speed")[0]
    assert torch.tensor([row["dev_loss"] for row in record["rows"]]).isfinite().all()
