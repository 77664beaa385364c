"""The benchmark at sentence length measures what it says, and its record makes a section of the results page."""

import json

import torch
from reproduce.benchmarks import report as results
from typer.testing import CliRunner

from mtsa.bench import sentences
from mtsa.cli import app

SMALL = sentences.Setting(sizes=((24, 4),), shapes=((1, 5), (3, 7)), repeats=1)


def test_a_record_has_every_layer_shape_and_mode():
    record = sentences.run(SMALL)
    assert len(record["rows"]) == 3 * len(sentences.NAMES)
    assert {(row["batch"], row["mode"]) for row in record["rows"]} == {(1, "inference"), (3, "inference"), (3, "training")}
    assert all(row["ratio"] == 1.0 for row in record["rows"] if row["name"] == sentences.PEER)
    header, lines = sentences.table(record)
    assert header[3:] == list(sentences.NAMES)
    assert len(lines) == sentences.ticks(SMALL) == 3


def test_the_plain_version_computes_what_the_layer_computes():
    torch.manual_seed(0)
    plain, layer = sentences.Plain(24, 4, 0.0), sentences.MultiMaskAttention(24, 4)
    with torch.no_grad():
        for name in ("query", "key", "value", "output"):
            getattr(layer, name).weight.copy_(getattr(plain, name).weight)
        layer.source_hidden.weight.copy_(plain.hidden)
        layer.source_score.weight.copy_(plain.score)
    x, mask = torch.randn(3, 7, 24), torch.arange(7) < torch.tensor([[7], [4], [5]])
    found = plain(x, mask).masked_fill(~mask[..., None], 0.0)
    torch.testing.assert_close(found, layer(x, mask), rtol=1e-4, atol=1e-5)


def test_the_command_writes_a_record_that_the_results_page_shows(tmp_path, monkeypatch):
    run = sentences.run
    monkeypatch.setattr(sentences, "run", lambda setting, tick: run(SMALL, tick))
    done = CliRunner().invoke(app, ["bench", "layer", "--out", str(tmp_path / "some"), "--repeats", "1"])
    assert done.exit_code == 0, done.output
    assert "24/4" in done.output
    assert json.loads((tmp_path / "some" / "bench-sentences.json").read_text())["kind"] == "sentences"
    (page,) = results.sections(tmp_path)
    assert "sentence length" in page.splitlines()[0]
    assert "3 x 7" in page


def test_options_of_other_presets_are_refused(tmp_path):
    done = CliRunner().invoke(app, ["bench", "layer", "--out", str(tmp_path), "--preset", "sentences", "--lengths", "16"])
    assert done.exit_code == 2
    assert "--lengths and --layers do not apply to the preset sentences" in done.output
