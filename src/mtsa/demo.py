"""`make demo`: train a model on the embedded questions, compare it, use it, look inside. About three minutes on two cores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from mtsa.errors import InputError
from mtsa.files import write_text
from mtsa.inference.auto import open_predictor
from mtsa.inference.heat_maps import draw_heat_maps
from mtsa.tasks.predictor import Question
from mtsa.training.launch import build_recipe
from mtsa.training.run import Outcome, run_recipe

_MARK = "demo.txt"
COMPARED = ("mtsa", "bilstm", "embedding")
NEW = (
    "Who painted the ceiling of the chapel?",
    "How many bones does a shark have?",
    "Why do leaves change colour in autumn?",
    "Where was the first coffee house opened?",
    "What does FAQ stand for?",
    "Which spice makes curry yellow?",
)


def run_demo(out: Path, say: Callable[[str], None]) -> None:
    """Run the demonstration into a folder of its own, which is made anew."""
    _make_room(out)
    say("1. Train: questions into six classes by the kind of answer asked for (833 to train on, no word vectors)\n")
    outcomes = {}
    for name in COMPARED:
        recipe = build_recipe("questions.cpu", encoder=name)
        outcomes[name] = run_recipe(recipe, out / name)
        say("")
    say("2. Compare on the 238 test questions\n")
    for line in _comparison(outcomes):
        say(line)
    ours = outcomes["mtsa"]
    assert ours.test is not None
    say(f"\n{ours.test.metrics.table()}\n\n3. Use: questions nobody wrote down before\n")
    predictor = open_predictor(ours.folder)
    for text, answer in zip(NEW, predictor.predict(NEW), strict=True):
        assert answer.label is not None
        say(f"  {answer.label:5} {answer.probabilities[answer.label]:.2f}  {text}")
    say("\n4. Look inside: what each head and the pooling looked at\n")
    for number, text in enumerate(NEW[:3], start=1):
        picture = out / f"attention-{number}.png"
        draw_heat_maps(predictor.explain(Question(text)), picture)
        say(f"  {picture}")
    say(
        f'\nNext (after `. .venv/bin/activate`): mtsa predict {ours.folder} "your own question?"\n'
        f"      mtsa serve {ours.folder}   (a page to ask it, and to see where each word looks)\n"
        "      mtsa train --train FILE.csv --text-column text --label-column label --out runs/mine\n"
        "      mtsa recipes, mtsa encoders, mtsa layer; README.md says more"
    )


def _make_room(out: Path) -> None:
    """Remove what an earlier demonstration left, and nothing else."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / _MARK).exists():
        raise InputError(f"{out} is not empty and holds no earlier demonstration; name another folder with --out")
    for entry in [*out.glob("*/manifest.json"), *out.glob("*/recipe.toml")]:
        shutil.rmtree(entry.parent, ignore_errors=True)
    write_text(out / _MARK, "made by mtsa demo, which makes this folder anew each time\n")


def _comparison(outcomes: dict[str, Outcome]) -> list[str]:
    lines = ["encoder      test accuracy  macro-F1  dev accuracy  seconds"]
    for name, outcome in outcomes.items():
        assert outcome.test is not None
        test, dev = outcome.test.as_json(), outcome.dev.as_json()
        lines.append(
            f"{name:12} {test['accuracy']:13.3f} {test['macro_f1']:9.3f} {dev['accuracy']:13.3f} {outcome.seconds:8.0f}"
        )
    lines.append("(on 238 questions, differences below some 6 points are noise; no word vectors are used here)")
    return lines
