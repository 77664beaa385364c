"""Claims: the verdict in constructed cases, and the pages that are made from records."""

import json
import re

import numpy as np
import pytest
from reproduce.__main__ import app
from reproduce.claims import CLAIMS, COMPARISONS, Claim, cost_rows, finding_rows, findings, judge
from reproduce.plots import drawn_values
from reproduce.tables import NLI, REPAIRS, TABLES
from reproduce.tables.repairs import SCREENED
from typer.testing import CliRunner

from mtsa.errors import InputError
from mtsa.metrics.significance import Difference, corrected_t
from reproduce import changes_page, results_page
from tests.reproduce.test_table import record, table_of

SIZE = 400


def answered(model, run, share, *, dataset="a", seed=0, size=SIZE):
    """A record with random answers, of which about the given share is right."""
    right = np.random.default_rng([seed, *map(ord, model + run)]).random(size) < share
    made = record(model, dataset, run, float(right.mean()))
    made["test"]["test"] |= {"count": size, "items": {"metric": "accuracy", "rows": "".join(map(str, right.astype(int)))}}
    return made


def claim_of(**options):
    return Claim("Table 9", "One is better than two", table_of(), (("one", "two"),), ("a",), **options)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(0.9, 0.7, "confirmed"), (0.7, 0.9, "contradicted"), (0.8, 0.8, "no difference found")],
)
def test_verdicts_on_complete_cells(ours, theirs, verdict):
    records = [answered(name, f"seed-{n}", share) for name, share in (("one", ours), ("two", theirs)) for n in range(2)]
    (found,) = findings(claim_of(), records)
    assert found.verdict == verdict
    assert (found.difference.low <= 0 <= found.difference.high) == (verdict == "no difference found")
    row = finding_rows([found])[1]
    means = {
        name: np.mean([one["test"]["test"]["accuracy"] for one in records if one["model"] == name]) for name in ("one", "two")
    }
    assert row[2] == f"{100 * (means['one'] - means['two']):+.2f}"
    assert row[-1] == verdict


@pytest.mark.parametrize("missing", range(4))
def test_partial_cells_are_not_judged(missing):
    records = [answered(name, f"seed-{n}", share) for name, share in (("one", 0.9), ("two", 0.5)) for n in range(2)]
    del records[missing]
    (found,) = findings(claim_of(), records)
    assert (found.verdict, found.difference) == ("incomplete", None)
    assert finding_rows([found])[1][2:6] == ["", "", "", ""]
    (found,) = findings(claim_of(), [one for one in records if one["model"] == "one"])
    assert found.verdict == "not run yet"
    assert finding_rows([found])[1] == ["A", "all", "", "", "", "", "", "not run yet"]


def test_a_model_that_is_not_planned():
    claim = Claim("Table 9", "", table_of(), (("one", "two"),), ("b",))
    assert [one.verdict for one in findings(claim, [])] == []  # its only column is of another metric
    assert judge(Difference(1.0, 0.5, 1.5, 0.01, 1), 0.01) == "one run only"
    assert judge(Difference(1.0, -0.5, 1.5, 0.2, 1), 0.2) == "no difference found"
    classification = next(one for one in CLAIMS if one.source == "Table 5")
    verdicts = {(one.part, one.other): one.verdict for one in findings(classification, [])}
    assert verdicts["SUBJ", "disa"] == "not planned"
    assert verdicts["SUBJ", "bilstm"] == "not run yet"


def test_p_values_are_adjusted_over_the_models_of_a_claim():
    """A difference that is significant by itself is not among many others."""
    gap = corrected_t([1.0, 2.0, 1.5, 0.4], [0.0, 0.2, 0.4, 0.1])
    assert judge(gap, 0.04) == "confirmed"
    assert judge(gap, 0.06) == "no difference found"
    records = [answered(name, f"seed-{n}", share) for name, share in (("one", 0.9), ("two", 0.5)) for n in range(2)]
    single = findings(claim_of(), records)[0].p
    double = Claim("Table 9", "", table_of(), (("one", "two"), ("two", "one")), ("a",))
    assert {one.p for one in findings(double, records)} == {2 * single}


def test_comparisons_without_a_claim_have_a_direction():
    records = [answered(name, f"seed-{n}", share) for name, share in (("one", 0.5), ("two", 0.9)) for n in range(2)]
    assert findings(Claim("", "", table_of(), (("one", "two"),), ("a",)), records)[0].verdict == "lower"


@pytest.mark.parametrize("claim", [*CLAIMS, *COMPARISONS], ids=lambda claim: claim.text)
def test_every_claim_is_about_models_and_data_of_its_table(claim):
    assert {name for pair in claim.pairs for name in pair} <= set(claim.table.models)
    assert set(claim.datasets) <= set(claim.table.datasets)
    assert set(claim.at_least) <= {other for _, other in claim.pairs}
    assert findings(claim, [])


def test_costs_are_judged_by_the_ratio_of_the_paper():
    names = ("mtsa", "multihead", "multi_cnn", "hierarchical_cnn")
    seconds = [{"name": name, "epoch_seconds": 1.0, "dev_seconds": 2.0 if name == "mtsa" else 1.0} for name in names]
    memory = [{"name": name, "step_bytes": None if name == "multi_cnn" else 100} for name in names]
    rows = {(row[0], row[1]): row[2:] for row in cost_rows({"passes": seconds, "memory": memory})}
    assert rows["time of an epoch", "MTSA / multi-head"] == ["1.00", "1.01", "similar or lower"]
    assert rows["time of the dev pairs", "MTSA / multi-head"] == ["2.00", "1.07", "higher on this CPU"]
    assert rows["memory of a training step", "MTSA / multi-head"] == ["1.00", "1.20", "similar or lower"]
    assert ("memory of a training step", "MTSA / Multi-CNN") not in rows
    assert list(cost_rows(None)) == []


REST = {"table": "nli", "seed": 0, "time": "", "examples": {}, "dev_curve": [{"score": 0.5}]}


def write_records(folder, records):
    for one in records:
        path = folder / one["dataset"] / one["model"] / f"{one['run']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one))


@pytest.fixture
def nli(tmp_path):
    """Records of MTSA (complete, above), Bi-LSTM (complete, below) and Bi-GRU (two of three runs)."""
    cells = {"mtsa": (0.9, 3), "bilstm": (0.6, 3), "bigru": (0.6, 2)}
    made = [
        answered(name, f"seed-{n}", share, dataset="snli-subset") | REST
        for name, (share, runs) in cells.items()
        for n in range(runs)
    ]
    write_records(tmp_path / "records" / "nli", made)
    return made


def test_pages_and_pictures_are_made_from_the_records(nli, tmp_path):
    out = tmp_path / "docs" / "results.md"
    done = CliRunner().invoke(app, ["results", "--records", str(tmp_path / "records"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    first, page = out.read_text(), (tmp_path / "docs" / "results" / "nli.md").read_text()
    assert re.search(r"\[Table 1\]\(results/nli.md\).*confirmed: Bi-LSTM; incomplete: Bi-GRU; not run yet: Multi-CNN", first)
    assert re.search(r"MTSA > Bi-LSTM .* confirmed", first)
    assert re.search(r"MTSA > Bi-GRU .* incomplete", first)
    assert "more accurate than 1 of 1 baselines" in first
    assert "SNLI subset: Bi-GRU (2 of 3 runs), Multi-CNN" in page
    drawn = drawn_values(tmp_path / "docs" / "images" / "results" / "nli.svg")["SNLI subset: test"]
    for name, complete in (("mtsa", True), ("bilstm", True), ("bigru", False)):
        values = [100 * one["test"]["test"]["accuracy"] for one in nli if one["model"] == name]
        assert f"{np.mean(values):.1f} ({np.std(values, ddof=1):.1f})" in page
        assert drawn[name]["mean"] == pytest.approx(np.mean(values), abs=1e-3)
        assert drawn[name]["interval"][0] < drawn[name]["mean"] < drawn[name]["interval"][1]
        assert drawn[name]["complete"] == complete
    assert "[2 of 3]" in page
    for name in ("classification", "roles", "translation", "pretrained", "fine-tuning", "changes", "speed", "checks"):
        assert "Not run yet" in (tmp_path / "docs" / "results" / f"{name}.md").read_text()


def test_a_picture_without_records_is_deleted(nli, tmp_path):
    images = tmp_path / "docs" / "images" / "results"
    images.mkdir(parents=True)
    (images / "roles.svg").write_text("old")
    results_page.write(tmp_path / "records", tmp_path / "docs" / "results.md")
    assert {path.name for path in images.iterdir()} == {"nli.svg", "claims.svg"}


def test_no_records_at_all(tmp_path):
    with pytest.raises(InputError, match="has no records; make one with"):
        results_page.write(tmp_path, tmp_path / "results.md")


def screening(table, model, score, *, rate=0.002, candidates=(), **encoder):
    """A record of screening on the SNLI subset."""
    made = record(model, "snli-subset", "screen-1-seed-0", 0.0) | {"table": table, "test": {}, "dev_score": score, "steps": 9}
    made["settings"] = {
        "training": {"learning_rate": rate},
        "data": {"train": "x.csv"},
        "encoder": {"name": "mtsa", **encoder},
        **({"candidates": list(candidates)} if candidates else {}),
    }
    return made | {"dev_curve": [{"score": score}]}


def test_a_change_has_the_scores_before_and_after_and_their_difference():
    before, after = screening("repairs", "bilstm", 0.6), screening("repairs", "bilstm-fusion", 0.65)
    header, *rows = changes_page.change_rows(REPAIRS, changes_page.changes(REPAIRS, [before, after]))
    shown = [dict(zip(header, row, strict=True)) for row in rows]
    (row,) = shown
    assert (row["model"], row["best dev score before"], row["difference"]) == ("Bi-LSTM", "60.0", "+5.0")
    assert rows[0][-2] == "65.0"
    (one,) = changes_page.changes(REPAIRS, [after])
    assert (one.before, one.points) == (None, None)
    assert len(changes_page.change_rows(REPAIRS, [one])) == 1
    assert changes_page.single_rows(REPAIRS, [after], [one])[1][-1] == "65.0"


def test_folds_are_compared_each_by_itself():
    scores = {"texts-multihead": (0.6, 0.7), "texts-multihead-0.1": (0.65, 0.6)}
    records = [
        screening("repairs", model, score) | {"dataset": "cr", "run": f"screen-1-fold-0{fold}"}
        for model, both in scores.items()
        for fold, score in enumerate(both, 1)
    ]
    found = {one.title: one.points for one in changes_page.changes(REPAIRS, records)}
    assert found == {"CR, fold-01": pytest.approx(5.0), "CR, fold-02": pytest.approx(-10.0)}


def test_screening_with_the_same_settings_is_the_row_before_a_repair():
    after = screening("repairs", "bilstm-fusion", 0.65, head_dim=7)
    same = screening("nli", "bilstm", 0.6, rate=0.1, candidates=[{"training.learning_rate": 0.002}])
    other = screening("nli", "bilstm", 0.5, candidates=[{"training.learning_rate": 0.1}])
    (found,) = changes_page.changes(REPAIRS, [after], [other, same])
    assert found.before is same
    assert found.points == pytest.approx(5.0)
    (found,) = changes_page.changes(REPAIRS, [after], [other])
    assert found.before is None


def test_models_that_both_tables_screen_have_the_same_encoder():
    for name, other in SCREENED.items():
        assert REPAIRS.models[name].encoder == NLI.models[other].encoder
        assert dict(REPAIRS.models[name].options) == dict(NLI.models[other].options)


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.dev_only], ids=lambda table: table.name)
def test_a_changed_model_runs_where_the_model_before_it_runs(table):
    assert table.before
    for name, base in table.before.items():
        planned = [[bool(table.models[one].planned(dataset)) for dataset in table.datasets.values()] for one in (name, base)]
        assert planned[0] == planned[1]
        assert table.models[name].encoder == table.models[base].encoder
