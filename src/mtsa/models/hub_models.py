"""The networks as `transformers` models, for its Auto classes and pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput

from mtsa.nn.deprecation import warn_deprecated

from .classifier import SentenceClassifier
from .config import BaseConfig, MtsaConfig, MtsaPairConfig, MtsaTaggerConfig
from .pair import PairClassifier
from .tagger import Tagger


@dataclass
class TaggerOutput(TokenClassifierOutput):
    """Logits of the tags, and the logit of each word being a predicate."""

    predicate_logits: Tensor | None = None  # [B, N]

    @property
    def found(self) -> Tensor | None:
        """Deprecated name of `predicate_logits`."""
        warn_deprecated("found is deprecated and will be removed in version 0.4; use predicate_logits")
        return self.predicate_logits


class HubModel(PreTrainedModel):
    """The common base class."""

    config_class: type[BaseConfig] = BaseConfig
    base_model_prefix = "mtsa"
    main_input_name = "input_ids"

    def _init_weights(self, module: nn.Module) -> None:
        """Layers initialize themselves when they are built."""


class MtsaForSequenceClassification(SentenceClassifier, HubModel):
    """A sentence classifier over any registered encoder. With one label it is a regression model."""

    hub = True
    config_class = MtsaConfig

    def __init__(self, config: MtsaConfig) -> None:
        super().__init__(config)
        self.post_init()

    def make_output(self, **values: Any) -> SequenceClassifierOutput:
        return SequenceClassifierOutput(**values)


class MtsaForSequencePairClassification(PairClassifier, HubModel):
    """Two tied encoders and a head that compares their vectors. With one label it is a regression model."""

    hub = True
    config_class = MtsaPairConfig

    def __init__(self, config: MtsaPairConfig) -> None:
        super().__init__(config)
        self.post_init()

    def make_output(self, **values: Any) -> SequenceClassifierOutput:
        return SequenceClassifierOutput(**values)


class MtsaForTokenClassification(Tagger, HubModel):
    """A tagger over any registered encoder. With `config.predicate_dim` it labels the roles of one predicate."""

    hub = True
    config_class = MtsaTaggerConfig

    def __init__(self, config: MtsaTaggerConfig) -> None:
        super().__init__(config)
        self.post_init()

    def make_output(self, **values: Any) -> TaggerOutput:
        return TaggerOutput(**values)
