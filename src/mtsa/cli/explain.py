"""`mtsa explain`: what a model looks at in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .shell import fail, refusing


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    text: Annotated[str, typer.Argument(help="A sentence.")],
    pair: Annotated[str | None, typer.Option(help="The second sentence of a pair.")] = None,
    predicate: Annotated[int | None, typer.Option(min=1, help="Of roles: the number of the word that is asked about.")] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Which attention layer is drawn; the last when left out.")] = None,
    heads: Annotated[int, typer.Option(min=1, help="How many heads are drawn at most.")] = 4,
    top: Annotated[int, typer.Option(min=0, help="List the strongest pairs of words as text.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all weights as one JSON object, and draw nothing.")] = False,
    features: Annotated[bool, typer.Option("--features", help="With --json: the weights of every feature.")] = False,
    out: Annotated[Path, typer.Option(help="The picture to write: .png or .svg; or a page: .html.")] = Path("attention.png"),
) -> None:
    """What the model looks at in a sentence: heat maps of its heads, source2token weights, and the pooling."""
    from mtsa.inference.heat_maps import as_json as plain
    from mtsa.inference.heat_maps import draw, strongest
    from mtsa.inference.looking import look
    from mtsa.inference.opening import open_predictor
    from mtsa.inference.page import write_page

    if features and not as_json:
        fail("--features goes with --json")
    with refusing():
        predictor = open_predictor(run)
        if predictor.run.recipe.paired and pair is None:
            fail("this model reads pairs; give the second text with --pair")
        if not predictor.run.recipe.paired and pair is not None:
            fail("this model reads single texts; leave out --pair")
        if predicate is not None and not predictor.run.recipe.roles:
            fail("--predicate is for models of semantic roles; leave it out")
        found = look(predictor, text, pair, None if predicate is None else predicate - 1)
        which = -1 if layer is None else layer - 1
        if which >= len(found[0].layers):
            fail(f"layer {layer} is not there; the model has {len(found[0].layers)}")
        if as_json:
            typer.echo(json.dumps({"sentences": [plain(one, features=features) for one in found]}, ensure_ascii=False))
            return
        try:
            if out.suffix.lower() == ".html":
                write_page(found, out)
            else:
                draw(found, out, layer=which, most=heads)
        except OSError as error:
            fail(f"{out}: {error.strerror}; name another file with --out")
    typer.echo(f"{found[0].answer}: {out}")
    for one in found if top else ():
        for times, head, word, other in strongest(one, top, layer=which):
            typer.echo(f"{times:6.1f} x  {head:24} {word} -> {other}")
