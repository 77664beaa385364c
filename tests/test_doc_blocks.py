"""The code and the commands of the documents run, each page in a folder of its own with the files that it speaks of."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from mtsa import workbench
from mtsa.cli import app
from mtsa.encoders import registry
from mtsa.tasks import registry as tasks
from mtsa.training import launch
from tests.doc_commands import ELSEWHERE, ROOT, blocks, commands, filled_in, furnish

pytestmark = pytest.mark.slow

PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.name != "results.md"]
COMMANDED = [page for page in PAGES if any(not command.startswith(tuple(ELSEWHERE)) for command in commands(page))]
PROGRAMMED = [page for page in PAGES if any(language == "python" for language, _ in blocks(page))]
MADE = (
    "mtsa train --train reviews.csv --out runs/reviews",
    "mtsa train --task pair --train pairs.csv --text-column premise --pair-column hypothesis --out runs/pairs",
    "mtsa train --task pair --train data/snli_1.0_test.jsonl --format nli --out runs/snli",
    "mtsa train --task srl --train corpus:roles --out runs/roles",
    "mtsa train --train reviews.csv --pretrained bert --out runs/minilm",
)
STEPS = 4  # of a run; the documents' take minutes, and the first steps show as well that a command works


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    """The files, and a run of each kind that pages take for granted."""
    folder = tmp_path_factory.mktemp("documents")
    furnish(folder)
    with short(), contextlib.chdir(folder):
        for command in MADE:
            do(command)
    return folder


@pytest.fixture
def place(furnished, tmp_path, monkeypatch):
    """A copy of them for one page, as the working folder."""
    folder = shutil.copytree(furnished, tmp_path / "page")
    monkeypatch.chdir(folder)
    return folder


@contextlib.contextmanager
def short():
    """Runs of a few steps."""
    with pytest.MonkeyPatch.context() as attributes:
        plan = launch.plan_run

        def shorter(*arguments, settings=None, **named):
            more = [f"training.max_steps={STEPS}", f"training.eval_steps={STEPS}", "training.refit=false"]
            return plan(*arguments, settings=[*(settings or []), *more], **named)

        attributes.setattr(launch, "plan_run", shorter)
        attributes.setattr(workbench, "plan_run", shorter)
        yield


def do(command):
    """Run a command, in this process where it is our own; it must come to a good end."""
    program, *words = shlex.split(command.removeprefix(".venv/bin/"))
    if program == "python":
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]  # reproduce is a folder of the repository
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
        return
    assert program == "mtsa", command
    to = None
    if ">" in words:
        words, to = words[: words.index(">")], words[-1]
    done = CliRunner().invoke(app, words, input="A line .\n")
    assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception!r}"
    if to is not None:
        with open(to, "w") as file:
            file.write(done.stdout)


@pytest.mark.parametrize("page", COMMANDED, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page, place):
    with short():
        for command in commands(page):
            if command.startswith(tuple(ELSEWHERE)) and "--show" not in command:
                continue
            if "mtsa train" in command:
                shutil.rmtree(shlex.split(command)[shlex.split(command).index("--out") + 1], ignore_errors=True)
            do(command)


@pytest.mark.parametrize("page", PROGRAMMED, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, place):
    code = "\n".join(block for language, block in blocks(page) if language == "python")
    if "mtsa.train(" in code:
        shutil.rmtree("runs")
    names = {}
    with short(), patch.dict(registry._ENCODERS), patch.dict(tasks._tasks):
        exec(compile(code, page.name, "exec", dont_inherit=True), names)
        CHECKS[page.name](names)


def check_readme(names):
    assert names["y"].shape == (4, 50, 600)


def check_quickstart(names):
    assert names["model"].labels == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]


def check_layer(names):
    assert names["y"].shape == (2, 9, 64)
    assert names["pooled"].shape == (3, 64)
    assert names["cache"].lengths == [8, 5]
    assert names["explanation"].source2token.shape == (2, 4, 9, 16)
    assert names["block"](names["x"]).shape == (2, 9, 64)
    assert type(names["model"]).__name__ == "MtsaBertModel"
    assert names["before"].shape == (1, 4, 32)


def check_pairs(names):
    assert len(names["vectors"]) == 2


def check_multilabel(names):
    assert names["model"].labels == ["delivery", "food", "place", "price", "service"]
    assert set(names["prediction"].labels) <= set(names["model"].labels)


def check_extending(names):
    assert names["y"].shape == (2, 9, 64)
    assert names["prediction"].label in names["model"].labels
    metrics = names["rater"].evaluate("ratings.csv").metrics
    assert isinstance(metrics, names["StarError"])
    assert metrics.count == 60
    assert "error" in json.loads(Path("runs/ratings/metrics.json").read_text())["dev"]


def check_compare(names):
    assert {one.name for one in names["comparison"].standings} == {"tfidf", "mtsa"}
    assert Path("runs/two-compared/record.json").exists()


def check_documents(names):
    assert names["model"].labels
    assert len(names["model"].model.encoder.levels) == 2


def check_explain(names):
    heads, words, others = names["weights"].shape
    assert words == others == len(names["explanation"].words) == 3
    assert heads > 0


def check_translation(names):
    assert isinstance(names["translations"][0], str)
    assert 0 <= names["bleu"].as_json()["bleu"] <= 100


CHECKS = {
    "README.md": check_readme,
    "compare.md": check_compare,
    "documents.md": check_documents,
    "explain.md": check_explain,
    "extending.md": check_extending,
    "layer.md": check_layer,
    "multilabel.md": check_multilabel,
    "pairs.md": check_pairs,
    "quickstart.md": check_quickstart,
    "translation.md": check_translation,
}


def test_every_command_that_is_left_out_is_there():
    everything = [command for page in PAGES for command in commands(page)]
    for beginning in ELSEWHERE:
        assert any(command.startswith(beginning) for command in everything), beginning


def test_no_block_without_a_language_is_code():
    for page in PAGES:
        for language, block in blocks(page):
            assert language in ("", "python", "console") or language.startswith("{"), page
            if not language:
                assert not any(word in block for word in ("import ", "mtsa.load(", "def ")), f"{page.name}: {block}"


def test_no_command_of_a_page_falls_through():
    """Every line that begins with our command is one of those that are run, or a description of options."""
    for page in PAGES:
        found = commands(page)
        for line in page.read_text().splitlines():
            plain = line.split("#")[0].strip()
            table = plain.startswith("mtsa  ")  # a row of `mtsa compare`
            typed = plain.startswith(("mtsa ", ".venv/bin/mtsa ", "torchrun ")) and not table
            if typed and "`" not in plain and "[--" not in plain:
                first = filled_in(plain.split(";")[0].split("\\")[0].strip())
                assert any(command.startswith(first) for command in found), f"{page.name}: {line}"


def test_what_is_made_can_be_made():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = [command.split()[1] for page in PAGES for command in commands(page) if command.startswith("make ")]
    assert asked
    assert set(asked) <= targets
