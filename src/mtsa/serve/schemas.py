"""Request and response schemas of the API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from .limits import MAX_CHARS, MAX_INPUTS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputFields(_Strict):
    """Input of a model: a text; for pair models also a second text; for semantic roles optionally a predicate."""

    text: str = Field(max_length=MAX_CHARS)
    pair: str | None = Field(None, max_length=MAX_CHARS)
    predicate: int | None = Field(
        None,
        ge=0,
        le=MAX_CHARS,
        description="index of the predicate, from 0; default: all predicted predicates (predict), or the first one (explain)",
    )


_ModelName = Annotated[str | None, Field(max_length=200, description="name of the model; default: the first one")]


class PredictRequest(_Strict):
    """Inputs to predict."""

    model: _ModelName = None
    inputs: list[InputFields] = Field(
        min_length=1,
        max_length=MAX_INPUTS,
        validation_alias=AliasChoices("inputs", "questions"),  # the name in version 0.2
    )


class ExplainRequest(_Strict):
    """Input to explain."""

    model: _ModelName = None
    input: InputFields = Field(validation_alias=AliasChoices("input", "question"))  # the name in version 0.2


class Error(BaseModel):
    """Error message."""

    error: str


class ModelInfo(BaseModel):
    """A served model."""

    name: str
    task: str
    encoder: str
    pretrained: str | None = Field(None, description="name of the pretrained model, if any")
    paired: bool
    roles: bool
    labels: list[str]
    parameters: int


class Label(BaseModel):
    """Classification: the most probable label, and the probability of each label."""

    label: str
    probabilities: dict[str, float]


class LabelSet(BaseModel):
    """Multi-label classification: the predicted labels, and the probability of each label."""

    labels: list[str]
    probabilities: dict[str, float]


class Value(BaseModel):
    """Regression: the predicted value."""

    value: float


class Tags(BaseModel):
    """Tagging: a tag for each word."""

    words: list[str]
    tags: list[str]


class RoleFrame(BaseModel):
    """A predicate with its roles as (label, first word, last word), with indices from 0."""

    predicate: int
    lemma: str
    roles: list[tuple[str, int, int]]


class Roles(BaseModel):
    """Semantic roles: the frames of a sentence."""

    words: list[str]
    frames: list[RoleFrame]


class Translation(BaseModel):
    """Translation: the translated text."""

    translation: str


class Predictions(BaseModel):
    """Predictions in the order of the inputs."""

    model: str
    predictions: list[Label | LabelSet | Value | Tags | Roles | Translation]


class PieceLayerWeights(BaseModel):
    """The weights of an attention layer for word pieces."""

    word: list[int] = Field(description="index of the word of each piece")
    token2token: list[list[list[float]]] = Field(description="attention weights by head, query piece and key piece")
    source2token: list[list[list[float]]] = Field(description="weights by head, piece and feature")


class LayerWeights(BaseModel):
    """The weights of an attention layer."""

    heads: list[str] = Field(description="the mask of each head")
    token2token: list[list[list[float]]] = Field(
        description="attention weights by head, query word and key word; each row sums to 1, or is 0 if all keys are masked"
    )
    source2token: list[list[list[float]]] = Field(
        description="weights by head, word and feature, which sum to 1 over the words"
    )
    pieces: PieceLayerWeights | None = Field(None, description="weights of the word pieces, if a word has several")


class SentenceWeights(BaseModel):
    """Attention weights of a model for one text."""

    words: list[str]
    prediction: str
    part: str | None = Field(None, description="long texts: the blocks that this entry covers; words contains their names")
    predicate: int | None = Field(None, description="semantic roles: index of the explained predicate")
    predicates: list[int] = Field([], description="semantic roles: indices of all predicates")
    layers: list[LayerWeights]
    pooling: list[list[float]] | None = Field(description="pooling weights by word and feature")
    contributions: list[float] | None = Field(
        None,
        description="contribution of each word to the logit or value; linear heads on mean pooling only",
    )
    bias: float | None = Field(None, description="bias of that logit or value")


class Explanations(BaseModel):
    """Attention weights for a text, for both texts of a pair, or for a pair as one sequence."""

    model: str
    sentences: list[SentenceWeights]


class ErrorAnalysis(BaseModel):
    """The mistakes of the first model from the file of `mtsa serve --errors`; all values are texts."""

    model: str
    mistakes: list[dict[str, str]] = Field(
        description="line, text, pair, label, predicted, confidence, explained and words, the most confident mistake first"
    )
    near_duplicates: list[dict[str, str]] = Field(
        description="line, text, pair, label, similarity and other_file, other_line, other_text, other_pair, other_label"
    )


class Health(BaseModel):
    """Status of the server."""

    status: str
    version: str
    models: list[str]


def describe_error(error: dict[str, Any]) -> str:
    """Return the message for a validation error of a body."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        return f"the body is not valid JSON: {str(context.get('error', error['msg']))[:100]}"
    path = list(error["loc"][1:])
    place = "the body"
    if path:
        number = f"input {path[1] + 1}: " if len(path) > 1 and isinstance(path[1], int) else ""
        place = f'{number}"{str(path[-1])[:60]}"' if not number or len(path) > 2 else number.removesuffix(": ")
    an_object = 'must be an object, such as {"text": "..."}' if path else "must be an object; see /openapi.json"
    messages = {
        "missing": "is missing",
        "extra_forbidden": "is not a valid field; see /openapi.json",
        "string_type": "must be a string",
        "string_unicode": "must be a string without lone surrogates",
        "string_too_long": f"has more than {context.get('max_length', 0):,} characters",
        "too_short": f"must contain at least {context.get('min_length')} item",
        "too_long": f"contains more than {context.get('max_length')} items; split it into several requests",
        "int_type": "must be an integer",
        "list_type": "must be a list",
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "less_than_equal": f"must be at most {context.get('le')}",
        "model_attributes_type": an_object,
        "model_type": an_object,
    }
    return f"{place} {messages.get(kind, 'is invalid: ' + error['msg'][:100])}"
