"""What a saved model says about itself: enough to build it again."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class MtsaConfig(PretrainedConfig):
    """The configuration of a sentence model, as `config.json` holds it.

    Args:
        words: (tuned, frozen): how many word vectors there are of each kind.
        width: of the word vectors.
        encoder: name of the context encoder.
        encoder_options: its options.
        pooling: "source2token", "max" or "mean".
        hidden: width of the hidden layer of the head.
        activation: of pooling and head.
        dropout: of the input of every dense layer.
        target: mean and deviation of the numbers that a regression model was trained on.
        pretrained: the configuration of a pretrained model in the place of word vectors; None for word vectors.
        language: weight of the loss of its language model in training.
    """

    model_type = "mtsa"

    def __init__(
        self,
        words: tuple[int, int] = (2, 0),
        width: int = 100,
        encoder: str = "mtsa",
        encoder_options: dict[str, Any] | None = None,
        pooling: str = "source2token",
        hidden: int = 300,
        activation: str = "relu",
        dropout: float = 0.0,
        target: tuple[float, float] = (0.0, 1.0),
        pretrained: dict[str, Any] | None = None,
        language: float = 0.0,
        **kwargs: Any,
    ) -> None:
        self.words, self.width = list(words), width
        self.encoder, self.encoder_options = encoder, dict(encoder_options or {})
        self.pooling, self.hidden, self.activation, self.dropout = pooling, hidden, activation, dropout
        self.target = list(target)
        self.pretrained, self.language = pretrained, language
        kwargs.setdefault("pad_token_id", 0)
        super().__init__(**kwargs)


class MtsaPairConfig(MtsaConfig):
    """The configuration of a sentence-pair model.

    Args:
        highway: whether the head has a highway layer.
        kwargs: all that `MtsaConfig` takes.
    """

    model_type = "mtsa_pair"

    def __init__(self, highway: bool = False, **kwargs: Any) -> None:
        self.highway = highway
        super().__init__(**kwargs)
