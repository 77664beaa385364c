"""Classification and regression of texts, and of pairs of texts."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data import readers, tokenization
from mtsa.data.check_texts import TextReport, check_texts
from mtsa.data.examples import Example, Examples, Layout, label_names
from mtsa.encoders import find_encoder
from mtsa.encoders.biblosa import block_length
from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.messages import nearest
from mtsa.models.classifier import SentenceClassifier
from mtsa.models.pair import PairClassifier
from mtsa.training.defaults import for_documents, pretrained_settings, text_settings
from mtsa.training.model_inputs import Inputs
from mtsa.training.recipe import METRICS, Recipe
from mtsa.training.split import Split, check_labels

from .base import Sections, Task, reject_unused_keys
from .encoded import EncodedData
from .text_data import TextData, encode_sides

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel

    from mtsa.training.run_directory import Run

    from .text_predictor import TextPredictor

_log = logging.getLogger(__name__)
MODULES = "modules.json"  # read by sentence-transformers
_MODULE = {"idx": 0, "name": "0", "path": "", "type": "mtsa.interop.sentences.SentenceModule"}


class TextTask(Task):
    """Base class of the tasks that predict a class or a number for a text or a pair of texts."""

    numeric: ClassVar[bool] = False  # whether numbers are predicted
    problem_type: ClassVar[str] = "single_label_classification"  # in the configuration of the model

    @property
    def kind(self) -> dict[str, bool]:
        """What an example is, for the readers."""
        return {"number": self.numeric, "paired": self.paired, "multilabel": self.multilabel}

    # Settings

    def default_settings(self, size: int, recipe: Recipe) -> Sections:
        pretrained = recipe.pretrained
        long_texts = find_encoder(str(recipe.encoder["name"])).build.long_texts
        if not pretrained.model:
            found = text_settings(size, vectors=bool(recipe.vectors.file))
        else:
            from mtsa.training.pretrained_inputs import pretrained_facts

            facts = pretrained_facts(pretrained.model)
            found = pretrained_settings(size, facts, frozen=pretrained.frozen, paired=self.paired, windows=long_texts)
        return for_documents(found) if long_texts else found

    def check_settings(self, recipe: Recipe, source: str) -> None:
        reject_unused_keys(
            recipe,
            source,
            self.name,
            "model",
            ["label_smoothing", "shape_dim", "predicate_dim", "finder_channels", "tag_dropout"],
        )
        reject_unused_keys(recipe, source, self.name, "tokens", ["vocab_size"])
        if recipe.data.phrases and recipe.data.format not in ("auto", "sst"):
            raise InputError(f"{source}: data.phrases applies to format sst only; remove it")
        reject_target_files(recipe, source)
        if self.paired:
            return
        if recipe.model.highway:
            raise InputError(f"{source}: model.highway applies to pairs only; remove it, or use --task pair")
        if recipe.model.pair_encoding != "separate":
            raise InputError(f"{source}: model.pair_encoding applies to pairs only; remove it, or use --task pair")
        if recipe.data.pair_column:
            raise InputError(f"{source}: data.pair_column applies to pairs only; remove it, or use --task pair")

    # Data

    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        found = readers.read(path, layout, **self.kind)
        return list(found), found.remarks()

    def memory_layout(self, layout: Layout, rows: Sequence[Mapping[str, Any]], *, strict: bool) -> Layout:
        """Return the layout with the column names of the recipe if they exist or `strict` is set, otherwise the defaults."""
        first = rows[0] if rows else {}

        def column(name: str, default: str) -> str:
            return name if name and (strict or name in first) else default

        pair = column(layout.pair_column, "pair") if self.paired else ""
        text, label = column(layout.text_column, "text"), column(layout.label_column, "label")
        separator = layout.label_separator if self.multilabel else ""
        if layout.label_columns and (strict or all(name in first for name in layout.label_columns)):
            return Layout(format="jsonl", text_column=text, pair_column=pair, label_columns=layout.label_columns)
        return Layout(format="jsonl", text_column=text, label_column=label, pair_column=pair, label_separator=separator)

    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        examples = Examples(Path(recipe.data.train), [])
        yield from readers.stream_labelled(examples, recipe.layout, **self.kind)
        remarks += examples.remarks()

    def to_json(self, example: Example) -> dict[str, Any]:
        return {"text": example.text, "label": example.label} | ({} if example.pair is None else {"pair": example.pair})

    def read_shard(self, path: Path) -> list[Any]:
        layout = Layout(format="jsonl", pair_column="pair" if self.paired else "")
        return list(readers.stream(path, layout, **self.kind))

    def validate(self, files: Sequence[Path], layout: Layout) -> TextReport:
        return check_texts(files[0], layout, **self.kind)

    # Encoding and model

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        return [] if self.numeric else _labels(recipe, split)

    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[TextData, int]:
        limit = recipe.tokens.max_length
        if training and recipe.data.length_percentile < 100.0:
            total, percentile = len(examples), recipe.data.length_percentile
            examples = shorter_examples(tokenizer, examples, percentile)
            _log.info(
                "train: dropped %s of %s examples longer than percentile %g of the text lengths (data.length_percentile)",
                total - len(examples),
                total,
                percentile,
            )
        seconds = [example.pair or "" for example in examples] if self.paired else None
        joint = recipe.model.pair_encoding == "joint"
        encoded, truncated = encode_sides(tokenizer, [example.text for example in examples], seconds, limit, joint=joint)
        return dataclasses.replace(encoded, labels=self.targets(labels, examples), names=labels), truncated

    def targets(self, labels: list[str], examples: Sequence[Any]) -> Tensor:
        """Return the labels of examples as a tensor: class indices, or numbers."""
        if self.numeric:
            return torch.tensor([float(example.label or 0.0) for example in examples], dtype=torch.float64)
        indices = {label: index for index, label in enumerate(labels)}
        return torch.tensor([indices[str(example.label)] for example in examples])

    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        from mtsa.models.config import MtsaConfig, MtsaPairConfig

        kind = MtsaPairConfig if self.paired else MtsaConfig
        target = (0.0, 1.0)
        if self.numeric:
            assert isinstance(train, TextData)
            values = train.labels.tolist()
            target = (statistics.fmean(values), statistics.pstdev(values) or 1.0)
        pair: dict[str, Any] = {"highway": recipe.model.highway, "joint": recipe.model.pair_encoding == "joint"}
        return kind(
            **shared_config(recipe, labels or ["value"], inputs, train, self.model_class(recipe)),
            pooling=recipe.model.pooling,
            hidden=recipe.model.hidden,
            target=target,
            lm_weight=recipe.pretrained.lm_weight,
            problem_type=self.problem_type,
            **(pair if self.paired else {}),
        )

    def build_model(self, config: Any) -> PreTrainedModel:
        from mtsa.models.hub_models import MtsaForSequenceClassification, MtsaForSequencePairClassification

        return MtsaForSequencePairClassification(config) if self.paired else MtsaForSequenceClassification(config)

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        from mtsa.models.hub_models import MtsaForSequenceClassification, MtsaForSequencePairClassification

        return MtsaForSequencePairClassification if self.paired else MtsaForSequenceClassification

    def network_class(self, recipe: Recipe) -> type[nn.Module] | None:
        return PairClassifier if self.paired else SentenceClassifier

    def shard_blocks(self, recipe: Recipe) -> bool:
        return not self.paired  # pairs are read in groups by length

    def write_extra(self, recipe: Recipe, folder: Path) -> list[str]:
        write_json(folder / MODULES, [_MODULE])  # not in the manifest: saving a SentenceTransformer writes its own
        return []

    # Use

    def labels_of(self, config: Any) -> list[str]:
        return [] if self.numeric else super().labels_of(config)

    def predictor(self, run: Run) -> TextPredictor:
        from .text_predictor import TextPredictor

        return TextPredictor(run, paired=self.paired, numeric=self.numeric)


class Classification(TextTask):
    """Classification: a class for each text."""

    name = "classification"
    title = "text classification"
    stratified = True
    weighs_classes = True
    selection_metrics = METRICS
    corpora = ("questions",)
    pipeline_tag = "text-classification"


class Regression(TextTask):
    """Regression: a number for each text."""

    name = "regression"
    title = "text regression"
    numeric = True
    problem_type = "regression"
    pipeline_tag = "text-classification"


class PairClassification(TextTask):
    """Pair classification: a class for each pair of texts."""

    name = "pair"
    title = "classification of text pairs"
    stratified = True
    weighs_classes = True
    selection_metrics: ClassVar[tuple[str, ...]] = METRICS
    paired = True
    columns = ("text", "pair", "label")
    corpora: ClassVar[tuple[str, ...]] = ("entailment",)
    pipeline_tag = "text-classification"
    tokenizer_inputs = ("input_ids", "attention_mask", "token_type_ids")

    def example_call(self) -> str:
        return '("A text .", "Another .")'

    def example_commands(self, folder: Path) -> str:
        return f'mtsa predict {folder} "a text" --pair "another", mtsa evaluate {folder} --data FILE'


class Similarity(PairClassification):
    """Similarity: a number for each pair of texts."""

    name = "similarity"
    title = "similarity of text pairs"
    stratified = False
    weighs_classes = False
    selection_metrics = ()
    numeric = True
    problem_type: ClassVar[str] = "regression"
    corpora = ()
    pipeline_tag = "sentence-similarity"


def shorter_examples(tokenizer: Tokenizer, examples: Sequence[Example], percentile: float) -> list[Example]:
    """Return the examples without texts that are longer than a percentile of all text lengths."""
    texts = [text for example in examples for text in (example.text, example.pair) if text is not None]
    rows, _ = tokenization.encode_texts(tokenizer, texts, 0)
    sizes = dict(zip(texts, map(len, rows), strict=True))
    max_length = sorted(map(len, rows))[max(0, math.ceil(percentile / 100 * len(rows)) - 1)]
    return [
        example
        for example in examples
        if sizes[example.text] <= max_length and (example.pair is None or sizes[example.pair] <= max_length)
    ]


def reject_target_files(recipe: Recipe, source: str) -> None:
    """Reject settings that apply to translation only.

    Raises:
        InputError: such a setting is used.
    """
    data = recipe.data
    if any((data.train_target, data.dev_target, data.test_target, *data.tests_target)):
        raise InputError(f"{source}: target files (train_target, ...) apply to task translation only; remove them")
    if recipe.translator != type(recipe.translator)():
        raise InputError(f"{source}: [translator] applies to task translation only; remove it")


def shared_config(
    recipe: Recipe, names: list[str], inputs: Inputs, train: EncodedData, model: type[PreTrainedModel]
) -> dict[str, Any]:
    """Return the common part of the configurations of all models on word vectors."""
    return {
        **inputs.config,
        **_sentence_ends(recipe, inputs),
        "encoder": recipe.encoder["name"],
        "encoder_options": _encoder_options(recipe, train),
        "activation": recipe.model.activation,
        "dropout": recipe.model.dropout,
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "architectures": [model.__name__],
    }


def _sentence_ends(recipe: Recipe, inputs: Inputs) -> dict[str, Any]:
    """The ids of tokens that end a sentence, for encoders that use them."""
    used = find_encoder(str(recipe.encoder["name"])).build.reads_sentence_ends
    return {"sentence_ends": tokenization.sentence_end_ids(inputs.tokenizer)} if used else {}


def _encoder_options(recipe: Recipe, train: EncodedData) -> dict[str, Any]:
    """The recipe's options; the block length of Bi-BloSA follows from the training data unless it is given."""
    options = recipe.encoder_options
    if recipe.encoder["name"] == "biblosa" and "block" not in options:
        options["block"] = block_length(train.lengths, recipe.training.batch_size)
    return options


def _labels(recipe: Recipe, split: Split) -> list[str]:
    counts = Counter(str(example.label) for example in split.train)
    check_labels(recipe, counts, counts.total())
    if len(counts) < 2:
        raise InputError(
            f'{recipe.data.train}: all rows have the label "{next(iter(counts))}"; a classifier needs at least two classes'
        )
    check_held_out_labels(recipe, split, counts)
    return ordered_labels(counts)


def check_held_out_labels(recipe: Recipe, split: Split, known: Collection[str]) -> None:
    """Check that the labels of dev and test data occur in the training data.

    Raises:
        InputError: a label does not.
    """
    for part, examples in split.held_out().items():
        for example in examples:
            for label in label_names(example.label):
                if label not in known:
                    hint = f"{nearest(label, known)}; correct it, or delete the row"
                    raise InputError(
                        f'{recipe.data.file(part) or recipe.data.train}, line {example.line}: label "{label}" does not occur '
                        f"in the training data; {hint}"
                    )


def ordered_labels(labels: Collection[str]) -> list[str]:
    """Return label names in order: integers by value, then other names alphabetically."""
    return sorted(labels, key=lambda label: (0, int(label), "") if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label))
