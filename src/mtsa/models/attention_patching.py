"""Tensorized attention inside other people's models: the encoder self-attention of a `transformers` model, swapped in place.

A swapped model is of a class of its own (`MtsaBertModel` for `BertModel`), with a configuration of its own (`mtsa_bert`) that
holds how it was swapped: it saves and loads as any other after `import mtsa.hub`, and does not load without.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from mtsa.errors import InputError

from .patched_attention import PatchedAttention, PatchOptions, SourceScores

M = TypeVar("M")
_BLOCKED_ACTIVATION = "mtsa_swapped"  # no activation of this name exists, so that the plain classes refuse a swapped folder
_ACTIVATION_KEY = "plain_activation"  # where the real one is kept


@dataclass(frozen=True)
class Architecture:
    """How a kind of model names the parts of its attention."""

    kind: str  # model_type of its configuration
    module: str  # of transformers.models
    config: str  # class of its configuration
    attention: str  # class of its attention
    maps: tuple[str, str, str]  # q, k, v
    output: str  # the output map; empty where another module has it
    inside: str  # part of the names of encoder layers; empty where all layers are
    heads: str  # attribute with the number of heads
    activation: str  # what the configuration calls the activation of its feed-forward parts

    def attention_class(self) -> type[nn.Module]:
        """Its attention."""
        found: type[nn.Module] = getattr(importlib.import_module(f"transformers.models.{self.module}"), self.attention)
        return found


_BERT = (("query", "key", "value"), "", "", "num_attention_heads", "hidden_act")
_BART = (("q_proj", "k_proj", "v_proj"), "out_proj", "encoder.layers.", "num_heads", "activation_function")

ARCHITECTURES: dict[str, Architecture] = {
    entry.kind: entry
    for entry in (
        Architecture("bert", "bert.modeling_bert", "BertConfig", "BertSelfAttention", *_BERT),
        Architecture("roberta", "roberta.modeling_roberta", "RobertaConfig", "RobertaSelfAttention", *_BERT),
        Architecture(
            "distilbert", "distilbert.modeling_distilbert", "DistilBertConfig", "DistilBertSelfAttention",
            ("q_lin", "k_lin", "v_lin"), "out_lin", "", "n_heads", "activation",
        ),
        Architecture("bart", "bart.modeling_bart", "BartConfig", "BartAttention", *_BART),
        Architecture("marian", "marian.modeling_marian", "MarianConfig", "MarianAttention", *_BART),
        Architecture("m2m_100", "m2m_100.modeling_m2m_100", "M2M100Config", "M2M100Attention", *_BART),
    )
}  # fmt: skip


def patch_attention(model: M, **values: Any) -> M:
    """`mtsa.interop.replace_self_attention`; the options are those of `Swap`.

    Raises:
        InputError (a ValueError): a model that is not supported, or is swapped already.
        ValueError, TypeError: an option that does not work.
    """
    options = PatchOptions(**values)
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if isinstance(config, PatchedConfig):
        raise InputError(f"{type(model).__name__} is swapped already")
    if kind not in ARCHITECTURES or not isinstance(model, PreTrainedModel):
        raise InputError(f'the attention of "{kind}" cannot be swapped; supported are {", ".join(ARCHITECTURES)}')
    if getattr(config, "is_decoder", False) and kind in ("bert", "roberta"):
        raise InputError(f"this {kind} is a decoder; the self-attention of encoders can be swapped")
    base: type[PreTrainedModel] = type(model)
    _patch_modules(model, ARCHITECTURES[kind], options)
    copies: dict[int, PretrainedConfig] = {}  # other models may share the configuration: it is copied before it is changed
    for part in model.modules():
        own = getattr(part, "config", None)
        if isinstance(own, PretrainedConfig) and own.model_type == kind:
            if id(own) not in copies:
                made: Any = copy.deepcopy(own)
                made.__class__, made.mtsa = patched_config_class(kind), options.as_json()
                copies[id(own)] = made
            part.config = copies[id(own)]  # type: ignore[assignment]
    built = patched_model_class(base)  # type: ignore[arg-type]
    _register_class(built, model.config)
    model.__class__ = built
    return model


def _register_class(built: type[Any], config: Any) -> None:
    """Make one model of a class without memory: `transformers` notes what a class can record when a model of it is made."""
    with torch.device("meta"):
        built(config)


class PatchedConfig:
    """What the configurations of swapped models share: `mtsa`, the options of the swap."""

    mtsa: dict[str, Any]

    plain_type: str

    def to_dict(self) -> dict[str, Any]:
        """All values; an activation that does not exist keeps the plain classes from loading a swapped model by halves."""
        values: dict[str, Any] = super().to_dict()  # type: ignore[misc]
        name = ARCHITECTURES[self.plain_type].activation
        return {**values, name: _BLOCKED_ACTIVATION, _ACTIVATION_KEY: values[name]}


class PatchedModel(nn.Module):
    """What the classes of swapped models share: they swap what they are made of."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        _patch_modules(self, ARCHITECTURES[config.plain_type], PatchOptions(**config.mtsa))

    def initialize_weights(self) -> None:
        """What no file brought begins as the swap says; the models inside a model would not know."""
        super().initialize_weights()  # type: ignore[misc]
        for module in self.modules():
            if isinstance(module, SourceScores):
                module.start()


@functools.cache
def patched_config_class(kind: str) -> type[PretrainedConfig]:
    """The configuration of swapped models of a kind."""
    import transformers

    base = getattr(transformers, ARCHITECTURES[kind].config)

    def start(self: Any, mtsa: dict[str, Any] | None = None, **values: Any) -> None:
        kept = values.pop(_ACTIVATION_KEY, None)
        if values.get(ARCHITECTURES[kind].activation) == _BLOCKED_ACTIVATION:
            values[ARCHITECTURES[kind].activation] = kept
        base.__init__(self, **values)
        self.mtsa = PatchOptions(**(mtsa or {})).as_json()

    members = {"__init__": start, "model_type": f"mtsa_{kind}", "plain_type": kind, "__module__": __name__}
    return type(f"Mtsa{base.__name__}", (PatchedConfig, base), members)


@functools.cache
def patched_model_class(base: type[PreTrainedModel]) -> type[Any]:
    """The class of swapped models of a class."""
    kind = base.config_class.model_type  # type: ignore[union-attr]
    return type(
        f"Mtsa{base.__name__}", (PatchedModel, base), {"config_class": patched_config_class(kind), "__module__": __name__}
    )


@functools.cache
def _patched_attention_class(kind: str) -> type[nn.Module]:
    """The attention of a kind, tensorized."""
    entry = ARCHITECTURES[kind]
    base = entry.attention_class()

    def forward(
        self: Any, hidden_states: Tensor, *unused: Any, attention_mask: Tensor | None = None, **others: Any
    ) -> tuple[Tensor, Tensor | None]:
        if others.get("past_key_values") is not None or others.get("key_value_states") is not None:
            raise ValueError("a swapped attention reads one sequence, without a cache")
        mask = attention_mask if attention_mask is not None else next((one for one in unused if isinstance(one, Tensor)), None)
        q, k, v = self.project(hidden_states)
        dropout = self.dropout.p if isinstance(self.dropout, nn.Dropout) else self.dropout
        out, weights = self.tensorized(q, k, v, mask, dropout)
        return (getattr(self, entry.output)(out) if entry.output else out), weights

    def project(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (*x.shape[:-1], getattr(self, entry.heads), -1)
        q, k, v = (getattr(self, name)(x).view(shape).transpose(1, 2) for name in entry.maps)
        return q, k, v

    members = {"forward": forward, "project": project, "__module__": __name__}
    return type(f"Mtsa{base.__name__}", (PatchedAttention, base), members)


def _patch_modules(model: nn.Module, entry: Architecture, options: PatchOptions) -> None:
    """Give every self-attention of the encoder its scores and its new class.

    Raises:
        InputError: there is none.
    """
    found = list(_encoder_attention(model, entry))
    if not found:
        raise InputError(
            f"{type(model).__name__} has no encoder self-attention to swap; hand over the whole model, not a part of it"
        )
    for module in found:
        heads, first = getattr(module, entry.heads), getattr(module, entry.maps[0])
        options.rules(heads)  # before anything is changed
        source = SourceScores(heads, first.out_features // heads, options)
        module.source = source.to(first.weight.device, first.weight.dtype)
    for module in found:
        module.__class__ = _patched_attention_class(entry.kind)
        module.options = options  # type: ignore[assignment]


def _encoder_attention(model: nn.Module, entry: Architecture) -> Iterator[nn.Module]:
    base = entry.attention_class()
    for name, module in model.named_modules():
        if type(module) is base and (entry.inside in f"{name}." or not entry.inside) and "decoder." not in name:
            yield module


_AUTO_MAPPINGS = {
    "AutoModel": "MODEL_MAPPING",
    "AutoModelForCausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING",
    "AutoModelForMultipleChoice": "MODEL_FOR_MULTIPLE_CHOICE_MAPPING",
    "AutoModelForNextSentencePrediction": "MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING",
    "AutoModelForPreTraining": "MODEL_FOR_PRETRAINING_MAPPING",
    "AutoModelForQuestionAnswering": "MODEL_FOR_QUESTION_ANSWERING_MAPPING",
    "AutoModelForSeq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "AutoModelForTextEncoding": "MODEL_FOR_TEXT_ENCODING_MAPPING",
    "AutoModelForTokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
}  # the Auto classes for text, and the public tables of the classes they open


def patched_classes(kind: str) -> Iterator[tuple[Any, type[Any]]]:
    """(Auto class, swapped class) for every head that `transformers` has for a kind."""
    import transformers

    plain = getattr(transformers, ARCHITECTURES[kind].config)
    for name, table in _AUTO_MAPPINGS.items():
        mapping = getattr(transformers, table)
        if plain in mapping:
            base = mapping[plain]
            yield getattr(transformers, name), patched_model_class(base[0] if isinstance(base, tuple) else base)


def __getattr__(name: str) -> Any:
    """Classes of swapped models by their names, as pickling asks for them."""
    import transformers

    for kind, entry in ARCHITECTURES.items():
        if name == f"Mtsa{entry.config}":
            return patched_config_class(kind)
        if name == f"Mtsa{entry.attention}":
            return _patched_attention_class(kind)
    base: Any = getattr(transformers, name.removeprefix("Mtsa"), None) if name.startswith("Mtsa") else None
    if isinstance(base, type) and issubclass(base, PreTrainedModel):
        return patched_model_class(base)  # type: ignore[arg-type]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
