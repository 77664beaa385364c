"""The model card of a run: a README.md with metadata for model hubs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtsa.metrics.protocol import PartScore
from mtsa.tasks.registry import get_task

from .recipe import Recipe

CARD = "README.md"


def model_card(recipe: Recipe, name: str, labels: list[str], scores: Mapping[str, PartScore], record: dict[str, Any]) -> str:
    """Return the model card.

    Args:
        recipe: the training settings.
        name: name of the run directory.
        labels: classes or tags.
        scores: metrics of each part of the data, "dev" and test parts.
        record: the content of record.json.
    """
    from huggingface_hub import EvalResult, ModelCardData

    task, title = get_task(recipe.task), _one_line(name) or "model"
    data = ModelCardData(
        library_name="mtsa",
        pipeline_tag=task.pipeline_tag,
        tags=["mtsa", "tensorized-self-attention", recipe.task, f"encoder:{recipe.encoder['name']}"],
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=task.pipeline_tag,
                dataset_type=_dataset(recipe, part),
                dataset_name=_one_line(part.partition(":")[2]) or _dataset(recipe, part),
                dataset_config=_one_line(part.partition(":")[2]) or None,
                dataset_split=part.partition(":")[0],
                metric_type=metric,
                metric_value=round(value, 6),
            )
            for part, score in scores.items()
            for metric, value in score.metrics.scalars().items()
            if metric != "score" and isinstance(value, int | float)
        ],
    )
    purpose = task.title or task.name
    sources, versions = record["sources"]["examples"], record["versions"]
    examples = ", ".join(f"{count:,} {_one_line(part)}" for part, count in sources.items() if count)
    lines = [
        f"# {title}",
        "",
        f"A model for {purpose}, trained with `mtsa` {versions['mtsa']} and the encoder `{recipe.encoder['name']}`.",
        *([f"Labels: {_label_list(labels)}."] if labels else []),
        "",
        "## Usage",
        "",
        "```python",
        "import mtsa",
        "",
        f"model = mtsa.load({title!r})  # path to this folder",
        f"prediction = model.predict([{task.example_call()}])[0]",
        "```",
        "",
        "After `import mtsa.hub`, the folder can also be loaded with `transformers`.",
        "",
        "## Training",
        "",
        f"Examples: {examples}.",
        f"Parameters: {record['parameters']['all']:,}, of which {record['parameters']['words']:,} are embeddings.",
        f"Seed {record['seed']}, {record['steps']:,} steps, {record['seconds']:.0f} s.",
        "All settings are in `recipe.toml`; data checksums, versions and machine information are in `record.json`.",
        "",
        "## Metrics",
        "",
        *(f"- {_one_line(part)}: {score.metrics.line()}" for part, score in scores.items()),
        "",
        "The checkpoint was selected by its dev metrics"
        + ("; the test data was not used for model selection." if len(scores) > 1 else "."),
        *(
            ["The dev metrics were measured before the refit, which also trains on the dev data."]
            if recipe.training.refit
            else []
        ),
        *_calibration_lines(record.get("calibration", {}), labels),
        "",
        "## Limitations",
        "",
        f"{task.length_limit(recipe)} " * bool(recipe.tokens.max_length)
        + "The model was evaluated only on data similar to the training data.",
    ]
    return "\n".join(["---", data.to_yaml(), "---", "", *lines, ""])


def _calibration_lines(calibration: Mapping[str, Any], labels: list[str]) -> list[str]:
    """How probabilities were calibrated and thresholds were chosen; nothing for models without probabilities."""
    temperatures = {name: value for name, value in calibration.items() if not isinstance(value, list)}
    if not temperatures:
        return []
    thresholds = calibration.get("thresholds", [])
    pairs = [f"`{_one_line(label)}` {value:.2f}" for label, value in zip(labels, thresholds, strict=False)]
    more = f" and {len(pairs) - 30} more in `config.json`" if len(pairs) > 30 else ""
    chosen = f"Decision thresholds, chosen on the dev data to maximize F1: {', '.join(pairs[:30])}{more}."
    shown = ", ".join(f"`{name}` {value:.3g}" for name, value in temperatures.items())
    return [
        "",
        f"Probabilities are calibrated: logits are divided by a temperature ({shown}) fitted on the dev data.",
        "Log loss and expected calibration error (ECE, 15 bins) are measured with this temperature; on the dev data they are",
        "optimistic, because the temperature was fitted on the same examples.",
        *(["", chosen, "Dev F1 is optimistic for the same reason."] if pairs else []),
    ]


def _dataset(recipe: Recipe, part: str) -> str:
    return _one_line(Path(recipe.data.file(part) or recipe.data.train).name)


def _one_line(text: str) -> str:
    """A name on one line, without backticks and invalid characters."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("`", "'").split())


def _label_list(labels: list[str]) -> str:
    return ", ".join(f"`{_one_line(label)}`" for label in labels[:30]) + (
        f" and {len(labels) - 30} more" if len(labels) > 30 else ""
    )
