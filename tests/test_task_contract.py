"""The tasks are separate from the rest of the package, and a task of a user works with every command."""

import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.tasks import registry
from mtsa.training import checkpoints
from tests.sample_data import FILLERS

SOURCE = Path(mtsa.__file__).parent
ROOT = Path(__file__).parent.parent
APART = ("tasks", "experiments", "bench")  # folders that the rules are not for

NAMES = {"classification", "regression", "pair", "similarity", "tagging", "srl", "translation"}
FLAGS = {"paired", "tagged", "roles", "translated", "numeric", "regression"}
CONTRACT = {"mtsa.tasks", *(f"mtsa.tasks.{name}" for name in ("base", "encoded", "inputs", "predictor", "registry"))}


def task_classes():
    """The names of all subclasses of Task, EncodedData and Predictor in mtsa.tasks, and of what they are subclasses of."""
    bases = {}
    for file in sorted((SOURCE / "tasks").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    found = {"Task", "EncodedData", "Predictor"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


CLASSES = task_classes()


def last_name(node):
    """The name of a variable, attribute or called function: `c` of `a.b.c` and of `a.b.c()`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def names_a_task(node):
    """Whether an expression is the name of a task, or a collection with one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(names_a_task, node.elts))
    return isinstance(node, ast.Constant) and node.value in NAMES


def is_task(node):
    """Whether an expression is a task or the name of one, such as `recipe.task`, `task` and `task.name`."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return is_task(node.value) or last_name(node.value) in ("get_task", "kind")
    return last_name(node) == "task"


def violations(tree):
    """(line, what is wrong) for each place that decides something by the task."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_task, sides)) and any(map(names_a_task, sides)):
                yield node.lineno, "compares with the name of a task"
        elif isinstance(node, ast.Match) and is_task(node.subject):
            yield node.lineno, "matches on the task"
        elif isinstance(node, ast.Dict) and sum(names_a_task(key) for key in node.keys if key is not None) > 1:
            yield node.lineno, "has a table by task"
        elif isinstance(node, ast.Attribute) and node.attr in FLAGS:
            yield node.lineno, f"reads .{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            module = f"mtsa.{node.module}" if node.level else node.module  # folders of the package import from beside them
            modules = {module} | ({f"{module}.{one.name}" for one in node.names} if module == "mtsa.tasks" else set())
            yield from ((node.lineno, f"imports {name}") for name in modules if in_tasks(name) and name not in CONTRACT)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, f"imports {one.name}") for one in node.names if in_tasks(one.name))
        elif isinstance(node, ast.Call) and last_name(node) in ("isinstance", "issubclass") and len(node.args) == 2:
            if CLASSES & {last_name(part) for part in ast.walk(node.args[1])}:
                yield node.lineno, "probes the class of a task, a predictor or encoded data"
        elif isinstance(node, ast.Call) and last_name(node) in ("getattr", "hasattr") and node.args and is_asked(node.args[0]):
            yield node.lineno, "probes the attributes of a task or predictor"


def is_asked(node):
    """Whether an expression is a task or a predictor."""
    return last_name(node) in ("task", "predictor", "get_task", "open_predictor")


def in_tasks(module):
    return module == "mtsa.tasks" or (module or "").startswith("mtsa.tasks.")


def test_nothing_outside_the_tasks_depends_on_which_task_it_is():
    found = []
    files = [file for file in sorted(SOURCE.rglob("*.py")) if file.relative_to(SOURCE).parts[0] not in APART]
    assert len(files) > 100
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(ROOT)}:{line}: {what}" for line, what in violations(tree)]
    assert not found, "\n".join(["decide this in the task or the predictor:", *found])


@pytest.mark.parametrize(
    "code",
    [
        'if recipe.task == "srl": pass',
        'if task in ("tagging", "srl"): pass',
        'x = "pair" != self.recipe.task',
        'if get_task(name).name == "srl": pass',
        'match recipe.task:\n    case "srl": pass',
        'x = {"tagging": 1, "srl": 2}[task]',
        "if predictor.paired: pass",
        "x = task.numeric",
        "x = isinstance(found, TextPredictor)",
        "x = isinstance(found, (int, text_data.TextData))",
        "x = issubclass(kind, Predictor)",
        'x = getattr(predictor, "embed", None)',
        'x = hasattr(get_task(name), "corpora")',
        "from mtsa.tasks.text_predictor import TextPredictor",
        "from mtsa.tasks import text",
        "import mtsa.tasks.srl",
    ],
)
def test_such_a_decision_is_found(code):
    assert [line for line, _ in violations(ast.parse(code))] == [1]


@pytest.mark.parametrize(
    "code",
    [
        "get_task(recipe.task).stratified",
        'task: str = "classification"',
        'corpora = {"inputs": "classification", "translation": "translation"}',
        "from mtsa.tasks.registry import get_task",
        "isinstance(model, SentenceModel)",
        'getattr(predictor.model.config, "pretrained", None)',
        'check = value == "pair"',
    ],
)
def test_other_code_is_not_found(code):
    assert not list(violations(ast.parse(code)))


# A task of a user

MODULE = "rating_task"
SIZES = ("encoder.head_dim=8", "vectors.dim=12", "model.hidden=16", "model.dropout=0.0", "training.epochs=15")
QUICK = [part for setting in SIZES for part in ("--set", setting)]
WORDS = {1: "bad", 2: "fair", 3: "good"}


def reviews(path, count, seed=0):
    """A file of reviews, each with one word that tells its stars."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        stars = 1 + number % 3
        words = [rng.choice(FILLERS) for _ in range(rng.randint(3, 8))]
        words.insert(rng.randint(0, len(words)), WORDS[stars])
        lines.append(f"{stars} | {' '.join(words)}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the module and the files; the working directory, and the task is unknown afterwards."""
    folder = tmp_path_factory.mktemp("rating")
    shutil.copy(Path(__file__).parent / "fixtures" / f"{MODULE}.py", folder)
    reviews(folder / "train.txt", 120)
    reviews(folder / "dev.txt", 30, seed=2)
    reviews(folder / "test.txt", 60, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(registry, "_tasks", dict(registry._tasks))
        yield folder
    sys.modules.pop(MODULE, None)


def call(*arguments, code=0, **options):
    done = CliRunner().invoke(app, ["--plugin", MODULE, *map(str, arguments)], **options)
    assert done.exit_code == code, (done.output, done.exception)
    return done


def process(*arguments, module="mtsa"):
    """A command in a process of its own."""
    return [sys.executable, "-m", module, "--plugin", MODULE, *map(str, arguments)]


@pytest.fixture(scope="module")
def trained(place):
    """A finished run, and what its training printed."""
    done = call("train", "--task", "rating", "--train", "train.txt", "--test", "test.txt", "--out", "run", *QUICK)
    return place / "run", done


def test_a_task_of_a_user_trains(trained):
    run, done = trained
    assert "108 train, 12 dev, 60 test; 3 stars" in done.stdout
    assert "test: exact stars" in done.stdout
    assert "12 examples split off from the training data" in done.stderr
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["exact"] > 0.8
    assert "A model for rating" in (run / "README.md").read_text()


def test_a_task_of_a_user_evaluates(trained):
    run, _ = trained
    assert "exact stars" in call("evaluate", run, "--data", "test.txt").stdout
    told = json.loads(call("evaluate", run, "--data", "test.txt", "--json").stdout)
    assert told == {"exact": json.loads((run / "metrics.json").read_text())["test"]["exact"], "count": 60}
    refused = call("evaluate", run, "--data", "test.txt", "--plot", "c.png", code=2)
    assert "--plot does not apply to task rating" in refused.stderr


def test_a_task_of_a_user_predicts_a_text_a_file_and_standard_input(trained, place):
    run, _ = trained
    texts = ["the old good one", "a bad one here", "it is fair now"]
    lines = call("predict", run, texts[0]).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"text": texts[0], "stars": 3}]
    (place / "texts.txt").write_text("\n".join(texts) + "\n")
    wanted = [{"text": text, "stars": stars} for text, stars in zip(texts, (3, 1, 2), strict=True)]
    for done in (call("predict", run, "texts.txt"), call("predict", run, "-", input="\n".join(texts))):
        assert [json.loads(line) for line in done.stdout.splitlines()] == wanted
    assert "3 predictions" in call("predict", run, "texts.txt", "--out", "out.jsonl").stderr
    assert [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()] == wanted
    assert "--pair does not apply" in call("predict", run, "a", "--pair", "b", code=2).stderr


def test_files_of_a_task_of_a_user_are_checked(place):
    assert "120 sentences" in call("data", "check", "train.txt", "--task", "rating").stdout
    (place / "bad.txt").write_text("3 | good\n4 | very good\n")
    assert "bad.txt, line 2: expected the stars" in call("data", "check", "bad.txt", "--task", "rating", code=2).stdout
    refused = call("train", "--task", "rating", "--train", "bad.txt", "--out", "never", *QUICK, code=2)
    assert "bad.txt, line 2: expected the stars" in refused.stderr
    assert not (place / "never").exists()


def test_without_its_plugin_a_task_is_refused_in_one_sentence(trained):
    code = "import sys; sys.argv = ['mtsa', 'predict', 'run', 'a text']; from mtsa.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert 'unknown task "rating"' in done.stderr
    assert "--plugin" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No module named"),
        ("import nothing_of_this_name", "nothing_of_this_name"),
        (
            'from mtsa.tasks.registry import register\n@register\nclass A:\n    name = "srl"\n',
            'task "srl" is already registered',
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_refused_in_one_sentence(place, text, message):
    name = f"broken_{len(message)}"
    if text is not None:
        (place / f"{name}.py").write_text(text)
    done = CliRunner().invoke(app, ["--plugin", name, "encoders"])
    assert done.exit_code == 2, done.exception
    assert f"plugin {name} cannot be imported" in done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_task_of_a_user_resumes_after_a_kill(place):
    """The result is that of a run that was not disturbed."""
    long = (*QUICK, "--set", "training.epochs=40", "--set", "training.eval_steps=20")
    arguments = ("train", "--task", "rating", "--train", "train.txt", "--dev", "dev.txt", *long)
    call(*arguments, "--out", "whole")
    slowly = process(*arguments, "--out", "killed", module="tests.training.slow_training")
    first = subprocess.Popen(slowly, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    end = time.monotonic() + 120
    while first.poll() is None and not checkpoints.list_checkpoints(place / "killed" / "checkpoints"):
        assert time.monotonic() < end
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert not (place / "killed" / "manifest.json").exists(), "the run ended before it was killed"
    done = subprocess.run(process(*arguments, "--out", "killed"), capture_output=True, text=True, check=True, timeout=300)
    assert "resuming from step" in done.stdout
    assert (place / "killed" / "model.safetensors").read_bytes() == (place / "whole" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_task_of_a_user_trains_from_shards(place):
    done = call("data", "shard", "train.txt", "--task", "rating", "--out", "shards", "--megabytes", "0.001")
    assert "all lines are used" in done.stdout
    assert "120 examples" in done.stdout
    assert len(list((place / "shards").glob("shard-*.jsonl"))) > 1
    call("train", "--task", "rating", "--train", "shards", "--dev", "dev.txt", "--out", "sharded", *QUICK)
    assert json.loads(call("evaluate", "sharded", "--data", "test.txt", "--json").stdout)["exact"] > 0.8
    assert "for task rating, not classification" in call("train", "--train", "shards", "--out", "never", code=2).stderr


@pytest.mark.slow
def test_a_task_of_a_user_is_cross_validated(place):
    done = call("train", "--task", "rating", "--train", "train.txt", "--folds", "2", "--out", "folds", *QUICK)
    assert "test exact: " in done.stdout
    summary = json.loads((place / "folds" / "summary.json").read_text())
    assert len(summary["test_exact"]["values"]) == 2


@pytest.mark.slow
def test_a_task_of_a_user_is_explained(trained, place):
    run, _ = trained
    told = json.loads(call("explain", run, "the old good one", "--json").stdout)["sentences"][0]
    assert len(told["words"]) == 4
    assert told["prediction"] == "3 stars"
    assert told["layers"]
    assert "3 stars" in call("explain", run, "the old good one", "--out", "a.svg", "--top", "2").stdout
    assert "2 sentences" in call("explain", run, "--sample", "2", "--data", "test.txt", "--out", "b.html").stdout
    assert "expects single texts" in call("explain", run, "a", "--pair", "b", code=2).stderr


@pytest.mark.slow
def test_a_task_of_a_user_is_exported(trained, place):
    run, _ = trained
    done = call("export", run, "--to", "torch", "--out", "exported")
    assert "written: exported" in done.stdout
    report = json.loads((place / "exported" / "parity.json").read_text())
    assert report["task"] == "rating"
    assert max(row["apart"] for row in report["lengths"]) < 1e-4
    shown = subprocess.run(
        [sys.executable, "exported/run.py", "the old good one"], capture_output=True, text=True, check=True, timeout=120
    )
    assert round(float(shown.stdout)) == 3
    assert (
        "--check does not apply" in call("export", run, "--to", "torch", "--out", "no", "--check", "test.txt", code=2).stderr
    )


@pytest.mark.slow
def test_a_task_of_a_user_is_served(trained):
    run, _ = trained
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(process("serve", run, "--port", "0"), **pipes) as server:
        try:
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline()).group(1)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/models", timeout=30) as response:
                (facts,) = json.load(response)
            assert (facts["name"], facts["task"], facts["labels"]) == ("run", "rating", [])
            body = json.dumps({"inputs": [{"text": "the old good one"}, {"text": "a bad one here"}]}).encode()
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/predict", body, {"content-type": "application/json"}, method="POST"
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                assert json.load(response)["predictions"] == [{"stars": 3}, {"stars": 1}]
            server.send_signal(signal.SIGINT)
            out, told = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0
    assert out.endswith("stopped\n")
    assert "Traceback" not in told
