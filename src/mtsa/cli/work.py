"""`mtsa train`, `evaluate`, `predict`, `embed`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtsa.names import counted

from .answers import kept_columns, writer
from .inputs import STDIN, check_apart, exists, looks_like_file, standard_lines
from .options import Delimiter, Encoding, Format, LabelColumn, PairColumn, TextColumn, given
from .paired import PairedFiles
from .shell import adder, bar, fail, refusing, stopped
from .tag import tag
from .translate import translate

if TYPE_CHECKING:
    from mtsa.data.examples import Example
    from mtsa.inference.predictor import Predictor

RunFolder = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Of a translator: translations followed at once.")]


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
    from mtsa.training.start import make, start

    data = _files(train, dev, test, translated=task == "translation")
    data |= given(text_column=text_column, label_column=label_column, pair_column=pair_column)
    data |= given(format=format, encoding=encoding, delimiter=delimiter)
    if out is None:
        fail("name the folder for the run with --out, such as --out runs/first")
    if folds and repeats > 1:
        fail("--folds and --repeats cannot be used together; choose one")
    with refusing():
        made = make(recipe, task=task, data=data, vectors=vectors, encoder=encoder, seed=seed, settings=settings or [])
        try:
            start(made, out, folds=folds, repeats=repeats, tensorboard=tensorboard, say=typer.echo, progress=bar)
        except KeyboardInterrupt:
            stopped()


def _files(train: list[str] | None, dev: list[str] | None, test: list[str] | None, *, translated: bool) -> dict[str, Any]:
    """The files of each part, as a recipe names them."""
    found: dict[str, Any] = {}
    for name, files in (("train", train), ("dev", dev), ("test", test)):
        files = files or []
        sources = files[::2] if translated and len(files) > 1 else files
        if len(sources) > 1 and name != "test":
            fail(f"--{name} names one file{', and one of its translations' if translated else ''}; {len(files)} are given")
        if sources:
            found[name] = sources[0]
            found |= {"tests": sources[1:]} if sources[1:] else {}
        if translated and files[1::2]:
            found[f"{name}_target"] = files[1]
            found |= {"tests_target": files[3::2]} if files[3::2] else {}
    return found


def evaluate(
    run: RunFolder,
    data: Annotated[str, typer.Option(help='Labelled file, or "corpus:NAME" for its test part.')],
    target: Annotated[str | None, typer.Option(help="Of a translator: the file with the translations.")] = None,
    beam: Beam = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Confusion matrix as a PNG; confusion.png in the run folder when left out.")
    ] = None,
) -> None:
    """Figures on a file with answers: accuracy or F1, a table of the classes or labels, a picture of the confusions."""
    from mtsa.inference.confusion import draw_confusion
    from mtsa.inference.opening import open_predictor
    from mtsa.inference.predictor import Predictor
    from mtsa.inference.translating import Translator
    from mtsa.scoring.classification import ClassificationScore

    with refusing():
        predictor = open_predictor(run)
        if picture is not None and not (isinstance(predictor, Predictor) and predictor.labels):
            fail("--picture is of the confusions of classes, which this model has none of; leave it out")
        reading = given(text_column=text_column, pair_column=pair_column, label_column=label_column, delimiter=delimiter)
        reading |= given(format=format, encoding=encoding)
        if isinstance(predictor, Translator):
            reading |= given(target=target, beam=beam)
        elif target is not None or beam is not None:
            fail("--target and --beam are of translators; leave them out")
        if isinstance(predictor, Predictor | Translator):
            reading["say"] = lambda remark: typer.echo(remark, err=True)
        with adder(None, "evaluating") as tick:
            score = predictor.evaluate(data, tick, **reading)
    if as_json:
        typer.echo(json.dumps(score.as_json(), ensure_ascii=False))
    else:
        typer.echo(score.figures.table())
    if isinstance(score.figures, ClassificationScore):
        path = picture or run / "confusion.png"
        try:
            draw_confusion(score.figures, path)
        except OSError as error:
            fail(f"{path}: {error.strerror}; name another file with --picture")
        if not as_json:
            typer.echo(f"confusions: {path}")


def predict(
    run: RunFolder,
    source: Annotated[str, typer.Argument(help='A text, a file, or "-" for standard input (a text on each line).')] = "-",
    pair: Annotated[str | None, typer.Option(help="The second text, where a text of a pair is given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write: .jsonl or .csv; standard output when left out.")] = None,
    submission: Annotated[
        bool, typer.Option("--submission", help="Write pairID and gold_label, as the MultiNLI test sites take them.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option(help='Columns of a table to repeat beside the answers, separated by commas, such as "id".')
    ] = None,
    beam: Beam = None,
    predicates: Annotated[
        str | None, typer.Option(help='Of roles: "given" for those in the file, or words of the text, separated by commas.')
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """Labels with probabilities, numbers, tags, semantic roles or translations, for a text, a file or standard input."""
    from mtsa.inference.opening import open_predictor
    from mtsa.inference.predictor import Predictor
    from mtsa.inference.translating import Translator

    check_apart(source, out)
    with refusing():
        predictor = open_predictor(run)
        if keep is not None and not isinstance(predictor, Predictor):
            fail("--keep is for classes and numbers of a table; leave it out")
        if isinstance(predictor, Translator):
            if pair is not None or submission or predicates is not None:
                fail("--pair, --submission and --predicates are not for a translator; leave them out")
            columns = given(text_column=text_column, pair_column=pair_column, format=format, delimiter=delimiter)
            translate(predictor, source, out, beam, {**columns, **given(encoding=encoding)})
            return
        if beam is not None:
            fail("--beam is of translators; leave it out")
        if not isinstance(predictor, Predictor):
            if pair is not None or submission or pair_column is not None or delimiter is not None:
                fail("--pair, --pair-column, --delimiter and --submission are not for a tagger; leave them out")
            tag(predictor, source, predicates, out, given(text_column=text_column, format=format, encoding=encoding))
            return
        if predicates is not None:
            fail("--predicates is for models of semantic roles; leave it out")
        named = {"text_column": text_column, "pair_column": pair_column}
        reading = {**named, "format": format, "encoding": encoding, "delimiter": delimiter}
        examples = _examples(predictor, source, pair, encoding, reading)
        names, kept = kept_columns(predictor, source, keep, reading)
        with adder(None, "predicting") as tick, writer(out, predictor.labels, names, submission=submission) as write:
            count = 0
            for example, prediction in predictor.stream_examples(examples, tick):
                write(example, prediction, next(kept))
                count += 1
        if out is not None:
            typer.echo(f"{out}: {counted(count, 'answer')}", err=True)
        if predictor.cut:
            typer.echo(f"{counted(predictor.cut, 'text')} cut after {predictor.run.recipe.tokens.longest} words", err=True)


def embed(
    run: RunFolder,
    source: Annotated[str, typer.Argument(help='A file, or "-" for standard input (a text on each line).')],
    out: Annotated[Path, typer.Option(help="Where to write: .npy or .safetensors.")],
    text_column: TextColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """A vector of each text, in the order of the input; memory does not grow with the file."""
    from mtsa.inference.vector_files import vector_file

    check_apart(source, out)
    with refusing():
        predictor = _sentence_model(run)
        if source == "-":
            texts: Iterator[str] = (text.strip() for _, text in standard_lines(encoding or "utf-8"))
        else:
            texts = predictor.texts(source, text_column=text_column, format=format, encoding=encoding, delimiter=delimiter)
        if predictor.run.recipe.paired and Path(source).suffix.lower() == ".txt":
            texts = (_without_tab(text) for text in texts)
        count = 0
        with adder(None, "embedding") as tick, vector_file(out, predictor.width) as write:
            for vectors in predictor.embed_stream(texts, tick):
                write(vectors)
                count += len(vectors)
    typer.echo(f"{out}: {counted(count, 'vector')} of {predictor.width}", err=True)


def _without_tab(text: str) -> str:
    if "\t" in text:
        fail("a line holds two texts and a tab; mtsa embed gives a vector of one text: put each on a line of its own")
    return text


def _sentence_model(run: Path) -> Predictor:
    from mtsa.inference.opening import open_predictor
    from mtsa.inference.predictor import Predictor

    found = open_predictor(run)
    if not isinstance(found, Predictor):
        fail(f"mtsa embed is for classes and numbers of sentences; {run} holds a model for {found.run.recipe.task}")
    return found


def _check_pair(predictor: Predictor, pair: str | None) -> None:
    if predictor.run.recipe.paired and pair is None:
        fail("this model reads pairs; give the second text with --pair")
    if not predictor.run.recipe.paired and pair is not None:
        fail("this model reads single texts; leave out --pair")


def _examples(
    predictor: Predictor, source: str, pair: str | None, encoding: str | None, reading: dict[str, Any]
) -> Iterable[Example]:
    from mtsa.corpora import is_corpus
    from mtsa.data.examples import Example
    from mtsa.data.readers import ENDINGS

    ending = Path(source).suffix.lower()
    if pair is not None and (source == "-" or exists(source)):
        fail("--pair goes with a text; a file and standard input hold both texts of a pair themselves")
    if source == "-":
        return (predictor.on_line(text, STDIN, number) for number, text in standard_lines(encoding or "utf-8"))
    if source.strip() and pair is None:
        if is_corpus(source) or ending in (*ENDINGS, ".txt") or exists(source):
            return predictor.examples(source, **reading)
        looks_like_file(source)
    _check_pair(predictor, pair)
    return [Example(source, None, 1, pair)]
