"""Replacement of the encoder self-attention of `transformers` models with tensorized attention, in place.

A patched model gets its own class (`MtsaBertModel` for `BertModel`) and its own configuration (`mtsa_bert`), which stores the
options. It can be saved, and loaded after `import mtsa.hub`; without that import it does not load.
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

from mtsa.encoders.renamed_options import rename_options
from mtsa.errors import InputError
from mtsa.nn.deprecation import warn_deprecated

from .patched_attention import PatchedAttention, PatchOptions, SourceScores

M = TypeVar("M")
_BLOCKED_ACTIVATION = "mtsa_swapped"  # not an activation: the original classes fail to load a patched model
_ACTIVATION_KEY = "plain_activation"  # key of the real activation


@dataclass(frozen=True)
class Architecture:
    """The names of the attention parts in one model architecture."""

    model_type: str
    module: str  # in transformers.models
    config: str  # configuration class
    attention: str  # attention class
    projections: tuple[str, str, str]  # q, k, v
    output: str  # output projection; empty if it is in another module
    layer_prefix: str  # part of the names of encoder layers; empty if all layers are encoder layers
    heads: str  # attribute with the number of heads
    activation: str  # configuration key of the feed-forward activation

    def attention_class(self) -> type[nn.Module]:
        """Return the attention class."""
        attention: type[nn.Module] = getattr(importlib.import_module(f"transformers.models.{self.module}"), self.attention)
        return attention


_BERT = (("query", "key", "value"), "", "", "num_attention_heads", "hidden_act")
_BART = (("q_proj", "k_proj", "v_proj"), "out_proj", "encoder.layers.", "num_heads", "activation_function")

ARCHITECTURES: dict[str, Architecture] = {
    entry.model_type: entry
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
    """Implement `mtsa.interop.replace_self_attention`; `values` are the fields of `PatchOptions`.

    Raises:
        InputError (a ValueError): the model is not supported, or its attention is already replaced.
        ValueError, TypeError: invalid options.
    """
    values, renamed = rename_options(values)
    if renamed:
        warn_deprecated(f"{', '.join(renamed)}; the old names will be removed in version 0.4")
    options = PatchOptions(**values)
    config = getattr(model, "config", None)
    model_type = getattr(config, "model_type", type(model).__name__)
    if isinstance(config, PatchedConfig):
        raise InputError(f"the self-attention of {type(model).__name__} is already replaced")
    if model_type not in ARCHITECTURES or not isinstance(model, PreTrainedModel):
        raise InputError(f'the self-attention of "{model_type}" cannot be replaced; supported: {", ".join(ARCHITECTURES)}')
    if getattr(config, "is_decoder", False) and model_type in ("bert", "roberta"):
        raise InputError(f"this {model_type} is a decoder; only the self-attention of encoders can be replaced")
    base: type[PreTrainedModel] = type(model)
    _patch_modules(model, ARCHITECTURES[model_type], options)
    copies: dict[int, PretrainedConfig] = {}  # other models may share the configuration, so it is copied
    for part in model.modules():
        part_config = getattr(part, "config", None)
        if isinstance(part_config, PretrainedConfig) and part_config.model_type == model_type:
            if id(part_config) not in copies:
                patched: Any = copy.deepcopy(part_config)
                patched.__class__, patched.mtsa = patched_config_class(model_type), options.as_json()
                copies[id(part_config)] = patched
            part.config = copies[id(part_config)]  # type: ignore[assignment]
    model_class = patched_model_class(base)  # type: ignore[arg-type]
    _register_class(model_class, model.config)
    model.__class__ = model_class
    return model


def _register_class(model_class: type[Any], config: Any) -> None:
    """Create one model on the meta device: `transformers` registers the recordable outputs of a class on construction."""
    with torch.device("meta"):
        model_class(config)


class PatchedConfig:
    """Mixin of the configurations of patched models. `mtsa` contains the fields of `PatchOptions`."""

    mtsa: dict[str, Any]

    plain_type: str

    def to_dict(self) -> dict[str, Any]:
        """Return all values, with an invalid activation so that the original classes fail instead of ignoring weights."""
        values: dict[str, Any] = super().to_dict()  # type: ignore[misc]
        name = ARCHITECTURES[self.plain_type].activation
        return {**values, name: _BLOCKED_ACTIVATION, _ACTIVATION_KEY: values[name]}


class PatchedModel(nn.Module):
    """Mixin of the classes of patched models, which replace their attention on construction."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        _patch_modules(self, ARCHITECTURES[config.plain_type], PatchOptions.from_json(config.mtsa))

    def initialize_weights(self) -> None:
        """Initialize the source2token scores that are missing in a checkpoint, also in nested models."""
        super().initialize_weights()  # type: ignore[misc]
        for module in self.modules():
            if isinstance(module, SourceScores):
                module.init_parameters()


@functools.cache
def patched_config_class(model_type: str) -> type[PretrainedConfig]:
    """Return the configuration class of patched models of a model type."""
    import transformers

    base = getattr(transformers, ARCHITECTURES[model_type].config)

    def init(self: Any, mtsa: dict[str, Any] | None = None, **values: Any) -> None:
        activation = values.pop(_ACTIVATION_KEY, None)
        if values.get(ARCHITECTURES[model_type].activation) == _BLOCKED_ACTIVATION:
            values[ARCHITECTURES[model_type].activation] = activation
        base.__init__(self, **values)
        self.mtsa = PatchOptions.from_json(mtsa or {}).as_json()

    members = {"__init__": init, "model_type": f"mtsa_{model_type}", "plain_type": model_type, "__module__": __name__}
    return type(f"Mtsa{base.__name__}", (PatchedConfig, base), members)


@functools.cache
def patched_model_class(base: type[PreTrainedModel]) -> type[Any]:
    """Return the patched subclass of a model class."""
    config = patched_config_class(base.config_class.model_type)  # type: ignore[union-attr]
    return type(f"Mtsa{base.__name__}", (PatchedModel, base), {"config_class": config, "__module__": __name__})


@functools.cache
def _patched_attention_class(model_type: str) -> type[nn.Module]:
    """The tensorized subclass of the attention class of a model type."""
    entry = ARCHITECTURES[model_type]
    base = entry.attention_class()

    def forward(
        self: Any, hidden_states: Tensor, *unused: Any, attention_mask: Tensor | None = None, **others: Any
    ) -> tuple[Tensor, Tensor | None]:
        if others.get("past_key_values") is not None or others.get("key_value_states") is not None:
            raise ValueError(
                "replaced self-attention supports neither a cache nor cross-attention; call the model with use_cache=False "
                "and without encoder_hidden_states"
            )
        mask = attention_mask if attention_mask is not None else next((one for one in unused if isinstance(one, Tensor)), None)
        q, k, v = self.project(hidden_states)
        dropout = self.dropout.p if isinstance(self.dropout, nn.Dropout) else self.dropout
        out, weights = self.tensorized(q, k, v, mask, dropout)
        return (getattr(self, entry.output)(out) if entry.output else out), weights

    def project(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (*x.shape[:-1], getattr(self, entry.heads), -1)
        q, k, v = (getattr(self, name)(x).view(shape).transpose(1, 2) for name in entry.projections)
        return q, k, v

    members = {"forward": forward, "project": project, "__module__": __name__}
    return type(f"Mtsa{base.__name__}", (PatchedAttention, base), members)


def _patch_modules(model: nn.Module, entry: Architecture, options: PatchOptions) -> None:
    """Add source2token scores to every encoder self-attention and change its class.

    Raises:
        InputError: the model has no encoder self-attention.
    """
    modules = list(_encoder_attention(model, entry))
    if not modules:
        raise InputError(f"{type(model).__name__} has no encoder self-attention to replace; pass the whole model")
    for module in modules:
        heads, first = getattr(module, entry.heads), getattr(module, entry.projections[0])
        options.rules(heads)  # raises before anything is changed
        source = SourceScores(heads, first.out_features // heads, options)
        module.source = source.to(first.weight.device, first.weight.dtype)
    for module in modules:
        module.__class__ = _patched_attention_class(entry.model_type)
        module.options = options  # type: ignore[assignment]


def _encoder_attention(model: nn.Module, entry: Architecture) -> Iterator[nn.Module]:
    base = entry.attention_class()
    for name, module in model.named_modules():
        if type(module) is base and (entry.layer_prefix in f"{name}." or not entry.layer_prefix) and "decoder." not in name:
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
}  # Auto classes for text, and the names of their public mappings


def patched_classes(model_type: str) -> Iterator[tuple[Any, type[Any]]]:
    """Yield (Auto class, patched class) for every head that `transformers` has for a model type."""
    import transformers

    plain = getattr(transformers, ARCHITECTURES[model_type].config)
    for name, mapping_name in _AUTO_MAPPINGS.items():
        mapping = getattr(transformers, mapping_name)
        if plain in mapping:
            base = mapping[plain]
            yield getattr(transformers, name), patched_model_class(base[0] if isinstance(base, tuple) else base)


def __getattr__(name: str) -> Any:
    """Classes of patched models by name, for pickling."""
    import transformers

    for model_type, entry in ARCHITECTURES.items():
        if name == f"Mtsa{entry.config}":
            return patched_config_class(model_type)
        if name == f"Mtsa{entry.attention}":
            return _patched_attention_class(model_type)
    base: Any = getattr(transformers, name.removeprefix("Mtsa"), None) if name.startswith("Mtsa") else None
    if isinstance(base, type) and issubclass(base, PreTrainedModel):
        return patched_model_class(base)  # type: ignore[arg-type]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
