"""Files with semantic roles, read and written: props, the columns of PropBank, and JSON lines.

The columns of PropBank: document, sentence, word number, word, part of speech, parse, lemma, roleset, then the roles of each
predicate in a column of brackets; .gz files are supported. JSON lines contain `words` and `frames`, each with `predicate`
(an index), `lemma` and `roles` as [label, first word, last word].
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error
from mtsa.messages import nearest

from .frames import VERB, Frame, RoleSentence, Span
from .json_lines import json_objects
from .props import Block, blocks, column_spans, props_lines, read_props

FORMATS = ("props", "propbank", "jsonl")
_LABEL = re.compile(r"[^()*\s]+")
_FIXED, _WORD, _SPEECH, _LEMMA, _ROLESET = 8, 3, 4, 6, 7  # columns of PropBank before the roles, and four of them


def read_roles(path: Path, *, words: Path | None = None, format: str = "auto", encoding: str = "auto") -> list[RoleSentence]:
    """Return all sentences of a file; a props file also requires the file with its words.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    sentences = list(stream_roles(path, words=words, format=format, encoding=encoding))
    if not sentences:
        raise InputError(f"{path} contains no sentences")
    return sentences


def stream_roles(
    path: Path, *, words: Path | None = None, format: str = "auto", encoding: str = "auto"
) -> Iterator[RoleSentence]:
    """Return the sentences of a file one by one; a props file is read completely first.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    format, encoding = role_format(path, format), "utf-8" if encoding == "auto" else encoding
    if format == "props":
        return iter(read_props(path, words, encoding, verbs=False))
    if words is not None:
        raise InputError(
            f"{words}: format {format} already contains the words; --words applies to props files only, remove it"
        )
    return _propbank(path, encoding) if format == "propbank" else _json(path, encoding)


def words_path(path: Path, format: str) -> Path | None:
    """Return the file with the words of a props file: the same name with the extension .words. None for other formats.

    Raises:
        InputError: an unknown format, or one that cannot be inferred.
    """
    if role_format(path, format) != "props":
        return None
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    words = plain.with_suffix(".words")
    packed = words.with_name(f"{words.name}.gz")
    return packed if packed.exists() and not words.exists() else words


def role_format(path: Path, format: str, option: str = "--format") -> str:
    """Return the format of a file: as given, or inferred from its name; `option` is named in the error message.

    Raises:
        InputError: an unknown format, or one that cannot be inferred.
    """
    if format == "auto":
        endings = {".props": "props", ".conll": "propbank", ".jsonl": "jsonl"}
        ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if ending.lower() not in endings:
            raise InputError(f"{path}: cannot infer the format from the file extension; use {option} ({', '.join(FORMATS)})")
        return endings[ending.lower()]
    if format not in FORMATS:
        raise InputError(f'unknown format "{format}"; {nearest(format, FORMATS)}')
    return format


def _propbank(path: Path, encoding: str) -> Iterator[RoleSentence]:
    for block in blocks(path, encoding):
        yield _propbank_sentence(path, block)


def _propbank_sentence(path: Path, block: Block) -> RoleSentence:
    width = len(block[0][1])
    for number, fields in block:
        if len(fields) != width or width < _FIXED:
            raise line_error(
                path,
                number,
                f"{len(fields)} columns; expected the same number on all lines of a sentence, at least {_FIXED}",
            )
    columns = [column_spans(path, [(number, fields[column]) for number, fields in block]) for column in range(_FIXED, width)]
    places = [place for place, (_, fields) in enumerate(block) if fields[_ROLESET] != "-"]
    if len(places) != len(columns):
        raise line_error(
            path, block[0][0], f"{len(places)} rolesets, but {len(columns)} columns of roles; each predicate needs one"
        )
    # The roleset of a predicate with several words may be at another word than the (V*).
    frames = [
        Frame(place, _lemma(block[place][1]), spans, _not_dash(block[place][1][_SPEECH]), _roleset(block[place][1]))
        for place, spans in zip(places, columns, strict=True)
    ]
    return RoleSentence(tuple(fields[_WORD] for _, fields in block), tuple(frames), block[0][0])


def _lemma(fields: list[str]) -> str:
    return fields[_LEMMA] if fields[_LEMMA] != "-" else default_lemma(fields[_WORD])


def _roleset(fields: list[str]) -> str:
    return "" if fields[_ROLESET] == _lemma(fields) else fields[_ROLESET]


def _not_dash(cell: str) -> str:
    return "" if cell == "-" else cell


def _json(path: Path, encoding: str) -> Iterator[RoleSentence]:
    for number, value in json_objects(path, encoding):
        yield _json_sentence(value, path, number)


def _json_sentence(value: dict[str, Any], path: Path, number: int) -> RoleSentence:
    words = value.get("words")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.split() == [word] for word in words):
        raise line_error(path, number, '"words" must be a list of non-empty strings without spaces')
    frames = value.get("frames", [])
    if not isinstance(frames, list):
        raise line_error(path, number, '"frames" must be a list')
    made = tuple(sorted((_json_frame(frame, words, path, number) for frame in frames), key=lambda one: one.predicate))
    doubled = next((one.predicate for one, other in pairwise(made) if one.predicate == other.predicate), None)
    if doubled is not None:
        raise line_error(path, number, f"two frames have the predicate {doubled}; only one is allowed per word")
    return RoleSentence(tuple(words), made, number)


def _json_frame(frame: Any, words: list[str], path: Path, number: int) -> Frame:
    count = len(words)
    place = frame.get("predicate") if isinstance(frame, dict) else None
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < count:
        raise line_error(path, number, f"the predicate is {place!r}; it must be the index of a word, from 0 to {count - 1}")
    spans = []
    roles = frame.get("roles", [])
    if not isinstance(roles, list):
        raise line_error(path, number, f'"roles" is {roles!r:.40}; it must be a list of [label, first word, last word]')
    for role in roles:
        if not (isinstance(role, list) and len(role) == 3 and isinstance(role[0], str) and _LABEL.fullmatch(role[0])):
            raise line_error(path, number, f"{role!r:.40} is not a role; expected [label, first word, last word]")
        label, start, end = role
        if (
            not all(isinstance(side, int) and not isinstance(side, bool) for side in (start, end))
            or not 0 <= start <= end < count
        ):
            raise line_error(
                path,
                number,
                f"{label} spans words {start!r} to {end!r}; indices must be from 0 to {count - 1}, first before last",
            )
        spans.append(Span(start, end, label))
    spans.sort()
    for one, other in pairwise(spans):
        if other.start <= one.end:
            raise line_error(
                path, number, f"{one.label} and {other.label} of the predicate {place} overlap; roles must not share a word"
            )
    if not any(span.label == VERB for span in spans):
        if any(span.start <= place <= span.end for span in spans):
            raise line_error(
                path, number, f"the predicate {place} is inside one of its roles; roles must not include the predicate"
            )
        spans = sorted([*spans, Span(place, place, VERB)])
    lemma, speech, roleset = (str(frame.get(key) or "") for key in ("lemma", "part_of_speech", "roleset"))
    for name in (lemma, speech, roleset):
        if len(name.split()) > 1:
            raise line_error(path, number, f'"{name}" of the predicate {place} contains a space; replace it')
    return Frame(place, lemma if lemma not in ("", "-") else default_lemma(words[place]), tuple(spans), speech, roleset)


def default_lemma(word: str) -> str:
    """Return a default lemma for a predicate: its word in lower case, except "-", which would mean no predicate."""
    return word.lower() if word != "-" else "_"


def role_lines(sentences: Iterable[RoleSentence], format: str) -> Iterator[str]:
    """Return the lines of a file in a format.

    Raises:
        InputError: an unknown format.
    """
    if format == "props":
        return props_lines(sentences)
    if format == "propbank":
        return _propbank_lines(sentences)
    if format == "jsonl":
        return (json.dumps(sentence_to_json(sentence), ensure_ascii=False) for sentence in sentences)
    raise InputError(f'unknown format "{format}"; {nearest(format, FORMATS)}')


def sentence_to_json(sentence: RoleSentence) -> dict[str, Any]:
    """Return a sentence as JSON-serializable values."""
    frames = [
        {
            "predicate": frame.predicate,
            "lemma": frame.lemma,
            "roles": [[span.label, span.start, span.end] for span in frame.spans],
            **{key: getattr(frame, key) for key in ("part_of_speech", "roleset") if getattr(frame, key)},
        }
        for frame in sentence.frames
    ]
    return {"words": list(sentence.words), "frames": frames}


def _propbank_lines(sentences: Iterable[RoleSentence]) -> Iterator[str]:
    for number, sentence in enumerate(sentences):
        rows = [row.split("\t") for row in props_lines([sentence])][:-1]
        frames = {frame.predicate: frame for frame in sentence.frames}
        for place, (word, (lemma, *roles)) in enumerate(zip(sentence.words, rows, strict=True)):
            frame = frames.get(place)
            speech = (frame.part_of_speech or "-") if frame else "-"
            roleset = (frame.roleset or lemma) if frame else "-"  # only a lemma: the sense is unknown
            yield "\t".join(["-", str(number), str(place), word, speech, "-", lemma, roleset, *roles])
        yield ""
