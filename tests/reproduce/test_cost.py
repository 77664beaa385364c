"""The cost model: the fit finds what the figures were made from, and the counts are those of the table."""

import json

import pytest
import torch
from reproduce.__main__ import app
from reproduce.benchmarks import cost
from reproduce.benchmarks.report import sections
from typer.testing import CliRunner


def test_the_fit_finds_the_coefficients():
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(40, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 1e6, 1e9])
    true = [2e-3, 5e-8, 1e-11]
    values = [cost.predicted(true, row) for row in rows.tolist()]
    assert cost.fit(rows.tolist(), values) == pytest.approx(true, rel=1e-6)


def test_no_coefficient_is_negative():
    """The best plain fit of these would fall with the second feature."""
    rows = [[1.0, number] for number in range(1, 9)]
    values = [9.0 - number for number in range(1, 9)]
    found = cost.fit(rows, values)
    assert found[1] == 0.0
    assert found[0] > 0


def test_relative_errors_count():
    """A small value weighs as much as a large one."""
    found = cost.fit([[1.0], [1.0]], [1.0, 3.0])
    assert found[0] == pytest.approx((1 + 1 / 3) / (1 + 1 / 9))


@pytest.mark.parametrize(
    ("name", "dense", "pair"),
    [("multihead", 4 * 64**2, 2 * 10 * 64), ("paper", 4.25 * 64**2, 1.5 * 10 * 64), ("released", 1.75 * 64**2, 1.5 * 10 * 64)],
)
def test_what_is_counted(name, dense, pair):
    assert cost.features(name, 3, 10, 64, 8) == pytest.approx([1.0, 30 * 64, 3 * 30 * dense, 3 * 30 * pair])


def test_estimates_for_gpus():
    rows = {(row["training"], row["gpu"]): row for row in cost.estimates()}
    snli = rows["SNLI, one epoch", "GTX 1080 Ti"]
    busy, busier = snli["hours"]
    assert snli["hours"][busy] == pytest.approx(180 / 3600)  # the paper's own epoch, by which it is set
    assert 0.01 < busy < busier == 0.4
    assert rows["SNLI, one epoch", "A100"]["hours"][busy] == pytest.approx(180 / 3600 * 11.3 / 19.5)
    wmt = rows["WMT14, setup1", "V100"]
    each = 6 * (12 * 512**2 + 512**2 / 8 + 4 * 512 * 2048) + 512 * 33_708
    assert wmt["operations"] == pytest.approx(6 * 250_000 * 2048 * each)
    four = rows["WMT14, setup2", "V100"]
    assert four["hours"][0.4] == pytest.approx(four["operations"] / (0.4 * 15.7e12 * 4) / 3600)


@pytest.mark.slow
def test_the_command_measures_and_the_page_tells(tmp_path):
    done = CliRunner().invoke(app, ["bench", "cost", "--quick", "--out", str(tmp_path / "cost")])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "cost" / "bench-cost.json").read_text())
    assert len(record["rows"]) == 16
    assert all(row["step_seconds"] > 0 for row in record["rows"])
    (found,) = record["fits"]
    assert all(value >= 0 for value in (*found["time"].values(), *found["memory"].values()))
    first = record["rows"][0]
    features = cost.features("released", first["batch"], first["length"], first["width"], 8)
    told = cost.predicted(list(found["time"].values()), features) / first["step_seconds"] - 1
    assert found["time_errors"][0] == pytest.approx(told)
    assert [row["weights"] for row in record["processes"]] == [1000, 100_000]
    (section,) = sections(tmp_path)
    assert section.startswith("## Cost model")
    assert "| released" in section
    assert "All-reduce of gradients" in section
    assert "not measured" in section
