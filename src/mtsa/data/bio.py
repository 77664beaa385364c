"""BIO tags: B-X begins a span, I-X continues it, O is outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .frames import Span

OUTSIDE = "O"
BEGIN, INSIDE = "B-", "I-"


def tag_names(labels: Iterable[str]) -> list[str]:
    """Return the tags of some labels: O, then B- and I- of each label."""
    return [OUTSIDE, *(f"{mark}{label}" for label in labels for mark in (BEGIN, INSIDE))]


def to_tags(spans: Iterable[Span], length: int) -> list[str]:
    """Return a tag for each word; spans must not overlap."""
    tags = [OUTSIDE] * length
    for span in spans:
        assert all(tags[place] == OUTSIDE for place in range(span.start, span.end + 1)), span
        tags[span.start] = BEGIN + span.label
        tags[span.start + 1 : span.end + 1] = [INSIDE + span.label] * (span.end - span.start)
    return tags


def to_spans(tags: Sequence[str]) -> list[Span]:
    """Return the spans of a sequence of tags; an I-X that does not follow B-X or I-X begins a new span."""
    spans: list[Span] = []
    for place, tag in enumerate(tags):
        label = tag[2:]
        if tag == OUTSIDE:
            continue
        continues = place > 0 and tag.startswith(INSIDE) and tags[place - 1][2:] == label and tags[place - 1] != OUTSIDE
        if continues:
            spans[-1] = Span(spans[-1].start, place, label)
        else:
            spans.append(Span(place, place, label))
    return spans


def may_follow(before: str | None, after: str) -> bool:
    """Return whether a tag may follow another (None: the start of a sentence): I-X only follows B-X or I-X."""
    if not after.startswith(INSIDE):
        return True
    return before is not None and before != OUTSIDE and before[2:] == after[2:]


def is_bio(tags: Iterable[str]) -> bool:
    """Return whether all tags are BIO tags (O, B-X or I-X), unlike part-of-speech tags."""
    names = set(tags) - {OUTSIDE}
    return bool(names) and all(tag[:2] in (BEGIN, INSIDE) and len(tag) > 2 for tag in names)
