"""Tagging: a tag for each word of a sentence, such as named entities or parts of speech."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data.bio import OUTSIDE, is_bio, tag_names
from mtsa.data.check_tags import check_tagged
from mtsa.data.examples import Layout
from mtsa.data.tagged import (
    check_span_tags,
    inconsistent_tags,
    read_tagged,
    read_unconverted,
    stray_tags_message,
    stream_tagged,
)
from mtsa.data.validation_report import ValidationReport
from mtsa.encoders import find_encoder
from mtsa.errors import InputError
from mtsa.models.tagger import IGNORED, Tagger
from mtsa.training.defaults import pretrained_tagger_settings, tagger_settings
from mtsa.training.model_inputs import Inputs
from mtsa.training.recipe import Model, Recipe
from mtsa.training.split import Split

from .base import Sections, Task, reject_unused_keys
from .encoded import EncodedData
from .tag_data import TaggedData, encode_words
from .text import reject_target_files, shared_config

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel

    from mtsa.training.run_directory import Run

    from .predictor import Predictor


class WordTask(Task):
    """Base class of tagging and semantic role labelling."""

    pipeline_tag = "token-classification"
    default_encoder = "stacked_mtsa"
    spaced_words = True
    rows_per_sentence: ClassVar[int] = 1  # about; for default settings

    def default_settings(self, size: int, recipe: Recipe) -> Sections:
        if not recipe.pretrained.model:
            return tagger_settings(size, vectors=bool(recipe.vectors.file))
        from mtsa.training.pretrained_inputs import pretrained_facts

        return pretrained_tagger_settings(size, pretrained_facts(recipe.pretrained.model), rows=self.rows_per_sentence)

    def check_settings(self, recipe: Recipe, source: str) -> None:
        reject_unused_keys(recipe, source, self.name, "model", ["pooling", "hidden", "highway"])
        reject_unused_keys(
            recipe, source, self.name, "data", ["delimiter", "classes", "phrases", "pair_column", "length_percentile"]
        )
        reject_unused_keys(recipe, source, self.name, "tokens", ["vocab_size"])
        reject_target_files(recipe, source)
        fixed = "activation" not in find_encoder(str(recipe.encoder.get("name"))).options
        if fixed and recipe.model.activation != Model().activation:
            raise InputError(f"{source}: model.activation is not used by encoder {recipe.encoder['name']}; remove it")
        reject_unused_keys(recipe, source, self.name, "pretrained", ["frozen", "lm_weight", "window"])

    def describe_labels(self, labels: Sequence[str]) -> str:
        return f"{len(labels)} tags"

    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        from mtsa.models.config import MtsaTaggerConfig

        smoothing = recipe.model.label_smoothing
        if smoothing * len(labels) > len(labels) - 1:
            raise InputError(f"model.label_smoothing ({smoothing}) is too large for {len(labels)} tags")
        shared = shared_config(recipe, labels, inputs, train, self.model_class(recipe))
        extra = self.extra_config(recipe)
        extra |= {"shape_dim": recipe.model.shape_dim, "tag_dropout": recipe.model.tag_dropout}
        pieces = recipe.tokens.max_length if recipe.pretrained.model else 0
        return MtsaTaggerConfig(**shared, **extra, label_smoothing=smoothing, max_pieces=pieces)

    def extra_config(self, recipe: Recipe) -> dict[str, Any]:
        """Return additional keys of the model configuration."""
        return {}

    def build_model(self, config: Any) -> PreTrainedModel:
        return self.model_class(config)(config)

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        from mtsa.models.hub_models import MtsaForTokenClassification

        return MtsaForTokenClassification

    def network_class(self, recipe: Recipe) -> type[nn.Module] | None:
        return Tagger

    def word_limit(self, recipe: Recipe) -> int:
        """Return the number of words to which training sentences are truncated; 0: they are not truncated."""
        return 0 if recipe.pretrained.model else recipe.tokens.max_length

    def length_limit(self, recipe: Recipe) -> str:
        if recipe.pretrained.model:
            return f"Sentences of more than {recipe.tokens.max_length:,} word pieces are read in overlapping windows."
        return f"Training sentences were truncated to {recipe.tokens.max_length:,} words; there is no limit in prediction."

    def loss_weight(self, inputs: dict[str, Tensor]) -> float:
        """Return the number of labelled words."""
        return float((inputs["labels"] != IGNORED).sum())


class Tagging(WordTask):
    """Tagging: a tag for each word."""

    name = "tagging"
    title = "sequence tagging"
    columns = ("words", "tags")

    def check_settings(self, recipe: Recipe, source: str) -> None:
        reject_unused_keys(recipe, source, self.name, "model", ["predicate_dim", "finder_channels"])
        super().check_settings(recipe, source)

    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        sentences = read_tagged(path, layout)
        stray = inconsistent_tags(sentences)
        return list(sentences), [f"{path.name}: {stray_tags_message(stray)}"] if stray else []

    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        return stream_tagged(Path(recipe.data.train), recipe.layout)

    def to_json(self, example: Any) -> dict[str, Any]:
        return {"words": list(example.words), "tags": list(example.tags)}

    def read_shard(self, path: Path) -> list[Any]:
        return read_unconverted(path, Layout(format="jsonl"))

    def validate(self, files: Sequence[Path], layout: Layout) -> ValidationReport:
        return check_tagged(files[0], layout)

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        """Return O, then B- and I- of each label; or the plain tags, if they do not mark spans."""
        names = {tag for sentence in split.train for tag in sentence.tags}
        if len(names) < 2:
            raise InputError(
                f'{recipe.data.train}: all words have the tag "{next(iter(names))}"; a tagger needs at least two tags'
            )
        if not is_bio(names):
            return sorted(names)
        for part, sentences in split.held_out().items():
            check_span_tags(recipe.data.file(part) or recipe.data.train, sentences)
        return tag_names(sorted({tag[2:] for tag in names - {OUTSIDE}}))

    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[EncodedData, int]:
        limit = self.word_limit(recipe) if training else 0
        words = encode_words(recipe, tokenizer, [sentence.words for sentence in examples], limit=limit)
        return TaggedData(words.rows, words, list(examples), labels), count_longer(examples, limit)

    def predictor(self, run: Run) -> Predictor:
        from .tag_predictor import TagPredictor

        return TagPredictor(run)


def count_longer(sentences: Sequence[Any], limit: int) -> int:
    """Return the number of sentences with more than `limit` words; 0 without a limit."""
    return sum(len(sentence.words) > limit for sentence in sentences) if limit else 0
