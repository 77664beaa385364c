"""Requests and responses of the API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from .limits import CHARACTERS, QUESTIONS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class QuestionFields(_Strict):
    """A question: a text; of models of pairs, the second one too; of semantic roles, a predicate if one is wanted."""

    text: str = Field(max_length=CHARACTERS)
    pair: str | None = Field(None, max_length=CHARACTERS)
    predicate: int | None = Field(
        None,
        ge=0,
        le=CHARACTERS,
        description="index of the predicate, from 0; without it, predict uses all predicates it finds, look the first",
    )


_ModelName = Annotated[str | None, Field(max_length=200, description="name of the model; the first when left out")]


class PredictRequest(_Strict):
    """Questions to a model."""

    model: _ModelName = None
    questions: list[QuestionFields] = Field(min_length=1, max_length=QUESTIONS)


class LookRequest(_Strict):
    """A question to a model, whose weights are wanted."""

    model: _ModelName = None
    question: QuestionFields


class Error(BaseModel):
    """What was wrong, in one sentence."""

    error: str


class ModelFacts(BaseModel):
    """A model that is served."""

    name: str
    task: str
    encoder: str
    pretrained: str | None = Field(None, description="the pretrained model below the encoder")
    paired: bool
    roles: bool
    labels: list[str]
    parameters: int


class Label(BaseModel):
    """Of classifiers: the most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]


class Value(BaseModel):
    """Of regression: a number."""

    value: float


class Tags(BaseModel):
    """Of taggers: a tag for each word."""

    words: list[str]
    tags: list[str]


class RoleFrame(BaseModel):
    """A predicate with its roles: (label, first word, last word), counted from 0."""

    predicate: int
    lemma: str
    roles: list[tuple[str, int, int]]


class Roles(BaseModel):
    """Of semantic roles: the frames of a sentence."""

    words: list[str]
    frames: list[RoleFrame]


class Translation(BaseModel):
    """Of translators: a text."""

    translation: str


class Answers(BaseModel):
    """Answers in the order of the questions."""

    model: str
    answers: list[Label | Value | Tags | Roles | Translation]


class PieceLayerWeights(BaseModel):
    """The weights of an attention layer for word pieces."""

    word: list[int] = Field(description="for each piece, the place of its word")
    token2token: list[list[list[float]]] = Field(description="for each head and each piece that looks, its weights")
    source2token: list[list[list[float]]] = Field(description="for each head and each piece, a weight for each feature")


class LayerWeights(BaseModel):
    """The weights of an attention layer."""

    heads: list[str] = Field(description="the mask of each head")
    token2token: list[list[list[float]]] = Field(
        description="for each head and each word that looks, its weights over the words: they sum to 1, or are all 0"
    )
    source2token: list[list[list[float]]] = Field(
        description="for each head and each word, a weight for each feature: over the words they sum to 1"
    )
    pieces: PieceLayerWeights | None = Field(None, description="what these are made of, where a word has several pieces")


class SentenceWeights(BaseModel):
    """How a model read a text."""

    words: list[str]
    answer: str
    predicate: int | None = Field(None, description="of roles: the place of the word that was asked about")
    predicates: list[int] = Field([], description="of roles: the places of all that were found")
    layers: list[LayerWeights]
    pooling: list[list[float]] | None = Field(description="for each word, a weight for each feature of the pooled vector")
    contributions: list[float] | None = Field(
        None,
        description="what each word adds to the logit of the predicted class, or to the number: of linear heads over means",
    )
    bias: float | None = Field(None, description="the rest of that logit or number")


class Looks(BaseModel):
    """How a model read a text, both texts of a pair, or a pair as one sequence."""

    model: str
    sentences: list[SentenceWeights]


class Health(BaseModel):
    """Status of the server."""

    status: str
    version: str
    models: list[str]


def describe_error(error: dict[str, Any]) -> str:
    """The message for a validation error of a body."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        return f"the body is not valid JSON: {str(context.get('error', error['msg']))[:100]}"
    path = list(error["loc"][1:])
    place = "the body"
    if path:
        number = f"question {path[1] + 1}: " if len(path) > 1 and path[0] == "questions" and isinstance(path[1], int) else ""
        place = f'{number}"{str(path[-1])[:60]}"' if not number or len(path) > 2 else number.removesuffix(": ")
    an_object = 'must be an object, such as {"text": "..."}' if path else "must be an object; see /openapi.json"
    messages = {
        "missing": "is missing",
        "extra_forbidden": "is unknown; see /openapi.json",
        "string_type": "must be a text",
        "string_unicode": "must be a text without lone surrogates",
        "string_too_long": f"has more than {context.get('max_length', 0):,} characters",
        "too_short": f"must contain at least {context.get('min_length')}",
        "too_long": f"contains more than {context.get('max_length')}; split it into several requests",
        "int_type": "must be a whole number",
        "list_type": "must be a list",
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "less_than_equal": f"must be at most {context.get('le')}",
        "model_attributes_type": an_object,
        "model_type": an_object,
    }
    return f"{place} {messages.get(kind, 'is invalid: ' + error['msg'][:100])}"
