"""The claims of PROTOCOL.md, and what the records say about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtsa.metrics.significance import LEVEL, Difference, holm

from .benchmarks.nli import BASELINE, PAPER_MEMORY, PAPER_SECONDS
from .comparison import compare
from .table import Column, Record, Table
from .tables import CLASSIFICATION, NLI, PRETRAINED, SRL, TRANSLATION

CONFIRMED, NOT_FOUND, CONTRADICTED = "confirmed", "no difference found", "contradicted"
ONE_RUN, NOT_RUN, NOT_PLANNED = "one run only", "not run yet", "not planned"
VERDICTS = (CONFIRMED, NOT_FOUND, CONTRADICTED, ONE_RUN, NOT_RUN, NOT_PLANNED)
OFFICIAL = ("snli", "multinli", "conll05", "wmt14-setup1", "wmt14-setup2")
"""The paper's data sets that have a stand-in here; they are left out as long as they have no records."""
TOLERANCE = 1.1
"""A cost is as in the paper when its ratio to the baseline is at most this times the paper's ratio."""


@dataclass(frozen=True, eq=False)
class Claim:
    """One model is said to have higher scores than others.

    Args:
        source: the table of the paper; empty for a comparison that is not a claim and has no verdict.
        text: the claim, in a short sentence.
        table: the table whose records decide.
        pairs: the models said to be higher, each with the one it is compared with.
        datasets: the data sets it is about; all of the table when empty.
        at_least: those of the others that are only said not to be higher.
    """

    source: str
    text: str
    table: Table
    pairs: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()


def _over(model: str, *others: str) -> tuple[tuple[str, str], ...]:
    return tuple((model, other) for other in others)


_SNLI = ("snli", "snli-subset")
_BASELINES = ("bilstm", "bigru", "multi_cnn", "hierarchical_cnn", "multihead", "disa", "biblosa")
_ABLATIONS = ("mtsa_no_masks", "mtsa_no_token2token", "mtsa_no_source2token", "mtsa_none")
_OF_TEXTS = ("bilstm", "multihead", "disa", "biblosa")
CLAIMS = (
    Claim("Table 1", "On SNLI, MTSA is more accurate than each baseline", NLI, _over("mtsa", *_BASELINES), _SNLI),
    Claim("Table 3", "On SNLI, MTSA is more accurate than each of its ablations", NLI, _over("mtsa", *_ABLATIONS), _SNLI),
    Claim(
        "Table 2",
        "Over a pretrained model, MTSA is more accurate than one more Transformer block",
        NLI,
        (("gpt-mtsa", "gpt-block"), ("minilm-mtsa", "minilm-block")),
    ),
    Claim(
        "Table 4",
        "On semantic roles, MTSA has a higher F1 than Bi-LSTM and Multi-CNN, and at least that of multi-head",
        SRL,
        _over("mtsa", "bilstm", "multi_cnn", "multihead"),
        at_least=("multihead",),
    ),
    Claim(
        "Table 5",
        "On sentence classification, MTSA is at least as accurate as each baseline",
        CLASSIFICATION,
        _over("mtsa", *_OF_TEXTS),
        at_least=_OF_TEXTS,
    ),
    Claim(
        "Table 6", "In translation, MTSA has a higher BLEU than multi-head attention", TRANSLATION, _over("mtsa", "multihead")
    ),
    Claim(
        "control",
        "Each baseline is at least as accurate as the model without any context",
        NLI,
        tuple((name, "mtsa_none") for name in _BASELINES),
        _SNLI,
        at_least=("mtsa_none",),
    ),
)
COMPARISONS = (
    Claim("", "MTSA beside simple baselines", CLASSIFICATION, _over("mtsa", "tfidf", "fasttext")),
    Claim("", "MTSA beside multi-head attention with masks", SRL, _over("mtsa", "multihead-masks")),
    Claim("", "Full masks beside half of the heads in each direction", TRANSLATION, _over("mtsa", "mtsa-halves")),
    Claim(
        "",
        "The mean of the tokens beside others",
        PRETRAINED,
        _over("mean", *(name for name in PRETRAINED.models if name != "mean")),
    ),
)
"""Comparisons that the paper makes no claim about."""


@dataclass(frozen=True)
class Finding:
    """What the records say about two models in one column."""

    claim: Claim
    column: Column
    model: str
    other: str
    verdict: str
    difference: Difference | None = None
    p: float = 1.0  # adjusted (Holm)

    @property
    def part(self) -> str:
        """The data set and the test part."""
        return self.claim.table.label(self.column)

    @property
    def paper(self) -> str:
        """The difference that the paper prints, on its data; empty if it prints none."""
        ours, theirs = (printed(self.claim.table, self.column, name) for name in (self.model, self.other))
        return "" if ours is None or theirs is None else f"{ours - theirs:+.1f}"


def printed(table: Table, column: Column, model: str) -> float | None:
    """What the paper prints for a model in a column."""
    for view in table.views:
        for place, shown in enumerate(view.columns):
            text = view.paper.get(model, ("",) * len(view.columns))[place]
            if (shown.dataset, shown.part, shown.metric) == (column.dataset, column.part, column.metric) and text:
                return float(text.split()[0])
    return None


def judge(difference: Difference, p: float, *, claimed: bool = True) -> str:
    """The verdict on a difference between a model that is said to be higher and another.

    One run of each model shows nothing about other runs, so that it can neither confirm nor contradict.

    Args:
        difference: the first minus the second.
        p: its p-value, adjusted for the number of comparisons.
        claimed: whether it is a claim; otherwise the verdict is the direction.
    """
    if p >= LEVEL:
        return NOT_FOUND
    if difference.runs < 2:
        return ONE_RUN
    higher = difference.mean > 0
    return (CONFIRMED if higher else CONTRADICTED) if claimed else ("higher" if higher else "lower")


def findings(claim: Claim, records: Sequence[Record]) -> list[Finding]:
    """What the complete records of a table say about a claim, for each test part; p-values are adjusted over the models."""
    found = []
    for column in claim.table.test_columns():
        dataset = claim.table.datasets[column.dataset]
        if claim.datasets and dataset.name not in claim.datasets:
            continue
        if dataset.name in OFFICIAL and not any(record["dataset"] == dataset.name for record in records):
            continue
        pairs = {pair: compare(claim.table, column, *pair, records) for pair in claim.pairs}
        known = {pair: difference for pair, difference in pairs.items() if difference is not None}
        adjusted = dict(zip(known, holm([one.p for one in known.values()]), strict=True))
        for (model, other), difference in pairs.items():
            if difference is not None:
                p = adjusted[model, other]
                verdict = judge(difference, p, claimed=bool(claim.source))
                found.append(Finding(claim, column, model, other, verdict, difference, p))
            else:
                planned = all(claim.table.models[name].planned(dataset) for name in (model, other))
                found.append(Finding(claim, column, model, other, NOT_RUN if planned else NOT_PLANNED))
    return found


def finding_rows(found: Sequence[Finding]) -> list[list[str]]:
    """Header and rows of findings; data sets without any finding have one row."""
    lines = [["", "compared", "difference", "95 % interval", "p (Holm)", "runs", "paper", "verdict"]]
    for title in dict.fromkeys(one.part for one in found):
        own = [one for one in found if one.part == title]
        if all(one.verdict in (NOT_RUN, NOT_PLANNED) for one in own):
            waiting = NOT_RUN if any(one.verdict == NOT_RUN for one in own) else NOT_PLANNED
            lines.append([title, "all", "", "", "", "", "", waiting])
            continue
        for one in own:
            sign = "≥" if one.other in one.claim.at_least else ">" if one.claim.source else "-"
            shown = ["", "", "", ""]
            if one.difference is not None:
                gap = one.difference
                shown = [f"{gap.mean:+.2f}", f"{gap.low:+.2f} to {gap.high:+.2f}", f"{one.p:.3f}", str(gap.runs)]
            lines.append([title, f"`{one.model}` {sign} `{one.other}`", *shown, one.paper, one.verdict])
    return lines


def count_verdicts(verdicts: Sequence[str]) -> str:
    """How often there is each verdict, in words."""
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}
    return ", ".join(f"{verdict}: {count}" for verdict, count in counts.items()) or NOT_RUN


COSTS = ("multi_cnn", "hierarchical_cnn", BASELINE)
COST_CLAIM = "MTSA takes about the time and memory of CNNs and of multi-head attention"


def cost_rows(record: Mapping[str, Any] | None) -> Iterator[list[str]]:
    """What is measured, beside which model, the ratio here and in the paper, and the verdict; from a record of `bench nli`."""
    if record is None:
        return
    passes = {row["name"]: row for row in record["passes"]}
    memory = {row["name"]: row["step_bytes"] for row in record["memory"]}
    measured: dict[str, tuple[Mapping[str, float], Mapping[str, float]]] = {}
    for place, (what, key) in enumerate((("time of an epoch", "epoch_seconds"), ("time of the dev pairs", "dev_seconds"))):
        printed_seconds = {name: seconds[place] for name, seconds in PAPER_SECONDS.items()}
        measured[what] = {name: row[key] for name, row in passes.items()}, printed_seconds
    measured["memory of a training step"] = memory, PAPER_MEMORY
    for what, (ours, theirs) in measured.items():
        for other in COSTS:
            if ours.get("mtsa") and ours.get(other):
                here, paper = ours["mtsa"] / ours[other], theirs["mtsa"] / theirs[other]
                verdict = CONFIRMED if here <= TOLERANCE * paper else CONTRADICTED
                yield [what, f"`mtsa` / `{other}`", f"{here:.2f}", f"{paper:.2f}", verdict]
