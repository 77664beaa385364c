"""Parts of tagged sentences, and of sentences with semantic roles: one row for each (sentence, predicate)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mtsa.data.batches import tensors
from mtsa.data.bio import to_spans, to_tags
from mtsa.data.frames import Frame, RoleSentence
from mtsa.data.tagged import TaggedSentence
from mtsa.models.answers import silent
from mtsa.models.tag_answers import find_predicates, flags, tag_rows
from mtsa.models.tagger import IGNORED
from mtsa.scoring.counts import Counts
from mtsa.scoring.roles import RoleScore
from mtsa.scoring.tags import score_tags

from .parts import Part
from .score import PartScore


@dataclass(frozen=True)
class TaggedPart(Part):
    """Sentences with a tag for each word."""

    sentences: list[TaggedSentence]  # with the tags that are right
    names: list[str]  # of the tags that the model knows

    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        found = tensors([self.rows[place] for place in places])
        tags = [self.sentences[place].tags for place in places]
        return {**found, "labels": _labels(tags, self.names, found["input_ids"])}

    def answers(self, model: Any, tick: Callable[[int], None] = silent) -> list[list[str]]:
        """The tags of each sentence."""
        return [[self.names[tag] for tag in row] for row in tag_rows(model, self.rows, None, tick)]

    def score(self, found: list[list[str]], places: Sequence[int] | None = None) -> PartScore:
        chosen = range(len(self)) if places is None else places
        truths = [self.sentences[place].tags for place in chosen]
        return PartScore(score_tags(truths, [found[place] for place in chosen], self.names))


@dataclass(frozen=True)
class Asked:
    """A question about a sentence: the roles of one of its predicates; None where it has none."""

    sentence: RoleSentence
    frame: Frame | None

    @property
    def predicates(self) -> list[int]:
        """The places of all predicates of the sentence."""
        return [frame.predicate for frame in self.sentence.frames]

    @property
    def first(self) -> bool:
        """Whether it is the first question about the sentence, which the finder learns from."""
        return self.frame is None or self.frame is self.sentence.frames[0]


@dataclass(frozen=True)
class RoleAnswers:
    """What a model says of a part."""

    frames: list[Frame | None]  # one for each question, None where there was nothing to ask
    predicates: list[list[int]]  # of the sentence of each question, as the finder sees them


@dataclass(frozen=True)
class RolePart(Part):
    """Sentences with one of their predicates each, and the roles around it."""

    asked: list[Asked]
    names: list[str]  # of the tags that the model knows

    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        found = tensors([self.rows[place] for place in places])
        asked = [self.asked[place] for place in places]
        tags = [None if one.frame is None else to_tags(one.frame.spans, len(one.sentence.words)) for one in asked]
        marks = torch.full_like(found["input_ids"], IGNORED)
        for number, one in enumerate(asked):
            if one.first:
                marks[number, : len(self.rows[places[number]])] = 0
                marks[number, [place for place in one.predicates if place < len(self.rows[places[number]])]] = 1
        return {
            **found,
            "predicates": flags([None if one.frame is None else one.frame.predicate for one in asked], found["input_ids"]),
            "labels": _labels(tags, self.names, found["input_ids"]),
            "found": marks,
        }

    def answers(self, model: Any, tick: Callable[[int], None] = silent) -> RoleAnswers:
        places = [place for place, one in enumerate(self.asked) if one.frame is not None]
        frames: list[Frame | None] = [None] * len(self)
        wanted = [one.frame.predicate for one in self.asked if one.frame is not None]
        tags = tag_rows(model, [self.rows[place] for place in places], wanted, tick)
        for place, row in zip(places, tags, strict=True):
            frame = self.asked[place].frame
            assert frame is not None
            spans = tuple(to_spans([self.names[tag] for tag in row]))
            frames[place] = dataclasses.replace(frame, spans=spans)
        first = [place for place, one in enumerate(self.asked) if one.first]
        found: list[list[int]] = [[] for _ in self.asked]
        for place, row in zip(first, find_predicates(model, [self.rows[place] for place in first]), strict=True):
            found[place] = row
        return RoleAnswers(frames, found)

    def score(self, found: RoleAnswers, places: Sequence[int] | None = None) -> PartScore:
        """Roles by the official rules, of all predicates and of verbs; and how well predicates were found."""
        score, verbs, seen = RoleScore(), RoleScore(), Counts()
        for place in range(len(self)) if places is None else places:
            one = self.asked[place]
            if one.frame is not None:
                score.add(one.frame, found.frames[place])
                if one.frame.part_of_speech.startswith("V"):
                    verbs.add(one.frame, found.frames[place])
            if one.first:
                there, answered = set(one.predicates), set(found.predicates[place])
                seen.add(len(there & answered), len(answered), len(there))
        score.predicates, score.verbs = seen, verbs if verbs.frames else None
        return PartScore(score)


def _labels(tags: Sequence[Sequence[str] | None], names: list[str], like: Tensor) -> Tensor:
    """Numbers of tags, -100 for padding, for sentences without, and for tags that the model does not know."""
    numbers = {name: number for number, name in enumerate(names)}
    out = torch.full_like(like, IGNORED)
    for number, row in enumerate(tags):
        if row is not None:
            read = min(len(row), like.shape[1])
            out[number, :read] = torch.tensor([numbers.get(tag, IGNORED) for tag in row[:read]])
    return out
