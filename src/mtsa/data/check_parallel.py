"""`mtsa data check A.en A.de --task translation`: statistics, warnings and errors of parallel text."""

from __future__ import annotations

from pathlib import Path

from mtsa.errors import InputError

from .parallel import read_parallel
from .validation_report import SentenceReport, lengths_line, line_list

_MAX_RATIO, _MIN_WORDS = 3, 8  # pairs are suspicious if the ratio of their lengths, and the longer side, are at least this


def check_parallel(source: Path, target: Path, encoding: str = "utf-8") -> SentenceReport:
    """Check two files of parallel text."""
    report = SentenceReport(source, f"parallel text with {target}")
    try:
        pairs = read_parallel(source, target, encoding)
    except InputError as error:
        report.errors.append(str(error))
        return report
    report.sentences = len(pairs.items)
    sides = [(example.text, str(example.label), example.line) for example in pairs.items]
    counts = [(len(text.split()), len(translation.split()), line) for text, translation, line in sides]
    report.summary.append(lengths_line([one for one, _, _ in counts], f"line of {source.name}"))
    report.summary.append(lengths_line([other for _, other, _ in counts], f"line of {target.name}"))
    if pairs.empty:
        report.warnings.append(
            f"{len(pairs.empty):,} pairs with an empty line, which training skips: {line_list(pairs.empty)}"
        )
    same = [line for text, translation, line in sides if text == translation]
    if same:
        report.warnings.append(f"{len(same):,} lines that are identical in both files: {line_list(same)}")
    suspicious = [line for one, other, line in counts if max(one, other) >= max(_MIN_WORDS, _MAX_RATIO * min(one, other))]
    if suspicious:
        report.warnings.append(
            f"{len(suspicious):,} lines where one side has at least {_MAX_RATIO} times as "
            "many words as the other, possibly not "
            f"translations: {line_list(suspicious)}"
        )
    report.warn_duplicates([(f"{text}\0{translation}", line) for text, translation, line in sides])
    return report
