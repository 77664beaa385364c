"""A finished translator at work: lines in, lines out, in order, in batches, and in flat memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from transformers import M2M100ForConditionalGeneration

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data import subwords
from mtsa.data.examples import Example
from mtsa.data.parallel import read_parallel
from mtsa.data.source import InputError, lines
from mtsa.models.answers import silent
from mtsa.models.translator import translate
from mtsa.names import counted
from mtsa.training.folder import Run
from mtsa.training.score import PartScore
from mtsa.training.split import read_examples
from mtsa.training.translation import number_pairs

from .chunks import chunks


class Translator:
    """A translator: `predict(texts)` gives their translations, `evaluate(file, translations)` BLEU."""

    def __init__(self, run: Run) -> None:
        assert isinstance(run.model, M2M100ForConditionalGeneration)
        self.run, self.model = run, run.model
        self.cut = 0  # texts that were cut off so far

    def predict(self, texts: Iterable[str], beam: int | None = None) -> list[str]:
        """The translation of each text, in order; an empty text gives an empty one.

        Raises:
            InputError: something that is no text.
        """
        if isinstance(texts, str):
            raise InputError("predict takes a list of texts; put brackets around a single one: predict([text])")
        return list(self.stream(texts, beam))

    def stream(self, texts: Iterable[str], beam: int | None = None, tick: Callable[[int], None] = silent) -> Iterator[str]:
        """Translations one by one, in order, without ever holding all of them; `tick` hears how many were done."""
        wanted = self.run.recipe.translator
        for chunk in chunks(texts):
            for text in chunk:
                if not isinstance(text, str):
                    raise InputError(f"{text!r:.60} is a {type(text).__name__}; needed are texts")
            places = [place for place, text in enumerate(chunk) if text.strip()]
            rows, cut = subwords.subword_numbers(
                self.run.tokenizer, [chunk[place].strip() for place in places], self.run.recipe.tokens.longest
            )
            self.cut += cut
            found = translate(self.model, rows, beam=beam or wanted.beam, penalty=wanted.penalty, tick=tick)
            answers = dict(zip(places, subwords.joined(self.run.tokenizer, found), strict=True))
            yield from (answers.get(place, "") for place in range(len(chunk)))

    def lines(self, path: Path, encoding: str = "utf-8") -> Iterator[str]:
        """The texts of a file, one on each line."""
        return (text for _, text in lines(path, encoding))

    def evaluate(
        self,
        data: str | Path,
        tick: Callable[[int], None] = silent,
        target: str | Path | None = None,
        beam: int | None = None,
        say: Callable[[str], None] = lambda remark: None,
        **reading: Any,
    ) -> PartScore:
        """BLEU on a file of texts and a file of their translations, or on the test part of an embedded corpus.

        `say` hears what was left out or cut off.

        Raises:
            InputError: bad data.
        """
        examples: list[Example]
        if is_corpus(str(data)):
            try:
                path, layout = corpus_files(str(data))["test"], corpus_layout(str(data), self.run.recipe.task)
            except ValueError as error:
                raise InputError(str(error)) from None
            examples, _ = read_examples(self.run.recipe, path, layout)
        elif target is None:
            raise InputError(f"name the file with the translations of {data} too: target (--target A.de)")
        else:
            read = read_parallel(Path(data), Path(target), reading.get("encoding") or "utf-8")
            examples = read.items
            for remark in read.remarks():
                say(remark)
        part, cut = number_pairs(self.run.recipe, self.run.tokenizer, examples, training=False)
        if cut:
            say(f"{Path(data).name}: {counted(cut, 'text')} cut after {self.run.recipe.tokens.longest} subwords")
        return part.score(part.answers(self.model, tick, beam))

    def __repr__(self) -> str:
        attention = "multi-head" if self.run.recipe.swap is None else "tensorized"
        return f"Translator({str(self.run.folder)!r}, {attention} attention in its encoder)"
