"""`import mtsa.hub` makes the models known to the Auto classes of `transformers`; the one import with a side effect."""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForSequenceClassification

from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import MtsaConfig, MtsaPairConfig
from mtsa.models.pair import MtsaForSequencePairClassification

__all__ = ["MtsaConfig", "MtsaForSequenceClassification", "MtsaForSequencePairClassification", "MtsaPairConfig"]

AutoConfig.register(MtsaConfig.model_type, MtsaConfig, exist_ok=True)
AutoConfig.register(MtsaPairConfig.model_type, MtsaPairConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MtsaConfig, MtsaForSequenceClassification, exist_ok=True)
AutoModelForSequenceClassification.register(MtsaPairConfig, MtsaForSequencePairClassification, exist_ok=True)
