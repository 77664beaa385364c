"""The benchmark of whole encoders: the models are those of the tables, and padding reaches them."""

import json

import pytest
import torch
from reproduce.__main__ import app
from reproduce.benchmarks import stacks
from reproduce.benchmarks.report import sections
from reproduce.tables import SRL, TRANSLATION
from torch import nn
from typer.testing import CliRunner

from mtsa.models.patched_attention import PatchedAttention
from mtsa.nn.attention import MultiMaskAttention
from mtsa.training.launch import build_recipe

SETTING = stacks.PRESETS["translation"]
SRL_ROWS = [name for name, model in SRL.models.items() if not model.recipe]  # the others have a recipe of their own


def test_the_encoders_are_those_of_the_tables():
    swapped = {
        row: sum(
            isinstance(module, PatchedAttention)
            for module in stacks.encoder("translation", "multi30k.cpu", row, SETTING).modules()
        )
        for row in TRANSLATION.models
    }
    assert swapped == {"multihead": 0, "mtsa": 2, "mtsa-halves": 2}
    counted = {
        row: [
            sum(isinstance(module, kind) for module in stacks.encoder("srl", "srl.cpu", row, SETTING).modules())
            for kind in (MultiMaskAttention, nn.LSTM)
        ]
        for row in SRL_ROWS
    }
    assert counted == {
        "bilstm": [0, 4], "multi_cnn": [0, 0], "multihead": [0, 0], "multihead-masks": [0, 0], "mtsa": [4, 0],
        "mtsa-long": [4, 0], "multihead-masks-long": [0, 0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("task", "recipe", "row"),
    [("translation", "multi30k.cpu", "mtsa"), ("srl", "srl.cpu", "mtsa"), ("srl", "srl.cpu", "multihead")],
)
def test_padding_is_not_looked_at(task, recipe, row):
    encoder = stacks.encoder(task, recipe, row, SETTING).eval()
    width = encoder.encoder.width
    x = torch.randn(2, 20, width)
    other = x.clone()
    other[1, 16:] = torch.randn(4, width)  # two tenths of every other row
    with torch.no_grad():
        one, changed = encoder(x), encoder(other)
    assert torch.allclose(one[0], changed[0], atol=1e-5)
    assert torch.allclose(one[1, :16], changed[1, :16], atol=1e-5)
    other[1, 15] = torch.randn(width)
    with torch.no_grad():
        assert not torch.allclose(one[1, :15], encoder(other)[1, :15], atol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_dropout_is_that_of_the_recipe(dropout):
    made = build_recipe("srl.cpu", settings=[f"model.dropout={dropout}", "encoder.attention_dropout=0.0"])
    encoder = stacks.Tagging(made).train()
    x, keep = torch.randn(2, 8, encoder.width), torch.ones(2, 8, dtype=torch.bool)
    assert torch.allclose(encoder(x, keep), encoder(x, keep)) is (dropout == 0)


@pytest.mark.parametrize(
    ("task", "words", "told"),
    [
        ("translation", ["--lengths", "abc"], "abc"),
        ("translation", ["--recipes", "trec.cpu"], "choose a translation recipe"),
        ("srl", ["--recipes", "multi30k.cpu"], "choose a srl recipe"),
        ("srl", ["--recipes", "x"], "x"),
    ],
)
def test_mistakes(tmp_path, task, words, told):
    done = CliRunner().invoke(app, ["bench", task, "--out", str(tmp_path), *words])
    assert done.exit_code == 2, done.output
    assert told in done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "recipe", "rows", "title"),
    [
        ("translation", "multi30k.cpu", TRANSLATION.models, "Encoder of the translation model"),
        ("srl", "srl.cpu", SRL_ROWS, "Encoder of the SRL model"),
    ],
)
def test_the_command_and_its_section(tmp_path, task, recipe, rows, title):
    words = ["bench", task, "--out", str(tmp_path / task), "--lengths", "8", "--recipes", recipe, "--repeats", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / task / f"bench-{task}.json").read_text())
    assert [row["name"] for row in record["rows"]] == list(rows)
    assert all(row["step_ratio"] > 0 for row in record["rows"])
    (page,) = sections(tmp_path)
    assert title in page
    assert "length 8" in page
    assert page.count("1.00x") >= 1
