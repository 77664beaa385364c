"""`mtsa explain`: attention maps of a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import exit_on_error, fail
from .options import Format

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    text: Annotated[str | None, typer.Argument(help="A sentence.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second sentence of a pair.")] = None,
    predicate: Annotated[int | None, typer.Option(min=1, help="Semantic roles: number of the predicate, from 1.")] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Which attention layer is drawn; the last when left out.")] = None,
    feature: Annotated[int | None, typer.Option(min=1, help="Show the weights of this feature; all when left out.")] = None,
    heads: Annotated[int, typer.Option(min=1, help="How many heads are drawn at most.")] = 4,
    top: Annotated[int, typer.Option(min=0, help="List the strongest words and pairs of words as text.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all weights as one JSON object, and draw nothing.")] = False,
    features: Annotated[bool, typer.Option("--features", help="With --json: the weights of every feature.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, max=20, help="Draw so many random sentences of --data, one below the other.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="With --sample: the file, read as in training.")] = None,
    format: Format = None,
    seed: Annotated[int, typer.Option(min=0, help="With --sample: which sentences are drawn.")] = 0,
    out: Annotated[Path, typer.Option(help="The picture to write: .png or .svg; or a page: .html.")] = Path("attention.png"),
) -> None:
    """Attention maps of a sentence: heat maps of the heads, source2token weights, the pooling, and contributions of words."""
    from mtsa.inference.attention_page import write_page
    from mtsa.inference.attention_weights import maps_to_json as plain
    from mtsa.inference.auto import open_predictor
    from mtsa.inference.heat_maps import check_choice, draw_heat_maps, shown_heads
    from mtsa.inference.sentence_sampling import sample_sentences
    from mtsa.tasks.predictor import Question

    if features and not as_json:
        fail("--features needs --json")
    if (sample is None) != (data is None):
        fail("--sample and --data go together: so many sentences of that file")
    if (text is None) == (sample is None):
        fail("give a sentence, or --sample with --data; not both")
    if sample is not None and (pair is not None or predicate is not None):
        fail("--pair and --predicate belong to a sentence; with --sample leave them out")
    if format is not None and data is None:
        fail("--format is that of --data; leave it out")
    with exit_on_error():
        predictor = open_predictor(run)
        if text is None:
            assert sample is not None
            assert data is not None
            reading = {} if format is None else {"format": format}
            found = [predictor.explain_text(one) for one in sample_sentences(predictor, data, sample, seed, **reading)]
        else:
            question = Question(text, pair, None if predicate is None else predicate - 1)
            predictor.check_question(question)
            found = predictor.explain(question)
        which, chosen = -1 if layer is None else layer - 1, None if feature is None else feature - 1
        if layer is not None and which >= len(found[0].layers):
            fail(f"layer {layer} does not exist; the model has {len(found[0].layers)}")
        check_choice(found[0], which, chosen)
        if as_json:
            typer.echo(json.dumps({"sentences": [plain(one, features=features) for one in found]}, ensure_ascii=False))
            return
        if not out.parent.is_dir():
            fail(f"{out}: there is no folder {out.parent}; name another file with --out")
        missing = ""
        try:
            if out.suffix.lower() == ".html":
                write_page(found, out)
            else:
                missing = draw_heat_maps(found, out, layer=which, most=heads, feature=chosen)
        except OSError as error:
            fail(f"{out}: {error.strerror}; name another file with --out")
    typer.echo(f"{_summary(found, text)}: {out}")
    if missing:
        typer.echo(f"no installed font has {missing[:20]}; a browser may: --out {out.with_suffix('.html')}", err=True)
    there = found[0].layers[which].heads if found[0].layers else []
    if out.suffix.lower() != ".html" and heads < len(there):
        numbers = ", ".join(str(head + 1) for head in shown_heads(there, heads))
        typer.echo(f"drawn are heads {numbers} of {len(there)}; --heads {len(there)} draws all")
    others = [place for place in found[0].predicates if place != found[0].predicate]
    if others:
        others_shown = ", ".join(f"{found[0].words[place]} (--predicate {place + 1})" for place in others)
        typer.echo(f"other predicates: {others_shown}")
    for number, one in enumerate(found, 1):
        numbered = [f"text {number}:"] if pair is not None and len(found) > 1 and top else []
        for line in [*numbered, *_contributions(one, top), *_pairs(one, top, which, chosen)]:
            typer.echo(line)


def _contributions(one: AttentionMaps, top: int) -> Iterator[str]:
    """What each word adds to the prediction; with `top`, the strongest words, also by their pooling weights."""
    from mtsa.inference.attention_weights import strongest_words

    if one.contributions is not None:
        total = float(one.contributions.sum()) + one.bias
        yield f"{one.answer}: contributions of the words to the output {total:+z.3f} (bias {one.bias:+z.3f}):"
        if not top:
            values = one.contributions.tolist()
            yield "  ".join(f"{word} {value:+z.3f}" for word, value in zip(one.words, values, strict=True))
    elif top and not one.layers:
        yield "pooling weights of the words, as the mean of all features:"
    if top and (one.contributions is not None or not one.layers):
        yield from (f"{value:+8.3f}  {word}" for value, word in strongest_words(one, top))


def _pairs(one: AttentionMaps, top: int, layer: int, feature: int | None) -> Iterator[str]:
    from mtsa.inference.attention_weights import strongest_pairs

    if top and one.layers:
        yield "strongest pairs, relative to uniform attention over the allowed words:"
        for times, head, word, other in strongest_pairs(one, top, layer=layer, feature=feature):
            yield f"{times:6.2f} x  {head:24} {word} -> {other}"


def _summary(found: list[AttentionMaps], text: str | None) -> str:
    return (found[0].answer or "(no words)") if text is not None else f"{len(found)} sentences"
