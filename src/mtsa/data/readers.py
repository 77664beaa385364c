"""Readers of texts and pairs, for training, evaluation, validation and prediction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error
from mtsa.messages import nearest

from . import classification_formats, label_sets, pair_formats, tables
from .examples import Example, Examples, Layout
from .text_files import LONGEST

_LARGEST = 1e30  # of a target
TABLE_FORMATS = ("csv", "tsv", "jsonl")
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class TextFormat:
    """A file format of texts with labels.

    Args:
        read: yields the examples of a file, given the path, the layout and whether labels are required.
        encoding: default encoding of the format.
        pairs: whether examples are pairs of texts; None for tables, which may have either.
        classes: the numbers of classes that labels can be mapped to, the default first.
    """

    read: Callable[[Path, Layout, bool], Iterator[Example]]
    encoding: str = "utf-8"
    pairs: bool | None = None
    classes: tuple[int, ...] = ()


def resolve_layout(layout: Layout, path: Path, *, paired: bool = False, multilabel: bool = False) -> Layout:
    """Replace the "auto" values of a layout.

    Raises:
        InputError: the format is unknown, cannot be inferred, or does not match the task.
    """
    format = layout.format
    if format == "auto" and paired and not layout.pair_column:
        format = "nli"  # which has fixed column names
    if format == "auto":
        if path.is_dir():
            raise InputError(f"{path} is a folder; expected a file")
        if path.suffix.lower() not in ENDINGS:
            raise InputError(
                f"{path}: cannot infer the format from the file extension; use --format ({', '.join(FORMATS)}), "
                f"or rename the file to .csv, .tsv or .jsonl"
            )
        format = ENDINGS[path.suffix.lower()]
    if format not in FORMATS:
        raise InputError(f'unknown format "{format}"; {nearest(format, FORMATS)}')
    if FORMATS[format].pairs not in (None, paired):
        raise InputError(
            f"format {format} contains {'single texts' if paired else 'pairs of texts'}; "
            f'{"remove" if paired else "add"} --task pair (task="pair"), or use another --format'
        )
    if paired and format in TABLE_FORMATS and not layout.pair_column:
        raise InputError(f"{path}: pairs need two text columns; specify them with --text-column and --pair-column")
    if format in PAIR_FORMATS and (layout.text_column, layout.pair_column, layout.label_column) != ("text", "", "label"):
        raise InputError(
            f"{path}: format {format} has fixed columns; for another table, specify both with --text-column and "
            f"--pair-column, and add --format auto"
        )
    if multilabel:
        label_sets.check_layout(dataclasses.replace(layout, format=format), path, TABLE_FORMATS)
    elif layout.label_columns or layout.label_separator:
        option = "--label-columns" if layout.label_columns else "--label-separator"
        raise InputError(f"{option} applies to task multilabel only; add --task multilabel, or remove it")
    labels = layout.label_columns or (layout.label_column,)
    columns = [name for name in (layout.text_column, layout.pair_column, *labels) if name]
    if format in TABLE_FORMATS and len(set(columns)) < len(columns):
        raise InputError(f'column "{max(columns, key=columns.count)}" is used twice; texts and labels need separate columns')
    if layout.pair_column and not paired:
        raise InputError(f"--pair-column {layout.pair_column} applies to pairs only; add --task pair")
    known = FORMATS[format].classes
    if layout.classes and layout.classes not in known:
        if not known:
            raise InputError(f"data.classes is not used by format {format}; remove it")
        raise InputError(f"data.classes is {layout.classes}; format {format} supports {' or '.join(map(str, known))}")
    encoding = FORMATS[format].encoding if layout.encoding == "auto" else layout.encoding
    return dataclasses.replace(layout, format=format, encoding=encoding, classes=layout.classes or (known[0] if known else 0))


def stream(
    path: Path,
    layout: Layout,
    *,
    number: bool = False,
    labelled: bool = True,
    paired: bool = False,
    multilabel: bool = False,
) -> Iterator[Example]:
    """Yield the examples of a file one by one, including empty texts and pairs without a consensus label.

    Args:
        path: the file.
        layout: format of the file.
        number: whether labels are numeric targets.
        labelled: whether a label is required.
        paired: whether an example is a pair of texts.
        multilabel: whether a text has any number of labels.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    layout = resolve_layout(layout, path, paired=paired, multilabel=multilabel)
    for example in FORMATS[layout.format].read(path, layout, labelled):
        if multilabel and labelled:
            names = label_sets.parse_labels(example.label, layout, path, example.line)
            for name in names:
                _check_text(name, path, example.line)
            yield dataclasses.replace(_checked(example, path, number=False, labelled=False), label=names)
        else:
            yield _checked(example, path, number=number, labelled=labelled)


def read(path: Path, layout: Layout, **kind: bool) -> Examples:
    """Return all labelled examples of a file. Rows with an empty text or without a consensus label are skipped and recorded.

    Args:
        path: the file.
        layout: format of the file.
        kind: `number`, `paired` and `multilabel` of `stream`.

    Raises:
        InputError: see `stream`; also for a file without examples.
    """
    examples = Examples(path, [])
    examples.items.extend(stream_labelled(examples, layout, **kind))
    if not examples.items:
        raise InputError(f"{path} contains no examples; it needs at least one row with a text and a label")
    return examples


def stream_labelled(examples: Examples, layout: Layout, **kind: bool) -> Iterator[Example]:
    """Yield the labelled examples of a file one by one; skipped rows are recorded in `examples`. Arguments as in `read`.

    Raises:
        InputError: see `stream`.
    """
    shape = {name: value for name, value in kind.items() if name != "number"}
    with_gaps = resolve_layout(layout, examples.path, **shape).format == "nli"
    for example in stream(examples.path, layout, **kind):
        if with_gaps and example.label == pair_formats.UNDECIDED:
            examples.undecided += 1
        elif example.empty:
            examples.empty.append(example.line)
        else:
            yield example


def _from_table(path: Path, layout: Layout, labelled: bool) -> Iterator[Example]:
    for line, row in tables.rows(path, layout.format, layout.encoding, layout.delimiter):
        named = {"--text-column": layout.text_column, "--pair-column": layout.pair_column}
        columns = {name: option for option, name in named.items() if name}
        names = list(columns)
        row_line = line if layout.format == "jsonl" else 0
        texts = [tables.column(row, name, path, row_line, option=option) for name, option in columns.items()]
        if labelled and not any(row.values()):
            continue  # an empty row of a spreadsheet
        for name, text in zip(names, texts, strict=True):
            if not isinstance(text, str):
                raise line_error(path, line, f'column "{name}" contains {_shortened(text)}; it must be a string')
        label: Any = None
        if labelled and layout.label_columns:
            label = {name: tables.column(row, name, path, row_line, option="--label-columns") for name in layout.label_columns}
        elif labelled:
            label = tables.column(row, layout.label_column, path, row_line, option="--label-column")
        yield Example(texts[0].strip(), _class_name(label), line, texts[1].strip() if layout.pair_column else None)


def _class_name(label: Any) -> Any:
    """A label of a JSON file as a class name."""
    if isinstance(label, bool):
        return str(label).lower()
    return label.strip() if isinstance(label, str) else label


def _checked(example: Example, path: Path, *, number: bool, labelled: bool) -> Example:
    for text in example.texts:
        if len(text) > LONGEST:
            raise line_error(path, example.line, f"the text has {len(text):,} characters; at most {LONGEST:,} are allowed")
        _check_text(text, path, example.line)
    if not labelled:
        return example
    label: Any = example.label
    if isinstance(label, str):
        _check_text(label, path, example.line)
    if label is None or label == "":
        raise line_error(path, example.line, "the label is missing; add one, or delete the row")
    if not number:
        if isinstance(label, float) and not math.isfinite(label):
            raise line_error(path, example.line, f"the label is {label}; replace it, or delete the row")
        if not isinstance(label, str | int | float):
            raise line_error(path, example.line, f"the label is {_shortened(label)}; it must be a string or a number")
        return dataclasses.replace(example, label=str(label))
    try:
        value = float(label)
    except (TypeError, ValueError, OverflowError):
        raise line_error(
            path,
            example.line,
            f"the target is {_shortened(label)}; it must be a number (for classes, use --task classification or pair)",
        ) from None
    if not math.isfinite(value) or abs(value) > _LARGEST:
        raise line_error(
            path, example.line, f"the target is {_shortened(label)}; it must be a finite number, at most {_LARGEST:g}"
        )
    return dataclasses.replace(example, label=value)


def _check_text(text: str, path: Path, line: int) -> None:
    """Reject lone surrogates, which JSON can express but UTF-8 cannot encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise line_error(
            path,
            line,
            f"the text contains a lone surrogate ({text[error.start]!a}), which is not valid Unicode; fix or delete the row",
        ) from None


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _trees(path: Path, layout: Layout, labelled: bool) -> Iterator[Example]:
    return classification_formats.sst(path, layout.encoding, layout.classes if labelled else 5, layout.phrases)


FORMATS: dict[str, TextFormat] = {
    **{name: TextFormat(_from_table) for name in TABLE_FORMATS},
    "label_text": TextFormat(
        lambda path, layout, _: classification_formats.label_text(path, layout.encoding), "cp1252", pairs=False
    ),
    "trec": TextFormat(
        lambda path, layout, _: classification_formats.trec(path, layout.encoding, layout.classes),
        "latin-1",
        pairs=False,
        classes=(6, 50),
    ),
    "sst": TextFormat(_trees, pairs=False, classes=(5, 2)),
    "nli": TextFormat(lambda path, layout, labelled: pair_formats.nli(path, layout.encoding, labelled=labelled), pairs=True),
    "label_pair": TextFormat(lambda path, layout, _: pair_formats.label_pair(path, layout.encoding), pairs=True),
}
"""The formats of `--format` by name; to add one, add an entry."""
PAIR_FORMATS = tuple(name for name, format in FORMATS.items() if format.pairs)
