"""A recipe: everything that decides a run, with its defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtsa.data.examples import Layout
from mtsa.data.tasks import TASKS

OPTIMIZERS = ("adadelta", "adam", "adamw")
SCHEDULES = ("constant", "linear", "inverse_sqrt")
SPREADS = ("ddp", "fsdp")


AUTHORS_SWAP: dict[str, Any] = {
    "masks": "full", "pairwise": "identity", "source": "value", "source_scale": "logsigmoid", "source_bias": 0.0,
    "start": "glorot",
}  # fmt: skip
"""Tensorized attention as the authors' translator has it: exp of the pair scores, sigmoid of the source2token scores."""


@dataclass(frozen=True)
class Data(Layout):
    """Which files, and how to read them: the keys of a layout (`phrases` in training alone), and these."""

    train: str = ""  # a file, or "corpus:questions" for the embedded corpus
    dev: str = ""  # empty: a part of the training data
    test: str = ""  # evaluated once, at the end; empty: none
    tests: tuple[str, ...] = ()  # further test files, each evaluated once by itself
    train_target: str = ""  # of translation: the file with the translations of `train`, line by line
    dev_target: str = ""
    test_target: str = ""
    tests_target: tuple[str, ...] = ()
    dev_share: float = 0.1  # of the training data, where there is no dev file
    emphasis: int = 0  # of phrases: how often sentences and phrases that are not neutral stand in a pass; 0: as in the trees

    def file(self, part: str) -> str:
        """The file of a part: train, dev, test, or a further test as "test:NAME"."""
        return self.further.get(part) or str(getattr(self, part))

    @property
    def further(self) -> dict[str, str]:
        """The further test files by the names of their parts: the file's, with its folder's where two are alike."""
        plain = [without_endings(name) for name in (self.test, *self.tests)]
        names = [name if plain.count(name) == 1 else f"{Path(file).parent.name}-{name}"
                 for name, file in zip(plain[1:], self.tests, strict=True)]  # fmt: skip
        return {f"test:{name}": file for name, file in zip(names, self.tests, strict=True)}

    def target(self, part: str) -> str:
        """The file with the translations of a part."""
        targets = dict(zip(self.further, self.tests_target, strict=False))
        return targets.get(part) or str(getattr(self, f"{part}_target"))


def without_endings(file: str) -> str:
    """The name of a file without its folder and endings: what a test part is called."""
    name = Path(file).name.removesuffix(".gz")
    return name.removesuffix(Path(name).suffix)


@dataclass(frozen=True)
class Tokens:
    """Words."""

    longest: int = 512  # words of a text; the rest is cut off; 0: never
    least: int = 0  # occurrences of a word in training to get a vector; 0: 1 with a vector file, 2 without
    subwords: int = 8000  # of translation: subwords of both languages together


@dataclass(frozen=True)
class Vectors:
    """Word vectors."""

    file: str = ""  # GloVe text, .gz or .zip; empty: random vectors
    member: str = ""  # which file of a .zip
    width: int = 100  # of random vectors
    rate: float = 1.0  # part of each step that words with a vector in the file make, from 0 to 1; others make all of it
    unseen: int = 400_000  # words of the file, not in training, that the model keeps for new text


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model in the place of word vectors."""

    model: str = ""  # a folder, or a name on the hub, as `transformers` takes it; empty: word vectors
    rate: float = 1.0  # of its weights: part of the learning rate
    language: float = 0.0  # weight of its own loss as a language model, where it is one (the paper: 0.3)


@dataclass(frozen=True)
class Model:
    """What stands around the encoder."""

    pooling: str = "source2token"  # of sentence models
    hidden: int = 300  # of sentence models: width of the layer before the classes
    highway: bool = False  # of pairs: a highway layer before the classes
    activation: str = "relu"
    dropout: float = 0.5  # of the input of every dense layer, the encoder's included
    smoothing: float = 0.0  # of taggers: part of the probability that training gives to the other tags
    flag: int = 100  # of roles: width of the vector that marks the predicate
    finder: int = 100  # of roles: channels of each size in the predicate finder


@dataclass(frozen=True)
class Translator:
    """A Transformer that translates; its dropout is that of [model]."""

    layers: int = 2  # of the encoder, and of the decoder
    width: int = 256
    heads: int = 4
    hidden: int = 1024  # inside the feed-forward parts
    attention_dropout: float = 0.1
    beam: int = 4  # translations that are followed at once
    penalty: float = 0.6  # exponent of the length that the score of a translation is divided by


@dataclass(frozen=True)
class Training:
    """How it is trained."""

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0  # steps
    halve_at: tuple[int, ...] = ()  # of a constant schedule: steps at which the rate is halved
    epsilon: float = 1e-8  # of the optimiser
    beta2: float = 0.999  # of Adam and AdamW
    l2: float = 1e-4  # on weights, not on biases or word vectors
    clip: float = 0.0  # norm of the gradient; 0: never
    batch: int = 64  # examples
    batch_tokens: int = 0  # words of a batch, padding included, in the place of `batch`; 0: as `batch` says
    steps: int = 0  # at most; 0: as `epochs` says
    epochs: int = 30
    evaluate_every: int = 0  # steps; 0: at the end of each epoch
    patience: int = 5  # evaluations without a better one; 0: never stop early
    refit: bool = False  # when the best step is known, train anew for as long on training and dev data together
    seed: int = 0
    spread: str = "ddp"  # over several processes: a copy of the weights in each, or ("fsdp") a share


@dataclass(frozen=True)
class Recipe:
    """One run."""

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
        """How the files are read."""
        return Layout(**{key.name: getattr(self.data, key.name) for key in dataclasses.fields(Layout)})

    @property
    def encoder_options(self) -> dict[str, Any]:
        """The encoder section without the name."""
        return {key: value for key, value in self.encoder.items() if key != "name"}

    @property
    def regression(self) -> bool:
        """Whether numbers are predicted."""
        return TASKS[self.task].numbers

    @property
    def by_class(self) -> bool:
        """Whether an example is of one class, so that parts are cut from each class by itself."""
        return TASKS[self.task].by_class

    @property
    def paired(self) -> bool:
        """Whether an example is a pair of texts."""
        return TASKS[self.task].paired

    @property
    def tagged(self) -> bool:
        """Whether each word gets a tag."""
        return TASKS[self.task].tagged

    @property
    def roles(self) -> bool:
        """Whether semantic roles are labelled."""
        return TASKS[self.task].roles

    @property
    def translated(self) -> bool:
        """Whether a text is answered with a text."""
        return TASKS[self.task].translated

    @property
    def swap(self) -> dict[str, Any] | None:
        """Of translation: the options of tensorized attention in the encoder; None for multi-head attention."""
        return None if self.encoder.get("name") == "multihead" else {**AUTHORS_SWAP, **self.encoder_options}
