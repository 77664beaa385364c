"""Simple text classification baselines on the same splits.

TF-IDF with logistic regression, fastText, and logistic regression on the mean vectors of a frozen pretrained model. Pairs of
texts are represented by separate features of both texts: separate TF-IDF features, a fastText line in which the words of
the second text are marked, and [u, v, |u - v|, u * v] of the mean vectors u and v.
"""

from __future__ import annotations

import importlib.util
import pickle
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data.examples import Example
from mtsa.data.tokenization import word_tokenizer
from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.mean_vectors import MeanVectors
from mtsa.models.pretrained_source import PACKAGED, packaged_folder
from mtsa.training.split import Split


@dataclass(frozen=True)
class FittedBaseline:
    """A fitted baseline.

    Args:
        curve: the hyperparameters that were tried, each with its dev accuracy.
        predict: predicts the labels of examples.
        size: size on disk in bytes of everything that prediction needs.
        reused_seconds: additional time that fitting would have taken without cached vectors.
    """

    curve: list[dict[str, Any]]
    predict: Callable[[Sequence[Example]], list[str]]
    size: Callable[[], int]
    reused_seconds: float = 0.0


@dataclass(frozen=True)
class Baseline:
    """A baseline: its hyperparameters and its fit function."""

    settings: dict[str, Any]
    fit: Callable[[Split, int], FittedBaseline]
    module: str  # the package it needs
    phrases: bool = True  # whether every phrase of a training tree is an example; if not, whole sentences
    pretrained: str = ""  # the pretrained model it needs


_C_VALUES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_WORDS = {"ngram_range": [1, 2], "sublinear_tf": True, "token_pattern": r"(?u)\b\w+\b|[?!]"}
_FASTTEXT = {"epoch": 25, "wordNgrams": 2, "lr": 0.5}
_MARKS = ("", "2:")  # before the words of the first and the second text of a pair, for fastText


def _tfidf(split: Split, seed: int) -> FittedBaseline:
    """Choose C on the dev part; the final model is fitted on training and dev data together."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    def features(vectorizer: Any, examples: Sequence[Example]) -> Any:
        return hstack([vectorizer.transform(side) for side in _sides(examples)], format="csr")

    def fitted(examples: Sequence[Example]) -> Any:
        vectorizer = TfidfVectorizer(**(_WORDS | {"ngram_range": (1, 2)}))
        return vectorizer.fit([text for example in examples for text in example.texts])

    train, everything = list(split.train), [*split.train, *split.dev]
    first = fitted(train)
    curve = _choose_strength(features(first, train), train, features(first, split.dev), split.dev, seed)
    vectorizer = fitted(everything)
    model = _logistic(_best_strength(curve), seed).fit(features(vectorizer, everything), _labels(everything))
    return FittedBaseline(
        curve,
        lambda examples: [str(label) for label in model.predict(features(vectorizer, examples))],
        lambda: _pickled_size((vectorizer, model)),
    )


def _fasttext(split: Split, seed: int) -> FittedBaseline:
    """Nothing is chosen, so the dev part is trained on too; the examples are shuffled, which fastText does not do itself."""
    import fasttext

    tokenizer = word_tokenizer([])
    examples = [*split.train, *split.dev]
    random.Random(seed).shuffle(examples)
    names = sorted({str(example.label) for example in examples})  # labels may contain spaces

    def words(example: Example) -> str:
        found = []
        for text, mark in zip(example.texts, _MARKS, strict=False):
            plain = tokenizer.normalizer.normalize_str(text)
            found += [f"{mark}{word}" for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain)]
        return " ".join(found)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.txt"
        lines = [f"__label__{names.index(str(example.label))} {words(example)}\n" for example in examples]
        file.write_text("".join(lines), encoding="utf-8")
        model = fasttext.train_supervised(str(file), **_FASTTEXT, thread=1, seed=seed, verbose=0)

    def predict(wanted: Sequence[Example]) -> list[str]:
        found = []
        for example in wanted:
            best = model.f.predict(f"{words(example)}\n", 1, 0.0, "strict")  # its own predict() fails under numpy 2
            found.append(names[int(best[0][1].removeprefix("__label__"))] if best else names[0])
        return found

    return FittedBaseline([], predict, lambda: fasttext_size(model))


def fasttext_size(model: Any) -> int:
    """Return the size of the file that `save_model` of fastText would write: 800 MB with the default buckets."""
    words, labels = model.get_words(), model.get_labels()
    entries = sum(len(entry.encode()) + 10 for entry in (*words, *labels))  # a zero byte, a count and a type each
    rows: int = len(words) + model.f.getArgs().bucket + len(labels)
    width: int = model.get_dimension()
    return 126 + entries + 4 * width * rows


def mean_vector_baseline(pretrained: str, *, windows: bool = False) -> Baseline:
    """Return the baseline: logistic regression on mean-pooled vectors of a frozen pretrained model.

    The vectors of a text are computed once and cached in memory.

    Args:
        pretrained: "minilm", a folder, or a name on the hub.
        windows: whether longer texts are read in windows; otherwise they are truncated.
    """
    vectors = MeanVectors(pretrained, windows=windows)

    def fit(split: Split, seed: int) -> FittedBaseline:
        """Choose C on the dev part; the final model is fitted on training and dev data together."""
        train, everything = list(split.train), [*split.train, *split.dev]
        texts = [text for example in everything for text in example.texts]
        reused = vectors.known_seconds(texts)

        def features(examples: Sequence[Example]) -> Any:
            return _pair_features([vectors.get(side) for side in _sides(examples)])

        curve = _choose_strength(features(train), train, features(split.dev), split.dev, seed)
        model = _logistic(_best_strength(curve), seed).fit(features(everything), _labels(everything))

        def predict(examples: Sequence[Example]) -> list[str]:
            return [str(label) for label in model.predict(_pair_features([vectors.compute(one) for one in _sides(examples)]))]

        return FittedBaseline(curve, predict, lambda: _pickled_size(model) + vectors.size(), reused)

    about = f"mean of {Path(pretrained).name}{', in windows' if windows else ''}"
    settings = {"vectors": about, "C": _C_VALUES, "trained_on": "train, then train and dev"}
    return Baseline(settings, fit, "sklearn", phrases=False, pretrained=pretrained)


BASELINES: dict[str, Baseline] = {
    "tfidf": Baseline(
        {"tfidf": _WORDS, "C": _C_VALUES, "trained_on": "train, then train and dev"}, _tfidf, "sklearn", phrases=False
    ),
    "fasttext": Baseline({"fasttext": _FASTTEXT, "trained_on": "train and dev, shuffled"}, _fasttext, "fasttext"),
    "minilm-lr": mean_vector_baseline("minilm"),
    "minilm-windows-lr": mean_vector_baseline("minilm", windows=True),
}


def check_installed(name: str) -> None:
    """Check that the packages of a baseline are installed.

    Raises:
        InputError: a package is missing.
    """
    module, pretrained = BASELINES[name].module, BASELINES[name].pretrained
    for needed, extra, missing in (
        (module, "baselines", importlib.util.find_spec(module) is None),
        (pretrained, "pretrained", pretrained in PACKAGED and packaged_folder(pretrained) is None),
    ):
        if missing:
            raise InputError(f"{name} requires {needed}; install it with pip install 'mtsa[{extra}]', or choose other models")


def run_baseline(name: str, split: Split, seed: int, known: list[bool]) -> dict[str, Any]:
    """Fit a baseline and evaluate it once.

    Args:
        name: name of the baseline.
        split: the examples.
        seed: random seed.
        known: for each test text, whether it also occurs in the training or dev data.

    Returns:
        The dev curve, the test metrics (with `correct`, one value for each test example), sizes, time and machine.
    """
    begun = time.perf_counter()
    fitted = BASELINES[name].fit(split, seed)
    predictions = fitted.predict(split.test)
    correct = [found == str(example.label) for found, example in zip(predictions, split.test, strict=True)]
    fresh = [right for right, seen in zip(correct, known, strict=True) if not seen]
    test: dict[str, Any] = {"accuracy": sum(correct) / len(correct), "count": len(correct), "correct": correct}
    if any(known) and fresh:
        test["unseen"] = {"accuracy": sum(fresh) / len(fresh), "count": len(fresh)}
    return {
        **environment_info(),
        "seed": seed,
        "seconds": time.perf_counter() - begun + fitted.reused_seconds,
        "examples": {part: len(getattr(split, part)) for part in ("train", "dev", "test")},
        "dev_curve": fitted.curve,
        "test": test,
    }


def _logistic(c: float, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=2000, random_state=seed)


def _choose_strength(
    train: Any, train_examples: Sequence[Example], dev: Any, dev_examples: Sequence[Example], seed: int
) -> list[dict[str, Any]]:
    """The dev accuracy of each C, from the features of both parts."""
    curve = []
    for c in _C_VALUES:
        fitted = _logistic(c, seed).fit(train, _labels(train_examples))
        curve.append({"C": c, "accuracy": float(fitted.score(dev, _labels(dev_examples)))})
    return curve


def _best_strength(curve: Sequence[dict[str, Any]]) -> float:
    best: float = max(curve, key=lambda entry: entry["accuracy"])["C"]  # the first of equals
    return best


def _pair_features(sides: Sequence[Any]) -> Any:
    """The vectors [n, D] of texts, or [u, v, |u - v|, u * v] of the vectors u and v of pairs, [n, 4 D]."""
    import numpy as np

    if len(sides) == 1:
        return sides[0]
    first, second = sides
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def _pickled_size(model: Any) -> int:
    """Bytes of a scikit-learn model on disk. Nothing is unpickled."""
    return len(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL))


def _sides(examples: Sequence[Example]) -> list[list[str]]:
    """The texts of the examples; for pairs, the first texts and the second texts."""
    return [list(side) for side in zip(*(example.texts for example in examples), strict=True)]


def _labels(examples: Sequence[Example]) -> list[str]:
    return [str(example.label) for example in examples]
