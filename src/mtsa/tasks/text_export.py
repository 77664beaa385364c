"""The specification of `mtsa export` for models of texts and pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtsa.data import readers
from mtsa.errors import InputError

if TYPE_CHECKING:
    from mtsa.inference.graph_export import CheckTexts, ExportSpec

    from .text_predictor import TextPredictor


def export_spec(predictor: TextPredictor) -> ExportSpec:
    """Return the specification: token ids to class probabilities or numbers."""
    from mtsa.inference.graph_export import ExportSpec

    paired, labels = predictor.paired, predictor.labels
    second = ("token_type_ids",) if predictor.joint else ("pair_ids", "pair_mask") if paired else ()
    inputs = ("input_ids", "attention_mask", *second)
    return ExportSpec(
        predictor.model,
        inputs,
        ("probabilities" if labels else "numbers",),
        {"task": predictor.task, "labels": labels, "paired": paired, "inputs": list(inputs)},
        "sentences.py",
        predictor.recipe.tokens.max_length,
        softmax=bool(labels),
        read_texts=lambda data, most: _check_texts(predictor, data, most),
    )


def _check_texts(predictor: TextPredictor, data: str, most: int) -> CheckTexts:
    """The first texts of a file, with their labels where there are some.

    Raises:
        InputError: invalid data.
    """
    from mtsa.inference.graph_export import CheckTexts

    from .text_predictor import input_of_example

    path, layout = predictor.source(data)
    try:
        found = readers.read(path, layout, **predictor.kind).items
    except InputError:
        found = list(predictor.examples(data))
    if not found:
        raise InputError(f"{data} contains no texts")
    found = found[:most]
    labels = [] if any(example.label is None for example in found) else [example.label for example in found]
    return CheckTexts(predictor.encode([input_of_example(example) for example in found]), labels)
