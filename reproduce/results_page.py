"""The results pages, made from the records: the claims of the paper first, then a page for each table and for benchmarks."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import write_text

from . import changes_page, nli_plot, plots, table_page
from .benchmarks import report
from .claims import (
    CLAIMS,
    COMPARISONS,
    COST_CLAIM,
    NOT_RUN,
    TOLERANCE,
    Finding,
    cost_rows,
    count_verdicts,
    finding_rows,
    findings,
    printed,
)
from .comparison import cell
from .markdown import markdown
from .records import read_records
from .table import Record
from .tables import TABLES

PAGES = {"srl": "roles", **{name: name for name in TABLES if name != "srl"}}
"""The page of each table."""
BENCHMARKS = {"speed": "Speed and memory", "checks": "Exported models, damaged files and interruptions"}
_COST = Path("nli-cost") / "bench-nli.json"
_HEAD = """# Results

Made by `python -m reproduce results` from the records in `results/`: {count} runs, {hours:.0f} hours. The official files of
SNLI, MultiNLI, CoNLL-2005 and WMT14 are not part of them. Each verdict holds for the data named beside it, at half of the
paper's width.
"""
_LEGEND = """\
- *confirmed*: the difference is in the direction of the claim and significant (p < 0.05, adjusted over the models of the
  claim by Holm's method); *contradicted*: significant in the other direction; *no difference found*: neither.
- Intervals: bootstrap over runs and test examples (seeds), corrected resampled t-test (folds). A comparison is made when both
  models have all their planned runs, on the runs that are planned for both; *runs* is their number.
- *one run only*: significant on one run of each model. The interval covers the test examples, but not other runs.
- `>`: said to be higher; `≥`: said to be at least as high, so that *no difference found* agrees with the claim.
- *paper*: the difference that the paper prints, on its own data. Claims and rules are those of `reproduce/PROTOCOL.md`,
  written before the runs; it lists what was changed or added later.
- *control*: where a baseline is below the model without any context, a difference between MTSA and this baseline says little
  about the attention. The page of repairs has the same baselines with the fusion gate of MTSA.
"""
_COST_TEXT = f"""\
Ratios at the paper's width, here on a CPU, in the paper on a GPU. *confirmed*: the ratio is at most {TOLERANCE} times that of
the paper. There is no interval: times are the best of several interleaved repeats.
"""
_LEVEL_TEXT = """\
Scores of MTSA, where all runs have been made. They differ from those of the paper mainly for the reasons in the last column;
the page of each table lists all deviations.
"""


def write(records: Path, out: Path) -> None:
    """Write the first page, the others into a folder of its name, and their pictures into `images`.

    Raises:
        InputError: there is no record, or one that cannot be used.
    """
    everything = {name: read_records(records / name) for name in TABLES}
    final = {name: table.check(everything[name]) for name, table in TABLES.items()}
    sections = {page: report.sections(records, page) for page in BENCHMARKS}
    if not any(everything.values()) and not any(sections.values()):
        raise InputError(f"{records} has no records; make one with: mtsa bench layer --out {records}/layer")
    images = out.parent / "images" / out.stem
    found = [one for claim in (*CLAIMS, *COMPARISONS) for one in findings(claim, final[claim.table.name])]
    costs = json.loads((records / _COST).read_text(encoding="utf-8")) if (records / _COST).exists() else None
    changes = {
        name: changes_page.changes(table, everything[name], everything["nli"])
        for name, table in TABLES.items()
        if table.dev_only
    }
    drawn = _draw(final, changes, found, costs and nli_plot.read_costs(records / _COST), images)
    for name, table in TABLES.items():
        link = f"../images/{out.stem}/{PAGES[name]}.svg" if drawn[PAGES[name]] else ""
        if table.dev_only:
            text = changes_page.page(table, everything[name], changes[name], link)
        else:
            text = table_page.page(table, everything[name], [one for one in found if one.claim.table is table], link)
        write_text(out.with_suffix("") / f"{PAGES[name]}.md", text)
    for page, parts in sections.items():
        shown = [f"# {BENCHMARKS[page]}\n", *parts] if parts else [f"# {BENCHMARKS[page]}\n\nThere are no records yet.\n"]
        if drawn.get(page):
            shown.insert(1, f"![Accuracy against time and memory](../images/{out.stem}/{page}.svg)\n")
        write_text(out.with_suffix("") / f"{page}.md", "\n".join(shown))
    claimed = [one for one in found if one.claim.source]
    text = _summary(everything, final, claimed, costs, out.stem, f"images/{out.stem}/claims.svg" if drawn["claims"] else "")
    write_text(out, text)


def _draw(
    final: Mapping[str, Sequence[Record]],
    changes: Mapping[str, Sequence[changes_page.Change]],
    found: Sequence[Finding],
    costs: dict[str, tuple[float, float]] | None,
    images: Path,
) -> dict[str, bool]:
    """Draw the pictures that there are records for, and delete the others; whether there is each of them."""
    drawn = {
        PAGES[name]: plots.draw_values(table, final[name], images / f"{PAGES[name]}.svg") for name, table in TABLES.items()
    }
    for name, own in changes.items():
        drawn[PAGES[name]] = plots.draw_changes(own, images / f"{PAGES[name]}.svg")
    drawn["claims"] = plots.draw_findings([one for one in found if one.claim.source], images / "claims.svg")
    drawn["speed"] = bool(costs and final["nli"] and nli_plot.draw(final["nli"], costs, images / "speed.svg"))
    for name, there in drawn.items():
        if not there:
            (images / f"{name}.svg").unlink(missing_ok=True)
    return drawn


def _summary(
    everything: Mapping[str, Sequence[Record]],
    final: Mapping[str, Sequence[Record]],
    found: Sequence[Finding],
    costs: Mapping[str, Any] | None,
    folder: str,
    picture: str,
) -> str:
    """The first page: a line for each claim, the picture of all differences, the rules, and all findings."""
    cost_lines = list(cost_rows(costs))
    lines = [["paper", "claim", "data here", "verdicts"]]
    for claim in CLAIMS:
        own = [one for one in found if one.claim is claim]
        data = dict.fromkeys(claim.table.datasets[one.column.dataset].title for one in own)
        link = f"[{claim.source}]({folder}/{PAGES[claim.table.name]}.md)"
        lines.append([link, claim.text, ", ".join(data), count_verdicts([one.verdict for one in own])])
    speed = f"[Table 1]({folder}/speed.md)"
    lines.append([speed, COST_CLAIM, "SNLI subset", count_verdicts([row[-1] for row in cost_lines])])
    runs = [one for records in everything.values() for one in records]
    hours = sum(one["seconds"] for one in runs) / 3600
    parts = [_HEAD.format(count=len(runs), hours=hours), markdown(lines), ""]
    if picture:
        parts += [f"![Differences with 95 % intervals]({picture})\n"]
    parts += [_LEGEND, "## Scores and the paper's scores\n", _LEVEL_TEXT, markdown(_level_rows(final)), ""]
    for claim in CLAIMS:
        own = [one for one in found if one.claim is claim]
        parts += [f"## {claim.text} ({claim.source})\n", markdown(finding_rows(own)), ""]
    head = ["", "compared", "ratio here", "ratio in the paper", "verdict"]
    shown = markdown([head, *cost_lines]) if cost_lines else f"{NOT_RUN.capitalize()}.\n"
    parts += [f"## {COST_CLAIM} (Table 1)\n", _COST_TEXT, shown, "", "## All pages\n"]
    parts += [f"- [{table.title}]({folder}/{PAGES[name]}.md)" for name, table in TABLES.items()]
    parts += [f"- [{title}]({folder}/{page}.md)" for page, title in BENCHMARKS.items()]
    return "\n".join([*parts, "- [Results of version 0.2](results-0.2.md)", ""])


def _level_rows(final: Mapping[str, Sequence[Record]]) -> list[list[str]]:
    """Header and rows: the score of MTSA on each test part, beside the one that the paper prints."""
    lines = [["", "MTSA here", "in the paper", "main reasons"]]
    for name, table in TABLES.items():
        for column in table.test_columns():
            runs = cell(table, column, "mtsa", final[name]) if "mtsa" in table.models else {}
            values = [value for record in runs.values() if (value := column.value(record)) is not None]
            paper = printed(table, column, "mtsa")
            if values and paper is not None:
                lines.append([table.label(column), f"{statistics.fmean(values):.1f}", f"{paper:.1f}", table.deviation])
    return lines
