"""What the documents show is what the package does."""

import importlib
import importlib.util
import json
import re
from pathlib import Path

import pytest
from reproduce.plots import drawn_values

import mtsa
from mtsa import masks
from reproduce import results_page as results

ROOT = Path(__file__).parent.parent
MASKS = (ROOT / "docs" / "masks.md").read_text()
DRAWN = re.findall(r"<!-- drawn: (.+?) -->\n```\n(.+?)\n```", MASKS, re.S)


@pytest.mark.parametrize(("rule", "picture"), DRAWN, ids=[rule for rule, _ in DRAWN])
def test_the_masks_are_drawn_as_they_are(rule, picture):
    assert eval(rule, vars(masks)).draw(5) == picture


def test_every_drawing_of_a_mask_is_compared():
    assert len(DRAWN) == MASKS.count("<!-- drawn:") > 0


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_tables_and_outputs_come_from_the_records(name):
    readme = module(ROOT / "docs" / "readme.py")
    text = (ROOT / name).read_text()
    assert readme.fill_in(text) == text, "run: python docs/readme.py"
    assert text.count("<!-- output") == text.count("```console") == 1
    assert text.count("<!-- table: ") == (len(readme._TABLES) if name == "README.md" else 0)


def test_a_changed_number_in_a_table_or_an_output_is_restored():
    readme = module(ROOT / "docs" / "readme.py")
    text = (ROOT / "README.md").read_text()
    parts = re.findall(r"<!-- table: .*?<!-- end -->|<!-- output.*?\n```\n", text, re.S)
    assert len(parts) == 4
    for part in parts:
        damaged = re.sub(r"\d\.\d", "7.7", part)
        assert damaged != part
        assert readme.fill_in(text.replace(part, damaged)) == text


def test_the_comparison_of_the_docs_is_that_of_the_record():
    from mtsa.model_selection.comparison_report import Comparison

    text = (ROOT / "docs" / "compare.md").read_text()
    path = ROOT / re.search(r"<!-- record: (.+?) -->", text)[1]
    assert f"```\n{Comparison(path.parent, json.loads(path.read_text()))}\n```" in text


def test_the_version_is_said_once():
    assert f'version = "{mtsa.__version__}"' in (ROOT / "pyproject.toml").read_text()


def module(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def lock():
    return module(ROOT / "tools" / "lock.py")


def test_the_table_of_versions_is_that_of_the_lock():
    assert lock().table() in (ROOT / "docs" / "versions.md").read_text()


def test_an_environment_that_differs_from_the_lock_is_reported(monkeypatch, capsys):
    tool, pins = lock(), lock().locked()
    monkeypatch.setattr("sys.argv", ["lock.py", "check"])
    for found, words in (
        ({**pins, "numpy": "1.0"}, "numpy 1.0 (locked: "),
        ({**pins, "six": "1.0"}, "six 1.0 (not in the lock)"),
    ):
        monkeypatch.setattr(tool, "installed", lambda found=found: found)
        monkeypatch.setattr(tool, "locked", lambda: {name: version for name, version in pins.items() if name != "six"})
        for continuous, code in (("", 0), ("true", 1)):
            monkeypatch.setenv("CI", continuous)
            assert tool.main() == code
            assert words in capsys.readouterr().out
    monkeypatch.setattr(tool, "installed", lambda: {name: version for name, version in pins.items() if name != "six"})
    assert tool.main() == 0
    assert capsys.readouterr().out == ""


def test_every_key_of_a_recipe_is_explained_with_its_default():
    import dataclasses

    from mtsa.training.recipe import Recipe
    from mtsa.training.recipe_files import toml_value

    page = (ROOT / "docs" / "training.md").read_text()
    for section in dataclasses.fields(Recipe)[1:]:
        value = section.default_factory()
        if dataclasses.is_dataclass(value):
            for key in dataclasses.fields(value):
                line = next((line for line in page.splitlines() if f"`{section.name}.{key.name}`" in line), None)
                assert line is not None, f"{section.name}.{key.name}"
                quoted = re.findall(r"`([^`]*)`", line)
                if isinstance(key.default, float):
                    numbers = [float(text) for text in quoted if re.fullmatch(r"[\d.]+(e-?\d+)?", text)]
                    assert key.default in numbers, line
                else:
                    assert toml_value(key.default) in quoted, line


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_in_the_documents_exists(page):
    import typer

    from mtsa.cli import app

    root = typer.main.get_command(app)
    found = re.findall(r"(?:^|^\$ |`|-m )mtsa ([a-z]+[^`\n#]*)", page.read_text(), re.M)
    assert found or page.name not in ("README.md", "training.md")  # pages that must have some
    for text in found:
        words = text.replace("[", " ").replace("]", " ").split()
        command = root
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"mtsa {text}"
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            assert not word.startswith("--") or word in known, f"mtsa {text}: {word}"


def test_links_between_the_documents_hold():
    checked = 0
    for page in (*PAGES, *sorted((ROOT / "docs" / "results").glob("*.md"))):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            target = link.split("#")[0]
            if "://" in link or link.startswith("mailto:") or not target:
                continue
            assert (page.parent / target).exists(), f"{page.name}: {link}"
            checked += 1
    assert checked


def test_files_named_in_the_documents_exist():
    """Paths such as `nn/masks.py` or `tests/oracle.py`, from the root or inside the package."""
    checked = 0
    for page in PAGES:
        if page.name in ("CHANGELOG.md", "results.md", "results-0.2.md"):
            continue
        for name in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)+\.(?:py|toml|md|cpp|inl))`", page.read_text()):
            assert (ROOT / name).exists() or (ROOT / "src" / "mtsa" / name).exists(), f"{page.name}: {name}"
            checked += 1
    assert checked > 10


def test_the_results_pages_are_what_the_records_make(tmp_path):
    results.write(ROOT / "results", tmp_path / "results.md")
    for folder, ending in (("results", "md"), ("images/results", "svg")):
        made, there = ({path.name for path in (root / folder).glob("*")} for root in (tmp_path, ROOT / "docs"))
        assert made == there, "run: python -m reproduce results"
        assert {name.split(".")[-1] for name in made} == {ending}
    for page in [tmp_path / "results.md", *sorted((tmp_path / "results").glob("*.md"))]:
        name = page.relative_to(tmp_path)
        assert page.read_text() == (ROOT / "docs" / name).read_text(), f"{name}; run: python -m reproduce results"
    for image in sorted((tmp_path / "images" / "results").glob("*.svg")):
        assert drawn_values(image) == drawn_values(ROOT / "docs" / "images" / "results" / image.name), image.name


@pytest.mark.parametrize("package", ["mtsa", "mtsa.interop", "mtsa.masks"])
def test_every_public_name_is_in_the_api_reference(package):
    page = (ROOT / "docs" / "api.md").read_text()
    documented = set(re.findall(r"\.\. auto(?:class|function|module|exception):: (\S+)", page))
    for name in importlib.import_module(package).__all__:
        assert f"{package}.{name}" in documented or f"`{package}.{name}`" in page, name


def test_every_renamed_key_is_in_the_migration_page():
    from mtsa.training.recipe_files import RENAMED

    page = (ROOT / "docs" / "migration.md").read_text()
    for section, keys in RENAMED.items():
        for old, new in keys.items():
            assert f"| `{section}.{old}` | `{section}.{new}` |" in page


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^([\w./-]+)$", (ROOT / "docs" / "index.md").read_text(), re.M)
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem in listed or page.stem == "index", page.name


@pytest.mark.slow
def test_the_pages_build_without_a_warning(tmp_path):
    import subprocess
    import sys

    pytest.importorskip("sphinx", reason="sphinx is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "architecture.html").exists()
    assert (tmp_path / "_images" / "explorer.png").exists()
