"""Error analysis: the mistakes of a model on labelled data, and near-duplicate texts with different labels."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data import tables
from mtsa.data.near_duplicates import find_near_duplicates
from mtsa.errors import InputError, line_error
from mtsa.files import fingerprint, replacing
from mtsa.messages import counted
from mtsa.progress import advance, progress
from mtsa.tasks.encoded import Mistake
from mtsa.tasks.predictor import Predictor
from mtsa.tasks.registry import get_task

from .attention_maps import AttentionMaps
from .attention_weights import strongest_words

_log = logging.getLogger(__name__)

MISTAKE, NEAR_DUPLICATE = "mistake", "near_duplicate"
_ENDINGS = (".csv", ".jsonl")
_MOST_EXPLAINED = 1000  # mistakes that list the words with the largest weights
_WORDS = 5  # of a mistake
_COLUMNS = (
    "kind", "line", "text", "pair", "label", "predicted", "confidence", "explained", "words", "similarity", "other_file",
    "other_line", "other_text", "other_pair", "other_label",
)  # fmt: skip

Row = dict[str, Any]


def check_errors_file(path: Path) -> None:
    """Check the name of an error file.

    Raises:
        InputError: unsupported extension, or the folder does not exist.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"--errors {path}: the file extension must be .csv or .jsonl")
    if not path.parent.is_dir():
        raise InputError(f"--errors {path}: the folder {path.parent} does not exist; create it, or choose another file")


def write_errors(predictor: Predictor, path: Path, data: Any, examples: Sequence[Any], mistakes: Sequence[Mistake]) -> None:
    """Write the mistakes, the most confident first, and the near-duplicates with different labels.

    Args:
        predictor: the model.
        path: a .csv or .jsonl file.
        data: the evaluated data: a file, or Python objects.
        examples: the evaluated examples.
        mistakes: the mistakes of the model on them.

    Raises:
        InputError: see `check_errors_file`.
    """
    check_errors_file(path)
    name = Path(data).name if isinstance(data, str | Path) else "data"
    training, source = _training_examples(predictor, data, name)
    rows = [*_mistake_rows(predictor, examples, mistakes), *_duplicate_rows(name, examples, source, training)]
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        else:
            used = [column for column in _COLUMNS if column in _used_columns(rows)]
            table = csv.writer(file)
            table.writerow(used)
            table.writerows([_cell(row.get(column, ""), predictor.separator) for column in used] for row in rows)
    found = counted(len(mistakes), "mistake")
    where = f"{name} and the training data" if source else name
    _log.warning(f"{path}: {found}, {counted(len(rows) - len(mistakes), 'near-duplicate')} with different labels in {where}")


def _used_columns(rows: Sequence[Row]) -> set[str]:
    always = set(_COLUMNS) - {"pair", "explained", "other_pair"}
    return always | {key for row in rows for key in row}


def _cell(value: Any, separator: str) -> Any:
    """A value in a table: labels are joined by the separator, and words have their weights after them."""
    if not isinstance(value, list):
        return value
    return separator.join(value) if all(isinstance(one, str) for one in value) else shown_words(value)


def shown_words(words: Sequence[Sequence[Any]]) -> str:
    """Return words with their weights as text."""
    return ", ".join(f"{word} {weight:+.3f}" for word, weight in words)


def _mistake_rows(predictor: Predictor, examples: Sequence[Any], mistakes: Sequence[Mistake]) -> Iterator[Row]:
    ordered = sorted(mistakes, key=lambda mistake: (-mistake.confidence, mistake.index))
    with progress("explaining", min(len(ordered), _MOST_EXPLAINED)):
        for number, mistake in enumerate(ordered):
            example = examples[mistake.index]
            yield {
                "kind": MISTAKE,
                "line": example.line,
                **_texts(example),
                "label": mistake.label,
                "predicted": mistake.predicted,
                "confidence": round(mistake.confidence, 4),
                **({"explained": mistake.explained} if mistake.explained else {}),
                "words": _heaviest_words(predictor, example, mistake) if number < _MOST_EXPLAINED else [],
            }
            advance(number < _MOST_EXPLAINED)


def _texts(example: Any, prefix: str = "") -> Row:
    return {f"{prefix}text": example.text} | ({} if example.pair is None else {f"{prefix}pair": example.pair})


def _heaviest_words(predictor: Predictor, example: Any, mistake: Mistake) -> list[list[Any]]:
    """The words with the largest contributions to the output, or else with the largest attention weights; with the values."""
    try:
        maps = predictor.explain_mistake(example, mistake)
    except InputError:  # no words, or a model without attention weights
        return []
    special = {token.content for token in predictor.tokenizer.get_added_tokens_decoder().values() if token.special}
    found = [(value, word) for one in maps for value, word in _weighed(one) if word not in special]
    found.sort(key=lambda entry: -abs(entry[0]))
    words: dict[str, list[Any]] = {}  # each word once, with its largest value
    for value, word in found:
        if any(map(str.isalnum, word)):
            words.setdefault(word.casefold(), [word, round(value, 4)])
    return list(words.values())[:_WORDS]


def _weighed(one: AttentionMaps) -> list[tuple[float, str]]:
    if one.contributions is not None or one.pooling is not None:
        return strongest_words(one, len(one.words))
    if not one.layers:
        return []
    values = one.layers[-1].words().mean(0)  # source2token weights, the mean over heads and features
    return list(zip(values.tolist(), one.words, strict=True))


def _duplicate_rows(name: str, examples: Sequence[Any], source: str, training: Sequence[Any]) -> Iterator[Row]:
    for found in find_near_duplicates(examples, training):
        example, other = examples[found.index], (training if found.in_training else examples)[found.other]
        yield {
            "kind": NEAR_DUPLICATE,
            "line": example.line,
            **_texts(example),
            "label": _label(example),
            "similarity": round(found.similarity, 4),
            "other_file": source if found.in_training else name,
            "other_line": other.line,
            **_texts(other, "other_"),
            "other_label": _label(other),
        }


def _label(example: Any) -> Any:
    return list(example.label) if isinstance(example.label, tuple) else example.label


def _training_examples(predictor: Predictor, data: Any, name: str) -> tuple[list[Any], str]:
    """The training examples of a model and the name of their file; empty if the file is not available or was changed."""
    recipe = predictor.recipe
    task, train = get_task(recipe.task), recipe.data.train
    if isinstance(data, str | Path) and not is_corpus(train) and Path(data).resolve() == Path(train).resolve():
        return [], ""  # the examples are compared with each other
    try:
        if not is_corpus(train) and not Path(train).is_file():
            raise InputError(f"{train} does not exist")
        record = json.loads((predictor.run.folder / "record.json").read_text(encoding="utf-8"))["sources"]["files"]
        if is_corpus(train):
            path, layout = corpus_files(train)["train"], corpus_layout(train, task.name, task.corpora)
        else:
            path, layout = Path(train), recipe.layout
            if record.get(train) != fingerprint(path):
                raise InputError(f"{train} has changed since training")
        examples, _ = task.read(recipe, path, layout)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        _log.warning(f"near-duplicates are searched in {name} only, because the training data is not available: {error}")
        return [], ""
    return examples, path.name


def read_errors(path: Path, most: int) -> dict[str, list[Row]]:
    """Read an error file for the server: the first `most` rows of each kind, with texts as values.

    Raises:
        InputError: not an error file.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"--errors {path}: the file extension must be .csv or .jsonl, as written by mtsa evaluate --errors")
    found: dict[str, list[Row]] = {MISTAKE: [], NEAR_DUPLICATE: []}
    for line, row in tables.rows(path, "csv" if path.suffix.lower() == ".csv" else "jsonl", "utf-8"):
        kind = row.get("kind")
        if kind not in found or not isinstance(row.get("text"), str):
            raise line_error(
                path, line, f"not a row of an error file (kind {kind!s:.30}); create the file with mtsa evaluate --errors"
            )
        if len(found[kind]) < most:
            try:
                found[kind].append({key: _shown(row[key]) for key in _COLUMNS[1:] if row.get(key) not in (None, "")})
            except (TypeError, ValueError):
                raise line_error(
                    path, line, "not a valid row of an error file; create the file with mtsa evaluate --errors"
                ) from None
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) if all(isinstance(one, str) for one in value) else shown_words(value)
    return str(value)
