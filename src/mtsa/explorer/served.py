"""A model as the server knows it: a name, facts to show, answers to questions, and a look at how it reads one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data.role_files import as_json, own_lemma
from mtsa.data.sentences import Sentence
from mtsa.data.source import InputError
from mtsa.data.tagged import TaggedSentence
from mtsa.inference.looking import look
from mtsa.inference.opening import AnyPredictor, open_predictor
from mtsa.inference.predictor import Predictor
from mtsa.inference.tagging import RolePredictor, TagPredictor
from mtsa.inference.weights import as_json as as_plain

_DIGITS = 7  # of weights that are sent: as many as float32 has


@dataclass(frozen=True)
class Question:
    """What a model is asked: a text, or a pair of them; of roles, the place of the word that is asked about, from 0."""

    text: str
    pair: str | None = None
    predicate: int | None = None


class Served:
    """An opened run under a name."""

    def __init__(self, name: str, predictor: AnyPredictor) -> None:
        self.name, self.predictor = name, predictor
        self.recipe = predictor.run.recipe

    def facts(self) -> dict[str, Any]:
        """What a page or a client should know."""
        return {
            "name": self.name,
            "task": self.recipe.task,
            "encoder": self.recipe.encoder["name"],
            "paired": self.recipe.paired,
            "roles": self.recipe.roles,
            "labels": [] if self.recipe.translated else self.predictor.run.labels,
            "parameters": sum(weight.numel() for weight in self.predictor.model.parameters()),
        }

    def check(self, question: Question) -> None:
        """Refuse what this model cannot be asked.

        Raises:
            InputError: no pair where one is needed, one where none is, or a predicate that is no word.
        """
        if self.recipe.paired and question.pair is None:
            raise InputError(f'model "{self.name}" reads pairs of texts; give the second one as "pair"')
        if not self.recipe.paired and question.pair is not None:
            raise InputError(f'model "{self.name}" reads single texts; leave out "pair"')
        if question.predicate is None:
            return
        if not isinstance(self.predictor, RolePredictor):
            raise InputError(f'model "{self.name}" labels no semantic roles; leave out "predicate"')
        count = len(self.predictor.words(question.text))
        if not 0 <= question.predicate < count:
            raise InputError(f"the predicate is at place {question.predicate}, but the text has {count} words, from place 0")

    def answers(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Plain values for each question, in order; the questions were checked."""
        predictor = self.predictor
        if isinstance(predictor, Predictor):
            asked = [(one.text, one.pair) if one.pair is not None else one.text for one in questions]
            return [answer.as_json() for answer in predictor.predict(asked)]
        if isinstance(predictor, TagPredictor):
            return [_tags(answer) for answer in predictor.predict([one.text for one in questions])]
        if isinstance(predictor, RolePredictor):
            return [as_json(answer) for answer in predictor.stream([_about(predictor, one) for one in questions])]
        return [{"translation": text} for text in predictor.predict([one.text for one in questions])]

    def size(self, question: Question) -> int:
        """How long a question is, in characters."""
        return len(question.text) + len(question.pair or "")

    def look(self, question: Question, most: int) -> bytes:
        """The weights of every layer, and of the pooling, while the model read each text of a question, as JSON.

        Raises:
            InputError: a model without tensorized attention, a text without words, or one of more words than `most`.
        """
        for text in (question.text, question.pair or ""):
            count = self._count(text)
            if count > most:
                raise InputError(f"the text has {count} words; weights are shown for texts of at most {most}")
        found = look(self.predictor, question.text, question.pair, question.predicate)
        told = {"model": self.name, "sentences": [as_plain(one, features=True, digits=_DIGITS) for one in found]}
        return json.dumps(told, ensure_ascii=False, allow_nan=False).encode()

    def _count(self, text: str) -> int:
        """How many words, or pieces of words, the model reads."""
        if isinstance(self.predictor, TagPredictor | RolePredictor):
            return len(self.predictor.words(text))
        return len(self.predictor.run.tokenizer.encode(text).ids)


def open_models(folders: Sequence[Path]) -> dict[str, Served]:
    """Run folders by name: the last part of the path, with a number where two are the same.

    Raises:
        InputError: a folder that holds no finished run.
    """
    found: dict[str, Served] = {}
    for folder in folders:
        base = name = folder.resolve().name or "model"
        number = 1
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found[name] = Served(name, open_predictor(folder))
    return found


def _tags(answer: TaggedSentence) -> dict[str, Any]:
    return {"words": list(answer.words), "tags": list(answer.tags)}


def _about(predictor: RolePredictor, question: Question) -> Sentence:
    words = predictor.words(question.text)
    if question.predicate is None:
        return Sentence(words)
    return Sentence(words, ((question.predicate, own_lemma(words[question.predicate])),))
