"""Decoding of tags: the best allowed row, found by trying them all."""

import itertools

import pytest
import torch

from mtsa.data.bio import may_follow, tag_names, to_spans, to_tags
from mtsa.data.frames import Span
from mtsa.models.decoding import ViterbiDecoder

TAGS = tag_names(["A0", "V"])


def allowed(row):
    return all(may_follow(before, after) for before, after in zip([None, *row], row, strict=False))


def test_tags_and_spans_are_the_same_thing():
    assert TAGS == ["O", "B-A0", "I-A0", "B-V", "I-V"]
    spans = [Span(0, 1, "A0"), Span(2, 2, "A0"), Span(4, 4, "V")]
    tags = to_tags(spans, 6)
    assert tags == ["B-A0", "I-A0", "B-A0", "O", "B-V", "O"]
    assert to_spans(tags) == spans
    assert to_spans(["I-A0", "I-V", "O", "I-A0"]) == [Span(0, 0, "A0"), Span(1, 1, "V"), Span(3, 3, "A0")]
    for row in itertools.product(TAGS, repeat=4):
        if allowed(row):
            assert to_tags(to_spans(row), 4) == list(row)


def test_what_may_follow_what():
    follows = {(before, after) for before in (None, *TAGS) for after in TAGS if may_follow(before, after)}
    assert {after for before, after in follows if before is None} == {"O", "B-A0", "B-V"}
    assert {before for before, after in follows if after == "I-A0"} == {"B-A0", "I-A0"}
    assert {before for before, after in follows if after == "B-V"} == {None, *TAGS}


@pytest.mark.parametrize("seed", range(5))
def test_the_best_allowed_row_is_found(seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = [5, 1, 3, 0, 4]
    scores = torch.randn(5, 6, 5, generator=generator) * 3
    keep = torch.arange(6)[None] < torch.tensor(lengths)[:, None]
    scores[~keep] = 1e4  # what stands at padding must not matter
    found = ViterbiDecoder(TAGS, may_follow).decode(scores, keep)
    for number, length in enumerate(lengths):
        rows = [row for row in itertools.product(range(5), repeat=length) if allowed([TAGS[tag] for tag in row])]
        totals = [sum(scores[number, place, tag].item() for place, tag in enumerate(row)) for row in rows]
        assert tuple(found[number]) == rows[totals.index(max(totals))]


def test_no_scores_bring_forth_a_forbidden_row():
    generator = torch.Generator().manual_seed(9)
    scores = torch.randn(200, 12, 5, generator=generator) * 50
    scores[..., [2, 4]] += 100.0  # inside tags everywhere
    keep = torch.ones(200, 12, dtype=torch.bool)
    for row in ViterbiDecoder(TAGS, may_follow).decode(scores, keep):
        assert allowed([TAGS[tag] for tag in row])
