"""The table of semantic role labelling: plan, and real runs on small files."""

import gzip
from dataclasses import replace

import pytest
from reproduce.__main__ import app
from reproduce.paths import Paths
from reproduce.records import read_records
from reproduce.runner import execute_all
from reproduce.tables import SRL
from typer.testing import CliRunner

from mtsa.corpora import corpus_files
from mtsa.data.srl_formats import read_roles, role_lines

PLAIN = replace(SRL, search=None)  # the search has tests of its own


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl")
    for part, path in corpus_files("corpus:roles").items():
        sentences = read_roles(path, words=path.with_suffix(".words"))
        text = "\n".join(role_lines(sentences[:20], "propbank")) + "\n"
        name = f"propbank_ewt.{part}.conll"
        (folder / name).write_text(text.replace("\t-\t-\tgive\t", "\tVB\t-\tgive\t"))
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    words = {
        word.lower() for path in folder.glob("*.conll") for line in path.read_text().splitlines() for word in line.split()[3:4]
    }
    (folder / "vectors.txt").write_text("".join(f"{word} 0.1 0.2 -0.3\n" for word in sorted(words)))
    return Paths(folder, folder / "vectors.txt")


@pytest.fixture(scope="module")
def records(paths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    chosen = PLAIN.runs(paths, [], ["mtsa"], 1)
    assert [str(run.path) for run in chosen] == ["ewt/mtsa/seed-0.json"]
    execute_all(chosen, folder, minutes=None)
    return folder


def test_models_have_the_same_recipe_but_for_the_encoder(paths):
    recipes = {run.model: run.recipe for run in SRL.runs(paths, ["ewt"]) if SRL.models[run.model].searched}
    assert list(recipes) == ["bilstm", "multi_cnn", "multihead", "multihead-masks", "mtsa"]
    assert len({(str(recipe.training), str(recipe.model), str(recipe.data)) for recipe in recipes.values()}) == 1
    assert {recipe.encoder["layers"] for recipe in recipes.values()} == {4}


def test_a_record_has_dev_and_test_metrics_with_counts_of_every_predicate(records):
    (record,) = SRL.check(read_records(records))
    (test,) = record["test"].values()
    assert {"precision", "recall", "f1", "complete", "predicates", "labels"} <= test.keys()
    counts = [[int(value) for value in row.split()] for row in test["items"]["rows"]]
    assert [sum(column) for column in zip(*counts, strict=True)] == [test["correct"], test["predicted"], test["support"]]
    assert record["dev"]["predicates"]["support"] > 0
    assert len(record["dev_curve"]) == 12
    assert "f1" in record["dev_curve"][0]


def test_the_view(records):
    found = SRL.check(read_records(records))
    (view,) = SRL.shown(found)
    header, *rows = SRL.rows(view, found)
    lines = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert list(lines) == ["MTSA (`mtsa`)"]
    header, *rows = SRL.paper_rows(view)
    assert dict(zip(header, next(row for row in rows if row[0] == "MTSA"), strict=True))["test F1"] == "84.8"
    assert lines["MTSA (`mtsa`)"]["test F1"] == f"{100 * found[0]['test']['test']['f1']:.1f} [1 of 2]"


def test_the_command(records, paths):
    done = CliRunner().invoke(app, ["table", "srl", "--records", str(records), "--show"])
    assert done.exit_code == 0, done.output
    assert "Semantic roles on EWT" in done.output
    done = CliRunner().invoke(app, ["table", "srl", "--data", str(paths.data), "--models", "mtas"])
    assert done.exit_code == 2


def test_conll_2005_has_a_second_test_file(tmp_path):
    names = {"train": "train", "devel": "dev", "test.wsj": "test", "brown": "dev"}
    for name, part in names.items():
        for path in (corpus_files("corpus:roles")[part], corpus_files("corpus:roles")[part].with_suffix(".words")):
            (tmp_path / f"conll05.{name}{path.suffix}").write_text(path.read_text())
    (tmp_path / "vectors.txt").write_text("the 0.1 0.2 -0.3\n")
    (run,) = PLAIN.runs(Paths(tmp_path, tmp_path / "vectors.txt"), [], ["multi_cnn"])
    files = {f"conll05.{name}.{ending}" for name in names for ending in ("props", "words")}
    assert set(run.files) == {*files, "vectors.txt"}
    assert run.settings["data"]["tests"] == ["conll05.brown.props"]
    small = replace(run.recipe.training, epochs=1)
    run.__dict__["recipe"] = replace(run.recipe, training=small)  # one epoch instead of twelve
    execute_all([run], tmp_path / "records", minutes=None)
    found = SRL.check(read_records(tmp_path / "records"))
    parts = found[0]["test"]
    assert list(parts) == ["test", "conll05.brown"]
    assert parts["conll05.brown"]["support"] == found[0]["dev"]["support"]
    (view,) = SRL.shown(found)
    header, *rows = SRL.rows(view, found)
    line = next(dict(zip(header, row, strict=True)) for row in rows if row[0] == "Multi-CNN (`multi_cnn`)")
    assert line["Brown F1"] == line["dev F1"] != line["test F1"]
