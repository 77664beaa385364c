"""The configurations of the models, as `config.json` stores them."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class BaseConfig(PretrainedConfig):
    """The common part of all configurations.

    Args:
        words: number of trained and of frozen word vectors.
        width: width of the word vectors.
        encoder: name of the context encoder.
        encoder_options: options of the context encoder.
        activation: activation of the dense layers.
        dropout: dropout probability on the input of every dense layer.
        sentence_ends: ids of the tokens that end a sentence, for an encoder with blocks of sentences.
        pretrained: configuration of a pretrained model that replaces the word vectors; None for word vectors.
        window: tokens of the windows in which the pretrained model reads a longer text, special tokens before and after it;
            empty: no windows.
        kwargs: arguments of `PretrainedConfig`.
    """

    def __init__(
        self,
        words: tuple[int, int] = (2, 0),
        width: int = 100,
        encoder: str = "mtsa",
        encoder_options: dict[str, Any] | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
        sentence_ends: list[int] | None = None,
        pretrained: dict[str, Any] | None = None,
        window: list[int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.words, self.width = list(words), width
        self.encoder, self.encoder_options = encoder, dict(encoder_options or {})
        self.activation, self.dropout, self.pretrained = activation, dropout, pretrained
        self.sentence_ends, self.window = list(sentence_ends or []), list(window or [])
        kwargs.setdefault("pad_token_id", 0)
        super().__init__(**kwargs)


class MtsaConfig(BaseConfig):
    """The configuration of a sentence model.

    Args:
        pooling: "source2token", "max", "mean" or "last".
        hidden: width of the hidden layer of the head; 0: no hidden layer.
        target: mean and standard deviation of the training targets of a regression model.
        lm_weight: weight of the language-model loss of the pretrained model in training.
        softmax_temperature: divisor of the logits outside training, so that probabilities are calibrated. (A key
            `temperature` is reserved for text generation in `transformers`, which does not save it.)
        thresholds: multi-label models: the probability from which each label is predicted.
        kwargs: arguments of `BaseConfig`.
    """

    model_type = "mtsa"

    def __init__(
        self,
        pooling: str = "source2token",
        hidden: int = 300,
        target: tuple[float, float] = (0.0, 1.0),
        lm_weight: float = 0.0,
        softmax_temperature: float = 1.0,
        thresholds: list[float] | None = None,
        **kwargs: Any,
    ) -> None:
        self.pooling, self.hidden = pooling, hidden
        self.target = list(target)
        self.lm_weight = kwargs.pop("language", lm_weight)  # its name in version 0.2
        self.softmax_temperature = softmax_temperature
        self.thresholds = thresholds
        super().__init__(**kwargs)


class MtsaPairConfig(MtsaConfig):
    """The configuration of a sentence-pair model.

    Args:
        highway: whether the head has a highway layer.
        joint: whether a pretrained model encodes both texts as one sequence.
        kwargs: arguments of `MtsaConfig`.
    """

    model_type = "mtsa_pair"

    def __init__(self, highway: bool = False, joint: bool = False, **kwargs: Any) -> None:
        self.highway, self.joint = highway, joint
        super().__init__(**kwargs)


class MtsaTaggerConfig(BaseConfig):
    """The configuration of a tagger.

    Args:
        predicate_dim: width of the embedding that marks the predicate; 0 for taggers without predicates.
        finder_channels: channels of the predicate finder; 0 for none.
        label_smoothing: the probability mass of the other tags in training.
        tag_dropout: whether dropout applies to the input of the tag layer.
        softmax_temperature: divisor of the tag logits outside training, so that probabilities are calibrated.
        finder_temperature: the same for the logits of the predicate finder.
        shape_dim: width of the embedding of the shape of each word; 0 for none.
        max_pieces: maximum number of word pieces that the pretrained model reads at once; 0: no limit.
        kwargs: arguments of `BaseConfig`.
    """

    model_type = "mtsa_tagger"

    def __init__(
        self,
        predicate_dim: int = 0,
        finder_channels: int = 0,
        label_smoothing: float = 0.0,
        tag_dropout: bool = True,
        softmax_temperature: float = 1.0,
        finder_temperature: float = 1.0,
        shape_dim: int = 0,
        max_pieces: int = 0,
        **kwargs: Any,
    ) -> None:
        self.predicate_dim = kwargs.pop("flag", predicate_dim)  # names of version 0.2
        self.finder_channels = kwargs.pop("finder", finder_channels)
        self.label_smoothing = kwargs.pop("smoothing", label_smoothing)
        self.tag_dropout = tag_dropout
        self.softmax_temperature, self.finder_temperature = softmax_temperature, finder_temperature
        self.shape_dim, self.max_pieces = shape_dim, max_pieces
        super().__init__(**kwargs)

    @property
    def tags(self) -> list[str]:
        """The names of the tags, in order."""
        names: dict[int, str] = self.id2label  # type: ignore[assignment]
        return [names[number] for number in range(len(names))]
