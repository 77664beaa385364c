"""`mtsa data check FILE --task tagging` and `--task srl`: statistics, warnings and errors of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mtsa.errors import InputError

from .bio import INSIDE, to_spans
from .examples import Layout
from .frames import CONTINUED, REFERRING, VERB, RoleSentence
from .props import blocks
from .srl_formats import read_roles, role_format, words_path
from .tagged import (
    DOCSTART,
    TaggedSentence,
    inconsistent_tags,
    mark_spans,
    read_unconverted,
    stray_tags_message,
    tagged_format,
    to_bio,
)
from .validation_report import SentenceReport, lengths_line, line_list

S = TypeVar("S", TaggedSentence, RoleSentence)


def check_tagged(path: Path, layout: Layout) -> SentenceReport:
    """Check a file of tagged sentences.

    Raises:
        InputError: an unknown format.
    """
    report = SentenceReport(path, tagged_format(path, layout.format))
    try:
        sentences = read_unconverted(path, layout)
    except InputError as error:
        report.errors.append(str(error))
        return report
    report.sentences = len(sentences)
    tags = Counter(tag for sentence in sentences for tag in sentence.tags)
    report.summary.append(lengths_line([len(sentence.words) for sentence in sentences]))
    stray = inconsistent_tags(sentences)
    if stray:
        report.warnings.append(stray_tags_message(stray))
    _warn_columns(report)
    if mark_spans(tags):
        spans = Counter(span.label for sentence in to_bio(sentences) for span in to_spans(sentence.tags))
        report.summary.append(f"{spans.total():,} spans, {len(spans)} labels: {_most(spans)}")
        _warn(report, "I- tags without a preceding B- or I- tag, which are read as the start of a span", sentences, _orphan)
    else:
        report.summary.append(f"{len(tags)} tags: {_most(tags)}")
    if len(tags) < 2:
        report.errors.append(f'all words have the tag "{next(iter(tags))}"; a tagger needs at least two tags')
    report.warn_duplicates([(sentence.texts[0], sentence.line) for sentence in sentences])
    return report


def check_roles(path: Path, layout: Layout) -> SentenceReport:
    """Check a file of semantic roles.

    Raises:
        InputError: an unknown format.
    """
    report = SentenceReport(path, role_format(path, layout.format))
    try:
        sentences = read_roles(path, words=words_path(path, report.format), format=report.format, encoding=layout.encoding)
    except InputError as error:
        report.errors.append(str(error))
        return report
    report.sentences = len(sentences)
    frames = [frame for sentence in sentences for frame in sentence.frames]
    roles = Counter(span.label for frame in frames for span in frame.spans if span.label != VERB)
    report.summary.append(lengths_line([len(sentence.words) for sentence in sentences]))
    report.summary.append(f"{len(frames):,} predicates, {roles.total():,} roles, {len(roles)} labels: {_most(roles)}")
    if not frames:
        report.errors.append("no sentence has a predicate; training needs at least one")
    without = sum(not sentence.frames for sentence in sentences)
    if without and frames:
        report.warnings.append(f"{without:,} sentences without a predicate; only the predicate finder is trained on them")
    _warn(report, "continuation (C-) without a role to continue; it counts as a separate role", sentences, _continued)
    _warn(report, "reference (R-) to a role that does not occur", sentences, _referring)
    _warn(report, "predicate without (V*) at its word", sentences, _elsewhere)
    rare = sorted(label for label, count in roles.items() if count == 1)
    if rare:
        report.warnings.append(f"labels that occur once: {', '.join(rare[:8])}{', ...' if len(rare) > 8 else ''}")
    report.warn_duplicates([(sentence.texts[0], sentence.line) for sentence in sentences])
    return report


def _orphan(sentence: TaggedSentence) -> int:
    before = ("O", *sentence.tags[:-1])
    return sum(tag.startswith(INSIDE) and old[2:] != tag[2:] for old, tag in zip(before, sentence.tags, strict=True))


def _continued(sentence: RoleSentence) -> int:
    return sum(
        span.label.startswith(CONTINUED)
        and not any(other.label == span.label.removeprefix(CONTINUED) and other < span for other in frame.spans)
        for frame in sentence.frames
        for span in frame.spans
    )


def _referring(sentence: RoleSentence) -> int:
    return sum(
        span.label.startswith(REFERRING)
        and not any(other.label == span.label.removeprefix(REFERRING) for other in frame.spans)
        for frame in sentence.frames
        for span in frame.spans
    )


def _elsewhere(sentence: RoleSentence) -> int:
    return sum(
        not any(span.label == VERB and span.start <= frame.predicate <= span.end for span in frame.spans)
        for frame in sentence.frames
    )


def _warn(report: SentenceReport, what: str, sentences: list[S], count: Callable[[S], int]) -> None:
    counts = [(sentence.line, count(sentence)) for sentence in sentences]
    lines = [line for line, number in counts if number]
    if lines:
        report.warnings.append(f"{sum(number for _, number in counts):,} {what} (in sentences at {line_list(lines)})")


def _warn_columns(report: SentenceReport) -> None:
    """Add a warning about lines with an unusual number of columns."""
    if report.format != "columns":
        return
    widths = [(number, len(fields)) for block in blocks(report.path) for number, fields in block if fields[0] != DOCSTART]
    usual = Counter(width for _, width in widths).most_common(1)[0][0]
    other = [number for number, width in widths if width != usual]
    if other:
        report.warnings.append(f"{len(other):,} lines do not have {usual} columns like the others: {line_list(other)}")


def _most(counts: Counter[str]) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(12))
    return shown + (", ..." if len(counts) > 12 else "")
