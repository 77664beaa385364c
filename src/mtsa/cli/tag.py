"""What `mtsa predict` does with a tagger: which sentences, and how the answers are written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from .inputs import STDIN, exists, looks_like_file, standard_lines
from .shell import adder, fail

if TYPE_CHECKING:
    from mtsa.data.frames import RoleSentence
    from mtsa.data.sentences import Sentence
    from mtsa.data.tagged import TaggedSentence
    from mtsa.inference.tagging import RolePredictor, TagPredictor

    Answer = TaggedSentence | RoleSentence
    Write = Callable[[Answer], None]

_ROLES, _TAGS = (".jsonl", ".props"), (".jsonl", ".conll")  # endings of what can be written


def tag(
    tagger: TagPredictor | RolePredictor, source: str, predicates: str | None, out: Path | None, reading: dict[str, Any]
) -> None:
    """Tag sentences, or label their roles, and write what came out."""
    sentences = _sentences(tagger, source, predicates, reading)
    with adder(None, "tagging") as tick, _writer(out, tagger) as write:
        for answer in tagger.stream(sentences, tick):
            write(answer)


def _sentences(
    tagger: TagPredictor | RolePredictor, source: str, predicates: str | None, reading: dict[str, Any]
) -> Iterator[Sentence]:
    from mtsa.corpora import corpus_files, is_corpus
    from mtsa.data.sentences import Sentence, read_asked

    if predicates is not None and not tagger.run.recipe.roles:
        fail("--predicates is for models of semantic roles; leave it out")
    if source == "-":
        _refuse_given(predicates)
        read = standard_lines(reading.get("encoding", "utf-8"))
        return (Sentence(tagger.words(text), None, number) for number, text in read)
    if is_corpus(source) or (source.strip() and exists(source)):
        if predicates is None:
            return tagger.sentences(source, **reading)
        if predicates != "given":
            fail('--predicates names words of a text; with a file, write "given" for those in it')
        path = corpus_files(source)["test"] if is_corpus(source) else Path(source)
        return read_asked(path, reading.get("format", "auto"), reading.get("encoding", "auto"))
    looks_like_file(source)
    words = tagger.words(source)
    asked = None if predicates is None else tuple(sorted({_place(word.strip(), words) for word in predicates.split(",")}))
    return iter([Sentence(words, asked, 1)])


def _refuse_given(predicates: str | None) -> None:
    if predicates is not None:
        fail(f"--predicates goes with a text or a file, not with {STDIN}")


def _place(word: str, words: tuple[str, ...]) -> tuple[int, str]:
    """A predicate by its word, which must stand once in the sentence, or by its place, from 1."""
    from mtsa.data.role_files import own_lemma

    places = [place for place, other in enumerate(words) if other.lower() == word.lower()]
    if len(places) == 1:
        return places[0], own_lemma(word)
    if word.isdecimal() and 1 <= int(word) <= len(words):
        return int(word) - 1, own_lemma(words[int(word) - 1])
    told = f"stands {len(places)} times in the text" if places else "is no word of the text"
    return fail(f'--predicates: "{word}" {told}; give the number of the word, from 1 to {len(words)}')


@contextmanager
def _writer(out: Path | None, tagger: TagPredictor | RolePredictor) -> Iterator[Write]:
    """Where answers go; a file appears when all of them are in it."""
    from mtsa.files import replacing

    if out is None:
        yield _shown if sys.stdout.isatty() else _json_writer(sys.stdout)
        return
    endings = _ROLES if tagger.run.recipe.roles else _TAGS
    if out.suffix.lower() not in endings:
        fail(f"--out {out}: the ending must be {' or '.join(endings)}")
    try:
        with replacing(out) as partial, partial.open("w", encoding="utf-8") as file:
            if out.suffix.lower() == ".props":
                with replacing(out.with_suffix(".words")) as beside, beside.open("w", encoding="utf-8") as words:
                    yield _props_writer(file, words)
            else:
                yield _json_writer(file) if out.suffix.lower() == ".jsonl" else _column_writer(file)
    except OSError as error:
        fail(f"--out {out}: {error.strerror}")


def _json_writer(file: TextIO) -> Write:
    from mtsa.data.role_files import as_json
    from mtsa.data.tagged import TaggedSentence

    def write(answer: Answer) -> None:
        told = {"words": answer.words, "tags": answer.tags} if isinstance(answer, TaggedSentence) else as_json(answer)
        print(json.dumps(told, ensure_ascii=False), file=file)

    return write


def _props_writer(file: TextIO, words: TextIO) -> Write:
    from mtsa.data.props import props_lines

    def write(answer: Answer) -> None:
        if not answer.words:  # of an empty line: the layout has no empty sentence
            return
        print(*props_lines([answer]), sep="\n", file=file)  # type: ignore[list-item]
        print(*answer.words, "", sep="\n", file=words)

    return write


def _column_writer(file: TextIO) -> Write:
    def write(answer: Answer) -> None:
        if not answer.words:
            return
        print(*("\t".join(row) for row in zip(answer.words, answer.tags, strict=True)), "", sep="\n", file=file)  # type: ignore[union-attr]

    return write


def _shown(answer: Answer) -> None:
    """Spans in brackets: [A0 The committee] [V approved] [A1 the plan]; other tags behind each word."""
    from mtsa.data.bio import is_bio, to_spans
    from mtsa.data.tagged import TaggedSentence

    if isinstance(answer, TaggedSentence):
        if is_bio({*answer.tags, "O"}):
            typer.echo(_bracketed(answer.words, to_spans(answer.tags)))
        else:
            typer.echo(" ".join(f"{word}/{tag}" for word, tag in zip(answer.words, answer.tags, strict=True)))
        return
    if not answer.frames:
        typer.echo(f"{' '.join(answer.words)}\n  no predicate found")
        return
    typer.echo(" ".join(answer.words))
    for frame in answer.frames:
        typer.echo(f"  {answer.words[frame.predicate]}: {_bracketed(answer.words, frame.spans)}")


def _bracketed(words: tuple[str, ...], spans: Any) -> str:
    pieces = list(words)
    for span in spans:
        pieces[span.start] = f"[{span.label} {pieces[span.start]}"
        pieces[span.end] += "]"
    return " ".join(pieces)
