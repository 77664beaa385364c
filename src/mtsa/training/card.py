"""The model card of a run: a README.md with the metadata that model hubs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from .recipe import Recipe
from .score import PartScore

CARD = "README.md"


def model_card(recipe: Recipe, name: str, labels: list[str], scores: Mapping[str, PartScore], record: dict[str, Any]) -> str:
    """The card of a model.

    Args:
        recipe: what it was trained by.
        name: of its folder.
        labels: its classes or tags.
        scores: its figures on each part of the data, "dev" and those of tests.
        record: the run's circumstances.
    """
    title = Path(name).name or "model"
    data = ModelCardData(
        library_name="mtsa",
        pipeline_tag=_pipeline(recipe),
        tags=["mtsa", "tensorized-self-attention", recipe.task, f"encoder:{recipe.encoder['name']}"],
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=_pipeline(recipe),
                dataset_type=_dataset(recipe, part),
                dataset_name=_dataset(recipe, part),
                dataset_split=part.partition(":")[0],
                metric_type=metric,
                metric_value=round(value, 6),
            )
            for part, score in scores.items()
            for metric, value in score.figures.curve().items()
            if metric != "score"
        ],
    )
    sources, versions = record["sources"]["examples"], record["versions"]
    trained = ", ".join(f"{count:,} for {part}" for part, count in sources.items())
    lines = [
        f"# {title}",
        "",
        f"A model for {recipe.task}, trained by `mtsa` {versions['mtsa']} with the encoder `{recipe.encoder['name']}`.",
        *([f"It answers with one of: {_listed(labels)}."] if labels else []),
        "",
        "## Use",
        "",
        "```python",
        *_use(recipe, title),
        "```",
        "",
        "## Training",
        "",
        f"Examples: {trained}. Weights: {record['parameters']['all']:,}, of words {record['parameters']['words']:,}.",
        f"Seed {record['seed']}, {record['steps']:,} steps, {record['seconds']:.0f} s.",
        "Every setting is in `recipe.toml`, the circumstances are in `record.json`.",
        "",
        "## Figures",
        "",
        *(f"- {part}: {score.figures.line()}" for part, score in scores.items()),
        "",
        "Dev figures chose the model; those of a test did not.",
        *(["They are from before it was trained anew, with the dev data too."] if recipe.training.refit else []),
        "",
        "## Limits",
        "",
        f"Texts are cut after {recipe.tokens.longest:,} tokens. " * bool(recipe.tokens.longest)
        + "It knows the language and the kind of text that it was trained on; nothing else was measured.",
    ]
    return "\n".join(["---", data.to_yaml(), "---", "", *lines, ""])


def _pipeline(recipe: Recipe) -> str:
    """What hubs call such a task."""
    if recipe.translated:
        return "translation"
    if recipe.tagged:
        return "token-classification"
    return "sentence-similarity" if recipe.paired and recipe.regression else "text-classification"


def _dataset(recipe: Recipe, part: str) -> str:
    return Path(recipe.data.file(part) or recipe.data.train).name


def _listed(labels: list[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels[:30]) + (f" and {len(labels) - 30} more" if len(labels) > 30 else "")


def _use(recipe: Recipe, folder: str) -> list[str]:
    asked = '("A text .", "Another .")' if recipe.paired else '"A text ."'
    return ["import mtsa", "", f"model = mtsa.load({json.dumps(folder)})", f"answer = model.predict([{asked}])[0]"]
