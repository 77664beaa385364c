"""Translation with a Transformer on subwords."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import M2M100Config, PretrainedConfig, PreTrainedModel

from mtsa.corpora import is_corpus
from mtsa.data import readers, subwords
from mtsa.data.batching import make_batch, pad_rows
from mtsa.data.check_parallel import check_parallel
from mtsa.data.examples import Example, Examples, Layout
from mtsa.data.in_memory import IN_MEMORY
from mtsa.data.parallel import read_parallel, stream_parallel
from mtsa.data.sharding import is_shards
from mtsa.data.validation_report import ValidationReport
from mtsa.errors import InputError
from mtsa.messages import counted, nearest
from mtsa.metrics.bleu import score_translations
from mtsa.metrics.protocol import PartScore
from mtsa.models.patched_attention import PatchOptions
from mtsa.models.translator import (
    IGNORED,
    build_translator,
    generation_config,
    smoothed_loss,
    translate,
    translator_class,
    translator_config,
)
from mtsa.training.defaults import translator_settings
from mtsa.training.model_inputs import Inputs
from mtsa.training.recipe import Recipe, Vectors
from mtsa.training.split import Split

from .base import Sections, Task, reject_unused_keys
from .encoded import EncodedData

if TYPE_CHECKING:
    from mtsa.training.run_directory import Run

    from .predictor import Predictor

MIN_VOCAB = 300  # subwords: the bytes and the special tokens
_LONGEST = 245  # subwords of a text that `generate` follows to its end, where there is no limit


@dataclass(frozen=True)
class TranslationData(EncodedData):
    """Encoded sentences and their translations."""

    targets: list[list[int]]  # the token ids of each translation
    truths: list[str]
    tokenizer: Tokenizer
    recipe: Recipe

    @property
    def lengths(self) -> list[int]:
        """Tokens of the longer side."""
        return [max(len(row), len(other)) for row, other in zip(self.rows, self.targets, strict=True)]

    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        ids, mask = pad_rows([self.targets[index] for index in indices])
        labels = ids.masked_fill(mask == 0, IGNORED)
        before = torch.cat([torch.full_like(ids[:, :1], subwords.END_ID), ids[:, :-1]], 1)
        return {**make_batch([self.rows[index] for index in indices]), "decoder_input_ids": before, "labels": labels}

    def predict(self, model: Any, num_beams: int | None = None) -> list[str]:
        """Return the translation of each sentence, by beam search."""
        settings = self.recipe.translator
        return self._decoded(model, num_beams or settings.num_beams, settings.length_penalty)

    def predict_fast(self, model: Any) -> list[str]:
        """Return the translation of each sentence, by greedy search."""
        return self._decoded(model, 1, 1.0)

    def _decoded(self, model: Any, num_beams: int, length_penalty: float) -> list[str]:
        return subwords.decode_subwords(
            self.tokenizer, translate(model, self.rows, num_beams=num_beams, length_penalty=length_penalty)
        )

    def score(self, predictions: list[str], indices: Sequence[int] | None = None) -> PartScore:
        chosen = range(len(self)) if indices is None else indices
        truths = [self.truths[index] for index in chosen]
        return PartScore(score_translations(truths, [predictions[index] for index in chosen]))

    def padded_size(self, batch: Sequence[int]) -> int:
        longest = max(1, *(len(self.targets[index]) for index in batch))
        return super().padded_size(batch) + len(batch) * longest

    def token_count(self, batch: Sequence[int]) -> int:
        return super().token_count(batch) + sum(len(self.targets[index]) for index in batch)


class SubwordInputs(Inputs):
    """Subword tokenizer of both languages; embeddings are initialized randomly."""

    def __init__(self, recipe: Recipe, texts: Iterable[str]) -> None:
        count = recipe.tokens.vocab_size
        if count < MIN_VOCAB:
            raise InputError(f"tokens.vocab_size ({count}) must be at least {MIN_VOCAB}, because every byte is a token")
        self.tokenizer = subwords.train_subwords(texts, count)
        self.special_tokens = dict(subwords.SPECIAL_TOKENS)
        self.remarks = []
        self.about = f"{self.tokenizer.get_vocab_size():,} subwords"
        self.config = {}
        self.known = torch.zeros(0, dtype=torch.long)

    def fill(self, model: Any) -> None:
        """Do nothing: there are no embeddings to load."""


class Translation(Task):
    """Translation: a text for each text."""

    name = "translation"
    files = 2
    columns = ("text", "translation")
    corpora = ("translation",)
    pipeline_tag = "translation"

    # Settings

    def default_settings(self, size: int, recipe: Recipe) -> Sections:
        return translator_settings(size)

    def encoder_section(self, name: str) -> dict[str, Any]:
        return {"name": name}

    def check_encoder(self, recipe: Recipe, source: str) -> None:
        """Do nothing: the encoder is part of the Transformer, and `check_settings` checks it."""

    def check_settings(self, recipe: Recipe, source: str) -> None:
        names = ["pooling", "hidden", "highway", "activation", "shape_dim", "predicate_dim", "finder_channels", "tag_dropout"]
        reject_unused_keys(recipe, source, self.name, "model", names)
        unread = ["delimiter", "classes", "phrases", "text_column", "label_column", "pair_column", "length_percentile"]
        reject_unused_keys(recipe, source, self.name, "data", unread)
        if recipe.vectors != Vectors() or recipe.pretrained.model or recipe.tokens.min_freq:
            raise InputError(f"{source}: task translation uses subwords; remove [vectors], [pretrained] and tokens.min_freq")
        _check_sizes(recipe, source)
        _check_attention(recipe, source)
        _check_files(recipe, source)

    # Data

    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        if target is None:  # an built-in corpus, or a table
            examples = readers.read(path, layout)
        else:
            examples = read_parallel(path, target, "utf-8" if layout.encoding == "auto" else layout.encoding)
        return list(examples), examples.remarks()

    def memory_layout(self, layout: Layout, rows: Sequence[Mapping[str, Any]], *, strict: bool) -> Layout:
        named = "translation" if rows and "translation" in rows[0] else "label"
        return Layout(format="jsonl", label_column=named)

    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        examples = Examples(Path(recipe.data.train), [])
        encoding = "utf-8" if recipe.layout.encoding == "auto" else recipe.layout.encoding
        yield from stream_parallel(examples, Path(recipe.data.train_target), encoding)
        remarks += examples.remarks()

    def to_json(self, example: Example) -> dict[str, Any]:
        return {"text": example.text, "label": example.label}

    def read_shard(self, path: Path) -> list[Any]:
        return list(readers.stream(path, Layout(format="jsonl")))

    def validate(self, files: Sequence[Path], layout: Layout) -> ValidationReport:
        return check_parallel(files[0], files[1], "utf-8" if layout.encoding == "auto" else layout.encoding)

    # Encoding and model

    def make_inputs(self, recipe: Recipe, split: Split) -> Inputs:
        return SubwordInputs(recipe, (text for example in split.train for text in (example.text, example.label)))

    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[TranslationData, int]:
        """Encode sentence pairs; in training, pairs with a long side are skipped instead of truncated."""
        limit = recipe.tokens.max_length
        targets, _ = subwords.encode_subwords(tokenizer, [str(example.label) for example in examples], 0)
        rows, cut = subwords.encode_subwords(tokenizer, [example.text for example in examples], 0 if training else limit)
        truths = [str(example.label) for example in examples]
        if training and limit:
            kept = [index for index in range(len(rows)) if max(len(rows[index]), len(targets[index])) <= limit]
            cut = len(rows) - len(kept)
            rows, targets = ([some[index] for index in kept] for some in (rows, targets))
            truths = [truths[index] for index in kept]
        return TranslationData(rows, targets, truths, tokenizer, recipe), cut

    def truncation_remark(self, recipe: Recipe, count: int, *, training: bool) -> str:
        limit = recipe.tokens.max_length
        if training:
            return f"{counted(count, 'pair')} skipped because one side has more than {limit} subwords (tokens.max_length)"
        return f"{counted(count, 'text')} truncated to {limit} subwords"

    def length_limit(self, recipe: Recipe) -> str:
        return f"Texts are truncated to {recipe.tokens.max_length:,} subwords."

    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        return config_of(recipe, inputs.tokenizer.get_vocab_size())

    def build_model(self, config: Any) -> PreTrainedModel:
        return build_translator(config)

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        return translator_class(tensorized=recipe.swap is not None)

    # Training

    def loss(self, recipe: Recipe, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """Return the loss with label smoothing, which the model class does not support."""
        logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits
        return smoothed_loss(logits, inputs["labels"], recipe.model.label_smoothing)

    def loss_weight(self, inputs: dict[str, Tensor]) -> float:
        """Return the number of target tokens."""
        return float((inputs["labels"] != IGNORED).sum())

    def write_extra(self, recipe: Recipe, folder: Path) -> list[str]:
        settings = recipe.translator
        max_new_tokens = 2 * (recipe.tokens.max_length or _LONGEST) + 10
        generation_config(settings.num_beams, settings.length_penalty, max_new_tokens).save_pretrained(folder)
        return ["generation_config.json"]

    # Use

    def labels_of(self, config: Any) -> list[str]:
        return []

    def predictor(self, run: Run) -> Predictor:
        from .translation_predictor import TranslationPredictor

        return TranslationPredictor(run)

    def example_commands(self, folder: Path) -> str:
        return f'mtsa predict {folder} "a text", mtsa evaluate {folder} --data A.en --target A.de'


def config_of(recipe: Recipe, tokens: int) -> M2M100Config:
    """Return the translator configuration of a recipe, given the vocabulary size."""
    settings = recipe.translator
    return translator_config(
        tokens,
        layers=settings.layers,
        width=settings.d_model,
        heads=settings.heads,
        hidden=settings.ffn_dim,
        dropout=recipe.model.dropout,
        attention_dropout=settings.attention_dropout,
        swap=recipe.swap,
    )


def _check_sizes(recipe: Recipe, source: str) -> None:
    settings = recipe.translator
    for key in ("layers", "d_model", "heads", "ffn_dim", "num_beams"):
        if getattr(settings, key) < 1:
            raise InputError(f"{source}: translator.{key} is {getattr(settings, key)}; it must be positive")
    if settings.d_model % settings.heads or settings.d_model % 2:
        sizes = f"translator.d_model ({settings.d_model}) must be even and divisible by heads ({settings.heads})"
        raise InputError(f"{source}: {sizes}")
    if not 0.0 <= settings.attention_dropout < 1.0:
        raise InputError(f"{source}: translator.attention_dropout is {settings.attention_dropout}; it must be between 0 and 1")


def _check_attention(recipe: Recipe, source: str) -> None:
    name = recipe.encoder.get("name")
    if name not in ("multihead", "mtsa"):
        raise InputError(f'{source}: encoder.name is "{name}"; task translation supports the encoders multihead and mtsa')
    if name == "multihead" and recipe.encoder_options:
        raise InputError(f"{source}: encoder multihead has no options for task translation; set the sizes in [translator]")
    options = [key.name for key in dataclasses.fields(PatchOptions)]
    for key in recipe.encoder_options:
        if key not in options:
            raise InputError(f'{source}: encoder mtsa has no option "{key}" for task translation; {nearest(key, options)}')
    try:
        if recipe.swap is not None:
            PatchOptions(**recipe.swap).rules(recipe.translator.heads)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: [encoder]: {error}") from None


def _check_files(recipe: Recipe, source: str) -> None:
    data = recipe.data
    pairs = [(data.train, data.train_target), (data.dev, data.dev_target), (data.test, data.test_target)]
    unpaired = any(bool(one) != bool(other) and not _has_both_sides(one) for one, other in pairs)
    duplicate = next((one for one, other in pairs if one and one == other), None)
    if duplicate:
        raise InputError(f"{source}: {duplicate} is used as source and as target; specify two different files")
    if unpaired or len(data.tests) != len(data.tests_target):
        raise InputError(f"{source}: missing target file; pass two files, such as --train A.en A.de")


def _has_both_sides(name: str) -> bool:
    """Return whether data of this name contains both texts and translations."""
    return is_corpus(name) or is_shards(name) or name == IN_MEMORY
