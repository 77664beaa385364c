"""The plots of the results pages: SVG with the plotted values in the metadata, so that a test can compare them."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtsa.files import replacing

from .claims import CONFIRMED, CONTRADICTED, NOT_FOUND, ONE_RUN, Finding
from .comparison import cell, interval
from .names import display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .changes_page import Change
    from .table import Record, Table

_COLOURS = {CONFIRMED: "tab:green", NOT_FOUND: "tab:grey", CONTRADICTED: "tab:red", ONE_RUN: "tab:blue"}
_WIDTH = 8.0  # inches
_ROW = 0.2
_HEAD = 0.75  # title and axis of each part


@contextmanager
def picture(path: Path, heights: Sequence[float], drawn: Any) -> Iterator[list[Axes]]:
    """A figure with one panel below the other, written at the end.

    Args:
        path: the file to write.
        heights: inches of each panel, without title and axis.
        drawn: the plotted values, for the metadata.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "mtsa", "font.size": 9, "axes.axisbelow": True}
    with matplotlib.rc_context(settings):
        whole = [height + _HEAD for height in heights]
        figure, axes = pyplot.subplots(
            len(whole),
            squeeze=False,
            figsize=(_WIDTH, sum(whole)),
            height_ratios=whole,
            layout="constrained",
        )
        yield [row[0] for row in axes]
        form = path.suffix.removeprefix(".") or "png"
        metadata = {"Date": None, "Creator": None, "Description": json.dumps(drawn)} if form == "svg" else {}
        with replacing(path) as partial:
            figure.savefig(partial, format=form, dpi=130, metadata=metadata)
        pyplot.close(figure)


def drawn_values(path: Path) -> Any:
    """Return the values of a plot, from its metadata."""
    found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.S)
    assert found is not None
    return json.loads(found[1].replace("&quot;", '"').replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


def _point(axes: Axes, row: int, value: float, span: Sequence[float] | None, colour: str, *, filled: bool = True) -> None:
    if span is not None:
        axes.plot(span, [row, row], color=colour, linewidth=1.5)
    axes.plot([value], [row], "o", color=colour, markerfacecolor=colour if filled else "white", markersize=5)


def _label(axes: Axes, names: Sequence[str], title: str, unit: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.set_xlabel(unit)
    axes.grid(axis="x", alpha=0.3)


def draw_values(table: Table, records: Sequence[Record], path: Path) -> bool:
    """Plot the test scores of the models of a table with their intervals, one panel per test set; False if there are none."""
    drawn: dict[str, dict[str, Any]] = {}
    units = {"accuracy": "accuracy (%)", "f1": "F1 (%)", "bleu": "BLEU"}
    metrics = {}
    for column in table.test_columns():
        for model in table.models:
            values = table.values(column, model, records)
            if values:
                span = interval(table, column, model, records)
                point = {
                    "mean": round(statistics.fmean(values), 3),
                    "interval": span and [round(end, 3) for end in span],
                    "complete": bool(cell(table, column, model, records)),
                }
                drawn.setdefault(table.label(column), {})[model] = point
                metrics[table.label(column)] = column.metric
    if not drawn:
        return False
    with picture(path, [_ROW * len(models) for models in drawn.values()], drawn) as parts:
        for axes, (title, models) in zip(parts, drawn.items(), strict=True):
            for row, (model, point) in enumerate(models.items()):
                colour = "tab:red" if "mtsa" in model and "_no" not in model else "tab:blue"
                _point(axes, row, point["mean"], point["interval"], colour, filled=point["complete"])
            _label(axes, list(map(display, models)), title, units[metrics[title]])
    return True


def draw_findings(found: Sequence[Finding], path: Path) -> bool:
    """Plot the differences of the claims with their intervals, coloured by verdict; False if there are none."""
    shown = [one for one in found if one.difference is not None]
    if not shown:
        return False
    drawn: dict[str, list[Any]] = {}
    for one in shown:
        gap = one.difference
        assert gap is not None
        numbers = [round(value, 3) for value in (gap.mean, gap.low, gap.high)]
        name = f"{one.part.removesuffix(': test')}: {display(one.model)} - {display(one.other)}"
        drawn.setdefault(one.claim.source, []).append([name, one.verdict, *numbers])
    names: list[str] = []
    with picture(path, [_ROW * (len(shown) + len(drawn))], drawn) as (axes,):
        for source, rows in drawn.items():
            names.append(source)
            for name, verdict, mean, low, high in rows:
                _point(axes, len(names), mean, (low, high), _COLOURS[verdict], filled=verdict != ONE_RUN)
                names.append(name)
        axes.axvline(0, color="black", linewidth=0.8)
        _label(axes, names, "Differences with 95 % intervals", "difference in points")
        for name, label in zip(names, axes.get_yticklabels(), strict=True):
            label.set_fontweight("bold" if name in drawn else "normal")
        for verdict in dict.fromkeys(row[1] for rows in drawn.values() for row in rows):
            axes.plot([], [], "o", color=_COLOURS[verdict], label=verdict)
        axes.figure.legend(fontsize=8, loc="outside lower center", ncols=len(_COLOURS))
    return True


def draw_changes(found: Sequence[Change], labels: Mapping[str, str], path: Path) -> bool:
    """Plot the best dev score before and after each change; False if no change has both."""
    drawn: dict[str, list[Any]] = {}
    for one in found:
        if one.before is not None and one.after is not None:
            scores = [round(100 * float(record["dev_score"]), 3) for record in (one.before, one.after)]
            drawn.setdefault(one.title, []).append([labels[one.name], *scores])
    if not drawn:
        return False
    with picture(path, [_ROW * len(rows) for rows in drawn.values()], drawn) as parts:
        for axes, (title, rows) in zip(parts, drawn.items(), strict=True):
            for row, (_, before, after) in enumerate(rows):
                axes.plot([before, after], [row, row], color="tab:grey", linewidth=1.5)
                _point(axes, row, before, None, "tab:grey", filled=False)
                _point(axes, row, after, None, "tab:green" if after > before else "tab:red")
            _label(
                axes, [name for name, *_ in rows], f"{title}: before (open marker) and after (filled)", "best dev score (%)"
            )
    return True
