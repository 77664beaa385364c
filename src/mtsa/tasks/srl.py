"""Semantic roles: who did what to whom, for each predicate of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data.bio import tag_names
from mtsa.data.check_tags import check_roles
from mtsa.data.examples import Layout
from mtsa.data.srl_formats import read_roles, sentence_to_json, stream_roles, words_path
from mtsa.data.validation_report import ValidationReport
from mtsa.errors import InputError
from mtsa.models.tagger import IGNORED
from mtsa.training.recipe import Recipe
from mtsa.training.split import Split

from .base import reject_unused_keys
from .encoded import EncodedData
from .tag_data import PredicateRow, RoleData, encode_words
from .tagging import WordTask, count_longer

if TYPE_CHECKING:
    from mtsa.training.run_directory import Run

    from .predictor import Predictor


class SemanticRoles(WordTask):
    """Semantic role labelling: predicates and their roles."""

    name = "srl"
    title = "semantic role labelling"
    columns = ("words", "frames")
    rows_per_sentence = 3  # predicates
    pretrained_encoder = "stacked_mtsa"  # the tags of a word depend on the predicate
    corpora = ("roles",)

    def check_settings(self, recipe: Recipe, source: str) -> None:
        reject_unused_keys(recipe, source, self.name, "data", ["text_column", "label_column"])
        if recipe.encoder.get("name") == "embedding":
            raise InputError(
                f"{source}: with encoder embedding, the roles of a word do not depend on the predicate; use an encoder with "
                "context, such as stacked_mtsa"
            )
        super().check_settings(recipe, source)

    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        words = words_path(path, layout.format)
        return list(read_roles(path, words=words, format=layout.format, encoding=layout.encoding)), []

    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        path, layout = Path(recipe.data.train), recipe.layout
        words = words_path(path, layout.format)
        return stream_roles(path, words=words, format=layout.format, encoding=layout.encoding)

    def to_json(self, example: Any) -> dict[str, Any]:
        return sentence_to_json(example)

    def read_shard(self, path: Path) -> list[Any]:
        return read_roles(path, format="jsonl")

    def validate(self, files: Sequence[Path], layout: Layout) -> ValidationReport:
        return check_roles(files[0], layout)

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        labels = {span.label for sentence in split.train for frame in sentence.frames for span in frame.spans}
        if not labels:
            raise InputError(f"{recipe.data.train}: no sentence has a predicate; training needs at least one")
        return tag_names(sorted(labels))

    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[EncodedData, int]:
        limit = self.word_limit(recipe) if training else 0
        words = encode_words(recipe, tokenizer, [sentence.words for sentence in examples], limit=limit)
        predicate_rows, indices = [], []
        for index, sentence in enumerate(examples):
            for frame in sentence.frames or (None,):
                if frame is None or not limit or frame.predicate < limit:
                    predicate_rows.append(PredicateRow(sentence, frame))
                    indices.append(index)
        words = words.select(indices)
        return RoleData(words.rows, words, predicate_rows, labels), count_longer(examples, limit)

    def loss_weight(self, inputs: dict[str, Tensor]) -> float:
        """Return the number of labelled words, plus the number of words that train the predicate finder."""
        return super().loss_weight(inputs) + float((inputs["predicate_labels"] != IGNORED).sum())

    def num_rows(self, example: Any) -> int:
        return max(1, len(example.frames))

    def extra_config(self, recipe: Recipe) -> dict[str, Any]:
        return {"predicate_dim": recipe.model.predicate_dim, "finder_channels": recipe.model.finder_channels}

    def predictor(self, run: Run) -> Predictor:
        from .tag_predictor import RolePredictor

        return RolePredictor(run)
