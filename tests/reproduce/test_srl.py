"""The table of semantic roles: plan, a real unit on small files, and the page made of it."""

import gzip
from dataclasses import replace

import pytest
from reproduce.__main__ import app
from reproduce.paths import Places
from reproduce.records import read_records
from reproduce.runner import run_units
from reproduce.srl_table import checked, role_rows, section
from typer.testing import CliRunner

from mtsa.corpora import corpus_files
from mtsa.data.srl_formats import read_roles, role_lines
from mtsa.errors import InputError
from reproduce import srl as plan


@pytest.fixture(scope="module")
def places(tmp_path_factory):
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
    return Places(folder, folder / "vectors.txt")


@pytest.fixture(scope="module")
def records(places, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    chosen = plan.units([], ["mtsa"], places)
    assert [str(unit.path) for unit in chosen] == ["ewt/mtsa/seed-0.json"]
    run_units(chosen, folder, minutes=None)
    return folder


def test_every_row_has_the_same_recipe_but_for_its_context(places):
    recipes = {unit.row: unit.recipe for unit in plan.units(["ewt"], [], places)}
    assert list(recipes) == ["bilstm", "multi_cnn", "multihead", "mtsa", "mtsa-deep"]
    assert len({(str(recipe.training), str(recipe.model), str(recipe.data)) for recipe in recipes.values()}) == 1
    assert {recipe.encoder["layers"] for name, recipe in recipes.items() if name != "mtsa-deep"} == {4}
    assert recipes["mtsa-deep"].encoder["layers"] == 8


def test_a_record_holds_dev_and_one_test_evaluation(records):
    (record,) = checked(read_records(records))
    assert len(record["test_evaluations"]) == 1
    test = record["test_evaluations"][0]
    assert {"precision", "recall", "f1", "complete", "predicates", "labels"} <= test.keys()
    assert record["dev"]["predicates"]["there"] > 0
    assert len(record["dev_curve"]) == 12
    assert "f1" in record["dev_curve"][0]


def test_the_page(records):
    found = checked(read_records(records))
    rows = role_rows(found)
    assert [row[0] for row in rows[1:6]] == [f"ewt: {name}" for name in plan.ROWS]
    assert rows[1][1] == "not run"
    assert rows[4][2].count("/") == 3
    assert "Semantic role labelling" in section(found)
    best = max(record["test_evaluations"][0]["f1"] for record in found)
    assert f"the best first: `mtsa` {100 * best:.1f}." in section(found)


def test_a_record_of_no_row_is_refused(records):
    (record,) = read_records(records)
    with pytest.raises(InputError, match="belongs to no cell"):
        checked([{**record, "row": "other"}])


def test_the_command(records, places):
    runner = CliRunner()
    done = runner.invoke(app, ["table", "srl", "--records", str(records), "--show"])
    assert done.exit_code == 0, done.output
    assert "ewt: mtsa" in done.output
    done = runner.invoke(app, ["table", "srl", "--data", str(records), "--records", str(records)])
    assert done.exit_code == 2
    assert "holds no data set of this table" in done.output
    done = runner.invoke(app, ["table", "srl", "--data", str(places.data), "--models", "mtas"])
    assert done.exit_code == 2


def test_conll_2005_has_a_second_test_file(tmp_path):
    names = {"train": "train", "devel": "dev", "test.wsj": "test", "brown": "dev"}
    for name, part in names.items():
        for path in (corpus_files("corpus:roles")[part], corpus_files("corpus:roles")[part].with_suffix(".words")):
            (tmp_path / f"conll05.{name}{path.suffix}").write_text(path.read_text())
    (tmp_path / "vectors.txt").write_text("the 0.1 0.2 -0.3\n")
    (unit,) = plan.units([], ["multi_cnn"], Places(tmp_path, tmp_path / "vectors.txt"))
    files = {f"conll05.{name}.{ending}" for name in names for ending in ("props", "words")}
    assert set(unit.files) == {*files, "vectors.txt"}
    assert unit.settings["data"]["tests"] == ["conll05.brown.props"]
    small = replace(unit.recipe.training, epochs=1)
    unit.__dict__["recipe"] = replace(unit.recipe, training=small)  # a pass instead of twelve
    run_units([unit], tmp_path / "records", minutes=None)
    found = checked(read_records(tmp_path / "records"))
    parts = found[0]["test_evaluations"][0]["parts"]
    assert list(parts) == ["conll05.test.wsj", "conll05.brown"]
    assert parts["conll05.brown"]["there"] == found[0]["dev"]["there"]
    header, _, cnn, *_ = role_rows(found)
    assert cnn[header.index("Brown test")] == cnn[header.index("dev")] != cnn[header.index("test")]
