"""From a recipe to what is trained on: examples read, split, numbered, and a model to start from."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.corpora import corpus_files, is_corpus
from mtsa.data import readers, tokens, vectors
from mtsa.data.catalogue import SOURCES
from mtsa.data.examples import Example, Examples
from mtsa.data.official import emphasised
from mtsa.data.source import InputError
from mtsa.encoders.biblosa import block_length
from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import MtsaConfig

from .recipe import Recipe


@dataclass(frozen=True)
class Part:
    """Numbered examples: the words of each, and its class or number."""

    rows: list[list[int]]
    labels: Tensor  # [len(rows)]: class numbers, or numbers to predict

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Words of each."""
        return [len(row) for row in self.rows]


@dataclass
class Prepared:
    """All that a run starts from."""

    recipe: Recipe
    labels: list[str]  # empty for regression
    tokenizer: Tokenizer
    config: MtsaConfig
    parts: dict[str, Part]  # train, dev, and test where there is one
    words: list[str]  # with a tuned vector, in order
    found: dict[str, Tensor]  # their vectors in the file
    frozen: Tensor
    remarks: list[str] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)  # which test texts stand in the training or dev data too

    @property
    def known(self) -> Tensor:
        """Numbers of the training words that have a vector in the file."""
        return torch.tensor([place for place, word in enumerate(self.words, len(tokens.SPECIAL)) if word in self.found]).long()

    def model(self) -> MtsaForSequenceClassification:
        """The model to start from: drawn from the recipe's seed, then given the vectors of the file."""
        torch.manual_seed(self.recipe.training.seed)
        model = MtsaForSequenceClassification(self.config)
        with torch.no_grad():
            for number, word in enumerate(self.words, start=len(tokens.SPECIAL)):
                if word in self.found:
                    model.words.tuned[number] = self.found[word]
            model.words.frozen.copy_(self.frozen)
        return model


@dataclass(frozen=True)
class Split:
    """Examples of each part, before they are numbered."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    remarks: list[str]


def read_split(recipe: Recipe) -> Split:
    """Read the files of a recipe; without a dev file, cut one from the training data.

    Raises:
        InputError: whatever is wrong with them.
    """
    if not recipe.data.train:
        raise InputError("there is nothing to train on; name a file with --train, or a recipe (mtsa recipes)")
    files = {"train": recipe.data.train, "dev": recipe.data.dev, "test": recipe.data.test}
    layout = recipe.layout
    if is_corpus(recipe.data.train):
        try:
            files |= {part: str(path) for part, path in corpus_files(recipe.data.train).items()}
        except ValueError as error:
            raise InputError(str(error)) from None
        layout = dataclasses.replace(layout, format="tsv", text_column="text", label_column="label", encoding="utf-8")
    read: dict[str, Examples] = {}
    for part, name in files.items():
        if name:
            check_there(name)
            phrases = layout.phrases and part == "train"
            read[part] = readers.read(Path(name), dataclasses.replace(layout, phrases=phrases), number=recipe.regression)
    remarks = [remark for examples in read.values() for remark in examples.remarks()]
    train, dev, test = ([*read[part]] if part in read else [] for part in ("train", "dev", "test"))
    if not dev:
        train, dev = cut(train, recipe.data.dev_share, recipe.training.seed, by_class=not recipe.regression)
        remarks.append(f"dev: {len(dev):,} examples cut from the training data")
    if recipe.data.emphasis:
        train = emphasised(train, recipe.data.emphasis)
    return Split(train, dev, test, remarks)


def check_there(name: str) -> None:
    """A file of a recipe that can be fetched is answered with how.

    Raises:
        InputError: it is not there.
    """
    if Path(name).exists():
        return
    for source in SOURCES.values():
        known = {inside for file in source.files for inside in (file.name, *(taken for _, taken in file.members))}
        if Path(name).parent.name == "data" and Path(name).name in known:
            raise InputError(f"{name}: there is no such file; fetch it with: mtsa data get {source.name}")
    raise InputError(f"{name}: there is no such file")


def cut(examples: Sequence[Example], share: float, seed: int, *, by_class: bool) -> tuple[list[Example], list[Example]]:
    """Cut a share off, drawn from the seed, from each class by itself; a class keeps at least one example.

    Raises:
        InputError: too few examples.
    """
    generator = torch.Generator().manual_seed(seed)
    groups: dict[object, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        groups[example.label if by_class else None].append(number)
    taken: set[int] = set()
    for members in groups.values():
        order = torch.randperm(len(members), generator=generator).tolist()
        count = min(len(members) - 1, max(1, round(share * len(members))))
        taken.update(members[place] for place in order[: max(0, count)])
    if not taken:
        raise InputError(f"{len(examples)} examples are too few to cut a dev part from; give more, or a file with --dev")
    kept = [example for number, example in enumerate(examples) if number not in taken]
    return kept, [examples[number] for number in sorted(taken)]


def prepare(recipe: Recipe, split: Split, tick: Callable[[int], None] = lambda count: None) -> Prepared:
    """Number everything.

    Raises:
        InputError: labels that do not fit, or a vector file that is none.
    """
    remarks = list(split.remarks)
    labels = [] if recipe.regression else _labels(recipe, split)
    least = recipe.tokens.least or (1 if recipe.vectors.file else 2)
    words = tokens.count_words((example.text for example in split.train), least=least)
    loaded = _vectors(recipe, words, tick)
    tokenizer = tokens.word_tokenizer([*words, *loaded.others])
    parts = {}
    for name in ("train", "dev", "test"):
        examples: list[Example] = getattr(split, name)
        if examples:
            parts[name], cut_off = _numbered(recipe, tokenizer, labels, examples)
            if cut_off:
                remarks.append(f"{name}: {cut_off:,} texts were cut after {recipe.tokens.longest} words")
    remarks += _coverage(recipe, split, words, loaded)
    config = _config(recipe, labels, len(words), loaded, parts["train"])
    return Prepared(
        recipe, labels, tokenizer, config, parts, words, loaded.wanted, loaded.other_rows, remarks, repeated(split)
    )


def repeated(split: Split) -> list[bool]:
    """For each test text, whether it stands in the training or dev data too, but for case and spaces."""

    def plain(example: Example) -> str:
        return " ".join(example.text.casefold().split())

    known = {plain(example) for example in (*split.train, *split.dev)}
    return [plain(example) in known for example in split.test]


def _labels(recipe: Recipe, split: Split) -> list[str]:
    counts = Counter(str(example.label) for example in split.train)
    if len(counts) < 2:
        raise InputError(
            f'{recipe.data.train}: all rows have the label "{next(iter(counts))}"; a classifier needs two classes'
        )
    for part, name in (("dev", recipe.data.dev), ("test", recipe.data.test)):
        for example in getattr(split, part):
            if str(example.label) not in counts:
                raise InputError(f'{name}, line {example.line}: label "{example.label}" does not occur in the training data')
    return sorted(counts, key=lambda label: (0, int(label), "") if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label))


def _vectors(recipe: Recipe, words: list[str], tick: Callable[[int], None]) -> vectors.Vectors:
    wanted = recipe.vectors
    if not wanted.file:
        return vectors.Vectors(wanted.width, {}, [], torch.zeros(0, wanted.width))
    check_there(wanted.file)
    path = Path(wanted.file)
    return vectors.read_vectors(path, words, member=wanted.member, others=wanted.unseen, acceptable=tokens.is_word, tick=tick)


def _numbered(recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: list[Example]) -> tuple[Part, int]:
    rows, cut_off = tokens.numbers(tokenizer, [example.text for example in examples], recipe.tokens.longest)
    if recipe.regression:
        return Part(rows, torch.tensor([float(example.label or 0.0) for example in examples], dtype=torch.float64)), cut_off
    number = {label: place for place, label in enumerate(labels)}
    return Part(rows, torch.tensor([number[str(example.label)] for example in examples])), cut_off


def _coverage(recipe: Recipe, split: Split, words: list[str], loaded: vectors.Vectors) -> list[str]:
    if not recipe.vectors.file:
        return []
    share = len(loaded.wanted) / max(1, len(words))
    missing = [word for word in words if word not in loaded.wanted][:5]
    shown = f" (the most frequent without: {', '.join(missing)})" if missing else ""
    return [
        (
            f"vectors: {share:.1%} of {len(words):,} training words are in the file{shown}; "
            f"{len(loaded.others):,} further words are kept for new text"
        )
    ]


def _encoder_options(recipe: Recipe, train: Part) -> dict[str, Any]:
    """The recipe's options; the block length of Bi-BloSA follows from the training data unless it is given."""
    options = recipe.encoder_options
    if recipe.encoder["name"] == "biblosa" and "block" not in options:
        options["block"] = block_length(train.lengths, recipe.training.batch)
    return options


def _config(recipe: Recipe, labels: list[str], words: int, loaded: vectors.Vectors, train: Part) -> MtsaConfig:
    names = labels or ["value"]
    target = (0.0, 1.0)
    if recipe.regression:
        values = train.labels.tolist()
        target = (statistics.fmean(values), statistics.pstdev(values) or 1.0)
    return MtsaConfig(
        words=(len(tokens.SPECIAL) + words, len(loaded.others)),
        width=loaded.width,
        encoder=recipe.encoder["name"],
        encoder_options=_encoder_options(recipe, train),
        pooling=recipe.model.pooling,
        hidden=recipe.model.hidden,
        activation=recipe.model.activation,
        dropout=recipe.model.dropout,
        target=target,
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        problem_type="regression" if recipe.regression else "single_label_classification",
        architectures=["MtsaForSequenceClassification"],
    )
