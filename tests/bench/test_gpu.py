"""`mtsa bench gpu`: without a GPU one sentence; its report, made with the interpreter; the record of compiled kernels."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mtsa.bench import gpu, gpu_resources
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.nn.kernels import triton as kernels

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "results" / "gpu" / "gpu-resources.json"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "requires a CUDA device"),
        (["--resources"], "unset TRITON_INTERPRET"),
        (["--resources", "--devices", "sm_80,foo"], '"foo" is unknown; it must be one of sm_80'),
        (["--resources", "--repeats", "3"], "--repeats does not apply to --resources"),
        (["--devices", "sm_80"], "--devices applies to --resources only"),
        (["--widths", "x"], '"x" is not a length'),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = CliRunner().invoke(app, ["bench", "gpu", *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_resources_without_triton_are_one_sentence(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(kernels, "_installed", False)
    with pytest.raises(Exception, match=r"pip install 'mtsa\[gpu\]'"):
        gpu_resources.check_setting(gpu_resources.Setting())


def test_a_missing_tool_of_triton_is_one_sentence():
    pytest.importorskip("triton")
    with pytest.raises(InputError, match="nvdisasn: No such file"):
        gpu_resources._tool("nvdisasn")


def test_the_report_has_checks_and_times(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr("mtsa.nn.kernels.triton_check._LENGTH", 3)
    setting = gpu.Setting(widths=(16,), arithmetic=("ieee",), shapes=((1, 2, 5, 8),), timed=("ieee",), repeats=1, device="cpu")
    ticks = []
    record = gpu.run(setting, ticks.append)
    assert len(ticks) == gpu.ticks(setting)
    assert [row["passed"] for row in record["checks"]] == [True] * 4
    report = gpu.report(record)
    assert "checks: 4 of 4 passed" in report
    assert "| 1, 2, 5, 8 | ieee | nn.MultiheadAttention |" in report
    timed = [row for row in record["functions"] + record["layers"] if row["step"] is not None]
    assert {row["name"] for row in timed} >= {"tensorized_attention, triton", "MultiMaskAttention, paper"}
    assert "layers with native: " in report or "layers with factored: " in report
    monkeypatch.setattr("mtsa.nn.kernels.triton_check.worst_error", lambda *a, **k: (0.5, 1e-4))
    failing = gpu.run(replace(setting, shapes=()))
    assert "checks: 0 of 4 passed" in gpu.report(failing)


def test_the_report_contains_what_triton_raised(monkeypatch):
    errors = pytest.importorskip("triton.runtime.errors")

    def raises(*arguments, **options):
        raise errors.OutOfResources(200_000, 101_376, "shared memory")

    monkeypatch.setattr(gpu, "tensorized_attention", raises)
    monkeypatch.setattr("mtsa.nn.kernels.triton_check.worst_error", raises)
    setting = gpu.Setting(widths=(16,), arithmetic=("ieee",), shapes=((1, 2, 5, 8),), timed=("ieee",), repeats=1, device="cpu")
    report = gpu.report(gpu.run(setting))
    assert "checks: 0 of 4 passed" in report
    assert "| 1, 2, 5, 8 | ieee | tensorized_attention, triton | - | - |" in report
    assert report.count("OutOfResources: out of resource: shared memory") >= 6


def test_every_recorded_kernel_fits_into_the_shared_memory_of_its_device():
    record = json.loads(RECORD.read_text())
    assert gpu_resources.over_limit(record) == []
    assert record["limits"] == {f"sm_{device}": limit for device, limit in gpu_resources.LIMITS.items()}
    assert {row["width"] for row in record["rows"]} == set(gpu_resources.WIDTHS)
    for row in record["rows"]:
        products = row["kernel"] in ("forward", "backward q", "backward k", "backward v, s", "backward k, v, s")
        assert (row["tensor_core"] > 0) == (products and row["arithmetic"] != "ieee"), row
        if row["device"] in ("sm_80", "sm_86") and 64 <= row["width"] <= 128:
            assert row["spill_stores"] == row["spill_loads"] == 0, row


def test_the_record_has_the_tiles_that_are_used(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(gpu_resources.kernels, "interpreting", lambda: False)  # which computes bfloat16 in float32
    rows = json.loads(RECORD.read_text())["rows"]
    names = ("kernel", "arithmetic", "width", "variant")
    choices = ("tile", "warps", "stages", "register_limit")
    recorded = {tuple(row[name] for name in names): tuple(row[name] for name in choices) for row in rows}
    found = {}
    for columns, launch in gpu_resources.launches(gpu_resources.Setting()):
        shape = [launch.arguments.get(name, 0) for name in ("BM", "BN", "BI", "BD")]
        found[tuple(columns.values())] = (shape, launch.tiles.warps, launch.tiles.stages, launch.tiles.registers)
    assert found == recorded, "run: mtsa bench gpu --resources --out results/gpu"


def test_the_table_of_the_documentation_is_that_of_the_record():
    header, rows = gpu_resources.summary(json.loads(RECORD.read_text()))
    page = (ROOT / "docs" / "gpu.md").read_text()
    for row in (header, *rows):
        assert f"| {' | '.join(row)} |" in page, "run: python docs/readme.py"


@pytest.mark.slow
def test_a_kernel_is_compiled_for_a_device():
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    code = (
        "from mtsa.bench import gpu_resources as g;"
        "s = g.Setting(devices=(86,), arithmetic=('bf16',), widths=(64,), variants=('logsigmoid',));"
        "found = {c['kernel']: l for c, l in g.launches(s)};"
        "row = g._compiled(found['forward'], 86);"
        "assert row['shared'] <= g.LIMITS[86] and row['tensor_core'] > 0 and row['registers'] > 0, row"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
