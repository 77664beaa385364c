"""`mtsa data check FILE`: statistics, warnings and errors of a file of texts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtsa.errors import InputError

from . import readers, tables
from .examples import Layout, label_names
from .pair_formats import UNDECIDED
from .validation_report import line_list


@dataclass
class TextReport:
    """Statistics, warnings and errors of a file."""

    path: Path
    layout: Layout
    columns: list[str] = field(default_factory=list)
    rows: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    words: list[int] = field(default_factory=list)  # of each text, split at spaces
    targets: list[float] = field(default_factory=list)
    multilabel: bool = False
    without: int = 0  # texts without any label
    errors: list[str] = field(default_factory=list)  # the file cannot be used until they are fixed
    warnings: list[str] = field(default_factory=list)  # the file can be used

    def lines(self) -> list[str]:
        """Return the report as text."""
        before = " before the first error" if self.errors and self.rows else ""
        out = [f"{self.path}: {self.layout.format}, {self.layout.encoding}, {self.rows:,} rows{before}"]
        if self.columns:
            out.append(f"columns: {', '.join(self.columns)}")
        if self.words:
            ordered = sorted(self.words)
            longest = ordered[-1]
            out.append(f"words per text: median {statistics.median(ordered):g}, longest {longest:,}")
        if self.labels:
            most = self.labels.most_common()
            shown = ", ".join(f"{label} {count:,}" for label, count in most[:12])
            noun = ("label" if self.multilabel else "class") + ("" if len(most) == 1 else "s" if self.multilabel else "es")
            out.append(f"{len(most)} {noun}: {shown}{', ...' if len(most) > 12 else ''}")
            if self.multilabel:
                mean = self.labels.total() / max(1, self.rows)
                out.append(f"labels per text: {mean:.2f} on average; texts without labels: {self.without:,}")
            elif not self.errors:
                out.append(f"accuracy of the majority class ({most[0][0]}): {most[0][1] / self.labels.total():.1%}")
        if self.targets:
            mean, deviation = statistics.fmean(self.targets), statistics.pstdev(self.targets)
            out.append(
                f"targets: {min(self.targets):g} to {max(self.targets):g}, mean {mean:.4g}, standard deviation {deviation:.4g}"
            )
        out += [f"warning: {message}" for message in self.warnings]
        out += [f"error: {message}" for message in self.errors]
        out.append("fix the errors before using this file" if self.errors else "no errors found")
        return out


def check_texts(
    path: Path, layout: Layout, *, number: bool = False, paired: bool = False, multilabel: bool = False
) -> TextReport:
    """Check a file of texts or pairs.

    Args:
        path: the file.
        layout: format of the file.
        number: whether labels are numeric targets.
        paired: whether an example is a pair of texts.
        multilabel: whether a text has any number of labels.

    Raises:
        InputError: the format is unknown, or cannot be inferred.
    """
    layout = readers.resolve_layout(layout, path, paired=paired, multilabel=multilabel)
    report = TextReport(path, layout, multilabel=multilabel)
    report.labels.update(dict.fromkeys(layout.label_columns, 0))
    texts: dict[tuple[str, ...], tuple[int, object]] = {}
    undecided = 0
    empty: list[int] = []
    duplicates: list[str] = []
    contradictions: list[str] = []
    identical: list[int] = []
    reversed_pairs: list[int] = []
    try:
        if layout.format in readers.TABLE_FORMATS:
            _, row = next(tables.rows(path, layout.format, layout.encoding, layout.delimiter), (0, {}))
            report.columns = list(row)
        for example in readers.stream(path, layout, number=number, paired=paired, multilabel=multilabel):
            report.rows += 1
            if layout.format == "nli" and example.label == UNDECIDED:
                undecided += 1
                continue
            if example.empty:
                empty.append(example.line)
                continue
            report.words += (len(text.split()) for text in example.texts)
            if number:
                assert isinstance(example.label, float)
                report.targets.append(example.label)
            else:
                report.labels.update(label_names(example.label))
                report.without += not label_names(example.label)
            identical += [example.line] * (paired and len(set(example.texts)) == 1)
            reversed_pairs += [example.line] * (paired and example.texts[::-1] in texts and example.texts not in texts)
            line, label = texts.setdefault(example.texts, (example.line, example.label))
            if line != example.line:
                (duplicates if label == example.label else contradictions).append(f"{line} and {example.line}")
    except InputError as error:
        report.errors.append(str(error))
    if undecided:
        report.warnings.append(f"{undecided:,} rows without a consensus label (-), which training skips")
    if identical:
        report.warnings.append(f"{_count(identical, 'pair')} of two identical texts: {line_list(identical)}")
    if reversed_pairs:
        report.warnings.append(f"{_count(reversed_pairs, 'pair')} also in reverse order: {line_list(reversed_pairs)}")
    _add_warnings(report, empty, duplicates, contradictions)
    return report


def _add_warnings(report: TextReport, empty: list[int], duplicates: list[str], contradictions: list[str]) -> None:
    if empty:
        report.warnings.append(f"{_count(empty, 'row')} with an empty text, which training skips: {line_list(empty)}")
    if duplicates:
        report.warnings.append(f"{_count(duplicates, 'duplicate')} with the same label: lines {_some(duplicates)}")
    if contradictions:
        report.warnings.append(f"{_count(contradictions, 'duplicate')} with a different label: lines {_some(contradictions)}")
    missing = sorted(label for label in report.labels if label.lower() in ("nan", "null", "none", "n/a", "na"))
    if missing:
        report.warnings.append(
            f"labels that look like missing values: {_some(missing)}; delete these rows if the label is missing"
        )
    noun = "labels" if report.multilabel else "classes"
    unused = [label for label, count in report.labels.items() if not count]
    if unused:
        report.warnings.append(f"labels without any example: {_some(unused)}")
    rare = sorted(label for label, count in report.labels.items() if count == 1)
    if rare and len(report.labels) > 1:
        report.warnings.append(f"{noun} with a single example: {_some(rare)}")
    if report.multilabel:
        everywhere = [label for label, count in report.labels.items() if count == len(report.words) > 1]
        if everywhere:
            report.warnings.append(f"labels of all texts: {_some(everywhere)}")
        own = report.layout.label_separator
        joined = [label for label in report.labels if own and any(sign in label for sign in "|;,\t")]
        if joined:
            report.warnings.append(f"labels that contain another separator: {_some(joined)}; check --label-separator")
        spellings: dict[str, list[str]] = {}
        for label in report.labels:
            spellings.setdefault(" ".join(label.casefold().split()), []).append(label)
        alike = [" and ".join(names) for names in spellings.values() if len(names) > 1]
        if alike:
            report.warnings.append(f"labels that differ only in case or spaces: {_some(alike)}")
    if report.words and max(report.words) > 512:
        report.warnings.append(
            f"{sum(count > 512 for count in report.words):,} texts have more than 512 words; texts longer than "
            f"tokens.max_length are truncated"
        )
    if not report.errors:
        if not report.rows or not report.words:
            report.errors.append(f"{report.path} contains no examples; it needs at least one row with a text and a label")
        elif report.multilabel and not report.labels.total():
            report.errors.append("no text has a label; check --label-column or --label-columns")
        elif len(report.labels) == 1 and not report.multilabel:
            (label,) = report.labels
            report.errors.append(f'all rows have the label "{label}"; a classifier needs at least two classes')
        elif len(report.labels) > max(50, report.rows // 3):
            report.warnings.append(
                f"{len(report.labels):,} different labels; is this the right label column, or a regression task?"
            )


def _count(items: Sequence[object], noun: str) -> str:
    return f"{len(items):,} {noun}{'' if len(items) == 1 else 's'}"


def _some(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
