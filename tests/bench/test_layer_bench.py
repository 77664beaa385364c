"""The benchmark measures what it says, stops where it says, and its record makes the page."""

import dataclasses
import json

import pytest
import torch
from reproduce.benchmarks import report as results

from mtsa.bench import layer, memory
from mtsa.bench.contenders import BASELINE, CONTENDERS, contender
from mtsa.files import write_json

SMALL = layer.Setting(lengths=(5, 11), width=24, heads=4, batch=3, repeats=1, names=("paper", "released"), memory=False)


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_keeps_length_and_width_and_trains(name):
    module = CONTENDERS[name].build(24, 4)
    x = torch.randn(2, 7, 24, requires_grad=True)
    out = module(x)
    out.sum().backward()
    assert out.shape == x.shape
    assert all(parameter.grad is not None for parameter in module.parameters() if parameter.requires_grad)


def test_the_record_holds_a_row_for_each_length_and_layer_with_ratios_to_the_baseline():
    record = layer.run(SMALL)
    rows = {(row["name"], row["length"]): row for row in record["rows"]}
    assert set(rows) == {(name, length) for name in (BASELINE, "paper", "released") for length in (5, 11)}
    for (name, length), row in rows.items():
        assert row["step_ratio"] == pytest.approx(row["step_seconds"] / rows[BASELINE, length]["step_seconds"]), name
    assert {"versions", "machine", "time", "setting"} <= set(record)


def test_counted_operations_of_the_guide():
    """Per token, forward, 600 wide, 8 heads: the layers' projections and pairs counted by hand."""
    multihead = CONTENDERS["multihead"].operations(1024, 600, 8)
    assert multihead == 4 * 600**2 + 1024 * (75 + 75) * 8
    paper = CONTENDERS["paper"].operations(1024, 600, 8)
    assert paper == 4 * 600**2 + 2 * 8 * 75**2 + 1024 * (75 + 2 * 75) * 8 / 2
    assert round(paper / multihead, 2) == 0.92
    assert round(CONTENDERS["paper"].operations(4096, 600, 8) / CONTENDERS["multihead"].operations(4096, 600, 8), 2) == 0.82


def test_a_form_above_the_memory_budget_is_stopped_and_said():
    setting = layer.Setting(
        lengths=(8, 64),
        width=24,
        heads=4,
        batch=4,
        repeats=1,
        names=("paper/reference",),
        memory=False,
        memory_budget_gib=1e-3,
    )
    record = layer.run(setting)
    (stop,) = layer.stops(record)
    assert stop.startswith("paper/reference: needs about")
    assert "length 64" in stop
    header, rows = layer.table(record, "step")
    assert header == ["layer", "8 x 4", "64 x 4"]
    assert next(row for row in rows if row[0] == "paper/reference")[2] == "stopped"


def test_an_unknown_layer_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match='did you mean "released"'):
        contender("relesed")


def test_memory_is_measured_in_a_process_of_its_own():
    small = memory.peak_extra("multihead", (1, 64, 64), 4, timeout=120)
    large = memory.peak_extra("multihead", (8, 1024, 64), 4, timeout=120)
    assert large["step_bytes"] > small["step_bytes"] + 8 * 1024 * 64 * 4  # at least one more tensor of the input's size
    assert large["step_bytes"] > large["inference_bytes"] > 0


def test_a_measurement_stopped_early_goes_on_where_it_was():
    states = []
    whole = layer.run(SMALL, keep=lambda record: states.append(json.loads(json.dumps(record))))
    assert [len({row["length"] for row in state["rows"]}) for state in states] == [1, 2]
    assert layer.same(states[0], SMALL)
    assert not layer.same(states[0], dataclasses.replace(SMALL, repeats=2))
    first = states[0]["rows"].copy()
    resumed = layer.run(SMALL, begun=states[0])
    assert resumed["rows"][: len(first)] == first
    assert [(row["name"], row["length"]) for row in resumed["rows"]] == [(r["name"], r["length"]) for r in whole["rows"]]


def test_the_results_page_is_made_from_records_alone(tmp_path):
    record = layer.run(SMALL)
    write_json(tmp_path / "some" / "bench-layer.json", record)
    assert json.loads((tmp_path / "some" / "bench-layer.json").read_text())["rows"]
    (page,) = results.sections(tmp_path)
    assert f"{record['rows'][0]['step_seconds'] * 1e3:.0f} ms" in page
    assert record["time"][:10] in page
