"""Trained multi-label models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mtsa.data.examples import Layout
from mtsa.errors import InputError
from mtsa.messages import nearest

from .multilabel_data import LabelLogits, thresholds_of
from .predictor import ModelInput, as_input
from .text_explanation import explain_sequence
from .text_output import LabelSet
from .text_predictor import TextPredictor

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps
    from mtsa.inference.graph_export import ExportSpec
    from mtsa.training.run_directory import Run

_MOST_EXPLAINED = 5  # labels of a text whose contributions are shown


class MultiLabelPredictor(TextPredictor):
    """Predicts any number of labels for each text. Inputs are strings.

    Args:
        run: the loaded run directory.
    """

    multilabel = True
    predict_options = TextPredictor.predict_options - {"submission"}
    evaluate_options = TextPredictor.evaluate_options | {"label_separator", "label_columns"}

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.separator = run.recipe.data.label_separator or self.separator

    @property
    def thresholds(self) -> dict[str, float]:
        """The minimum probability at which each label is predicted."""
        return dict(zip(self.labels, thresholds_of(self.model), strict=True))

    def source(self, data: str | Path, **options: Any) -> tuple[Path, Layout]:
        path, layout = super().source(data, **options)
        given = {key for key, value in options.items() if value}
        if "label_columns" in given:
            layout = dataclasses.replace(layout, label_columns=tuple(options["label_columns"]), label_separator="")
            if "label_separator" in given:
                layout = dataclasses.replace(layout, label_separator=options["label_separator"])  # an error of the reader
            self._check_columns(layout.label_columns)
        elif given & {"label_column", "label_separator"}:
            layout = dataclasses.replace(layout, label_columns=())
        return path, layout

    def _check_columns(self, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in self.labels:
                raise InputError(f'--label-columns: "{name}" is not a label of the model; {nearest(name, self.labels)}')
        missing = [name for name in self.labels if name not in columns]
        if missing:
            raise InputError(f"--label-columns must contain all labels of the model; {', '.join(missing[:5])} is missing")

    def _predictions(self, logits: Tensor) -> Iterator[Any]:
        decided = LabelLogits(logits, torch.tensor(thresholds_of(self.model))).predicted.tolist()
        for row, chosen in zip(logits.sigmoid().tolist(), decided, strict=True):
            yield LabelSet(tuple(compress(self.labels, chosen)), dict(zip(self.labels, row, strict=True)), self.separator)

    def columns(self) -> list[str]:
        return ["labels", *self.labels]

    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        """Return the attention weights of the model for a text, with its prediction.

        If each word has a contribution to the output, there is one entry for each predicted label (at most 5, the most
        probable first), or one for the most probable label if none is predicted.
        """
        from mtsa.inference.contributions import is_additive

        item = as_input(item)
        (found,) = self.predict([item.text])
        if not is_additive(self.model):
            return explain_sequence(self, [item.text], found.shown())
        ranked = sorted(found.labels, key=lambda label: -found.probabilities[label])[:_MOST_EXPLAINED]
        best = max(self.labels, key=lambda label: found.probabilities[label])
        return [
            part
            for label in ranked or [best]
            for part in explain_sequence(self, [item.text], found.shown([label]), self.labels.index(label))
        ]

    def export_spec(self) -> ExportSpec:
        spec = super().export_spec()
        thresholds = thresholds_of(self.model)
        metadata = {**spec.metadata, "thresholds": thresholds}
        return dataclasses.replace(spec, softmax=False, sigmoid=True, thresholds=tuple(thresholds), metadata=metadata)
