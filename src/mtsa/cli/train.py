"""`mtsa train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import exit_on_error, exit_stopped, fail
from .options import Delimiter, Encoding, Format, LabelColumn, PairColumn, TextColumn, given


def train(
    recipe: Annotated[str | None, typer.Argument(help="A recipe: a name (mtsa recipes) or a TOML file.")] = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification, regression, pair, similarity, tagging, srl (semantic roles) or translation."),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(help='Training file, or "corpus:questions", ":entailment", ":roles"; of translation two: A.en A.de.'),
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Dev file; a tenth of the training data when left out.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test file, evaluated once at the end; repeatable.")] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    vectors: Annotated[str | None, typer.Option(help="Word vectors: GloVe text, .gz or .zip.")] = None,
    pretrained: Annotated[
        str | None, typer.Option(help='Pretrained model to start from: "minilm", a folder, or a name on the hub.')
    ] = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="Do not train the pretrained model; trains in seconds.")] = False,
    encoder: Annotated[str | None, typer.Option(help="Context encoder (mtsa encoders).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    class_weights: Annotated[
        str | None, typer.Option(help="Classifiers: balanced weights the loss by the inverse frequency of the class; or none.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Classifiers: dev metric that selects the best step, accuracy or macro_f1.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, over the recipe; repeatable.")
    ] = None,
    folds: Annotated[int, typer.Option(min=0, help="Cross-validate with so many folds.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Train with so many seeds.")] = 1,
    tensorboard: Annotated[bool, typer.Option(help="Write files for TensorBoard into the run folder.")] = False,
) -> None:
    """Train a model with a recipe, or on your files. Rerun the command to resume an interrupted run."""
    from mtsa.training.launch import launch, plan_run

    data = _part_files(train, dev, test, task or "classification")
    data |= given(text_column=text_column, label_column=label_column, pair_column=pair_column)
    data |= given(format=format, encoding=encoding, delimiter=delimiter)
    if out is None:
        fail("name the folder for the run with --out, such as --out runs/first")
    if folds and repeats > 1:
        fail("--folds and --repeats cannot be used together; choose one")
    chosen = ["pretrained.frozen=true"] if frozen else []
    with exit_on_error():
        made, dataset = plan_run(
            recipe,
            task=task,
            data=data,
            vectors=vectors,
            pretrained=pretrained,
            encoder=encoder,
            seed=seed,
            class_weights=class_weights,
            metric=metric,
            settings=[*chosen, *(settings or [])],
        )
        try:
            launch(made, out, folds=folds, repeats=repeats, tensorboard=tensorboard, dataset=dataset)
        except KeyboardInterrupt:
            exit_stopped()


def _part_files(train: list[str] | None, dev: list[str] | None, test: list[str] | None, task: str) -> dict[str, Any]:
    """The files of each part, as a recipe names them."""
    from mtsa.tasks.registry import get_task, task_names

    found: dict[str, Any] = {}
    two = task in task_names() and get_task(task).files == 2
    for name, files in (("train", train), ("dev", dev), ("test", test)):
        files = files or []
        sources = files[::2] if two and len(files) > 1 else files
        if len(sources) > 1 and name != "test":
            fail(f"--{name} names one file{', and one of its translations' if two else ''}; {len(files)} are given")
        if sources:
            found[name] = sources[0]
            found |= {"tests": sources[1:]} if sources[1:] else {}
        if two and files[1::2]:
            found[f"{name}_target"] = files[1]
            found |= {"tests_target": files[3::2]} if files[3::2] else {}
    return found
