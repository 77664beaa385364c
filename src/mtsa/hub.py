"""`import mtsa.hub` registers the models with the Auto classes of `transformers`."""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from mtsa.models.attention_patching import ARCHITECTURES, patched_classes, patched_config_class
from mtsa.models.config import MtsaConfig, MtsaPairConfig, MtsaTaggerConfig
from mtsa.models.gpt import MtsaGPTConfig, MtsaGPTLMHeadModel
from mtsa.models.hub_models import (
    MtsaForSequenceClassification,
    MtsaForSequencePairClassification,
    MtsaForTokenClassification,
)

__all__ = [
    "MtsaConfig",
    "MtsaForSequenceClassification",
    "MtsaForSequencePairClassification",
    "MtsaForTokenClassification",
    "MtsaGPTConfig",
    "MtsaGPTLMHeadModel",
    "MtsaPairConfig",
    "MtsaTaggerConfig",
]

for _type in ARCHITECTURES:
    AutoConfig.register(f"mtsa_{_type}", patched_config_class(_type), exist_ok=True)
    for _auto, _class in patched_classes(_type):
        _auto.register(patched_config_class(_type), _class, exist_ok=True)
AutoConfig.register(MtsaConfig.model_type, MtsaConfig, exist_ok=True)
AutoConfig.register(MtsaPairConfig.model_type, MtsaPairConfig, exist_ok=True)
AutoConfig.register(MtsaTaggerConfig.model_type, MtsaTaggerConfig, exist_ok=True)
AutoModelForTokenClassification.register(MtsaTaggerConfig, MtsaForTokenClassification, exist_ok=True)
AutoModelForSequenceClassification.register(MtsaConfig, MtsaForSequenceClassification, exist_ok=True)
AutoModelForSequenceClassification.register(MtsaPairConfig, MtsaForSequencePairClassification, exist_ok=True)
