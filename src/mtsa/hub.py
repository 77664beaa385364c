"""`import mtsa.hub` makes the models known to the Auto classes of `transformers`; the one import with a side effect."""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForSequenceClassification

from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import MtsaConfig

__all__ = ["MtsaConfig", "MtsaForSequenceClassification"]

AutoConfig.register(MtsaConfig.model_type, MtsaConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MtsaConfig, MtsaForSequenceClassification, exist_ok=True)
