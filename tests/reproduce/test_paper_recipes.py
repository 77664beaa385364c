"""The paper's settings for a few steps: samples in the official layouts, measurements, and the table made of them."""

import gzip
import json

import pytest
from reproduce.__main__ import app
from reproduce.benchmarks import paper_recipes
from reproduce.benchmarks.report import sections
from typer.testing import CliRunner

from mtsa.corpora import corpus_files
from mtsa.data.srl_formats import read_roles, role_lines
from tests.sample_data import pairs, sentences


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A data folder in the layout of the collection, small."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("classification/sst", "nli", "srl", "translation/wmt", "translation/multi30k", "pretrained/gpt1_bpe"):
        (folder / name).mkdir(parents=True)
    for name in ("cr", "mpqa", "subj"):
        rows = [f"{int(label == 'fruit')} {text}" for text, label in sentences(40)]
        (folder / "classification" / f"{name}.all").write_text("\n".join(rows) + "\n")
    for part in ("train", "test"):
        rows = [f"{'ENTY' if label == 'fruit' else 'LOC'}:x {text}" for text, label in sentences(80)]
        (folder / "classification" / f"trec.{part}").write_text("\n".join(rows) + "\n")
    for part in ("train", "dev", "test"):
        (folder / "classification" / "sst" / f"{part}.txt").write_text("(4 (2 very) (4 good))\n(0 (2 very) (0 bad))\n" * 9)
    table = "".join(f"{label}\t{first}\t{second}\n" for first, second, label, _ in pairs(80))
    for parts in paper_recipes._NLI.values():
        for file, format in parts.values():
            header = "gold_label\tsentence1\tsentence2\n" if format == "nli" else ""
            (folder / "nli" / file).write_text(header + table)
    for part, path in corpus_files("corpus:roles").items():
        text = "\n".join(role_lines(read_roles(path, words=path.with_suffix(".words"))[:20], "propbank")) + "\n"
        (folder / "srl" / f"propbank_ewt.{part}.conll.gz").write_bytes(gzip.compress(text.encode()))
    for language in ("en", "de"):
        for name in ("wmt/newstest2013", "wmt/newstest2014", "multi30k/train"):
            (folder / "translation" / f"{name}.{language}").write_text("a small house\nthe old tree\n" * 10)
    letters = {f"{letter}{end}": 2 * number + bool(end) for number, letter in enumerate("abcdefgh") for end in ("", "</w>")}
    (folder / "pretrained" / "gpt1_bpe" / "encoder_bpe_40000.json").write_text(json.dumps(letters))
    (folder / "pretrained" / "gpt1_bpe" / "vocab_40000.bpe").write_text("#version: 0.2\n")
    return folder


@pytest.mark.slow
def test_a_few_steps_are_measured_and_extrapolated(source, tmp_path):
    command = ["bench", "paper", "--data", str(source), "--recipes", "trec.paper,cr.paper", "--steps", "4"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "paper")])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "paper" / "bench-paper.json").read_text())
    by_name = {row["recipe"]: row for row in record["rows"]}
    assert by_name["trec.paper"]["steps"] == 80_000
    assert by_name["trec.paper"]["measured_steps"] == 3
    assert by_name["cr.paper"]["steps"] == 1000
    for row in record["rows"]:
        batch, width, tokens = row["batch_size"], 600, 4  # at least so many tokens in a text, on average
        assert row["flop_per_step"] > 6 * batch * tokens * 2 * width * width  # the two layers of the pooling alone
        assert row["parameters"] > 2_000_000
        assert row["peak_bytes"] > 4 * row["parameters"]  # the gradients
    header, first, _ = paper_recipes.table(record)
    line = dict(zip(header, first, strict=True))
    row = by_name[line["recipe"]]
    assert line["days (this machine)"] == f"{row['seconds_per_step'] * row['steps'] / 86400:.1f}"
    (page,) = sections(tmp_path)
    assert "trained for 4 steps" in page
    again = CliRunner().invoke(app, ["bench", "paper", "--data", str(tmp_path), "--recipes", "trec.paper", "--steps", "4",
                                     "--out", str(tmp_path / "paper")])  # fmt: skip
    assert again.exit_code == 0, again.output  # nothing is measured, so the data are not needed
    assert json.loads((tmp_path / "paper" / "bench-paper.json").read_text())["rows"] == record["rows"]


def test_samples_of_every_recipe_exist(source, tmp_path, monkeypatch):
    monkeypatch.setattr(paper_recipes, "_write_gpt", lambda source, folder: None)
    paper_recipes.make_samples(source, tmp_path)
    for name in paper_recipes.paper_recipes():
        recipe = paper_recipes.load_recipe(name)
        for file in (recipe.data.train, recipe.data.dev, recipe.data.test, recipe.vectors.file):
            assert not file or (tmp_path / file).exists(), (name, file)


def test_unknown_recipes_and_missing_data_are_refused(tmp_path):
    done = CliRunner().invoke(app, ["bench", "paper", "--data", str(tmp_path), "--recipes", "trec.papr"])
    assert done.exit_code == 2
    assert 'did you mean "trec.paper"' in done.output
    done = CliRunner().invoke(app, ["bench", "paper", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "cr.all does not exist" in " ".join(done.output.split())
