"""What the documents show is what the package does."""

import re
from pathlib import Path

import pytest

import mtsa
from mtsa import masks

ROOT = Path(__file__).parent.parent
DRAWN = re.findall(r"<!-- drawn: (.+?) -->\n```\n(.+?)\n```", (ROOT / "docs" / "masks.md").read_text(), re.S)


@pytest.mark.parametrize(("rule", "picture"), DRAWN, ids=[rule for rule, _ in DRAWN])
def test_the_masks_are_drawn_as_they_are(rule, picture):
    assert eval(rule, vars(masks)).draw(5) == picture


def test_all_masks_of_the_page_were_found():
    assert len(DRAWN) == 6


def test_the_code_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.+?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["y"].shape == (4, 50, 600)
    assert names["seen"].source2token.shape == (1, 4, 9, 16)


def test_the_readme_opens_with_the_two_commands():
    top = (ROOT / "README.md").read_text().splitlines()[:20]
    assert any(line.startswith("make demo") for line in top)
    assert any(line.startswith("make test") for line in top)


def test_the_version_is_said_once():
    assert f'version = "{mtsa.__version__}"' in (ROOT / "pyproject.toml").read_text()
