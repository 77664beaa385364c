"""What a saved model says about itself: enough to build it again."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class BaseConfig(PretrainedConfig):
    """What the configurations of all models share.

    Args:
        words: (tuned, frozen): how many word vectors there are of each kind.
        width: of the word vectors.
        encoder: name of the context encoder.
        encoder_options: its options.
        activation: of dense layers.
        dropout: of the input of every dense layer.
        pretrained: the configuration of a pretrained model in the place of word vectors; None for word vectors.
        kwargs: all that `transformers` takes.
    """

    def __init__(
        self,
        words: tuple[int, int] = (2, 0),
        width: int = 100,
        encoder: str = "mtsa",
        encoder_options: dict[str, Any] | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
        pretrained: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.words, self.width = list(words), width
        self.encoder, self.encoder_options = encoder, dict(encoder_options or {})
        self.activation, self.dropout, self.pretrained = activation, dropout, pretrained
        kwargs.setdefault("pad_token_id", 0)
        super().__init__(**kwargs)


class MtsaConfig(BaseConfig):
    """The configuration of a sentence model, as `config.json` holds it.

    Args:
        pooling: "source2token", "max" or "mean".
        hidden: width of the hidden layer of the head.
        target: mean and deviation of the numbers that a regression model was trained on.
        language: weight of the loss of a pretrained language model below in training.
        kwargs: all that `ContextConfig` takes.
    """

    model_type = "mtsa"

    def __init__(
        self,
        pooling: str = "source2token",
        hidden: int = 300,
        target: tuple[float, float] = (0.0, 1.0),
        language: float = 0.0,
        **kwargs: Any,
    ) -> None:
        self.pooling, self.hidden = pooling, hidden
        self.target, self.language = list(target), language
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


class MtsaTaggerConfig(BaseConfig):
    """The configuration of a tagger.

    Args:
        flag: width of the vector that tells a word from the predicate that is asked about; 0: no predicate is asked about.
        finder: channels of the predicate finder; 0: none.
        smoothing: part of the probability that training gives to the other tags.
        kwargs: all that `ContextConfig` takes.
    """

    model_type = "mtsa_tagger"

    def __init__(self, flag: int = 0, finder: int = 0, smoothing: float = 0.0, **kwargs: Any) -> None:
        self.flag, self.finder, self.smoothing = flag, finder, smoothing
        super().__init__(**kwargs)

    @property
    def tags(self) -> list[str]:
        """The names of the tags, in order."""
        names: dict[int, str] = self.id2label  # type: ignore[assignment]
        return [names[number] for number in range(len(names))]
