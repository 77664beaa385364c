"""`mtsa explain`: attention maps of a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtsa.messages import counted

from .console import exit_on_error, fail
from .options import Format

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps


def explain(
    run: Annotated[Path, typer.Argument(help="Run directory of a trained model.")],
    text: Annotated[str | None, typer.Argument(help="Input text.")] = None,
    pair: Annotated[str | None, typer.Option(help="Pairs: the second text.")] = None,
    predicate: Annotated[int | None, typer.Option(min=1, help="Semantic roles: position of the predicate, from 1.")] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Attention layer to draw, from 1; default: the last.")] = None,
    feature: Annotated[int | None, typer.Option(min=1, help="Show the weights of one feature, from 1; default: all.")] = None,
    heads: Annotated[int, typer.Option(min=1, help="Maximum number of heads to draw.")] = 4,
    top: Annotated[int, typer.Option(min=0, help="List this many words and word pairs with the largest weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all weights as JSON instead of drawing.")] = False,
    features: Annotated[bool, typer.Option("--features", help="With --json: include the weights of every feature.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, max=20, help="Draw the maps of this many random sentences from --data in one figure.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="With --sample: data file.")] = None,
    format: Format = None,
    seed: Annotated[int, typer.Option(min=0, help="With --sample: random seed.")] = 0,
    out: Annotated[Path, typer.Option(help="Output file: .png, .svg or .html (interactive).")] = Path("attention.png"),
) -> None:
    """Draw attention maps of a text: heat maps of the heads, source2token and pooling weights, word contributions."""
    from mtsa.inference.attention_page import write_page
    from mtsa.inference.attention_weights import maps_to_json as plain
    from mtsa.inference.auto import open_predictor
    from mtsa.inference.heat_maps import check_choice, draw_heat_maps, shown_heads
    from mtsa.inference.sentence_sampling import sample_sentences
    from mtsa.tasks.predictor import ModelInput

    if features and not as_json:
        fail("--features requires --json")
    if (sample is None) != (data is None):
        fail("--sample and --data must be used together")
    if (text is None) == (sample is None):
        fail("specify either a text, or --sample with --data")
    if sample is not None and (pair is not None or predicate is not None):
        fail("--pair and --predicate cannot be used with --sample; remove them")
    if format is not None and data is None:
        fail("--format applies to --data only; remove it")
    with exit_on_error():
        predictor = open_predictor(run)
        if text is None:
            assert sample is not None
            assert data is not None
            reading = {} if format is None else {"format": format}
            found = [predictor.explain_text(one) for one in sample_sentences(predictor, data, sample, seed, **reading)]
        else:
            item = ModelInput(text, pair, None if predicate is None else predicate - 1)
            predictor.check_input(item)
            found = predictor.explain(item)
        for remark in predictor.remarks():
            typer.echo(remark, err=True)
        which, chosen = -1 if layer is None else layer - 1, None if feature is None else feature - 1
        if layer is not None and which >= len(found[0].layers):
            fail(f"layer {layer} does not exist; the model has {counted(len(found[0].layers), 'attention layer')}")
        check_choice(found[0], which, chosen)
        if as_json:
            typer.echo(json.dumps({"sentences": [plain(one, features=features) for one in found]}, ensure_ascii=False))
            return
        if not out.parent.is_dir():
            fail(f"{out}: the folder {out.parent} does not exist; choose another file with --out")
        missing = ""
        try:
            if out.suffix.lower() == ".html":
                write_page(found, out)
            else:
                missing = draw_heat_maps(found, out, layer=which, most=heads, feature=chosen)
        except OSError as error:
            fail(f"{out}: {error.strerror}; choose another file with --out")
    typer.echo(f"{_summary(found, text)}\nwritten: {out}")
    if missing:
        typer.echo(
            f"no installed font contains {missing[:20]}; try the HTML output: --out {out.with_suffix('.html')}", err=True
        )
    there = found[0].layers[which].heads if found[0].layers else []
    if out.suffix.lower() != ".html" and heads < len(there):
        numbers = ", ".join(str(head + 1) for head in shown_heads(there, heads))
        typer.echo(f"heads {numbers} of {len(there)} are drawn; use --heads {len(there)} to draw all")
    others = [place for place in found[0].predicates if place != found[0].predicate]
    if others:
        others_shown = ", ".join(f"{found[0].words[place]} (--predicate {place + 1})" for place in others)
        typer.echo(f"other predicates: {others_shown}")
    for number, one in enumerate(found, 1):
        numbered = [f"text {number}:"] if pair is not None and len(found) > 1 and top else []
        for line in [*numbered, *_contributions(one, top), *_pairs(one, top, which, chosen)]:
            typer.echo(line)


def _contributions(one: AttentionMaps, top: int) -> Iterator[str]:
    """Contribution of each word to the prediction; with `top`, the words with the largest contributions or pooling weights."""
    from mtsa.inference.attention_weights import strongest_words

    if one.contributions is not None:
        total = float(one.contributions.sum()) + one.bias
        yield f"{one.prediction}: contributions of the words to the output {total:+z.3f} (bias {one.bias:+z.3f}):"
        if not top:
            values = one.contributions.tolist()
            yield "  ".join(f"{word} {value:+z.3f}" for word, value in zip(one.words, values, strict=True))
    elif top and not one.layers:
        yield "pooling weights of the words, averaged over features:"
    if top and (one.contributions is not None or not one.layers):
        yield from (f"{value:+8.3f}  {word}" for value, word in strongest_words(one, top))


def _pairs(one: AttentionMaps, top: int, layer: int, feature: int | None) -> Iterator[str]:
    from mtsa.inference.attention_weights import strongest_pairs

    if top and one.layers:
        yield "largest attention weights, relative to uniform attention over the allowed words:"
        for times, head, word, other in strongest_pairs(one, top, layer=layer, feature=feature):
            yield f"{times:6.2f} x  {head:24} {word} -> {other}"


def _summary(found: list[AttentionMaps], text: str | None) -> str:
    return f"prediction: {found[0].prediction or '(no words)'}" if text is not None else f"{len(found)} sentences"
