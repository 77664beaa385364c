"""`mtsa data check A.en A.de --task translation`: what is in two files of parallel text."""

from __future__ import annotations

from pathlib import Path

from mtsa.errors import InputError

from .parallel import read_parallel
from .validation_report import SentenceReport, first_few, lengths_line

_UNLIKE, _LEAST = 3, 8  # sides of which one is so many times as long, and has at least so many words


def check_parallel(source: Path, target: Path, encoding: str = "utf-8") -> SentenceReport:
    """Look through two files that should be the same text in two languages."""
    report = SentenceReport(source, f"parallel text with {target}")
    try:
        pairs = read_parallel(source, target, encoding)
    except InputError as error:
        report.errors.append(str(error))
        return report
    report.sentences = len(pairs.items)
    sides = [(example.text, str(example.label), example.line) for example in pairs.items]
    counts = [(len(text.split()), len(translation.split()), line) for text, translation, line in sides]
    report.summary.append(lengths_line([one for one, _, _ in counts], f"a line of {source.name}"))
    report.summary.append(lengths_line([other for _, other, _ in counts], f"a line of {target.name}"))
    if pairs.empty:
        report.warnings.append(
            f"{len(pairs.empty):,} lines empty on a side, which training leaves out: line {first_few(pairs.empty)}"
        )
    same = [line for text, translation, line in sides if text == translation]
    if same:
        report.warnings.append(f"{len(same):,} lines that are the same in both files: line {first_few(same)}")
    unlike = [line for one, other, line in counts if max(one, other) >= max(_LEAST, _UNLIKE * min(one, other))]
    if unlike:
        report.warnings.append(
            f"{len(unlike):,} lines with {_UNLIKE} times as many words as the other side; is it the same text? "
            f"line {first_few(unlike)}"
        )
    report.warn_duplicates([(f"{text}\0{translation}", line) for text, translation, line in sides])
    return report
