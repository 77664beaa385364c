"""The benchmark of a translator's encoder: the models are those of the table, and padding reaches them."""

import json

import pytest
import torch
from typer.testing import CliRunner

from mtsa.bench import translation
from mtsa.bench.results import sections
from mtsa.cli.app import app
from mtsa.models.swapped_attention import SwappedAttention
from mtsa.training.recipe_files import load_recipe


def test_the_encoders_are_those_of_the_table():
    recipe, setting = load_recipe("multi30k.cpu"), translation.Setting()
    swapped = {}
    for row in translation.ROWS:
        encoder = translation._encoder(recipe, row, setting)
        swapped[row] = sum(isinstance(module, SwappedAttention) for module in encoder.modules())
    assert swapped == {"multihead": 0, "mtsa": 2, "mtsa-halves": 2}


def test_padding_is_not_looked_at():
    encoder = translation._encoder(load_recipe("multi30k.cpu"), "mtsa", translation.Setting()).eval()
    x = torch.randn(2, 20, 256)
    other = x.clone()
    other[1, 16:] = torch.randn(4, 256)  # two tenths of every other row
    with torch.no_grad():
        one, changed = encoder(x), encoder(other)
    assert torch.allclose(one[0], changed[0])
    assert torch.allclose(one[1, :16], changed[1, :16], atol=1e-6)
    other[1, 15] = torch.randn(256)
    with torch.no_grad():
        assert not torch.allclose(one[1, :15], encoder(other)[1, :15], atol=1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--lengths", "abc"], "abc"), (["--recipes", "trec.cpu"], "name one of translation"), (["--recipes", "x"], "x")],
)
def test_mistakes(tmp_path, words, told):
    done = CliRunner().invoke(app, ["bench", "translation", "--out", str(tmp_path), *words])
    assert done.exit_code == 2, done.output
    assert told in done.output


def test_the_command_and_its_section(tmp_path):
    words = ["bench", "translation", "--out", str(tmp_path), "--lengths", "8", "--recipes", "multi30k.cpu", "--repeats", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "bench-translation.json").read_text())
    assert [row["name"] for row in record["rows"]] == list(translation.ROWS)
    assert all(row["step_ratio"] > 0 for row in record["rows"])
    (page,) = sections(tmp_path)
    assert "length 8" in page
    assert page.count("1.00x") == 1
