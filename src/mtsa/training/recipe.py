"""Recipes: all settings of a run, with their defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtsa.data.batching import POOL
from mtsa.data.examples import Layout

OPTIMIZERS = ("adadelta", "adam", "adamw")
SCHEDULES = ("constant", "linear", "inverse_sqrt")
DISTRIBUTED = ("ddp", "fsdp")
PRECISIONS = ("float32", "bfloat16", "auto")
CLASS_WEIGHTS = ("none", "balanced")
METRICS = ("accuracy", "macro_f1")
PAIR_ENCODINGS = ("separate", "joint")


AUTHORS_SWAP: dict[str, Any] = {
    "masks": "full", "score_activation": "identity", "source_input": "value", "source_activation": "logsigmoid",
    "source_bias": 0.0, "init": "glorot",
}  # fmt: skip
"""Tensorized attention as in the authors' translator: exp of the token2token scores, sigmoid of the source2token scores."""


@dataclass(frozen=True)
class Data(Layout):
    """Data files and their format: the keys of `Layout` (`phrases` applies to training only), and the following."""

    train: str = ""  # a file, or "corpus:questions" for the built-in corpus
    dev: str = ""  # empty: split off from the training data
    test: str = ""  # evaluated once, at the end; empty: none
    tests: tuple[str, ...] = ()  # additional test files, each evaluated separately
    train_target: str = ""  # translation: target file of `train`, aligned by line
    dev_target: str = ""
    test_target: str = ""
    tests_target: tuple[str, ...] = ()
    dev_fraction: float = 0.1  # of the training data, if there is no dev file
    length_percentile: float = 100.0  # texts: training examples with a text longer than this percentile of lengths are dropped
    oversampling: int = 0  # repetitions of non-neutral phrases and of sentences in an epoch (treebanks); 0: none

    def file(self, part: str) -> str:
        """Return the file of a split: train, dev, test, or an additional test set "test:NAME"."""
        return self.further.get(part) or str(getattr(self, part))

    @property
    def further(self) -> dict[str, str]:
        """The additional test files by split name: the file name, with the folder name if two are equal."""
        plain = [base_name(name) for name in (self.test, *self.tests)]
        names = [name if plain.count(name) == 1 else f"{Path(file).parent.name}-{name}"
                 for name, file in zip(plain[1:], self.tests, strict=True)]  # fmt: skip
        return {f"test:{name}": file for name, file in zip(names, self.tests, strict=True)}

    def target(self, part: str) -> str:
        """Return the file with the translations of a split."""
        targets = dict(zip(self.further, self.tests_target, strict=False))
        return targets.get(part) or str(getattr(self, f"{part}_target"))


def base_name(file: str) -> str:
    """Return the name of a file without folder and extensions, used as the name of a test set."""
    name = Path(file).name.removesuffix(".gz")
    return name.removesuffix(Path(name).suffix)


@dataclass(frozen=True)
class Tokens:
    """Tokenization."""

    max_length: int = (
        512  # tokens of a text; longer texts are truncated, or read in windows by pretrained taggers; 0: no limit
    )
    min_freq: int = 0  # occurrences in training for a word to get a vector; 0: 1 with a vector file, 2 without
    vocab_size: int = 8000  # translation: subwords of both languages together


@dataclass(frozen=True)
class Vectors:
    """Word vectors."""

    file: str = ""  # GloVe text, .gz or .zip; empty: random vectors
    member: str = ""  # which file of a .zip
    dim: int = 100  # of random vectors
    lr_multiplier: float = 1.0  # learning rate of words that have a vector in the file, relative to all others
    max_unseen: int = 400_000  # words of the file, not in training, that the model keeps for new text


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model instead of word vectors."""

    model: str = ""  # "minilm", a folder, or a name on the hub, as accepted by `transformers`; empty: word vectors
    window: int = 0  # tokens of the overlapping windows in which a longer text is read; 0: texts are read as a whole
    frozen: bool = False  # whether its weights are not trained; its output is then computed once
    lr_multiplier: float = 1.0  # learning rate of its weights, relative to training.learning_rate
    layer_decay: float = 1.0  # learning rate of each of its layers, relative to the next higher layer
    lm_weight: float = 0.0  # weight of its language-model loss (GPT, GPT-2; the paper: 0.3)


@dataclass(frozen=True)
class Model:
    """The layers around the encoder."""

    pooling: str = "source2token"  # of sentence models: "source2token", "max", "mean" or "last"
    hidden: int = 300  # of sentence models: width of the layer before the classes; 0: no such layer
    pair_encoding: str = "separate"  # of pairs: "separate", or "joint": a pretrained model reads both texts as one sequence
    highway: bool = False  # of pairs: a highway layer before the classes
    activation: str = "relu"
    dropout: float = 0.5  # of the input of every dense layer, the encoder's included
    label_smoothing: float = 0.0  # taggers and translators: probability mass of the other labels in training
    tag_dropout: bool = True  # taggers: whether dropout applies to the input of the tag layer
    shape_dim: int = 0  # taggers: width of the embedding of the shape of each word (capitals, digits, punctuation); 0: none
    predicate_dim: int = 100  # semantic roles: width of the embedding that marks the predicate
    finder_channels: int = 100  # semantic roles: channels of each size in the predicate finder


@dataclass(frozen=True)
class Translator:
    """The Transformer for translation; its dropout is that of [model]."""

    layers: int = 2  # of the encoder, and of the decoder
    d_model: int = 256
    heads: int = 4
    ffn_dim: int = 1024  # of the feed-forward layers
    attention_dropout: float = 0.1
    num_beams: int = 4  # of the beam search
    length_penalty: float = 0.6  # exponent of the length by which the score of a translation is divided


@dataclass(frozen=True)
class Training:
    """Optimization, schedule and evaluation."""

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    lr_milestones: tuple[int, ...] = ()  # constant schedule: steps at which the learning rate is halved
    epsilon: float = 1e-8  # of the optimizer
    beta2: float = 0.999  # of Adam and AdamW
    weight_decay: float = 1e-4  # on weight matrices, not on biases or word vectors; adam and adadelta: L2
    max_grad_norm: float = 0.0  # gradients are clipped to this norm; 0: never
    batch_size: int = 64  # examples
    batch_tokens: int = 0  # maximum tokens per batch, including padding; 0: batches of `batch_size` examples
    length_pool: int = POOL  # number of batches whose examples are sorted by length together; larger: less padding
    max_steps: int = 0  # 0: determined by `epochs`
    epochs: int = 30
    eval_steps: int = 0  # steps between evaluations; 0: one epoch
    patience: int = 5  # evaluations without improvement before early stopping; 0: no early stopping
    class_weights: str = "none"  # classifiers: or "balanced": the loss of an example is divided by the frequency of its class
    metric: str = "accuracy"  # classifiers: dev metric that selects the best step, or "macro_f1"
    refit: bool = False  # train again on training and dev data, for as many epochs as the best step
    seed: int = 0
    precision: str = "float32"  # of the forward pass (autocast); or "bfloat16", or "auto": bfloat16 where it is faster
    gradient_accumulation_steps: int = 1  # batches of an optimizer step
    compile: bool = False  # torch.compile
    distributed: str = "ddp"  # with several processes: "ddp" (each has all weights) or "fsdp" (each has a shard)


@dataclass(frozen=True)
class Recipe:
    """All settings of a run."""

    task: str = "classification"
    data: Data = field(default_factory=Data)
    tokens: Tokens = field(default_factory=Tokens)
    vectors: Vectors = field(default_factory=Vectors)
    pretrained: Pretrained = field(default_factory=Pretrained)
    encoder: Mapping[str, Any] = field(default_factory=lambda: {"name": "mtsa", "head_dim": 150})
    model: Model = field(default_factory=Model)
    translator: Translator = field(default_factory=Translator)
    training: Training = field(default_factory=Training)

    @property
    def layout(self) -> Layout:
        """The format of the data files."""
        return Layout(**{key.name: getattr(self.data, key.name) for key in dataclasses.fields(Layout)})

    @property
    def encoder_options(self) -> dict[str, Any]:
        """The encoder section without the name."""
        return {key: value for key, value in self.encoder.items() if key != "name"}

    @property
    def swap(self) -> dict[str, Any] | None:
        """Translation: the options of tensorized attention in the encoder; None for multi-head attention."""
        return None if self.encoder.get("name") == "multihead" else {**AUTHORS_SWAP, **self.encoder_options}
