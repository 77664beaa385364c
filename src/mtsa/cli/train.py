"""`mtsa train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import exit_on_error, exit_stopped, fail
from .options import (
    Delimiter,
    Encoding,
    Format,
    LabelColumn,
    LabelColumns,
    LabelSeparator,
    PairColumn,
    TextColumn,
    column_names,
    given,
)


def train(
    recipe: Annotated[str | None, typer.Argument(help="Name of a recipe (see mtsa recipes) or a TOML file.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="classification, multilabel, regression, pair, similarity, tagging, srl (semantic roles) or translation."
        ),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            help='Training file, or "corpus:questions", ":entailment", ":roles"; two files for translation: A.en A.de.'
        ),
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Dev file; default: 10 % of the training data.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test file, evaluated once after training; can be repeated.")] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    vectors: Annotated[str | None, typer.Option(help="Word vectors in GloVe format: text, .gz or .zip.")] = None,
    pretrained: Annotated[
        str | None, typer.Option(help='Pretrained model to fine-tune: "minilm", a folder, or a name on the Hugging Face hub.')
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Freeze the pretrained model; train only the layers on top of it.")
    ] = False,
    encoder: Annotated[str | None, typer.Option(help="Context encoder; see mtsa encoders.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    class_weights: Annotated[
        str | None,
        typer.Option(help="Classification, multilabel: none, or balanced to weight the loss by inverse class frequency."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Dev metric that selects the best checkpoint. Classification: accuracy or macro_f1; multilabel: micro_f1, "
            "macro_f1 or exact_match."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory to create.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of the recipe: section.key=value; can be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(min=0, help="Number of cross-validation folds; 0: a single run.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Number of runs with different seeds.")] = 1,
    tensorboard: Annotated[bool, typer.Option(help="Write TensorBoard logs to the run directory.")] = False,
) -> None:
    """Train a model on your data or from a recipe. Rerun the command to resume an interrupted run."""
    from mtsa.training.launch import launch, plan_run

    data = _part_files(train, dev, test, task or "classification")
    data |= given(text_column=text_column, label_column=label_column, pair_column=pair_column)
    data |= given(format=format, encoding=encoding, delimiter=delimiter)
    data |= given(label_separator=label_separator, label_columns=column_names(label_columns))
    if out is None:
        fail("no output folder; specify the run directory with --out, such as --out runs/first")
    if folds and repeats > 1:
        fail("--folds and --repeats cannot be used together; choose one")
    overrides = ["pretrained.frozen=true"] if frozen else []
    with exit_on_error():
        planned, dataset = plan_run(
            recipe,
            task=task,
            data=data,
            vectors=vectors,
            pretrained=pretrained,
            encoder=encoder,
            seed=seed,
            class_weights=class_weights,
            metric=metric,
            settings=[*overrides, *(settings or [])],
        )
        try:
            launch(planned, out, folds=folds, repeats=repeats, tensorboard=tensorboard, dataset=dataset)
        except KeyboardInterrupt:
            exit_stopped()


def _part_files(train: list[str] | None, dev: list[str] | None, test: list[str] | None, task: str) -> dict[str, Any]:
    """Return the files of each split under the keys of a recipe."""
    from mtsa.tasks.registry import get_task, task_names

    data: dict[str, Any] = {}
    paired = task in task_names() and get_task(task).files == 2
    for name, files in (("train", train), ("dev", dev), ("test", test)):
        files = files or []
        sources = files[::2] if paired and len(files) > 1 else files
        if len(sources) > 1 and name != "test":
            fail(f"--{name} takes {'two files' if paired else 'one file'}, got {len(files)}")
        if sources:
            data[name] = sources[0]
            data |= {"tests": sources[1:]} if sources[1:] else {}
        if paired and files[1::2]:
            data[f"{name}_target"] = files[1]
            data |= {"tests_target": files[3::2]} if files[3::2] else {}
    return data
