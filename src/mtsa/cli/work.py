"""`mtsa train`, `evaluate`, `predict`, `embed`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtsa.names import counted

from .options import Delimiter, Encoding, Format, LabelColumn, PairColumn, TextColumn, given
from .paired import PairedFiles
from .shell import check_options, fail, refusing, stopped

if TYPE_CHECKING:
    from mtsa.tasks.predictor import SentenceEmbedder

RunFolder = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
NumBeams = Annotated[int | None, typer.Option("--num-beams", "--beam", min=1, help="Translation: beams of the search.")]


def add_work(app: typer.Typer) -> None:
    """Put the commands into the app."""
    app.command(cls=PairedFiles)(train)
    for command in (evaluate, predict, embed):
        app.command()(command)


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
    encoder: Annotated[str | None, typer.Option(help="Context encoder (mtsa encoders).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, over the recipe; repeatable.")
    ] = None,
    folds: Annotated[int, typer.Option(min=0, help="Cross-validate with so many folds.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Train with so many seeds.")] = 1,
    tensorboard: Annotated[bool, typer.Option(help="Write files for TensorBoard into the run folder.")] = False,
) -> None:
    """Train a model: by a recipe, or on files of your own. A run that was stopped goes on by the same command."""
    from mtsa.training.start import plan, start

    data = _files(train, dev, test, task or "classification")
    data |= given(text_column=text_column, label_column=label_column, pair_column=pair_column)
    data |= given(format=format, encoding=encoding, delimiter=delimiter)
    if out is None:
        fail("name the folder for the run with --out, such as --out runs/first")
    if folds and repeats > 1:
        fail("--folds and --repeats cannot be used together; choose one")
    with refusing():
        made, split = plan(recipe, task=task, data=data, vectors=vectors, encoder=encoder, seed=seed, settings=settings or [])
        try:
            start(made, out, folds=folds, repeats=repeats, tensorboard=tensorboard, split=split)
        except KeyboardInterrupt:
            stopped()


def _files(train: list[str] | None, dev: list[str] | None, test: list[str] | None, task: str) -> dict[str, Any]:
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


def evaluate(
    run: RunFolder,
    data: Annotated[str, typer.Option(help='Labelled file, or "corpus:NAME" for its test part.')],
    target: Annotated[str | None, typer.Option(help="Translation: the file with the translations.")] = None,
    num_beams: NumBeams = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Confusion matrix as a PNG; confusion.png in the run directory by default.")
    ] = None,
) -> None:
    """Metrics on a file with labels: accuracy or F1, a table of the classes or labels, a confusion matrix."""
    from mtsa.inference.auto import open_predictor
    from mtsa.progress import progress

    with refusing():
        predictor = open_predictor(run)
        options = given(target=target, num_beams=num_beams, text_column=text_column, pair_column=pair_column)
        options |= given(label_column=label_column, delimiter=delimiter, format=format, encoding=encoding)
        check_options({**options, **given(picture=picture)}, predictor.evaluate_options, predictor.task)
        with progress("evaluating"):
            score = predictor.evaluate(data, **options)
        typer.echo(json.dumps(score.as_json(), ensure_ascii=False) if as_json else score.figures.table())
        path = picture or run / "confusion.png"
        drawn = predictor.draw(score, path)
    if drawn and not as_json:
        typer.echo(f"confusion matrix: {path}")


def predict(
    run: RunFolder,
    source: Annotated[str, typer.Argument(help='A text, a file, or "-" for standard input (one text per line).')] = "-",
    pair: Annotated[str | None, typer.Option(help="Pairs: the second text, where the first one is given.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write: .jsonl or .csv; standard output by default.")] = None,
    submission: Annotated[
        bool, typer.Option("--submission", help="Write pairID and gold_label, the format of the MultiNLI test sites.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option(help='Columns of a table to copy to the predictions, separated by commas, such as "id".')
    ] = None,
    num_beams: NumBeams = None,
    predicates: Annotated[
        str | None, typer.Option(help='Semantic roles: "given" for those in the file, or words of the text.')
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """Labels with probabilities, numbers, tags, semantic roles or translations, for a text, a file or standard input."""
    from mtsa.inference.auto import open_predictor
    from mtsa.progress import progress

    _check_apart(source, out)
    with refusing():
        predictor = open_predictor(run)
        options = given(pair=pair, keep=keep, num_beams=num_beams, predicates=predicates, submission=submission or None)
        options |= given(text_column=text_column, pair_column=pair_column, delimiter=delimiter)
        options |= given(format=format, encoding=encoding)
        check_options(options, predictor.predict_options, predictor.task)
        options["source"] = source
        count = 0
        with progress("predicting"), predictor.writer(out, options) as write:
            for item, prediction in predictor.predict_each(predictor.read_inputs(source, options), options):
                write(item, prediction)
                count += 1
        if out is not None:
            typer.echo(f"{out}: {counted(count, 'prediction')}", err=True)
        for remark in predictor.remarks():
            typer.echo(remark, err=True)


def embed(
    run: RunFolder,
    source: Annotated[str, typer.Argument(help='A file, or "-" for standard input (one text per line).')],
    out: Annotated[Path, typer.Option(help="File to write: .npy or .safetensors.")],
    text_column: TextColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """A vector of each text, in the order of the input; memory does not grow with the file."""
    from mtsa.inference.vector_files import vector_file
    from mtsa.progress import progress
    from mtsa.tasks.inputs import standard_lines

    _check_apart(source, out)
    with refusing():
        predictor = _sentence_model(run)
        if source == "-":
            texts: Iterator[str] = (text.strip() for _, text in standard_lines(encoding or "utf-8"))
        else:
            options = {"text_column": text_column, "format": format, "encoding": encoding, "delimiter": delimiter}
            texts = predictor.single_texts(source, **options)
        if Path(source).suffix.lower() == ".txt":
            texts = predictor.one_per_line(texts)
        count = 0
        with progress("embedding"), vector_file(out, predictor.width) as write:
            for vectors in predictor.embed_stream(texts):
                write(vectors)
                count += len(vectors)
    typer.echo(f"{out}: {counted(count, 'vector')} of {predictor.width}", err=True)


def _sentence_model(run: Path) -> SentenceEmbedder:
    from mtsa.inference.auto import open_predictor

    found = open_predictor(run).sentence_embedder()
    if found is None:
        fail(f"{run}: mtsa embed applies to models of sentences and pairs only")
    return found


def _check_apart(source: str, out: Path | None) -> None:
    """Stop where the output would replace the input."""
    from mtsa.tasks.inputs import exists

    if out is None or source == "-" or not exists(source):
        return
    if _with_words(Path(source)) & _with_words(out):
        fail(f"--out {out} would replace the input; name another file")


def _with_words(path: Path) -> set[Path]:
    """A file, and the words that belong to a props file."""
    return {path.resolve()} | ({path.with_suffix(".words").resolve()} if path.suffix == ".props" else set())
